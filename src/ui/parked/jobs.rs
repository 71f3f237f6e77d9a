//! Replays and drops in the background. A replay may take minutes, and its page does not wait.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use super::lot::Lot;
use crate::{
    oncall::{actions::Via, failure::Failure, parked::Lots, services::Services},
    parking::Filter,
    shutdown::Stop,
    text::counted,
};

/// Most actions end within this time, and the next page then has their result.
const SHORT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) enum Deed {
    Replay { rate: NonZeroU32 },
    Drop { because: String },
}

/// An action, running or ended.
pub(in crate::ui) struct Job {
    pub(super) said: String,
    pub(super) operator: String,
    done: AtomicU64,
    pub(super) stop: Stop,
    /// The result, or why the action failed; none while it runs.
    result: watch::Sender<Option<Result<String, String>>>,
}

/// Runs one action at a time: a second one would see only a part of the parking lot.
pub(in crate::ui) struct Jobs {
    services: Arc<Services>,
    lot: Arc<Lot>,
    newest: Mutex<Option<(Arc<Job>, JoinHandle<()>)>>,
}

impl Job {
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn result(&self) -> Option<Result<String, String>> {
        self.result.borrow().clone()
    }

    /// Waits for the end of the action, at most `SHORT`.
    pub(super) async fn soon(&self) {
        let mut result = self.result.subscribe();
        let _late = timeout(SHORT, result.wait_for(Option::is_some)).await;
    }

    async fn carry_out(
        &self,
        services: Arc<Services>,
        filter: &Filter,
        deed: Deed,
    ) -> Result<String, String> {
        let lots = Lots::open(services).await.map_err(|failure| failure.text)?;
        let progress = |number| {
            self.done.fetch_add(number, Ordering::Relaxed);
        };
        let via = Via::Page(&self.operator);
        let (said, ended) = match deed {
            Deed::Replay { rate } => {
                let (totals, ended) = lots.replay(filter, rate, via, &self.stop, progress).await;
                (totals.to_string(), ended)
            }
            Deed::Drop { because } => {
                let (dropped, ended) =
                    lots.drop_messages(filter, &because, via, &self.stop, progress).await;
                (format!("{} dropped", counted(dropped, "message")), ended)
            }
        };
        match ended {
            Ok(_) if self.stop.is_requested() => Ok(format!("{said}\nstopped before the end")),
            Ok(Some(note)) => Ok(format!("{said}\n{note}")),
            Ok(None) => Ok(said),
            Err(Failure { text, .. }) => Err(format!("{said}\n{text}")),
        }
    }
}

impl Jobs {
    pub(in crate::ui) fn new(services: Arc<Services>, lot: Arc<Lot>) -> Self {
        Self { services, lot, newest: Mutex::default() }
    }

    /// The running action, or the last one.
    pub(super) fn newest(&self) -> Option<Arc<Job>> {
        let newest = self.newest.lock();
        newest.as_ref().map(|(job, _)| Arc::clone(job))
    }

    /// Begins an action; none if another one is running.
    pub(super) fn begin(
        &self,
        said: String,
        operator: &str,
        filter: Filter,
        deed: Deed,
    ) -> Option<Arc<Job>> {
        let mut newest = self.newest.lock();
        if newest.as_ref().is_some_and(|(_, task)| !task.is_finished()) {
            return None;
        }
        let job = Arc::new(Job {
            said,
            operator: operator.to_owned(),
            done: AtomicU64::new(0),
            stop: Stop::new(),
            result: watch::Sender::new(None),
        });
        let (doing, services) = (Arc::clone(&job), Arc::clone(&self.services));
        let doing = tokio::spawn(async move { doing.carry_out(services, &filter, deed).await });
        let (done, lot) = (Arc::clone(&job), Arc::clone(&self.lot));
        let task = tokio::spawn(async move {
            // An action that panics also gets a result.
            let result = doing.await.unwrap_or_else(|panic| Err(panic.to_string()));
            lot.forget();
            done.result.send_replace(Some(result));
        });
        *newest = Some((Arc::clone(&job), task));
        Some(job)
    }

    /// Stops the running action, and waits until it has recorded its result.
    pub(in crate::ui) async fn finish(&self) {
        let newest = self.newest.lock().take();
        if let Some((job, task)) = newest {
            job.stop.request();
            let _ended = task.await;
        }
    }
}
