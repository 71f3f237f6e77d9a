//! Messages without our publisher: publishing forged ones, and reading queues.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation,
    message::Delivery,
    options::{
        BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
        QueueBindOptions, QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use overdue::internals::{
    broker::{BrokerAddress, Link},
    order::OrderId,
    topology::route::Delay,
    wire::{DueNotice, Message},
};

use super::{World, until};

/// A channel of the test's own, with confirms.
pub struct Wire {
    pub channel: Channel,
    // Drop ends the connection.
    _link: Link,
}

/// A message in a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Parked {
    pub body: Vec<u8>,
    pub key: String,
    pub message_id: Option<String>,
    pub content_type: Option<String>,
    /// 2 is persistent.
    pub delivery_mode: Option<u8>,
    pub headers: BTreeMap<String, AMQPValue>,
    pub properties: BasicProperties,
}

impl Parked {
    fn of(delivery: Delivery) -> Self {
        let properties = &delivery.properties;
        let headers = properties.headers().iter().flat_map(FieldTable::inner);
        Self {
            key: delivery.routing_key.to_string(),
            message_id: properties.message_id().as_ref().map(ToString::to_string),
            content_type: properties.content_type().as_ref().map(ToString::to_string),
            delivery_mode: *properties.delivery_mode(),
            headers: headers.map(|(key, value)| (key.to_string(), value.clone())).collect(),
            properties: properties.clone(),
            body: delivery.data,
        }
    }

    /// A text header.
    pub fn header(&self, name: &str) -> Option<String> {
        match self.headers.get(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            other => panic!("header {name} is {other:?}"),
        }
    }

    /// The reason why it was parked.
    pub fn reason(&self) -> String {
        self.header("x-park-reason").unwrap_or_default()
    }

    /// The number of retries.
    pub fn attempt(&self) -> Option<&AMQPValue> {
        self.headers.get("x-attempt")
    }

    /// The order id of a notice or event in JSON.
    pub fn order(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        body["order_id"].as_str().unwrap().to_owned()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A text header value.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert((*name).into(), value.clone());
    }
    table
}

/// Properties with only these headers.
pub fn headers(entries: &[(&str, AMQPValue)]) -> BasicProperties {
    BasicProperties::default().with_headers(table(entries))
}

impl Wire {
    /// Publishes without a check of the topology; waits for the confirm.
    pub async fn publish(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Confirmation {
        let options = BasicPublishOptions::default();
        let publishing =
            self.channel.basic_publish(exchange.into(), key.into(), options, body, properties);
        publishing.await.unwrap().await.unwrap()
    }

    /// Publishes many bodies with one routing key; returns when all are confirmed.
    pub async fn publish_all(&self, exchange: &str, key: &str, bodies: &[String]) {
        let mut confirms = Vec::new();
        for body in bodies {
            let options = BasicPublishOptions::default();
            let properties = BasicProperties::default().with_delivery_mode(2);
            let publishing = self.channel.basic_publish(
                exchange.into(),
                key.into(),
                options,
                body.as_bytes(),
                properties,
            );
            confirms.push(publishing.await.unwrap());
        }
        for confirm in confirms {
            assert!(confirm.await.unwrap().is_ack());
        }
    }

    /// Waits until `count` messages are ready in a queue.
    pub async fn until_ready(&self, queue: &str, count: u32) {
        let what = format!("{count} ready in {queue}");
        until(&what, async || self.ready(queue).await, |ready| *ready == count).await;
    }

    /// Ready messages of a queue, by the broker's own count.
    pub async fn ready(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared =
            self.channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.unwrap().message_count()
    }

    /// Gets a message of a queue, if one is ready.
    pub async fn take(&self, queue: &str) -> Option<Parked> {
        let options = BasicGetOptions { no_ack: true };
        let got = self.channel.basic_get(queue.into(), options).await.unwrap()?;
        Some(Parked::of(got.delivery))
    }

    /// Consumes every ready message of a queue.
    pub async fn take_all(&self, queue: &str) -> Vec<Parked> {
        let count = self.ready(queue).await;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let none = FieldTable::default();
        let consuming = self.channel.basic_consume(queue.into(), "".into(), options, none);
        let mut consumer = consuming.await.unwrap();
        let mut taken = Vec::new();
        while taken.len() < usize::try_from(count).unwrap() {
            taken.push(Parked::of(consumer.next().await.unwrap().unwrap()));
        }
        taken
    }

    /// Consumes `count` messages of a queue, and waits for them.
    pub async fn take_many(&self, queue: &str, count: usize) -> Vec<Parked> {
        let mut taken = Vec::new();
        let look = async || {
            while taken.len() < count
                && let Some(message) = self.take(queue).await
            {
                taken.push(message);
            }
            taken.len()
        };
        until(&format!("{count} messages in {queue}"), look, |seen| *seen == count).await;
        taken
    }

    /// Declares and binds an exclusive queue; returns its name.
    pub async fn listen(&self, exchange: &str, pattern: &str) -> String {
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare("".into(), options, FieldTable::default()).await;
        let queue = declared.unwrap().name().to_string();
        self.bind(&queue, exchange, pattern).await;
        queue
    }

    /// Binds a queue to an exchange.
    pub async fn bind(&self, queue: &str, exchange: &str, pattern: &str) {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let bound =
            self.channel.queue_bind(queue.into(), exchange.into(), pattern.into(), options, none);
        bound.await.unwrap();
    }

    /// Declares a durable queue with arguments.
    pub async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        self.channel.queue_declare(name.into(), options, table).await.unwrap();
    }
}

