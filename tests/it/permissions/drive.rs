//! What each role does with its rights, as the program does it; the first refusal ends it.

use std::{collections::BTreeSet, time::Duration};

use futures_util::StreamExt;
use lapin::{
    options::{BasicConsumeOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use overdue::internals::{
    broker::{
        Link, Management, PublishError, Publisher, TopologyLock, consume::Subscription, passive,
    },
    objects::mark,
    plan::{Change, diff::diff, generation::name_of, snapshot::Snapshot},
    topology::{Topology, file::QueueType},
    wire::Message,
};
use reqwest::Method;
use serde_json::json;

use crate::support::World;

/// Everything that is done in these tests takes a fraction of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a role fails: what the broker said.
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

/// Publishes one message with a confirm; nobody has to be there to take it.
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
    let delivery = tokio::time::timeout(PATIENCE, subscription.next()).await;
    let delivery = delivery.map_err(|_| format!("nothing came from {queue}"))?.map_err(text)?;
    subscription.ack_through(delivery.tag).await.map_err(text)?;
    subscription.give_back_all().await.map_err(text)
}

/// An order service: every timeout through every level.
pub(crate) async fn publisher(world: &World, user: &str, topology: &Topology) -> Done {
    for timeout in &topology.timeouts {
        for level in &topology.levels {
            let key = Topology::routing_key(level, timeout);
            publish(world, Some(user), &topology.entry_exchange(), &key).await?;
        }
    }
    Ok(())
}

/// A second generation of each business queue, as a retirement leaves them.
pub(crate) async fn prepare_for_worker(world: &World, topology: &Topology) {
    let objects = topology.objects();
    for timeout in &topology.timeouts {
        let first = topology.business_queue(timeout);
        let mut queue = objects.queues[&first].clone();
        queue.name = name_of(&first, 2);
        let create = Change::CreateQueue(queue);
        world.management().apply(&create).await.unwrap();
    }
}

/// A worker that declares nothing.
pub(crate) async fn worker(world: &World, user: &str, topology: &Topology) -> Done {
    let (entry, park, events) =
        (topology.entry_exchange(), topology.park_exchange(), topology.events_exchange());
    let link = Link::open(&world.address_of(Some(user)), "test").await.map_err(text)?;
    for exchange in [&entry, &park, &events] {
        assert!(passive::exchange_exists(&link, exchange).await.map_err(text)?);
    }
    world.management_of(user).queue_stats().await.map_err(text)?;
    for timeout in &topology.timeouts {
        let base = topology.business_queue(timeout);
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
        for level in &topology.levels {
            publish(world, Some(user), &entry, &Topology::routing_key(level, timeout)).await?;
        }
    }
    publish(world, Some(user), &park, "30m.unpaid").await?;
    publish(world, Some(user), &events, "order.closed").await
}

/// The topology administrator, on an empty virtual host: everything is created, then replaced and deleted.
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
    unblock(world, user, topology).await?;
    probe(world, user, topology).await
}

/// Plans and applies, until nothing is left to do.
pub(crate) async fn bring(
    management: &Management,
    topology: &Topology,
    discard: &BTreeSet<String>,
) -> Done {
    let plan = diff(topology, &observed(management).await?, discard);
    assert!(!plan.is_empty());
    for step in &plan.steps {
        management.apply(&step.change).await.map_err(text)?;
        let Change::CreateQueue(queue) = &step.change else { continue };
        // As whoever carries out a plan does.
        let mark = mark(&topology.name, &queue.name).expect("a queue of this topology");
        management.apply(&Change::Bind(mark)).await.map_err(text)?;
    }
    let left = diff(topology, &observed(management).await?, discard);
    assert!(left.is_empty() && left.draining.is_empty(), "left to do:\n{left}");
    Ok(())
}

/// The broker's counts of new queues are not there for five seconds; this is about rights, and nothing waits.
async fn observed(management: &Management) -> Result<Snapshot, String> {
    let mut observed = management.observe().await.map_err(text)?;
    for queue in observed.objects.queues.keys() {
        observed.messages.entry(queue.clone()).or_insert(0);
    }
    Ok(observed)
}

/// Any policy on a queue makes the broker dead-letter at once what was stuck.
async fn unblock(world: &World, user: &str, topology: &Topology) -> Done {
    let name = format!("{}.unblock", topology.name);
    let path = ["policies", &world.vhost, &name];
    let policy =
        json!({ "pattern": "^a\\.b\\.delay\\.1s$", "definition": { "max-length": 1_000_000 } });
    world.services.call(Some(user), Method::PUT, &path, policy).await?;
    world.services.call(Some(user), Method::DELETE, &path, serde_json::Value::Null).await.map(drop)
}

/// A canary through the first level, to a queue that goes with the connection.
async fn probe(world: &World, user: &str, topology: &Topology) -> Done {
    let link = Link::open(&world.address_of(Some(user)), "test").await.map_err(text)?;
    let channel = link.channel().await.map_err(text)?;
    let queue = format!("{}.probe.1f", topology.name);
    let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let none = FieldTable::default;
    channel.queue_declare(queue.as_str().into(), exclusive, none()).await.map_err(text)?;
    let (due, options) = (topology.due_exchange(), QueueBindOptions::default());
    let bound =
        channel.queue_bind(queue.as_str().into(), due.into(), "#.1f".into(), options, none());
    bound.await.map_err(text)?;
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.as_str().into(), "".into(), options, none()).await;
    let mut consumer = consumer.map_err(text)?;
    let key = format!("{}.1f", topology.levels[0]);
    publish(world, Some(user), &topology.entry_exchange(), &key).await?;
    let canary = tokio::time::timeout(PATIENCE, consumer.next()).await;
    canary.map_err(|_| "no canary came")?.ok_or("cancelled")?.map(drop).map_err(text)
}
