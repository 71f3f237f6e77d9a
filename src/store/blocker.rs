//! Who holds the lock that closing an order needs. It is waited for in a transaction that is rolled back, and looked at meanwhile.

use std::{pin::pin, time::Duration};

use tokio_postgres::{Row, types::ToSql};

use super::{Store, StoreError, effect::Effect, orders::ClosingPath};
use crate::{
    condition::obstacle::{Holder, Lock},
    order::OrderId,
};

const SQL: &str = include_str!("../../sql/blocker.sql");
/// Nobody waits for longer: it is seen in a hundredth of that.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 2000";
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Store {
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
                rows = self.rows("blocker", SQL, &parameters) => if let Some(row) = rows?.first() {
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
