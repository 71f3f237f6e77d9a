//! `overdue run`: check everything once, declare the topology, then work until a signal.

use std::{collections::BTreeMap, sync::Arc};

use clap::Args;

use super::{exit::Failure, setup};
use crate::{
    broker::{BrokerAddress, ChangeEvent, Link, Management, TopologyChange, passive},
    config::Settings,
    plan::{Plan, Reason, Refusal, Step},
    store::{FailureKind, Store, orders::Effect},
    telemetry,
    topology::Topology,
    worker::{self, Worker},
};

/// Declare the topology, then close overdue orders until SIGTERM
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Declare nothing: for a worker without the right to, where operations run `overdue apply`
    #[arg(long)]
    no_declare: bool,
}

impl Run {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let declaring = if self.no_declare { Declaring::Nothing } else { Declaring::Missing };
        let worker = Arc::new(prepare(settings, declaring).await?);
        let stop = setup::stop_on_signals()?;
        Ok(worker::run(&worker, &stop).await?)
    }
}

/// What a worker does to the broker before it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declaring {
    /// Adds what is missing.
    Missing,
    /// Looks whether what it needs is there.
    Nothing,
}

/// A worker whose broker, database, topology and SQL have answered once.
pub(super) async fn prepare(settings: &Settings, declaring: Declaring) -> Result<Worker, Failure> {
    let topology = setup::topology(settings)?;
    let effects = setup::effects(settings, &topology)?;
    let address = setup::address(settings)?;
    let store = setup::store(settings)?;
    store.ping().await?;
    check_effects(&store, &effects).await?;
    store.check_outbox().await?;
    let management = setup::management(settings)?;
    let management = match declaring {
        Declaring::Missing => {
            // Later a refused login is an outage; now somebody is there to correct it.
            Link::open(&address, "overdue run: logging in").await?.close().await;
            declare(&management, &topology).await?;
            Some(management)
        }
        Declaring::Nothing => {
            look(&address, &topology).await?;
            // Without the tag it looks for the generations of its queues one by one.
            let may_list = management.queue_names().await.is_ok();
            may_list.then_some(management)
        }
    };
    Ok(Worker::new(address, management, store, topology, effects, settings.worker.clone()))
}

/// A wrong effect concerns its own timeouts; where none is right there is nothing to do.
async fn check_effects(store: &Store, effects: &BTreeMap<String, Effect>) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for effect in effects.values() {
        if let Err(error) = store.check_effect(effect).await {
            wrong.push((&effect.name, error));
        }
    }
    let all_wrong = wrong.len() == effects.len();
    for (effect, error) in wrong {
        if all_wrong || error.kind() != FailureKind::Configuration {
            return Err(error.into());
        }
        telemetry::effect_unusable(effect, &crate::text::error_chain(&error));
    }
    Ok(())
}

/// Adds what is missing. Most of the time nothing is, and nobody has to wait for the lock.
async fn declare(management: &Management, topology: &Topology) -> Result<(), Failure> {
    let change = TopologyChange::new(management, topology);
    let (plan, _) = change.plan().await?;
    if additions(topology, plan)?.steps.is_empty() {
        return Ok(());
    }
    let on_event = |event: ChangeEvent<'_>| {
        if matches!(event, ChangeEvent::WaitsForLock) {
            telemetry::waiting_for_lock();
        }
    };
    change.make(|plan, _| additions(topology, plan), on_event).await.map(drop)
}

/// Whether the exchanges a worker publishes to are there; its queues are looked for when it consumes.
async fn look(address: &BrokerAddress, topology: &Topology) -> Result<(), Failure> {
    let link = Link::open(address, "overdue run --no-declare").await?;
    let exchanges =
        [topology.entry_exchange(), topology.park_exchange(), topology.events_exchange()];
    for exchange in exchanges {
        let there = passive::exchange_exists(&link, &exchange).await;
        if !there.map_err(|error| Failure::failed(crate::text::error_chain(&error)))? {
            return Err(missing(address, "exchange", &exchange));
        }
    }
    for timeout in &topology.timeouts {
        let found = passive::generations(&link, &topology.business_queue(timeout)).await;
        if found.map_err(|error| Failure::failed(crate::text::error_chain(&error)))?.is_empty() {
            return Err(missing(address, "queue", &topology.business_queue(timeout)));
        }
    }
    link.close().await;
    Ok(())
}

fn missing(address: &BrokerAddress, object: &str, name: &str) -> Failure {
    Failure::configuration(format!(
        "there is no {object} {name} at {address}, and --no-declare declares nothing: run `overdue apply` as a user \
         that may (`overdue permissions` prints the rights)"
    ))
}

/// What a worker may do to the broker by itself: add. Deleting a queue that has drained is left to a person.
fn additions(topology: &Topology, mut plan: Plan) -> Result<Plan, Failure> {
    let refused = plan.refusals.iter().any(|it| matches!(it, Refusal::Exchange { .. }));
    let replaces = plan.steps.iter().any(|step| matches!(step.reason, Reason::Replaces(_)));
    if refused || replaces {
        return Err(Failure::configuration(format!(
            "the broker has another topology than the file, and a worker only adds. Nothing was changed; look at \
             `overdue plan`, then run `overdue apply`, and start the worker again\n{plan}"
        )));
    }
    // What is only to be taken away is in nobody's way: with `overdue apply`, whenever that is.
    plan.refusals.clear();
    plan.steps.retain(Step::adds);
    // Marks alone are no reason to need rights that a worker did not need before: `overdue apply` sets them.
    if plan.steps.iter().all(|step| step.marks(topology)) {
        plan.steps.clear();
    }
    Ok(plan)
}
