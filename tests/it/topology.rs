//! Applying a topology: everything it says, nothing else, and no window in which a message is lost.

use lapin::{
    BasicProperties, ExchangeKind,
    options::{BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ExchangeDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use overdue::internals::{
    broker::{ChangeError, ChangeEvent, ManagementError, TopologyChange, apply::ApplyError},
    plan::{Change, Plan},
};

use crate::support::{World, until, world::TOPOLOGY};

async fn plan(world: &World) -> Result<Plan, ManagementError> {
    Ok(TopologyChange::new(&world.management(), &world.topology).plan().await?.0)
}

async fn apply(world: &World) -> Result<Plan, ChangeError> {
    TopologyChange::new(&world.management(), &world.topology).apply().await
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
async fn applying_again_has_nothing_to_do() {
    let world = World::new().await;
    let plan = plan(&world).await.unwrap();
    assert_eq!(plan, Plan::default());
    assert_eq!(plan.summary(), "no change: the broker has this topology");
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

#[apply(world_test)]
async fn many_that_apply_at_once_all_succeed() {
    let world = World::empty().await;
    let applying = (0..4).map(|_| apply(&world));
    for result in futures_util::future::join_all(applying).await {
        result.unwrap();
    }
    assert_eq!(world.own_objects().await, world.topology.objects());
}

#[apply(world_test)]
async fn a_queue_with_other_arguments_gets_a_new_generation_with_every_difference_named() {
    let world = World::new().await;
    let wire = world.wire().await;
    let name = "orders.delay.500ms";
    world.delete("queues", name).await;
    let arguments = [
        ("x-queue-type", AMQPValue::LongString("quorum".into())),
        ("x-message-ttl", AMQPValue::LongInt(60_000)),
        ("x-dead-letter-exchange", AMQPValue::LongString("elsewhere".into())),
        ("x-max-length", AMQPValue::LongInt(10)),
    ];
    wire.queue(name, &arguments).await;
    wire.bind(name, "orders.in", "500ms.*").await;
    wire.publish("orders.in", "500ms.unpaid", BasicProperties::default(), b"waits").await;
    let look = async || world.management().observe().await.unwrap().messages_in(name);
    until("counted", look, |messages| *messages == Some(1)).await;
    insta::assert_snapshot!(plan(&world).await.unwrap());
    apply(&world).await.unwrap();
    let after = world.own_objects().await;
    assert!(after.queues.contains_key(name) && after.queues.contains_key("orders.delay.500ms.2"));
    assert!(plan(&world).await.unwrap().is_empty());
    assert_eq!(wire.ready(name).await, 1, "what waits there is not touched");
}

#[apply(world_test)]
async fn an_exchange_with_other_properties_is_named_and_nothing_is_touched() {
    let world = World::empty().await;
    let wire = world.wire().await;
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    let declared =
        wire.channel.exchange_declare("orders.in".into(), ExchangeKind::Direct, options, none);
    declared.await.unwrap();
    let before = world.own_objects().await;
    let error = apply(&world).await.unwrap_err();
    assert!(matches!(&error, ChangeError::Apply(ApplyError::Refused(plan))
        if matches!(&plan.refusals[..], [overdue::internals::plan::Refusal::Exchange { exchange, .. }] if exchange == "orders.in")));
    insta::assert_snapshot!(error);
    assert_eq!(world.own_objects().await, before);
}

#[apply(world_test)]
async fn objects_and_messages_of_others_are_left_alone() {
    let world = World::empty().await;
    let wire = world.wire().await;
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    let declared =
        wire.channel.exchange_declare("orders2.in".into(), ExchangeKind::Topic, options, none);
    declared.await.unwrap();
    wire.queue("orders.delay.7s", &[("x-message-ttl", AMQPValue::LongInt(7_000_000))]).await;
    wire.queue("invoices", &[]).await;
    wire.bind("invoices", "orders2.in", "#").await;
    wire.publish("orders2.in", "x", BasicProperties::default(), b"theirs").await;
    let before = world.own_objects().await;

    apply(&world).await.unwrap();
    // A team that reads along: a binding to an exchange of ours that the topology does not have.
    wire.bind("invoices", "orders.events", "order.closed").await;
    assert!(plan(&world).await.unwrap().is_empty());
    apply(&world).await.unwrap();

    let after = world.own_objects().await;
    for (name, exchange) in &before.exchanges {
        assert_eq!(after.exchanges.get(name), Some(exchange));
    }
    for (name, queue) in &before.queues {
        assert_eq!(after.queues.get(name), Some(queue));
    }
    assert!(after.bindings.is_superset(&before.bindings));
    assert_eq!(wire.take("invoices").await.unwrap().text(), "theirs");
}

#[apply(world_test)]
async fn an_object_that_somebody_deleted_comes_back_and_the_others_stay() {
    let world = World::new().await;
    world.delete("queues", "orders.delay.300ms").await;
    let wire = world.wire().await;
    let unbound = wire.channel.queue_unbind(
        "orders.unpaid".into(),
        "orders.dlx".into(),
        "#.unpaid".into(),
        FieldTable::default(),
    );
    unbound.await.unwrap();
    let plan = plan(&world).await.unwrap();
    let changes: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(changes.join("\n"));
    apply(&world).await.unwrap();
    assert_eq!(world.own_objects().await, world.topology.objects());
}

/// Each step is planned again from what is there, as if the one before had been interrupted.
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

    // What waits in the level of 30 minutes is there as well as what came out.
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

/// Whether the broker took a mandatory message; otherwise it gave it back or the exchange is not there.
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

/// The limit is written out, so that an older or newer broker does the same, and behind it is the parking lot.
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
            // What a consumer that dies does to it.
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

#[apply(world_test)]
async fn the_plan_leads_from_the_parking_lot_to_the_bindings_that_let_messages_in() {
    let world = World::empty().await;
    let plan = plan(&world).await.unwrap();
    let first: Vec<String> = plan.steps.iter().take(2).map(ToString::to_string).collect();
    assert!(first[0].contains("orders.owned") && first[1].contains("orders.park"), "{first:?}");
    let Some(Change::Bind(last)) = plan.steps.last().map(|step| &step.change) else {
        panic!("{plan}")
    };
    assert_eq!(last.source, "orders.in");
}
