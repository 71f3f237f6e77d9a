//! The work of each role with its rights, as the program does it; the first refusal ends it.

use std::{collections::BTreeSet, time::Duration};

use lapin::types::FieldTable;
use overdue::internals::{
    broker::{
        Link, Management, PublishError, Publisher, TopologyLock, consume::Subscription, passive,
        probe,
    },
    objects::mark,
    plan::{Change, Clock, Plan, Snapshot, diff, name_of, removal},
    topology::{Topology, file::QueueType},
    verify::{Canaries, Canary, Fate},
    wire::Message,
};

use crate::support::{
    World,
    wait::{PATIENCE, awaited},
};

/// Canaries are published to levels with at most this delay.
const TRIED: Duration = Duration::from_secs(10); // data: of the topologies
/// Canaries with at most this delay are awaited.
const AWAITED: Duration = Duration::from_secs(1);

/// A ladder changes place by place.
const MOST_PLANS: u64 = 6;

/// The broker's refusal as the error of a role.
pub(crate) type Done = Result<(), String>;

fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Whether the broker refused because of missing rights, and for no other reason.
pub(crate) fn is_refusal(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    ["access_refused", "may not", "not_authori"].iter().any(|sign| error.contains(sign))
}

fn message(exchange: &str, routing_key: &str) -> Message {
    Message {
        exchange: exchange.to_owned(),
        routing_key: routing_key.to_owned(),
        message_id: "1".to_owned(),
        content_type: None,
        headers: FieldTable::default(),
        body: b"4711".to_vec(),
        ..Message::default()
    }
}

/// Publishes a message with a confirm; no queue needs to take it.
pub(crate) async fn publish(world: &World, user: Option<&str>, exchange: &str, key: &str) -> Done {
    let publisher = Publisher::connect(&world.address_of(user), "test").await.map_err(text)?;
    match publisher.publish(message(exchange, key)).await {
        Ok(()) | Err(PublishError::Returned { .. }) => Ok(()),
        Err(error) => Err(text(error)),
    }
}

/// Consumes one message and acks it.
pub(crate) async fn consume(world: &World, user: &str, queue: &str) -> Done {
    let link = Link::open(&world.address_of(Some(user)), "test").await.map_err(text)?;
    let mut subscription = Subscription::open(&link, queue, 1).await.map_err(text)?;
    let next = subscription.next();
    let delivery = awaited(&format!("a message from {queue}"), next).await.map_err(text)?;
    subscription.ack(delivery.tag).await.map_err(text)?;
    subscription.give_back_all().await.map_err(text)
}

/// An order service: every timeout through every level, and through everything else that delays.
pub(crate) async fn publisher(world: &World, user: &str, topology: &Topology) -> Done {
    for (exchange, key) in topology.publications() {
        publish(world, Some(user), &exchange, &key).await?;
    }
    Ok(())
}

/// The first generation of each queue that a worker consumes from.
fn consumed(topology: &Topology) -> Vec<String> {
    let business = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
    business.chain(topology.compat.iter().map(|_| topology.compat_queue())).collect()
}

/// Creates a second generation of each queue that a worker consumes from, as a retirement does.
pub(crate) async fn prepare_for_worker(world: &World, topology: &Topology) {
    let objects = topology.objects();
    for first in consumed(topology) {
        let mut queue = objects.queues[&first].clone();
        queue.name = name_of(&first, 2);
        let create = Change::CreateQueue(queue);
        world.management().apply(&create).await.unwrap();
    }
}

/// A worker that declares nothing.
pub(crate) async fn worker(world: &World, user: &str, topology: &Topology) -> Done {
    let (park, events) = (topology.park_exchange(), topology.events_exchange());
    let link = Link::open(&world.address_of(Some(user)), "test").await.map_err(text)?;
    for exchange in [topology.put_back_to(), park.clone(), events.clone()] {
        assert!(passive::exchange_exists(&link, &exchange).await.map_err(text)?);
    }
    world.management_of(user).queue_stats().await.map_err(text)?;
    for base in consumed(topology) {
        for number in 1..=9 {
            let queue = name_of(&base, number);
            let exists = passive::queue_exists(&link, &queue).await.map_err(text)?;
            assert_eq!(exists, number <= 2, "{queue}");
        }
        for number in 1..=2 {
            let queue = name_of(&base, number);
            publish(world, None, "", &queue).await.unwrap();
            consume(world, user, &queue).await?;
        }
    }
    for timeout in &topology.timeouts {
        let route = topology.again(topology.wait(timeout, TRIED).map_err(text)?);
        publish(world, Some(user), &route.exchange, &route.routing_key).await?;
    }
    if topology.compat.is_some() {
        publish(world, Some(user), &topology.compat_due_exchange(), "welcome").await?;
        publish(world, Some(user), &topology.compat_rest_exchange(), "compat").await?;
    }
    publish(world, Some(user), &park, "30m.unpaid").await?;
    publish(world, Some(user), &events, "order.closed").await
}

