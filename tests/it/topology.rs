//! Applying a topology: all its objects, no others, and no moment in which a message is lost.

use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicPublishOptions, BasicRejectOptions},
};
use overdue::internals::{
    broker::{ChangeError, ChangeEvent, ManagementError, TopologyChange},
    plan::Plan,
};

use crate::support::{World, until, world::TOPOLOGY};

async fn plan(world: &World) -> Result<Plan, ManagementError> {
    Ok(TopologyChange::new(&world.management(), &world.topology).plan().await?.0)
}

#[apply(world_test)]
async fn an_empty_virtual_host_becomes_exactly_the_topology() {
    let world = World::empty().await;
    let mut done = Vec::new();
    let on_event = |event: ChangeEvent<'_>| match event {
        ChangeEvent::Step(step, _) => done.push(step.clone()),
        ChangeEvent::WaitsForLock => panic!("nobody else is there"),
    };
    let management = world.management();
    let change = TopologyChange::new(&management, &world.topology);
    let plan = change.make::<ChangeError>(Ok, on_event).await.unwrap();
    assert_eq!(done, plan.steps);
    assert_eq!(world.own_objects().await, world.topology.objects());
}

#[apply(world_test)]
async fn a_topology_of_classic_queues_can_be_applied_and_closes_orders() {
    let text = TOPOLOGY.replace("[retry]", "[queues]\ntype = \"classic\"\n\n[retry]");
    let world = World::of(&text).await;
    assert_eq!(world.own_objects().await, world.topology.objects());
    assert!(plan(&world).await.unwrap().is_empty());
    let orders = world.orders("o", 10, 200).await;
    let _worker = world.worker();
    world.publish("200ms", &orders).await;
    world.publish("100ms", &["nobody".to_owned()]).await;
    world.until_closed(10).await;
    assert_eq!(world.parked(1).await[0].text(), r#"{"order_id":"nobody"}"#);
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn every_change_can_be_carried_out_again() {
    let world = World::empty().await;
    let plan = plan(&world).await.unwrap();
    let management = world.management();
    let change = TopologyChange::new(&management, &world.topology);
    for _ in 0..2 {
        change.make::<ChangeError>(|_| Ok(plan.clone()), |_| {}).await.unwrap();
    }
    assert_eq!(world.own_objects().await, world.topology.objects());
}

/// Each step is planned again from the present objects, as after an interruption.
#[apply(world_test)]
async fn a_message_published_between_any_two_steps_arrives_or_is_parked_or_refused() {
    let world = World::empty().await;
    let mut accepted = Vec::new();
    let mut step = 0;
    loop {
        let plan = plan(&world).await.unwrap();
        for exchange in ["orders.in", "orders.dlx"] {
            for key in ["100ms.unpaid", "30m.nonsense"] {
                let body = format!("{step} {exchange} {key}");
                if is_accepted(&world, exchange, key, &body).await {
                    accepted.push(body);
                }
            }
        }
        let Some(next) = plan.steps.into_iter().next() else { break };
        world.management().apply(&next.change).await.unwrap();
        step += 1;
    }
    assert_eq!(world.own_objects().await, world.topology.objects());
    assert!(accepted.len() > 4, "the last steps accept messages");

    // The waiting messages of the level of 30 minutes are found, and those in the other queues.
    let wire = world.wire().await;
    let mut found = Vec::new();
    let look = async || {
        for queue in ["orders.unpaid", "orders.parked", "orders.delay.30m"] {
            while let Some(message) = wire.take(queue).await {
                found.push(message.text());
            }
        }
        found.len()
    };
    until("everything that was accepted", look, |seen| *seen == accepted.len()).await;
    found.sort();
    accepted.sort();
    assert_eq!(found, accepted);
}

/// Whether the broker took a mandatory message; false if it returned the message or the exchange does not exist.
async fn is_accepted(world: &World, exchange: &str, key: &str, body: &str) -> bool {
    let wire = world.wire().await;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let publishing = wire.channel.basic_publish(
        exchange.into(),
        key.into(),
        options,
        body.as_bytes(),
        BasicProperties::default().with_delivery_mode(2),
    );
    match publishing.await.unwrap().await {
        Ok(confirmation) => confirmation.is_ack() && confirmation.take_message().is_none(),
        // 404: no such exchange.
        Err(_) => false,
    }
}

/// Otherwise `apply` would stop in the middle, and leave half a topology.
#[apply(world_test)]
async fn more_queues_than_the_virtual_host_takes_are_not_begun() {
    let world = World::empty().await;
    let path = ["vhost-limits", &*world.vhost, "max-queues"];
    let limit = async |value: i64| {
        let how = reqwest::Method::PUT;
        world.services.call(None, how, &path, serde_json::json!({ "value": value })).await.unwrap()
    };
    let queues = world.topology.objects().queues.len();
    // The lock of `apply` needs one more.
    let few = i64::try_from(queues).unwrap();
    limit(few).await;
    let said = format!("at most {few} queues: it has 0, {queues} are to be created, and");
    world.overdue(&["plan"]).prints(&said).exits(1);
    world.overdue(&["apply", "--yes"]).exits(1);
    assert!(world.own_objects().await.queues.is_empty());
    limit(few + 1).await;
    world.overdue(&["apply", "--yes"]).exits(0);
    // Existing queues need no more room.
    limit(few).await;
    world.overdue(&["plan"]).exits(0).prints("no change");
}

/// The file's limit is explicit, so that an older or newer broker does the same. The broker dead-letters the message to the parking lot.
#[apply(world_test)]
async fn a_message_that_kills_its_consumer_again_and_again_is_parked() {
    let world =
        World::of(&TOPOLOGY.replace("[retry]", "[queues]\ndelivery_limit = 3\n\n[retry]")).await;
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &["poison".to_owned()]).await;
    let mut deliveries = 0;
    let look = async || {
        let options = BasicGetOptions { no_ack: false };
        if let Some(message) =
            wire.channel.basic_get("orders.unpaid".into(), options).await.unwrap()
        {
            deliveries += 1;
            // The broker does the same when a consumer dies.
            message.reject(BasicRejectOptions { requeue: true }).await.unwrap();
        }
        wire.ready("orders.parked").await
    };
    until("parked", look, |parked| *parked == 1).await;
    assert_eq!(deliveries, 4, "the first, and three more");
    let parked = world.parked(1).await.remove(0);
    assert_eq!(parked.text(), "poison");
    assert_eq!(parked.header("x-first-death-reason").as_deref(), Some("delivery_limit"));
}
