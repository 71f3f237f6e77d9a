//! Counts late orders again and again, by the database's clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::service::Service;

/// An order that is overdue by more is late.
const LATE: Duration = Duration::from_secs(1);
/// Poll interval.
const EVERY: Duration = Duration::from_millis(200);
const SQL: &str = "
    SELECT id FROM orders
    WHERE status = 'unpaid' AND due_at < now() - $1::bigint * interval '1 millisecond'";

/// Time of the poll and how many orders were late; `None` if the database did not answer.
type Sample = (Instant, Option<usize>);

/// Polls in a task until it is dropped.
pub struct Watch {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Polls the database of the service. Orders with an unconfirmed notice are left out: the sweep finds them later.
    pub fn start(service: Arc<Service>) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&samples);
        let task = tokio::spawn(async move {
            loop {
                let late = look(&service).await;
                kept.lock().unwrap().push((Instant::now(), late));
                sleep(EVERY).await;
            }
        });
        Self { samples, task }
    }

    /// Waits until no order has been late for `quiet`, at most `limit`. Returns when the last order after `since` was late (`None` after
    /// the limit), and the most orders that were late at one time.
    pub async fn until_calm(
        &self,
        since: Instant,
        (quiet, limit): (Duration, Duration),
    ) -> (Option<Instant>, usize) {
        let began = Instant::now();
        loop {
            sleep(EVERY).await;
            let samples = self.samples.lock().unwrap().clone();
            let of = || samples.iter().rev().take_while(|(at, _)| *at >= since);
            let last_late = of().find(|(_, late)| *late != Some(0)).map_or(since, |(at, _)| *at);
            let most = of().filter_map(|(_, late)| *late).max().unwrap_or(0);
            let calm_from = last_late.max(began);
            if samples.last().is_some_and(|(at, _)| *at > calm_from + quiet) {
                return (Some(last_late), most);
            }
            if began.elapsed() > limit {
                return (None, most);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(service: &Service) -> Option<usize> {
    let late_ms = i64::try_from(LATE.as_millis()).unwrap();
    let rows = service.query(SQL, &[&late_ms]).await.ok()?;
    Some(rows.iter().filter(|row| service.is_promised(row.get(0), LATE)).count())
}
