//! `overdue run`: check everything once, declare the topology, then work until a signal.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    exit::{self, Failure},
    setup,
};
use crate::{
    broker::{Management, apply},
    config::Settings,
    plan::{Plan, Step},
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
    let (plan, _) = apply::plan(&management, &topology, &BTreeSet::new()).await?;
    apply::carry_out(&management, &additions(plan)?, |_, _| {}).await?;
    Ok(Worker {
        address,
        management: Some(management),
        store,
        topology,
        effects,
        settings: settings.worker.clone(),
        tally: Tally::default(),
        events: tokio::sync::Notify::new(),
    })
}

/// What a worker may do to the broker by itself: add. Deleting a queue that has drained is left to a person.
fn additions(mut plan: Plan) -> Result<Plan, Failure> {
    if !plan.refusals.is_empty() || plan.retires() {
        return Err(Failure::configuration(format!(
            "the broker has another topology than the file, and a worker only adds. Nothing was changed; look at \
             `overdue plan`, then run `overdue apply`, and start the worker again\n{plan}"
        )));
    }
    plan.steps.retain(Step::adds);
    Ok(plan)
}

/// Ends when the drain has had its time.
async fn overrun(stop: &Stop, deadline: std::time::Duration) {
    stop.requested().await;
    telemetry::stopping(deadline);
    tokio::time::sleep(deadline).await;
}
