//! What a change of the topology does to messages that wait, and to those that are published meanwhile: every one
//! is counted.
//!
//! In a topology of its own, which is removed at the end. The change is made as by `overdue apply --wait`.

mod applying;
mod consuming;
mod deadline;
pub mod kind;
pub mod message_log;
mod phase;
mod publishing;
pub mod report;
pub mod scenario;
mod shared_log;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    broker::{
        self, ConnectError, Link, Management, ManagementError, PublishError, Publisher,
        consume::ConsumeError,
    },
    plan::waiting::GaveUp,
    shutdown::Stop,
};
use applying::Applying;
use consuming::Consumer;
use kind::{ChangeKind, Levels};
use phase::ChangePhase;
use publishing::Publishing;
use report::{ChangeReport, MeasuredChange};
use scenario::Scenario;
use shared_log::SharedLog;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSize {
    /// Messages that wait when the change begins, at least 1.
    pub messages: usize,
    /// Where they wait.
    pub levels: Levels,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reading or changing the broker failed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// A change of the topology was not made.
    #[error(transparent)]
    Change(#[from] broker::ChangeError),
    /// A plan is refused in the middle of the change.
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    /// A message was not confirmed, so nobody knows whether it may be missing.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Receiving broke.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A task that receives messages panicked: a defect of this program.
    #[error("a task that receives messages panicked: {0}")]
    Panicked(String),
    /// Something took longer than it may.
    #[error("gave up after {} s: {what}", waited.as_secs())]
    Stuck {
        /// What was waited for, and how far it is.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Makes each of `kinds`, one after the other, in a topology called `name`; `on_step` is called with each step.
///
/// The topology is removed after each, also after an error and when `stop` is asked for.
///
/// # Errors
/// See [`ChangeError`]. Messages that are lost or early are no error, they are in the report.
pub async fn run(
    management: &Management,
    name: &str,
    kinds: &[ChangeKind],
    size: &ChangeSize,
    stop: &Stop,
    on_step: impl Fn(&str),
) -> Result<ChangeReport, ChangeError> {
    let mut report = ChangeReport::new(size);
    for kind in kinds {
        let scenario = Scenario::new(*kind, name, &size.levels);
        on_step(&format!("{}: {}", kind.name(), kind.describe(&size.levels)));
        let measured = tokio::select! {
            measured = one(management, &scenario, size, &on_step) => measured,
            () = stop.requested() => Err(ChangeError::Interrupted),
        };
        let removed = management.remove_topology(name).await;
        if let (Err(_), Err(left)) = (&measured, &removed) {
            on_step(&format!("exchanges and queues called {name}.* are left behind: {left}"));
        }
        report.lines.push(measured?);
        removed?;
    }
    Ok(report)
}

async fn one(
    management: &Management,
    scenario: &Scenario,
    size: &ChangeSize,
    on_step: &impl Fn(&str),
) -> Result<MeasuredChange, ChangeError> {
    let log = Arc::new(SharedLog::open());
    let address = management.address();
    let applying = Applying { management, scenario, size, log: &log, on_step };
    applying.before().await?;
    let removed = scenario.removed.as_ref().map(|removed| removed.queue.clone());
    let (release, held) = watch::channel(removed);
    let link = Link::open(address, "overdue bench, consuming").await?;
    let consumer = Consumer { management, link, scenario, held, log: Arc::clone(&log) };
    let publisher = Publisher::connect(address, "overdue bench, publishing").await?;
    let publishing = Publishing { publisher, scenario, size, log: &log };
    let measured = async {
        let refused = applying.refused(&publishing, &release).await?;
        on_step(&format!("publishing {} messages", size.messages));
        let began = Instant::now();
        publishing.many(&scenario.waiting, size.messages).await?;
        let filled = began.elapsed();
        let (phases, phase) = watch::channel(ChangePhase::Changing);
        let (change, ()) = tokio::try_join!(applying.change(phases), publishing.meanwhile(phase))?;
        applying.until_all_is_out().await?;
        Ok(log.with(|log| MeasuredChange::new(scenario.kind, size, log, filled, &change, refused)))
    };
    tokio::select! {
        measured = measured => measured,
        broken = consumer.run() => Err(broken),
    }
}
