//! Checks and declares what a worker needs before it starts.

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

/// A worker's task on the broker before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Declaring {
    /// Adds missing objects.
    Missing,
    /// Checks that the objects it needs exist.
    Nothing,
}

/// Makes a worker after database, topology and SQL have answered once. The failure is the reason why nothing is declared yet, if
/// the broker has not answered.
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
    // Check this first: otherwise the built-in effects report tables of an older version as foreign tables.
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
        // Wait for the broker later: meanwhile the worker closes orders from the table.
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

/// Declares or checks the topology, repeatedly until the broker has answered. The worker consumes queues as soon as they exist.
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

/// Declares missing objects, or checks that the needed ones exist. Returns whether the management API lists queues.
async fn broker(
    address: &BrokerAddress,
    management: &Management,
    topology: &Topology,
    declaring: Declaring,
) -> Result<bool, Failure> {
    if declaring == Declaring::Missing {
        // At the start a person can correct a refused login; later it counts as an outage.
        Link::open(address, "overdue run: logging in").await?.close().await;
        declare(management, topology).await?;
        look(address, topology).await?;
        return Ok(true);
    }
    look(address, topology).await?;
    // A user without the tag gets no list: the worker then looks for the generations of its queues one by one. Other failures may
    // be short.
    let listed = management.queue_names(&topology.name).await;
    if let Err(error @ ManagementError::NotPermitted { .. }) = &listed {
        telemetry::management_given_up(&error_chain(error));
        return Ok(false);
    }
    Ok(true)
}

/// A wrong effect stops only its own timeouts. Fails if every effect is wrong.
async fn check_effects(store: &Store, effects: &BTreeMap<String, Effect>) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for effect in effects.values() {
        if let Err(error) = store.check_effect(effect).await {
            wrong.push((&effect.name, error));
        } else if let Err(error) = store.admit(effect).await {
            if error.kind() != FailureKind::Configuration {
                return Err(error.into());
            }
            // Work begins without a restart when a person accepts the terms of the effect.
            telemetry::effect_unusable(&effect.name, &error_chain(&error));
        }
    }
    let refused = wrong.len() == effects.len();
    // Report transient errors first: a systemd unit restarts after those, but not after an error that a person must correct.
    wrong.sort_by_key(|(_, error)| is_lasting(error));
    for (effect, error) in wrong {
        if refused || !error.is_of_statement() {
            // The error looks like the fault of a row or like an outage, but here no row is involved.
            let code = (is_lasting(&error) && error.kind() != FailureKind::Configuration)
                .then_some(exit::CONFIGURATION);
            let failure = Failure::from(error);
            return Err(Failure { code: code.unwrap_or(failure.code), ..failure });
        }
        telemetry::effect_unusable(effect, &error_chain(&error));
    }
    Ok(())
}

/// Whether the next start would fail in the same way.
fn is_lasting(error: &StoreError) -> bool {
    error.is_of_statement()
        && !matches!(error.kind(), FailureKind::Contention | FailureKind::Overloaded)
}

/// Adds missing objects. Takes the lock only if some are missing, which is rare.
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
        // A worker can work without these steps.
        Err(failure) if steps.iter().all(wants_again) => {
            telemetry::mark_stays(&failure.text);
            Ok(())
        }
        made => made.map(drop),
    }
}

/// Whether the step removes the mark of a retired queue that is wanted again, so that a later removal begins from the start.
fn wants_again(step: &Step) -> bool {
    step.reason == Reason::WantedAgain
}

/// Checks that the exchanges exist that a worker writes to. A worker without a queue is not ready, and `/readyz` shows what to
/// do.
async fn look(address: &BrokerAddress, topology: &Topology) -> Result<(), Failure> {
    let link = Link::open(address, "overdue run: looking").await?;
    for Need { right, object, .. } in broker_rights::worker(topology).needs {
        let (Object::Named(exchange), Right::Write) = (object, right) else { continue };
        if !passive::exchange_exists(&link, &exchange).await? {
            return Err(Failure::configuration(format!(
                "there is no exchange {exchange} at {address}, and this worker declares nothing: run `overdue apply` as a \
                 user that may (`overdue permissions` prints the rights)"
            )));
        }
    }
    link.close().await;
    Ok(())
}

/// Keeps the steps that a worker may do without a person: additions, unless the broker has other queues in use than the file, which
/// may be an older one. Deleting a drained queue is left to a person.
fn additions(topology: &Topology, mut plan: Plan) -> Result<Plan, Failure> {
    if plan.refusals.iter().any(|it| matches!(it, Refusal::Exchange { .. })) {
        return Err(Failure::configuration(format!(
            "the broker has exchanges with other properties than the file, and a worker only adds. Nothing was changed; look at \
             `overdue plan`\n{plan}"
        )));
    }
    let in_use = plan.takes_out_of_use();
    let is_other = !in_use.is_empty();
    if is_other {
        telemetry::other_queues(&in_use);
    }
    // Objects to delete do not disturb the worker; `overdue apply` deletes them later.
    plan.refusals.clear();
    plan.steps.retain(|step| !is_other && (step.adds() || wants_again(step)));
    // Marks alone must not require rights that a worker did not need before: `overdue apply` sets them.
    if plan.steps.iter().all(|step| step.marks(topology) || wants_again(step)) {
        plan.steps.retain(wants_again);
    }
    Ok(plan)
}
