//! What is checked and declared before a worker works.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    administration::{ChangeEvent, Management, ManagementError, TopologyChange},
    cli::{
        exit::{self, Failure},
        setup::Services,
    },
    config::{PublishScheduled, Settings},
    messaging::{BrokerAddress, Link, passive},
    permissions::{Need, Object, Right, broker_rights},
    plan::{Plan, Reason, Refusal, Step},
    shutdown::Stop,
    spans::Spans,
    store::{FailureKind, Store, StoreError, effects::Effect, schedule::ScheduleUse},
    telemetry,
    text::error_chain,
    topology::Topology,
    worker::{Worker, backoff::Backoff, health::Work},
};

/// What a worker does to the broker before it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Declaring {
    /// Adds what is missing.
    Missing,
    /// Looks whether what it needs is there.
    Nothing,
}

/// A worker whose database, topology and SQL have answered once; and why nothing is declared yet, if the broker has not answered.
pub(in crate::cli) async fn prepare(
    settings: &Settings,
    services: Services,
    declaring: Declaring,
) -> Result<(Worker, Option<Failure>), Failure> {
    let Services { topology, effects, address, store, management } = services;
    let spans = Spans::open(&settings.traces)
        .map_err(|reason| Failure::configuration(format!("traces.otlp: {reason}")))?;
    store.check_pooler().await?;
    store.ping().await?;
    // First: the built-in effects would say of tables of an older version that they are others'.
    store.check_outbox().await?;
    store.check_pauses().await?;
    check_effects(&store, &effects).await?;
    if settings.schedule.publish == PublishScheduled::On
        && let Some(lacks) = store.schedule_lacks(ScheduleUse::Published).await?
    {
        telemetry::notices_unusable(&lacks);
    }
    let (management, missing) = match broker(&address, &management, &topology, declaring).await {
        Ok(lists) => (lists.then_some(management), None),
        // It is waited for: orders are closed from the table meanwhile.
        Err(failure) if failure.code == exit::UNAVAILABLE && address.is_known().await => {
            (Some(management), Some(failure))
        }
        Err(failure) => return Err(failure),
    };
    let worker =
        Worker::new(address, management, store, topology, effects, settings.worker.clone());
    let worker = worker
        .with_events(settings.events.clone())
        .with_schedule(settings.schedule)
        .with_spans(spans);
    Ok((worker, missing))
}

/// Declares, or looks, again and again until the broker has answered. Its queues are consumed as soon as they are there.
pub(super) async fn declare_later(
    worker: Arc<Worker>,
    declaring: Declaring,
    mut failure: Failure,
    stop: Stop,
) {
    let mut backoff = Backoff::new(&worker.timing);
    telemetry::broker_awaited(&failure.text);
    while stop.pause(backoff.pause()).await {
        let Some(management) = &worker.management else { return };
        match broker(&worker.address, management, &worker.topology, declaring).await {
            Ok(_) => {
                worker.health.works(Work::Topology, "");
                return;
            }
            Err(other) if other.text == failure.text => {}
            Err(other) => {
                telemetry::broker_awaited(&other.text);
                failure = other;
            }
        }
        worker.health.failed(Work::Topology, "", &failure.text);
    }
}

/// Declares what is missing, or looks whether what a worker needs is there. Whether the management API lists queues.
async fn broker(
    address: &BrokerAddress,
    management: &Management,
    topology: &Topology,
    declaring: Declaring,
) -> Result<bool, Failure> {
    if declaring == Declaring::Missing {
        // Later a refused login is an outage; now somebody is there to correct it.
        Link::open(address, "overdue run: logging in").await?.close().await;
        declare(management, topology).await?;
        return Ok(true);
    }
    look(address, topology).await?;
    // Without the tag it looks for the generations of its queues one by one. Any other failure may be over soon.
    let listed = management.queue_names(&topology.name).await;
    if let Err(error @ ManagementError::NotPermitted { .. }) = &listed {
        telemetry::management_given_up(&error_chain(error));
        return Ok(false);
    }
    Ok(true)
}

