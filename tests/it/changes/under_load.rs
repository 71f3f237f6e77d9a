//! A change that is made while messages wait and more are published, as by `overdue apply --wait`.

use std::{
    cell::Cell,
    collections::BTreeSet,
    convert::Infallible,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use overdue::internals::{
    broker::{
        ChangeError, ChangeEvent, Link, Management, Publisher, TopologyChange,
        consume::{ConsumeError, Subscription},
        passive,
    },
    plan::{Change, Plan, Step, number_of},
    topology::Topology,
    wire::Message,
};
use tokio::{sync::watch, task::JoinSet, time::MissedTickBehavior};

use super::{
    message_log::{Counts, MessageLog},
    scenario::{MessageRoute, Scenario},
};
use crate::support::{World, until};

/// Unconfirmed messages at once, and of a queue unacked ones.
const AT_ONCE: u16 = 500;
/// Messages that are published to what the change removes, and then to what it adds.
const AFTERWARDS: usize = 20;
/// Between two looks for new generations of queues, and two handfuls of messages.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(20);

/// How far a change is, as the publisher of notices knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is being made.
    Changing,
    /// The queue of a removed timeout stays bound for what waits in the levels.
    Leaving,
    /// Nothing new comes into what is retired; that is draining.
    Changed,
    /// What was retired is gone.
    Gone,
}

/// A change, with the account of its messages.
pub struct UnderLoad {
    pub scenario: Scenario,
    log: MessageLog,
}

/// What a change did to the messages, and how long it took.
pub struct Measured {
    pub counts: Counts,
    steps: usize,
    /// Until nothing new came into what was retired, until the plan was carried out, until what was retired was gone.
    took: [Duration; 3],
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, steps, took: [switched, applied, gone], .. } = self;
        write!(
            f,
            "{steps} steps; switched {switched:.2?}, applied {applied:.2?}, old gone {gone:.2?}; {counts:?}"
        )
    }
}

impl UnderLoad {
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, log: MessageLog::open() }
    }

    /// Makes the change while `messages` wait. The topology stays.
    pub async fn run(&self, world: &World, messages: usize) -> Measured {
        let management = world.management();
        self.declare(&management).await;
        let publisher = world.publisher().await;
        let routes = self.scenario.old.iter().cycle().take(messages);
        self.publish(&publisher, stream::iter(routes)).await;
        let (phases, phase) = watch::channel(Phase::Changing);
        let meanwhile = self.publish_meanwhile(&publisher, phase);
        let ((steps, took), ()) = tokio::join!(self.change(&management, phases), meanwhile);
        self.until_all_is_out(&management).await;
        Measured { counts: self.log.counts(), steps, took }
    }

    /// Declares what the change begins with, and waits until the broker has counted every queue once, as it has in a
    /// topology that is in use.
    async fn declare(&self, management: &Management) {
        let before = &self.scenario.before;
        TopologyChange::new(management, before).apply().await.unwrap();
        let uncounted = async || {
            let mut stats = management.queue_stats().await.unwrap();
            let mut queues: Vec<String> = before.objects().queues.into_keys().collect();
            queues.retain(|queue| stats.remove(queue).is_none_or(|it| it.messages.is_none()));
            queues
        };
        until("every queue counted", uncounted, Vec::is_empty).await;
    }

    /// Carries out what is planned to get to `topology`.
    async fn carry_out(
        management: &Management,
        topology: &Topology,
        on_plan: impl FnOnce(&Plan),
        mut on_step: impl FnMut(&Step),
    ) -> Result<Plan, ChangeError> {
        let decide = |plan: Plan| {
            on_plan(&plan);
            Ok(plan)
        };
        let on_event = |event: ChangeEvent<'_>| {
            if let ChangeEvent::Step(step, _) = event {
                on_step(step);
            }
        };
        TopologyChange::new(management, topology).make(decide, on_event).await
    }

    /// Makes the change, and waits until what it retired is gone; how many steps that took, and how long.
    async fn change(
        &self,
        management: &Management,
        phases: watch::Sender<Phase>,
    ) -> (usize, [Duration; 3]) {
        self.log.change_begins();
        let (began, after) = (Instant::now(), &self.scenario.after);
        let is_unbind = |step: &Step| matches!(step.change, Change::Unbind(_));
        let (unbinds, leaves) = (Cell::new(0), Cell::new(false));
        let planned = |plan: &Plan| {
            unbinds.set(plan.steps.iter().filter(|step| is_unbind(step)).count());
            leaves.set(plan.steps.iter().any(|step| matches!(step.change, Change::Leave(_))));
        };
        let mut switched = None;
        let done = |step: &Step| {
            unbinds.set(unbinds.get() - usize::from(is_unbind(step)));
            if unbinds.get() == 0 && !leaves.get() && switched.is_none() {
                switched = Some(began.elapsed());
                phases.send_replace(Phase::Changed);
            }
        };
        let plan = Self::carry_out(management, after, planned, done).await.unwrap();
        let applied = began.elapsed();
        phases.send_replace(if leaves.get() { Phase::Leaving } else { Phase::Changed });
        let draining = async || {
            let (plan, _) = TopologyChange::new(management, after).plan().await.unwrap();
            assert_eq!(plan.refusals, [], "{plan}");
            if plan.is_at_rest() && plan.draining.is_empty() {
                return None;
            }
            if !plan.steps.is_empty() {
                let unbound = |step: &Step| {
                    if is_unbind(step) {
                        phases.send_replace(Phase::Changed);
                    }
                };
                Self::carry_out(management, after, |_| {}, unbound).await.unwrap();
            }
            Some(plan.to_string())
        };
        until("what was retired gone", draining, Option::is_none).await;
        phases.send_replace(Phase::Gone);
        (plan.steps.len(), [switched.unwrap_or(applied), applied, began.elapsed()])
    }

    /// Waits until nothing is in any queue, and nothing has come for so long that the counts must have seen it.
    async fn until_all_is_out(&self, management: &Management) {
        let prefix = format!("{}.", self.scenario.after.name);
        let settle = management.statistics_interval().counts_settle();
        let holding = async || {
            let stats = management.queue_stats().await.unwrap().into_values();
            let holding = stats.filter(|it| it.name.starts_with(&prefix) && it.messages != Some(0));
            holding.map(|it| (it.name, it.messages)).collect::<Vec<_>>()
        };
        let is_out = |holding: &Vec<_>| holding.is_empty() && self.log.quiet() >= settle;
        until("every message out", holding, is_out).await;
    }

    /// Publishes a message on each of these routes, and waits for every confirm.
    async fn publish<'a>(
        &self,
        publisher: &Publisher,
        routes: impl futures_util::Stream<Item = &'a MessageRoute>,
    ) {
        let publish = async |route: &MessageRoute| {
            let tag = self.log.sent(route);
            let exchange = self.scenario.before.entry_exchange();
            let (key, body) = (route.key.clone(), serde_json::json!(tag));
            let message = Message::json(exchange, key, tag.number.to_string(), &body);
            publisher.publish(message).await?;
            self.log.confirmed(tag);
            Ok::<_, overdue::PublishError>(())
        };
        let publishing = routes.map(publish).buffer_unordered(AT_ONCE.into());
        publishing.try_collect::<()>().await.unwrap();
    }

    /// An order service that learns of the change later: it publishes as before, slowly while the queue of a removed
    /// timeout leaves, a while longer as before, then as it is now.
    async fn publish_meanwhile(&self, publisher: &Publisher, phase: watch::Receiver<Phase>) {
        let Scenario { waiting, old, new, .. } = &self.scenario;
        let mut left = [(old, AFTERWARDS), (new, AFTERWARDS)];
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = *phase.borrow();
            let routes: Vec<&MessageRoute> = if now == Phase::Changing {
                vec![waiting; 4]
            } else if now == Phase::Leaving {
                vec![waiting]
            } else if let Some((routes, left)) = left.iter_mut().find(|(_, left)| *left > 0) {
                *left -= 4;
                routes.iter().cycle().take(4).collect()
            } else if now == Phase::Changed {
                vec![&new[0]]
            } else {
                return;
            };
            self.publish(publisher, stream::iter(routes)).await;
        }
    }

    /// Whether this change receives from the queue, and whether that is a parking lot.
    fn receives_from(&self, queue: &str) -> Option<bool> {
        let is = |base: &String| number_of(base, queue).is_some();
        if self.scenario.business_queues().any(|base| is(&base)) {
            return Some(false);
        }
        is(&self.scenario.after.parked_queue()).then_some(true)
    }
}

