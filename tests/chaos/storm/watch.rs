//! Looks all the time whether orders are late, by the database's clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{Client, NoTls};

use super::service::Service;

/// An order that is overdue by more is late.
pub const LATE: Duration = Duration::from_secs(1);
/// Between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// A database that does not answer within it is not there; a login takes long on a busy machine.
const ANSWER: Duration = Duration::from_secs(10);
const SQL: &str = "
    SELECT id FROM orders
    WHERE status = 'unpaid' AND due_at < now() - $1::bigint * interval '1 millisecond'";

/// What was seen at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// Nothing where the database did not answer.
    late: Option<usize>,
}

/// A task that looks.
pub struct Watch {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Looks into a schema until it is dropped. Orders whose notice was not confirmed are left out: the sweep
    /// finds them, later.
    pub fn start(url: &str, schema: &str, service: Arc<Service>) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let more = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{more}options=-csearch_path%3D{schema}");
        let kept = Arc::clone(&samples);
        let task = tokio::spawn(async move {
            let mut client = None;
            loop {
                let late = look(&mut client, &url, &service).await;
                kept.lock().unwrap().push(Sample { at: Instant::now(), late });
                sleep(EVERY).await;
            }
        });
        Self { samples, task }
    }

    fn since(&self, moment: Instant) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap();
        samples.iter().rev().take_while(|sample| sample.at >= moment).copied().collect()
    }

    /// Waits until nothing has been late for `quiet`; whether that was so within `limit`.
    pub async fn until_calm(&self, quiet: Duration, limit: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < limit {
            if began.elapsed() > quiet {
                let samples = self.since(Instant::now() - quiet);
                if !samples.is_empty() && samples.iter().all(Sample::is_calm) {
                    return true;
                }
            }
            sleep(EVERY).await;
        }
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sample {
    /// The database answered, and nothing was late.
    fn is_calm(&self) -> bool {
        self.late == Some(0)
    }
}

async fn look(client: &mut Option<Client>, url: &str, service: &Service) -> Option<usize> {
    let open = match client.take().filter(|client| !client.is_closed()) {
        Some(open) => open,
        None => timeout(ANSWER, connect(url)).await.ok()??,
    };
    let late_ms = i64::try_from(LATE.as_millis()).unwrap();
    let rows = timeout(ANSWER, open.query(SQL, &[&late_ms])).await.ok()?.ok()?;
    *client = Some(open);
    Some(rows.iter().filter(|row| service.is_promised(row.get(0), LATE)).count())
}

async fn connect(url: &str) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    // Ends with the client.
    tokio::spawn(connection);
    Some(client)
}
