//! Readings of the database for a worker's metrics and for `overdue status`: unpublished rows, overdue orders and orders that come
//! due, orders closed lately, and the last hour.

use std::{collections::BTreeMap, time::Duration};

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    effects::Effect,
    outbox::PassedOver,
    overdue::OverdueKey,
    pool::{End, PoolKind, StatementCall, TransactionLimits, count},
    schedule::ScheduleUse,
};
use crate::{
    doctor::facts::{Outbox, RefusedName, Scheduled},
    order::Outcome,
    status::{
        ClosingRate, Closings, DatabaseReading, Due, DueSoon, Known, LastHour, Lateness, MINUTES,
        WaitingEvents, WaitingNotices,
    },
    text::error_chain,
};

/// Limit of counted events and notices for metrics and status: each counted row is read.
pub(crate) const MOST_WAITING: i64 = 100_000;
/// Limit of counted overdue orders for metrics.
const MOST_OVERDUE: i64 = 1_000;
/// Limit of counted orders that are due or come due, for status: each counted row is read, in about a second.
const MOST_DUE: i64 = 1_000_000;
/// The most rows of `closures` that status reads, the newest first: this takes some tens of milliseconds.
const NEWEST: i64 = 50_000;
/// The greatest age of the closures that status reads, in seconds.
const WINDOW_S: i64 = 300;
/// The grace that gives the orders that come due within an hour.
const HOUR_AHEAD_MS: i64 = -3_600_000;
/// Orders with a deadline in this time are accounted for: few enough to count every few seconds.
const ACCOUNTED: Duration = Duration::from_mins(1);
/// Limit of orders that are tried, to see whether one of the unclosed orders could have been closed.
const TRIED_STUCK: i64 = 5;
/// Sorting the millions of closures of an hour takes some seconds.
const FORECAST_LIMITS: TransactionLimits =
    TransactionLimits { lock: None, statement: Some(Duration::from_secs(10)) };

/// Orders by closing path: message, burst, sweep, and not closed. The sum came due and was not paid.
pub(crate) type Accounting = [usize; 4];

/// Overdue orders of one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Counted up to 1,000.
    pub(crate) orders: usize,
    /// Age of the oldest deadline; `None` if no order is overdue.
    pub(crate) oldest: Option<Duration>,
}

impl Store {
    /// Counts of the outbox without skipped rows, each up to `most`.
    pub(crate) async fn outbox(
        &self,
        most: i64,
        without: &PassedOver,
    ) -> Result<Outbox, StoreError> {
        const SQL: &str = include_str!("../../sql/outbox_waiting.sql");
        let parameters: [&(dyn ToSql + Sync); 3] =
            [&most, &without.undeleted, &without.low_watermark];
        let row = self.one("outbox_waiting", SQL, &parameters).await?;
        Ok(Outbox {
            events: count(&row, "events"),
            oldest_ms: count(&row, "oldest_ms"),
            refused: count(&row, "refused"),
            longest: row.get::<_, Option<String>>("refused_name").map(|event| RefusedName {
                event,
                lasts_ms: count(&row, "refused_ms"),
                order_id: row.get("refused_order"),
                reason: row.get("refused_reason"),
            }),
            unpublishable: count(&row, "unpublishable"),
            unpublishable_reason: row.get("unpublishable_reason"),
        })
    }

    /// Counts of waiting and of refused notices of `schedule()`, each up to `most`. If a table or a right is missing for `purpose`,
    /// only `lacks` is set.
    pub(crate) async fn scheduled(
        &self,
        most: i64,
        purpose: ScheduleUse,
    ) -> Result<Scheduled, StoreError> {
        const SQL: &str = include_str!("../../sql/schedule_waiting.sql");
        let lacks = self.schedule_lacks(purpose).await?;
        if lacks.is_some() {
            return Ok(Scheduled { lacks, ..Scheduled::default() });
        }
        let row = self.one("schedule_waiting", SQL, &[&most]).await?;
        Ok(Scheduled {
            lacks,
            notices: count(&row, "notices"),
            oldest_ms: count(&row, "oldest_ms"),
            refused: count(&row, "refused"),
            reason: row.get("reason"),
            timeout: row.get("timeout"),
            zoneless: Vec::new(),
        })
    }

    /// Counts all notices, and lists triggers whose deadlines depend on the time zone of a session.
    pub(super) async fn scheduled_with_triggers(
        &self,
        purpose: ScheduleUse,
    ) -> Result<Scheduled, StoreError> {
        let scheduled = self.scheduled(i64::MAX, purpose).await?;
        Ok(Scheduled { zoneless: self.zoneless_triggers().await?, ..scheduled })
    }

    /// Overdue orders at `now`; `None` without `overdue_sql`.
    pub(crate) async fn overdue(
        &self,
        effect: &Effect,
        now: DatabaseTime,
    ) -> Result<Option<Overdue>, StoreError> {
        let first = OverdueKey::first();
        let Some(page) = self.overdue_page(effect, &first, 1, Duration::ZERO).await? else {
            return Ok(None);
        };
        if page.rows == 0 {
            return Ok(Some(Overdue { orders: 0, oldest: None }));
        }
        // A row whose key or deadline cannot be read has no known age.
        let oldest = (page.next != first).then(|| page.next.overdue_at(now));
        let all = self.overdue_page(effect, &first, MOST_OVERDUE, Duration::ZERO).await?;
        let orders = all.map_or(1, |all| all.rows.max(1));
        Ok(Some(Overdue { orders, oldest }))
    }

