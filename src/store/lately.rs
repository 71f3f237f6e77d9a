//! What was closed lately, and what comes due: for `overdue status`.

use super::{Store, StoreError, database_time::DatabaseTime, effect::Effect};
use crate::{
    status::{Closings, DatabaseReading, Due, Known, MINUTES, WaitingEvents, WaitingNotices},
    text::error_chain,
};

/// The newest rows of `closures` that are looked at, some tens of milliseconds.
const NEWEST: i64 = 50_000;
const WINDOW_S: i64 = 300;
/// Open orders that are counted.
const MOST_DUE: i64 = 1_000_000;
/// An hour before its deadline.
const AHEAD_MS: i64 = -3_600_000;

impl Store {
    /// What was closed in the last five minutes, the outbox, and what is and comes due of these effects.
    ///
    /// # Errors
    /// The database cannot be asked, or lacks our tables.
    pub(crate) async fn lately<'a>(
        &self,
        effects: impl Iterator<Item = &'a Effect>,
    ) -> Result<DatabaseReading, StoreError> {
        const CLOSURES: &str = include_str!("../../sql/status_closures.sql");
        const OUTBOX: &str = include_str!("../../sql/doctor_outbox.sql");
        let closures = self.rows("status_closures", CLOSURES, &[&NEWEST, &WINDOW_S]).await?;
        let outbox = self.rows("doctor_outbox", OUTBOX, &[]).await?;
        let mut reading = DatabaseReading {
            clock: String::new(),
            closings: Closings::default(),
            due: Known::Known(Due::default()),
            obstacle: None,
            outbox: WaitingEvents::default(),
            scheduled: None,
        };
        for effect in effects {
            let (due, obstacle) = tokio::join!(self.due(effect), self.obstacle(effect));
            reading.obstacle = reading.obstacle.or(obstacle?);
            let due = match due {
                Err(error) if error.is_answer() || error.is_misfit() => {
                    let reason = error.in_effect(
                        &effect.name,
                        &effect.overdue_file,
                        effect.overdue_sql.as_deref().unwrap_or_default(),
                    );
                    Known::Unknown(error_chain(&reason))
                }
                due => due?,
            };
            reading.due = match (reading.due, due) {
                (Known::Known(one), Known::Known(other)) => Known::Known(one.and(&other)),
                (unknown @ Known::Unknown(_), _) | (_, unknown) => unknown,
            };
        }
        if let Some(row) = closures.first() {
            let count = |index: usize| u64::try_from(row.get::<_, i64>(index)).unwrap_or(0);
            let window_s: f64 = row.get(2);
            let was_cut = row.get::<_, i64>(12) >= NEWEST;
            // Where the newest rows do not reach back a minute, by as far as they do.
            let minute_s = if was_cut && window_s < 60.0 { window_s.max(0.1) } else { 60.0 };
            row.get::<_, &str>(0).clone_into(&mut reading.clock);
            reading.closings = Closings {
                window_s: if was_cut { window_s } else { seconds(WINDOW_S) },
                closed: count(1),
                closed_per_s: seconds(row.get(3)) / minute_s,
                due_last_minute: count(4),
                p50_s: row.get(5),
                p99_s: row.get(6),
                max_s: row.get(7),
                by_message: count(8),
                by_burst: count(9),
                by_sweep: count(10),
                best_per_s: count(11),
                last_s: row.get(13),
            };
        }
        if let Some(row) = outbox.first() {
            let count = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
            reading.outbox = WaitingEvents {
                events: count("events"),
                oldest_s: count("oldest_ms") / 1_000,
                refused: count("refused") + count("unpublishable"),
            };
        }
        reading.scheduled = self.schedule_state().await?.map(|state| WaitingNotices {
            notices: state.notices,
            oldest_s: state.oldest.as_secs(),
            refused: state.refused,
        });
        Ok(reading)
    }

    /// Open orders by deadline, up to an hour ahead: what the sweep asks, with a grace before the deadline. So it works
    /// for any tables, and the index that serves the sweep serves it.
    async fn due(&self, effect: &Effect) -> Result<Known<Due>, StoreError> {
        let Some(sql) = &effect.overdue_sql else {
            return Ok(Known::Unknown(format!("effect `{}` has no overdue_sql", effect.name)));
        };
        self.check_overdue_shape(effect, sql).await?;
        let (sql, first) = (by_minute(sql), DatabaseTime::FIRST);
        let rows = self.rows("status_due", &sql, &[&MOST_DUE, &AHEAD_MS, &first, &""]).await?;
        let mut due = Due::default();
        let mut counted = 0;
        for row in rows {
            let minute: i32 = row.get(0);
            let orders = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            let distance_s = u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
            counted += orders;
            match usize::try_from(minute) {
                Err(_) => {
                    due.overdue = orders;
                    due.oldest_s = distance_s;
                    due.overdue_last_minute = u64::try_from(row.get::<_, i64>(3)).unwrap_or(0);
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
}

fn by_minute(sql: &str) -> String {
    const DUE: &str = include_str!("../../sql/status_due.sql");
    DUE.replace("{sql}", sql.trim().trim_end_matches(';'))
}

fn seconds(count: i64) -> f64 {
    i32::try_from(count).map_or(f64::MAX, f64::from)
}