/// A wrong effect concerns its own timeouts; if none is right there is nothing to do.
async fn check_effects(store: &Store, effects: &BTreeMap<String, Effect>) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for effect in effects.values() {
        if let Err(error) = store.check_effect(effect).await {
            wrong.push((&effect.name, error));
        } else if let Err(error) = store.admit(effect).await {
            if error.kind() != FailureKind::Configuration {
                return Err(error.into());
            }
            // It begins when a person accepts its terms, without a restart.
            telemetry::effect_unusable(&effect.name, &error_chain(&error));
        }
    }
    let refused = wrong.len() == effects.len();
    // What may be over when it starts again goes first: a unit does not restart after what a person has to correct.
    wrong.sort_by_key(|(_, error)| is_lasting(error));
    for (effect, error) in wrong {
        if refused || !error.is_of_statement() {
            // It looks like a row's fault, or like an outage, and is of no row here.
            let code = (is_lasting(&error) && error.kind() != FailureKind::Configuration)
                .then_some(exit::CONFIGURATION);
            let failure = Failure::from(error);
            return Err(Failure { code: code.unwrap_or(failure.code), ..failure });
        }
        telemetry::effect_unusable(effect, &error_chain(&error));
    }
    Ok(())
}

/// Whether the next start would end in the same way.
fn is_lasting(error: &StoreError) -> bool {
    error.is_of_statement()
        && !matches!(error.kind(), FailureKind::Contention | FailureKind::Overloaded)
}

/// Adds what is missing. Most of the time nothing is, and nobody has to wait for the lock.
async fn declare(management: &Management, topology: &Topology) -> Result<(), Failure> {
    let change = TopologyChange::new(management, topology);
    let (plan, _) = change.plan().await?;
    let steps = additions(topology, plan)?.steps;
    if steps.is_empty() {
        return Ok(());
    }
    let on_event = |event: ChangeEvent<'_>| {
        if matches!(event, ChangeEvent::WaitsForLock) {
            telemetry::waiting_for_lock();
        }
    };
    match change.make(|plan| additions(topology, plan), on_event).await {
        // It works without.
        Err(failure) if steps.iter().all(wants_again) => {
            telemetry::mark_stays(&failure.text);
            Ok(())
        }
        made => made.map(drop),
    }
}

/// Whether it takes away the mark of a queue that was leaving, so that another removal begins from the start.
fn wants_again(step: &Step) -> bool {
    step.reason == Reason::WantedAgain
}

/// Whether the exchanges are there that a worker writes to. A worker without a queue is not ready, and `/readyz` says what to do.
async fn look(address: &BrokerAddress, topology: &Topology) -> Result<(), Failure> {
    let link = Link::open(address, "overdue run --no-declare").await?;
    for Need { right, object, .. } in broker_rights::worker(topology).needs {
        let (Object::Named(exchange), Right::Write) = (object, right) else { continue };
        if !passive::exchange_exists(&link, &exchange).await? {
            return Err(Failure::configuration(format!(
                "there is no exchange {exchange} at {address}, and --no-declare declares nothing: run `overdue apply` as a \
                 user that may (`overdue permissions` prints the rights)"
            )));
        }
    }
    link.close().await;
    Ok(())
}

/// What a worker may do to the broker by itself: add. Deleting a queue that has drained is left to a person.
fn additions(topology: &Topology, mut plan: Plan) -> Result<Plan, Failure> {
    let in_use: Vec<String> = plan.leave_successors(topology).into_iter().collect();
    if !in_use.is_empty() {
        telemetry::other_queues(&in_use);
    }
    if let Some([missing, others]) = plan.leave_other_levels(topology) {
        telemetry::other_levels(&missing, &others);
    }
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
    plan.steps.retain(|step| step.adds() || wants_again(step));
    // Marks alone are no reason to need rights that a worker did not need before: `overdue apply` sets them.
    if plan.steps.iter().all(|step| step.marks(topology) || wants_again(step)) {
        plan.steps.retain(wants_again);
    }
    Ok(plan)
}