/// Receives from every generation of the business queues and parking lots of all these changes, as they are created.
pub async fn consume(management: &Management, changes: &[Arc<UnderLoad>]) -> Infallible {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut consumed = BTreeSet::new();
    let mut consumers = JoinSet::new();
    loop {
        tokio::select! {
            _ = look.tick() => {
                for queue in management.queue_stats().await.unwrap().into_keys() {
                    let is_new = !consumed.contains(&queue);
                    let found = changes.iter().filter(|_| is_new).find_map(|change| {
                        Some((Arc::clone(change), change.receives_from(&queue)?))
                    });
                    let Some((change, parked)) = found else { continue };
                    if let Some(subscribed) = subscribe(management, &queue).await {
                        consumed.insert(queue.clone());
                        consumers.spawn(receive(queue, subscribed, change, parked));
                    }
                }
            }
            Some(ended) = consumers.join_next() => match ended.unwrap() {
                // Deleted by the change.
                (queue, ConsumeError::Cancelled { .. }) => drop(consumed.remove(&queue)),
                (queue, error) => panic!("{queue}: {error}"),
            }
        }
    }
}

/// On a connection of its own: where a quorum queue is deleted in the middle of `basic.consume` or of a passive declare the broker
/// closes the connection. `None` then, and where the queue was deleted before: another look shows it.
async fn subscribe(management: &Management, queue: &str) -> Option<(Link, Subscription)> {
    let link = Link::open(management.address(), "test: consuming").await.unwrap();
    match Subscription::open(&link, queue, AT_ONCE).await {
        Ok(subscription) => Some((link, subscription)),
        Err(_) if !link.is_connected() => None,
        Err(_) if !passive::queue_exists(&link, queue).await.unwrap_or_default() => None,
        Err(error) => panic!("{queue}: {error}"),
    }
}

async fn receive(
    queue: String,
    (_link, mut subscription): (Link, Subscription),
    change: Arc<UnderLoad>,
    parked: bool,
) -> (String, ConsumeError) {
    loop {
        let received = match subscription.next().await {
            Ok(received) => received,
            Err(error) => return (queue, error),
        };
        change.log.received(&received.body, parked);
        if let Err(error) = subscription.ack(received.tag).await {
            return (queue, error);
        }
    }
}