impl World {
    /// The world, and a channel of the test's own.
    pub async fn wired(self) -> (Self, Wire) {
        let wire = self.wire().await;
        (self, wire)
    }

    /// A channel of the test's own.
    pub async fn wire(&self) -> Wire {
        let url = self.broker_url();
        let next = if url.contains('?') { '&' } else { '?' };
        // Without it, the broker would close the connection of a test that is stopped for a while.
        let url = format!("{url}{next}heartbeat=60");
        let management = self.services.management.as_str();
        let address = BrokerAddress::parse(&url, Some(management)).unwrap();
        let link = Link::open(&address, "test: wire").await.unwrap();
        let channel = link.channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Wire { channel, _link: link }
    }

    /// Publishes `count` messages with one key and any body; returns when all are confirmed.
    pub async fn publish_to(&self, exchange: &str, key: &str, count: usize) {
        let bodies: Vec<String> = (0..count).map(|n| format!("o-{n}")).collect();
        self.wire().await.publish_all(exchange, key, &bodies).await;
    }

    /// Creates orders, and publishes their due notices through a level.
    pub async fn publish_orders(
        &self,
        level: &str,
        prefix: &str,
        count: usize,
        due_in_ms: i64,
    ) -> Vec<String> {
        let ids = self.orders(prefix, count, due_in_ms).await;
        self.publish(level, &ids).await;
        ids
    }

    /// Publishes a due notice per order through a level, as the program does; returns when all are confirmed.
    pub async fn publish(&self, level: &str, ids: &[String]) {
        let publisher = self.publisher().await;
        let sent = ids.iter().map(|id| publisher.publish(self.notice(level, id)));
        for result in futures_util::future::join_all(sent).await {
            result.unwrap();
        }
    }

    /// A due notice in JSON, as a message.
    pub fn notice(&self, level: &str, id: &str) -> Message {
        let timeout = &self.topology.timeouts[0].name;
        let route = self.topology.route(timeout, &Delay::Level(level.to_owned())).unwrap();
        let any = DueNotice { order_id: OrderId::parse("any").unwrap(), due_at: None };
        Message {
            message_id: id.to_owned(),
            body: serde_json::json!({ "order_id": id }).to_string().into_bytes(),
            ..Message::notice(route, &any)
        }
    }

    /// Waits until no message is ready in a queue.
    pub async fn until_empty(&self, queue: &str) {
        self.wire().await.until_ready(queue, 0).await;
    }

    /// Consumes `count` messages of the parking lot, waits for them, and asserts that there are no more.
    pub async fn parked(&self, count: usize) -> Vec<Parked> {
        let wire = self.wire().await;
        let queue = self.topology.parked_queue();
        let parked = wire.take_many(&queue, count).await;
        assert_eq!(wire.take(&queue).await, None, "more than {count} messages parked");
        parked
    }
}
