//! Reads the final state of the database and the broker.

use std::collections::{BTreeMap, BTreeSet};

use lapin::types::AMQPValue;
use overdue::internals::store::Store;
use reqwest::Method;
use serde_json::Value;
use tokio_postgres::Row;

use super::{
    judge::{Evidence, Parked},
    service::Service,
    site::Site,
};
use crate::support::{World, messages, orders::broken};

/// The queue of a subscriber that collects the events.
pub const SUBSCRIBER: &str = "subscriber";

/// All evidence except the ends of the workers.
pub async fn gather(site: &Site, service: &Service) -> Evidence {
    // A query about a million orders takes longer than the storm's statement time-out.
    let (world, store) = (&site.world, site.world.patient_store());
    let client = store.client().await.unwrap();
    let answers = service.answers();
    let answers: Vec<(&str, &str)> = answers.iter().map(|(id, it)| (id.as_str(), *it)).collect();
    let closed = rows(&store, "SELECT id FROM orders WHERE status = 'closed'").await;
    Evidence {
        broken: broken(&client, "", (true, &answers)).await,
        closed: closed.iter().map(|row| row.get(0)).collect(),
        events: take_events(world).await,
        trash: service.trash(),
        parked: take_parked(world).await,
        left: left(site).await,
        ..Evidence::default()
    }
}

/// The counts of orders that the report prints.
pub async fn counts(store: &Store) -> Vec<(&'static str, String)> {
    const SQL: &str = include_str!("../../../sql/service_outcome.sql");
    // Both times are by the clock that leaps; commit timestamps are not. Some orders have no message, and wait for the sweep.
    const LATE: &str = "
        SELECT (extract(epoch FROM percentile_disc($1::float8) WITHIN GROUP (ORDER BY closed_at - due_at)) * 1000)::bigint
        FROM closures WHERE path = 'message'";
    let sql = &*store.in_own_schema(SQL);
    let row = &store.client().await.unwrap().query_one(sql, &[&""]).await.unwrap();
    let count = |column: &str| row.get::<_, i64>(column).to_string();
    let late = async |part: f64| {
        let row = store.client().await.unwrap().query_one(LATE, &[&part]).await.unwrap();
        let ms: Option<i64> = row.get(0);
        ms.map_or("-".to_owned(), |ms| format!("{ms} ms"))
    };
    vec![
        ("orders", count("orders")),
        ("paid", count("paid")),
        ("closed", count("closed")),
        ("closed by the sweep", count("by_sweep")),
        ("late by message p50", late(0.5).await),
        ("late by message p99", late(0.99).await),
        ("late by message max", late(1.0).await),
    ]
}

/// Counts the remaining work: unpaid orders, events, messages in queues or unacked, and garbage that is
/// not parked yet. `None` if the broker has not counted.
pub async fn unfinished(site: &Site, service: &Service) -> Option<u64> {
    let unpaid = "SELECT count(*) FROM orders WHERE status = 'unpaid'";
    let unpaid: i64 = rows(&site.store, unpaid).await[0].get(0);
    let parked = site.world.wire().await.ready(&site.world.topology.parked_queue()).await;
    let to_park = service.trash().len().saturating_sub(usize::try_from(parked).unwrap());
    let to_park = u64::try_from(to_park).unwrap();
    let events = outbox(&site.store).await;
    Some(unpaid.unsigned_abs() + events + in_work(&site.world).await? + to_park)
}

async fn take_parked(world: &World) -> Vec<Parked> {
    let messages = world.wire().await.take_all(&world.topology.parked_queue()).await;
    messages.iter().map(parked).collect()
}

fn parked(message: &messages::Parked) -> Parked {
    let header = |name: &str| match message.headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        _ => String::new(),
    };
    let begin: String = message.text().chars().take(60).collect();
    let died = [header("x-first-death-reason"), header("x-last-death-reason")];
    let (key, attempt) = (&message.key, message.attempt());
    Parked {
        message_id: message.message_id.clone().unwrap_or_default(),
        reason: header("x-park-reason"),
        about: format!("key {key}, deaths {died:?}, attempt {attempt:?}, `{begin}`"),
    }
}

/// Consumes every event; returns the ids of their orders.
async fn take_events(world: &World) -> BTreeSet<String> {
    let events = world.wire().await.take_all(SUBSCRIBER).await;
    let order = |event: &messages::Parked| {
        let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
        body["order_id"].as_str().unwrap().to_owned()
    };
    events.iter().map(order).collect()
}

/// Counts ready messages in levels and business queues, and rows of the outbox.
async fn left(site: &Site) -> BTreeMap<String, u64> {
    let wire = site.world.wire().await;
    let mut left = BTreeMap::from([("outbox".to_owned(), outbox(&site.store).await)]);
    for queue in queues(&site.world) {
        left.insert(queue.clone(), wire.ready(&queue).await.into());
    }
    left
}

/// Events that wait to be published, or were refused.
async fn outbox(store: &Store) -> u64 {
    const SQL: &str =
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_refused)";
    rows(store, SQL).await[0].get::<_, i64>(0).unsigned_abs()
}

/// Counts messages in levels and business queues, with the unacked ones. The broker's counts are a moment old;
/// `None` if it has not counted.
async fn in_work(world: &World) -> Option<u64> {
    let all = world.try_call(Method::GET, "queues", &[], Value::Null).await.ok()?;
    let of_the_topology = queues(world);
    let is_ours = |queue: &&Value| of_the_topology.iter().any(|name| queue["name"] == **name);
    let counted = all.as_array()?.iter().filter(is_ours);
    Some(counted.map(|queue| queue["messages"].as_u64().unwrap_or_default()).sum())
}

fn queues(world: &World) -> Vec<String> {
    let topology = &world.topology;
    let levels = topology.levels.iter().map(|level| topology.delay_queue(level));
    let business = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
    levels.chain(business).collect()
}

async fn rows(store: &Store, sql: &str) -> Vec<Row> {
    store.client().await.unwrap().query(sql, &[]).await.unwrap()
}
