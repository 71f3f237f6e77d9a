//! The publisher: confirmed, returned, refused, unknown; each caller gets the answer to its message.

use std::time::Duration;

use futures_util::future::join_all;
use lapin::{
    ExchangeKind,
    options::ExchangeDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use overdue::internals::{
    broker::{PublishError, Publisher},
    timing::Timing,
    wire::Message,
};

use crate::support::{Proxy, Wire, World, text, until, wait::awaited};

fn message(exchange: &str, key: &str, id: &str) -> Message {
    Message {
        exchange: exchange.to_owned(),
        routing_key: key.to_owned(),
        message_id: id.to_owned(),
        content_type: None,
        headers: FieldTable::default(),
        body: id.as_bytes().to_vec(),
        ..Message::default()
    }
}

/// A direct exchange without alternate exchange, with a queue for the key `there`.
async fn plain_exchange(wire: &Wire) -> String {
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    let declared =
        wire.channel.exchange_declare("plain".into(), ExchangeKind::Direct, options, none);
    declared.await.unwrap();
    wire.listen("plain", "there").await
}

/// Eight tasks pipeline two thousand messages on clones of one publisher, with repeated ids: each learns whether its own message was
/// confirmed, returned or refused.
#[apply(world_test)]
async fn each_publish_gets_the_answer_to_its_own_message() {
    let (world, wire) = World::of_tables().await.wired().await;
    let there = plain_exchange(&wire).await;
    let full = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    wire.queue("full", &full).await;
    wire.bind("full", "plain", "full").await;
    let publisher = world.publisher().await;
    publisher.publish(message("plain", "full", "first")).await.unwrap();
    let tasks = (0..8).map(|_| {
        let publisher = publisher.clone();
        tokio::spawn(async move {
            let publishing = (0..250).map(async |n: usize| {
                let (id, key) = (format!("m-{n}"), ["there", "nowhere", "full"][n % 3]);
                match (key, publisher.publish(message("plain", key, &id)).await) {
                    ("there", Ok(())) => {}
                    ("nowhere", Err(error @ PublishError::Returned { .. })) => {
                        let said = format!("message {id} was returned by exchange `plain`: NO_ROUTE (routing key `nowhere`)");
                        assert_eq!(error.to_string(), said);
                    }
                    ("full", Err(PublishError::Refused { message_id, exchange, routing_key })) => {
                        let refused = [message_id.as_str(), &exchange, &routing_key];
                        assert_eq!(refused, [id.as_str(), "plain", "full"]);
                    }
                    (key, result) => panic!("{id} to `{key}`: {result:?}"),
                }
            });
            join_all(publishing).await;
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    until("672 routed", async || wire.ready(&there).await, |ready| *ready == 8 * 84).await;
    assert_eq!(wire.take(&there).await.unwrap().delivery_mode, Some(2));
}

#[apply(world_test)]
async fn an_exchange_that_does_not_exist_is_an_error_and_no_hang() {
    let world = World::of_tables().await;
    let publisher = world.publisher().await;
    let answer = publisher.publish(message("no", "k", "m-1"));
    let error = awaited("the answer to a message to nowhere", answer).await.unwrap_err();
    assert!(matches!(error, PublishError::NoExchange { .. }), "{error:?}");
    assert!(error.to_string().contains("no exchange `no`"), "{error}");
    // The broker closed the channel: this publisher reports an error from now on.
    let next = publisher.publish(message("amq.topic", "any", "m-2"));
    let error = awaited("the answer on a closed channel", next).await.unwrap_err();
    assert!(matches!(error, PublishError::Disconnected { .. }), "{error:?}");
    assert!(publisher.is_closed());
}

#[apply(world_test)]
async fn a_body_over_the_brokers_limit_is_an_error_and_no_hang() {
    let world = World::of_tables().await;
    let publisher = world.publisher().await;
    let mut large = message("amq.topic", "any", "m-1");
    large.body = vec![b'x'; 16 * 1024 * 1024 + 1];
    let answer = publisher.publish(large);
    let error = awaited("the answer to a large message", answer).await.unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[apply(world_test)]
async fn a_connection_that_ends_leaves_outstanding_confirms_unknown_and_nothing_hangs() {
    let world = World::new().await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let address = world.services.address(&world.vhost, Some(proxy.port()));
    let publisher = Publisher::connect(&address, "test").await.unwrap();
    publisher.publish(world.notice("30m", "before")).await.unwrap();

    // The broker has the messages; the confirms never arrive.
    proxy.freeze_to_program();
    let publishing: Vec<_> = (0..50)
        .map(|n| {
            let (publisher, notice) = (publisher.clone(), world.notice("30m", &format!("o-{n}")));
            tokio::spawn(async move { publisher.publish(notice).await })
        })
        .collect();
    let wire = world.wire().await;
    let level = "orders.delay.30m";
    wire.until_ready(level, 51).await;
    proxy.cut();
    for result in join_all(publishing).await {
        let error = result.unwrap().unwrap_err();
        assert!(matches!(error, PublishError::Unknown { .. }), "{error:?}");
    }
    let error = publisher.publish(world.notice("30m", "after")).await.unwrap_err();
    assert!(matches!(error, PublishError::Disconnected { .. }), "{error:?}");
    world.publisher().await.publish(world.notice("30m", "again")).await.unwrap();
}

/// A confirm usually takes milliseconds; the first one may take longer on a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// A lost message or a lost confirm: the result is unknown, and reported within the time-out. The connection is not used again, so that a
/// late return from the broker is for no other message.
#[apply(world_test)]
async fn a_confirm_that_never_comes_is_unknown_after_a_time_out() {
    let world = World::new().await;
    let socket = world.services.broker_socket();
    let (lost_message, lost_confirm) = (Proxy::to(&socket).await, Proxy::to(&socket).await);
    let publish = async |proxy: &Proxy, freeze: fn(&Proxy)| {
        let address = world.services.address(&world.vhost, Some(proxy.port()));
        let address = address.with_timing(Timing { confirm: SOON, ..Timing::often() }.into());
        let publisher = Publisher::connect(&address, "test").await.unwrap();
        publisher.publish(world.notice("30m", "before")).await.unwrap();
        freeze(proxy);
        let told = publisher.publish(world.notice("30m", "after")).await;
        until("it is closed", async || publisher.is_closed(), |closed| *closed).await;
        told
    };
    let (message, confirm) = tokio::join!(
        publish(&lost_message, Proxy::freeze_to_service),
        publish(&lost_confirm, Proxy::freeze_to_program),
    );
    for told in [message, confirm] {
        let error = told.unwrap_err();
        assert!(matches!(error, PublishError::Unknown { .. }), "{error:?}");
    }
}

#[apply(world_test)]
async fn a_publisher_that_nobody_holds_closes_its_connection() {
    let world = World::of_tables().await;
    let publisher = world.publisher().await;
    let look = async || world.connections().await.len();
    until("one connection", look, |count| *count == 1).await;
    drop(publisher);
    until("no connection", look, |count| *count == 0).await;
}