    /// How long closable orders have been overdue, at least `bound`. Only deadlines after the last closing, `closed_ago` before
    /// `now`, count; `None`: all. An order does not count if the effect fails for it, but does if the effect always fails.
    pub(crate) async fn stuck_for(
        &self,
        effect: &Effect,
        now: DatabaseTime,
        closed_ago: Option<Duration>,
        bound: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let after =
            closed_ago.map_or_else(OverdueKey::first, |ago| OverdueKey::at(now.before(ago)));
        let page = self.overdue_page(effect, &after, TRIED_STUCK, bound).await?;
        let Some(page) = page.filter(|page| !page.ids.is_empty()) else { return Ok(None) };
        let could_be_closed = match self.rehearse_without_orders(effect).await {
            Ok(()) => {
                let standings = self.rehearse(effect, &page.ids).await?;
                standings.iter().any(|it| matches!(it.outcome, Outcome::Closed { .. }))
            }
            // The effect fails whatever the order, or its tables are locked.
            Err(error) if error.is_answer() || error.is_misfit() => true,
            Err(error) => return Err(error),
        };
        Ok(could_be_closed.then(|| page.next.overdue_at(now)))
    }

    /// Counts orders whose deadline was in the last minute, by path; `None` without `overdue_sql`, or without the right to read
    /// `closures`.
    pub(crate) async fn accounting(
        &self,
        effect: &Effect,
        now: DatabaseTime,
    ) -> Result<Option<Accounting>, StoreError> {
        const MAY_READ: &str = "SELECT has_table_privilege('{own}.closures', 'SELECT')";
        const CLOSED: &str = include_str!("../../sql/watch_due.sql");
        if !self.one("may_read_closures", MAY_READ, &[]).await?.get::<_, bool>(0) {
            return Ok(None);
        }
        let after = OverdueKey::at(now.before(ACCOUNTED));
        let page = self.overdue_page(effect, &after, MOST_OVERDUE, Duration::ZERO).await?;
        let Some(page) = page else { return Ok(None) };
        let rows = self.rows("watch_due", CLOSED, &[&effect.name, &to_ms(ACCOUNTED)]).await?;
        let by = |path: &str| {
            let row = rows.iter().find(|row| row.get::<_, &str>("path") == path);
            row.map_or(0, |row| usize::try_from(count(row, "orders")).unwrap_or(usize::MAX))
        };
        Ok(Some([by("message"), by("burst"), by("sweep"), page.rows]))
    }

