//! What a change of the topology does to messages that wait, and to those that are published meanwhile: every one
//! is counted.
//!
//! In a topology of its own, which is removed at the end. The change is made as by `overdue apply --wait`.

mod applying;
mod consuming;
mod deadline;
mod error;
pub(crate) mod kind;
pub(crate) mod measured;
pub(crate) mod message_log;
mod phase;
mod publishing;
pub(crate) mod report;
pub(crate) mod scenario;
mod shared_log;
pub(crate) mod size;

use std::{sync::Arc, time::Instant};

use tokio::sync::watch;

use crate::{
    broker::{Management, Publisher},
    shutdown::Stop,
};
use applying::Applying;
use consuming::Consumer;
pub(crate) use error::MeasureError;
use kind::ChangeKind;
use measured::MeasuredChange;
use phase::ChangePhase;
use publishing::Publishing;
use report::ChangeReport;
use scenario::Scenario;
use shared_log::SharedLog;
use size::ChangeSize;

/// Makes each of `kinds`, one after the other, in a topology called `name`; `on_step` is called with each step.
///
/// The topology is removed after each, also after an error and when a stop is requested.
///
/// # Errors
/// See [`MeasureError`]. Messages that are lost or early are not an error, they are in the report.
pub async fn run(
    management: &Management,
    name: &str,
    kinds: &[ChangeKind],
    size: &ChangeSize,
    stop: &Stop,
    on_step: impl Fn(&str),
) -> Result<ChangeReport, MeasureError> {
    let mut report = ChangeReport::new(size);
    for kind in kinds {
        let scenario = Scenario::new(*kind, name, &size.levels);
        on_step(&format!("{}: {}", kind.name(), kind.describe(&size.levels)));
        let measured = tokio::select! {
            measured = one(management, &scenario, size, &on_step) => measured,
            () = stop.requested() => Err(MeasureError::Interrupted),
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
) -> Result<MeasuredChange, MeasureError> {
    let log = Arc::new(SharedLog::open());
    let address = management.address();
    let applying = Applying { management, scenario, size, log: &log, on_step };
    applying.before().await?;
    let removed = scenario.removed.as_ref().map(|removed| removed.queue.clone());
    let (release, held) = watch::channel(removed);
    let consumer = Consumer { management, scenario, held, log: Arc::clone(&log) };
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
        Ok(log.with(|log| MeasuredChange::new(scenario.kind, size, log, filled, change, refused)))
    };
    tokio::select! {
        measured = measured => measured,
        broken = consumer.run() => Err(broken),
    }
}