/// The topology administrator on an empty virtual host: everything is created, then replaced and deleted.
pub(crate) async fn administrator(world: &World, user: &str, topology: &Topology) -> Done {
    let management = world.management_of(user);
    bring(&management, topology, &BTreeSet::new()).await?;
    let mut other = topology.clone();
    other.queue_type = match topology.queue_type {
        QueueType::Quorum => QueueType::Classic,
        QueueType::Classic => QueueType::Quorum,
    };
    bring(&management, &other, &BTreeSet::new()).await?;
    let lock = TopologyLock::acquire(&world.address_of(Some(user)), &other, || {}).await;
    lock.map_err(text)?.release().await;
    probe(world, user, topology).await?;
    let removed = removal(&other, &observed(&management).await?, false);
    carry_out(&management, &other, &removed).await?;
    assert!(
        observed(&management).await?.objects.queues.is_empty(),
        "left behind after:\n{removed}"
    );
    Ok(())
}

/// Plans and applies until no step is left: an object is deleted by a later plan than the objects that route to it.
pub(crate) async fn bring(
    management: &Management,
    topology: &Topology,
    discard: &BTreeSet<String>,
) -> Done {
    let mut plan = diff(topology, &observed(management).await?, discard);
    assert!(!plan.is_empty());
    for day in 0..MOST_PLANS {
        carry_out(management, topology, &plan).await?;
        let mut observed = observed(management).await?;
        // The queue of a removed timeout stays bound for hours, so each plan is made days after the marks before it.
        observed.clock = Some(Clock { now_s: 4_000_000_000 + 86_400 * day, stays_s: 0 });
        plan = diff(topology, &observed, discard);
        if plan.is_empty() && plan.draining.is_empty() && plan.retired_exchanges.is_empty() {
            return Ok(());
        }
    }
    panic!("left to do:\n{plan}")
}

async fn carry_out(management: &Management, topology: &Topology, plan: &Plan) -> Done {
    for step in &plan.steps {
        management.apply(&step.change).await.map_err(text)?;
        // Any client that carries out a plan does the same.
        let mark = match &step.change {
            Change::CreateQueue(queue) => mark(&topology.name, &queue.name),
            Change::CreateExchange(exchange) => topology.exchange_mark(&exchange.name),
            _ => None,
        };
        if let Some(mark) = mark {
            management.apply(&Change::Bind(mark)).await.map_err(text)?;
        }
    }
    Ok(())
}

/// The broker's counts are seconds old, and missing for new queues. This test is about rights, so all counts are set to 0.
async fn observed(management: &Management) -> Result<Snapshot, String> {
    let mut observed = management.observe().await.map_err(text)?;
    for queue in observed.objects.queues.keys() {
        observed.messages.insert(queue.clone(), 0);
    }
    // A user who may not list the nodes does not know the plugin's messages.
    let exchanges = observed.objects.exchanges.values();
    let holding = exchanges.filter(|exchange| exchange.kind == "x-delayed-message");
    let held: Vec<String> = holding.map(|exchange| exchange.name.clone()).collect();
    observed.delayed = held.into_iter().map(|name| (name, 0)).collect();
    Ok(observed)
}

/// Sends canaries through everything that delays, to a queue that is deleted with the connection.
pub(crate) async fn probe(world: &World, user: &str, topology: &Topology) -> Done {
    let canaries = Canaries::new(topology, "canary1f", TRIED).ok_or("nothing lets go")?;
    let observed = Snapshot::of(topology);
    let mut canaries = canaries.with_taken_over(topology, &observed, "canary1f", TRIED);
    // The probe itself would wait to its end for a refused canary.
    for Canary { route, .. } in &canaries.list {
        publish(world, Some(user), &route.exchange, &route.routing_key).await?;
    }
    canaries.list.retain(|canary| canary.route.holds <= AWAITED);
    let fates = probe::send(&world.address_of(Some(user)), &canaries, PATIENCE).await;
    let failed = fates.map_err(text)?.into_iter().filter_map(|(canary, fate)| match fate {
        Fate::Arrived { .. } => None,
        Fate::Refused { reason } => Some(format!("{canary}: {reason}")),
        Fate::Lost => Some(format!("{canary} did not come")),
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
}
