//! `overdue run`: check everything once, declare the topology, then work until a signal.

use std::sync::Arc;

use super::{
    exit::{self, Failure},
    setup,
};
use crate::{
    broker::{Management, declare},
    config::Settings,
    shutdown::Stop,
    telemetry,
    worker::{self, Tally, Worker},
};

pub(super) async fn run(settings: &Settings) -> Result<(), Failure> {
    let worker = Arc::new(prepare(settings).await?);
    let stop = Stop::new();
    stop.on_signals(exit::INTERRUPTED.into())
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let deadline = settings.worker.drain.as_duration();
    tokio::select! {
        () = worker::run(&worker, &stop) => Ok(()),
        () = overrun(&stop, deadline) => Err(Failure::failed(format!(
            "what was in hand did not finish within {deadline:?} (worker.drain); the broker gives it to another worker"
        ))),
    }
}

/// A worker whose broker, database, topology and SQL have answered once.
pub(super) async fn prepare(settings: &Settings) -> Result<Worker, Failure> {
    let topology = setup::topology(settings)?;
    let effects = setup::effects(settings, &topology)?;
    let address = setup::address(settings)?;
    let store = setup::store(settings)?;
    store.ping().await?;
    for effect in effects.values() {
        store.check_effect(effect).await?;
    }
    store.check_outbox().await?;
    let management = Management::new(&address)?;
    let plan = declare::plan(&management, &topology).await?;
    declare::carry_out(&management, &plan, |_| {}).await?;
    Ok(Worker {
        address,
        store,
        topology,
        effects,
        settings: settings.worker.clone(),
        tally: Tally::default(),
        events: tokio::sync::Notify::new(),
    })
}

/// Ends when the drain has had its time.
async fn overrun(stop: &Stop, deadline: std::time::Duration) {
    stop.requested().await;
    telemetry::stopping(deadline);
    tokio::time::sleep(deadline).await;
}