    /// Closings of the last five minutes, unpublished rows, and orders of these effects that are due or come due.
    pub(crate) async fn lately<'a>(
        &self,
        effects: impl Iterator<Item = &'a Effect>,
    ) -> Result<DatabaseReading, StoreError> {
        const CLOSURES: &str = include_str!("../../sql/status_closures.sql");
        let closures = self.one("status_closures", CLOSURES, &[&NEWEST, &WINDOW_S]).await?;
        let outbox = self.outbox(MOST_WAITING, &PassedOver::default()).await?;
        let (mut due, mut obstacle) = (Known::Known(Due::default()), None);
        for effect in effects {
            let (more, found) = tokio::join!(self.due(effect), self.obstacle(effect));
            obstacle = obstacle.or(found?);
            let more = match more {
                Err(error) if error.is_answer() || error.is_misfit() => {
                    Known::Unknown(error_chain(&error))
                }
                more => more?,
            };
            due = match (due, more) {
                (Known::Known(one), Known::Known(other)) => Known::Known(one.and(&other)),
                (unknown @ Known::Unknown(_), _) | (_, unknown) => unknown,
            };
        }
        let scheduled = self.scheduled(MOST_WAITING, ScheduleUse::Counted).await?;
        let more = |counted: u64| counted >= MOST_WAITING.unsigned_abs();
        Ok(DatabaseReading {
            clock: closures.get("clock"),
            closings: closings(&closures),
            due,
            obstacle,
            outbox: WaitingEvents {
                events: outbox.events,
                more: more(outbox.events),
                oldest_s: outbox.oldest_ms / 1_000,
                refused: outbox.refused + outbox.unpublishable,
            },
            scheduled: scheduled.lacks.is_none().then_some(WaitingNotices {
                notices: scheduled.notices,
                more: more(scheduled.notices),
                oldest_s: scheduled.oldest_ms / 1_000,
                refused: scheduled.refused,
            }),
        })
    }

    /// Open orders by deadline, up to an hour ahead.
    async fn due(&self, effect: &Effect) -> Result<Known<Due>, StoreError> {
        const SQL: &str = include_str!("../../sql/status_due.sql");
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&MOST_DUE, &HOUR_AHEAD_MS, &DatabaseTime::FIRST, &""];
        let limits = TransactionLimits::NONE;
        let Some(rows) =
            self.around_overdue("status_due", SQL, effect, &parameters, limits).await?
        else {
            return Ok(Known::Unknown(format!("effect `{}` has no overdue_sql", effect.name)));
        };
        let mut due = Due::default();
        let mut counted = 0;
        for row in &rows {
            let (orders, distance_s) = (count(row, "orders"), count(row, "distance_s"));
            counted += orders;
            match usize::try_from(row.get::<_, i32>("minute")) {
                Err(_) => {
                    due.overdue = orders;
                    due.oldest_s = distance_s;
                    due.overdue_last_minute = count(row, "last_minute");
                }
                Ok(minute) => {
                    due.minutes[minute.min(MINUTES - 1)] += orders;
                    due.next_s = due.next_s.into_iter().chain([distance_s]).min();
                }
            }
        }
        due.more = counted >= MOST_DUE.unsigned_abs();
        Ok(Known::Known(due))
    }

    /// Lateness of the last hour, closings per minute, and the rate of closing.
    ///
    /// # Errors
    /// `closures` or the right to read it is missing, or the query fails or takes longer than 10 s.
    pub async fn last_hour(&self) -> Result<LastHour, StoreError> {
        const SQL: &str = include_str!("../../sql/last_hour.sql");
        let question = StatementCall::new("last_hour", SQL, &[]);
        let rows = self
            .in_transaction(PoolKind::Anything, FORECAST_LIMITS, question, End::Rollback)
            .await?;
        let of =
            |kind: &'static str| rows.iter().filter(move |row| row.get::<_, &str>("kind") == kind);
        let most =
            |kind: &'static str| of(kind).map(|row| count(row, "orders")).next().unwrap_or(0);
        let by_path = of("path").map(|row| (row.get("key"), lateness(row)));
        let minute = |row: &Row| {
            let ago = row.get::<_, &str>("key").parse().unwrap_or(0);
            (ago, count(row, "orders"))
        };
        let rate = ClosingRate::of(most("late_second"), most("second"));
        let all = of("all").map(lateness).next().unwrap_or_default();
        Ok(LastHour::new(all, by_path.collect(), of("minute").map(minute), rate))
    }

    /// Orders of these effects that come due in the next `hours`, up to a million of each. Also the largest bursts, with the
    /// lateness that `rate` predicts. Unknown if an effect has no `overdue_sql`.
    ///
    /// # Errors
    /// The query fails, or takes longer than 10 s.
    pub async fn due_soon<'a>(
        &self,
        effects: impl IntoIterator<Item = &'a Effect>,
        hours: u32,
        rate: ClosingRate,
    ) -> Result<Known<DueSoon>, StoreError> {
        const SQL: &str = include_str!("../../sql/due_soon.sql");
        let ahead = -i64::from(hours) * 3_600_000;
        let (mut seconds, mut more) = (BTreeMap::new(), false);
        for effect in effects {
            let parameters: [&(dyn ToSql + Sync); 4] =
                [&MOST_DUE, &ahead, &DatabaseTime::FIRST, &""];
            let rows =
                self.around_overdue("due_soon", SQL, effect, &parameters, FORECAST_LIMITS).await?;
            let Some(rows) = rows else {
                return Ok(Known::Unknown(format!("effect `{}` has no overdue_sql", effect.name)));
            };
            let mut counted = 0;
            for row in &rows {
                let orders = count(row, "orders");
                counted += orders;
                *seconds.entry(row.get("second")).or_default() += orders;
            }
            more |= counted >= MOST_DUE.unsigned_abs();
        }
        Ok(Known::Known(DueSoon::new(hours, &seconds, more, rate)))
    }
}

fn closings(row: &Row) -> Closings {
    let window_s: f64 = row.get("window_s");
    let was_cut = row.get::<_, i64>("looked_at") >= NEWEST;
    // If the newest rows cover less than a minute, their time is the divisor.
    let minute_s = if was_cut && window_s < 60.0 { window_s.max(0.1) } else { 60.0 };
    Closings {
        window_s: if was_cut { window_s } else { seconds(WINDOW_S) },
        closed: count(row, "closed"),
        closed_per_s: seconds(row.get("last_minute")) / minute_s,
        due_last_minute: count(row, "due_last_minute"),
        p50_s: row.get("p50_s"),
        p99_s: row.get("p99_s"),
        max_s: row.get("max_s"),
        by_message: count(row, "by_message"),
        by_burst: count(row, "by_burst"),
        by_sweep: count(row, "by_sweep"),
        swept_last_minute: count(row, "swept_last_minute"),
        best_per_s: count(row, "best_per_s"),
        last_s: row.get("last_s"),
    }
}

fn seconds(count: i64) -> f64 {
    i32::try_from(count).map_or(f64::MAX, f64::from)
}

fn lateness(row: &Row) -> Lateness {
    Lateness {
        orders: count(row, "orders"),
        p50_s: row.get("p50_s"),
        p99_s: row.get("p99_s"),
        max_s: row.get("max_s"),
    }
}
