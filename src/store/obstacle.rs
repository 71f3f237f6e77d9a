//! Whether overdue orders can be closed, tried in a transaction that is rolled back; and who holds the lock that closing an order
//! waits for.

use std::{pin::pin, time::Duration};

use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    APPLICATION, Store, StoreError, database_time::DatabaseTime, effect::Effect,
    failure::FailureKind, orders::ClosingPath, overdue::OverdueKey,
};
use crate::{
    condition::{
        ON_ITS_WAY,
        obstacle::{Holder, Kind, Lock, Obstacle},
    },
    order::{OrderId, Outcome},
    text::error_chain,
};

/// Of the oldest orders so many are tried.
const OLDEST: i64 = 2;
/// And the first one that came due within each of these: the oldest may have reasons of their own.
const WITHIN: [Duration; 3] =
    [Duration::from_hours(24), Duration::from_hours(1), Duration::from_mins(1)];

/// Who holds a lock that a session waits for.
const BLOCKER: &str = include_str!("../../sql/blocker.sql");
/// Nobody waits for longer: it is seen in a hundredth of that.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 2000";
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Store {
    /// What keeps overdue orders, old ones and new ones, from being closed by this user, if anything does; the newest that
    /// cannot be says it. Where none is overdue the effect is run without orders, which shows wrong SQL, missing rights and
    /// locked tables.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn obstacle(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        let tried = match self.of_some(effect).await {
            // Prepared before the tables were changed.
            Err(error) if error.is_stale() => self.of_some(effect).await,
            tried => tried,
        };
        let error = match tried {
            Err(error) if error.is_answer() || error.is_misfit() => error,
            tried => return tried,
        };
        if error.kind() == FailureKind::Contention {
            let lock = self.lock_of(effect, &[]).await;
            return Ok(Some(Obstacle::lock(None, &lock)));
        }
        let reason = error_chain(&error);
        Ok(Some(if error.is_permission() {
            Obstacle::right(self.config.get_user().unwrap_or_default(), &reason)
        } else {
            Obstacle::of_all(&reason)
        }))
    }

    async fn of_some(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        self.rehearse_without_orders(effect).await?;
        let ids = self.old_and_new(effect).await?;
        let outcomes = self.rehearse(effect, &ids).await?;
        for (id, outcome) in ids.iter().zip(outcomes).rev() {
            let order = id.as_str();
            match outcome {
                Outcome::Closed { .. } | Outcome::AlreadyFinal => {}
                Outcome::NotDue { remaining } if !remaining.is_zero() => {}
                Outcome::NotDue { .. } => {
                    let reason = "it is overdue, and the effect says not_due";
                    return Ok(Some(Obstacle::of_order(order, reason)));
                }
                Outcome::Unknown => {
                    let reason = "overdue_sql has it, and the effect gives no row for it";
                    return Ok(Some(Obstacle::of_order(order, reason)));
                }
                Outcome::Failed { cause, reason } => {
                    let mut found = Obstacle::of_order(order, &reason);
                    if cause == SqlState::INSUFFICIENT_PRIVILEGE.code() {
                        found.kind = Kind::Right;
                    }
                    return Ok(Some(found));
                }
                Outcome::Postponed { reason } => {
                    return Ok(Some(Obstacle::of_order(order, &reason)));
                }
                Outcome::Busy => {
                    let lock = self.lock_of(effect, std::slice::from_ref(id)).await;
                    // In a burst a worker has it, and commits.
                    if lock.holder.as_ref().is_none_or(|holder| !is_working(holder)) {
                        return Ok(Some(Obstacle::lock(Some(order), &lock)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// By deadline, each from an index as the sweep reads it.
    async fn old_and_new(&self, effect: &Effect) -> Result<Vec<OrderId>, StoreError> {
        let now = DatabaseTime::from_unix_ms(self.now_ms().await?);
        let mut new = WITHIN.into_iter().map(|age| OverdueKey::at(now.before(age)));
        let (mut ids, mut after, mut limit) = (Vec::new(), OverdueKey::first(), OLDEST);
        while let Some(page) = self.overdue_page(effect, &after, limit, ON_ITS_WAY).await? {
            ids.extend(page.ids);
            let Some(key) = new.next().filter(|_| page.rows > 0) else { break };
            (after, limit) = (page.next.max(key), 1);
        }
        Ok(ids)
    }

    /// What closing these orders waits for; empty where nothing was seen, e.g. because it is free again.
    pub(crate) async fn lock_of(&self, effect: &Effect, ids: &[OrderId]) -> Lock {
        self.attended(Box::pin(self.seen(effect, ids))).await.unwrap_or_default()
    }

    /// It ends when the lock is seen: the attempt is cancelled then.
    async fn seen(&self, effect: &Effect, ids: &[OrderId]) -> Result<Lock, StoreError> {
        let client = self.cancellable().await?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await;
        let pid: i32 = self.named("blocker", pid)?.get(0);
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let sql = waiting(&effect.sql);
        let attempt = async {
            client.batch_execute(BEGIN).await?;
            let statement = client.prepare(&sql).await?;
            client.query(&statement, &[&texts, &ClosingPath::Message.as_str()]).await
        };
        let mut attempt = pin!(attempt);
        let parameters: [&(dyn ToSql + Sync); 1] = [&pid];
        loop {
            tokio::select! {
                biased;
                _ = &mut attempt => return Ok(Lock::default()),
                rows = self.rows("blocker", BLOCKER, &parameters) => if let Some(row) = rows?.first() {
                    return Ok(lock(row));
                },
            }
            tokio::select! {
                biased;
                _ = &mut attempt => return Ok(Lock::default()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}

/// Whether it is a worker that has just begun.
fn is_working(holder: &Holder) -> bool {
    let is_new = holder.doing.as_ref().is_some_and(|(_, age)| *age < ON_ITS_WAY);
    holder.application == APPLICATION && is_new
}

/// The same statement, which waits where it passes over what is locked.
fn waiting(sql: &str) -> String {
    [" SKIP LOCKED", " skip locked", " NOWAIT", " nowait"]
        .into_iter()
        .fold(sql.to_owned(), |sql, word| sql.replace(word, ""))
}

fn lock(row: &Row) -> Lock {
    let (pid, state, age_ms): (i32, Option<String>, Option<i64>) =
        (row.get("pid"), row.get("state"), row.get("age_ms"));
    let doing = state.zip(age_ms);
    let doing = doing.map(|(state, ms)| (state, Duration::from_millis(ms.max(0).unsigned_abs())));
    let holder =
        Holder { pid, user: row.get("usename"), application: row.get("application_name"), doing };
    // A prepared transaction has no session.
    let holder = (pid != 0).then_some(holder);
    Lock { table: row.get("relation"), is_row: row.get("is_row"), holder }
}
