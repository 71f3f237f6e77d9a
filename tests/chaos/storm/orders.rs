//! The life of each order, and the messages that are published by mistake or in bad faith. Both follow from the
//! seed and a number.

use std::time::Duration;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::support::text;

/// Levels, which are also the times to pay. The shortest is for retries and early notices.
pub const LEVELS_MS: [u64; 5] = [500, 2_000, 3_000, 5_000, 8_000];
pub const TOPOLOGY: &str = r#"
name = "orders"

[delay]
levels = ["500ms", "1s", "2s", "3s", "5s", "8s"]

[[timeout]]
name = "unpaid"
after = "3s"

[retry]
after = ["500ms", "1s", "2s"]
"#;

/// When the customer pays, in ms from the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    Never,
    At(i64),
    /// The customer clicks twice.
    TwiceAt(i64),
}

/// How the order service publishes the due notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Once,
    /// The order service crashed between commit and publish: the sweep must find the order.
    Forgotten,
    /// The service publishes this number of copies.
    Copies(usize),
    /// A copy goes through the shortest level as well.
    EarlyToo,
}

/// The life of one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub id: String,
    /// The time to pay.
    pub due_in: Duration,
    pub payment: Payment,
    pub notice: Notice,
}

impl Script {
    /// Returns the `number`-th order of a seed.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut random =
            StdRng::seed_from_u64(seed ^ (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let due_in_ms = *LEVELS_MS[1..].choose(&mut random).unwrap();
        let before = -i64::try_from(due_in_ms).unwrap();
        let payment = match random.random_range(0..100) {
            0..50 => Payment::Never,
            50..72 => Payment::At(random.random_range(before..-300)),
            72..90 => Payment::At(random.random_range(-60..60)),
            90..95 => Payment::At(random.random_range(200..3_000)),
            _ => Payment::TwiceAt(random.random_range(before..100)),
        };
        let notice = match random.random_range(0..100) {
            0..2 => Notice::Forgotten,
            2..7 => Notice::Copies(random.random_range(2..5)),
            7..12 => Notice::EarlyToo,
            _ => Notice::Once,
        };
        let due_in = Duration::from_millis(due_in_ms);
        Self { id: format!("o-{number}"), due_in, payment, notice }
    }
}

/// A message that must be parked.
pub struct Trash {
    /// The name is also the `message-id`.
    pub name: String,
    pub routing_key: String,
    pub properties: BasicProperties,
    pub body: Vec<u8>,
    /// Part of the reason; empty if the broker itself parks the message.
    pub reason: &'static str,
}

/// The reason of a parked notice whose order does not exist.
pub const UNKNOWN: &str = "the database does not know this order";

/// Returns the `number`-th message that is not a due notice, or whose routing key has no binding.
pub fn garbage(seed: u64, number: usize) -> Trash {
    let mut random = StdRng::seed_from_u64(seed ^ 0x6A09_E667 ^ number as u64);
    let bodies: [(Vec<u8>, &'static str); 10] = [
        (b"".to_vec(), "the body is empty"),
        (b"\xff\xfe\x00".to_vec(), "the body is not UTF-8"),
        (b"{".to_vec(), "not a due notice in JSON"),
        (b"{\"order_id\":[1]}".to_vec(), "not a due notice in JSON"),
        (b"{\"order_id\":\"\"}".to_vec(), "the order id is empty"),
        (b"{\"order_id\":\"o-1\"} trailing".to_vec(), "not a due notice in JSON"),
        (b"[\"o-1\"]".to_vec(), "not a due notice in JSON"),
        (b"two words".to_vec(), "white space or control characters"),
        (vec![b'x'; 70 * 1024], ""),
        (vec![b'x'; 1_000], "the order id has 1000 bytes"),
    ];
    let key = ["99m.unpaid", "unpaid", "500ms.nobody"][random.random_range(0..3)];
    let (routing_key, (body, reason)) = if random.random_range(0..4) == 0 {
        (key, (b"o-1".to_vec(), ""))
    } else {
        ("500ms.unpaid", bodies[random.random_range(0..bodies.len())].clone())
    };
    Trash {
        name: format!("garbage-{number}"),
        routing_key: routing_key.to_owned(),
        properties: BasicProperties::default(),
        body,
        reason,
    }
}

/// Returns the `number`-th notice of an order that does not exist.
pub fn ghost(number: usize) -> Trash {
    let name = format!("ghost-{number}");
    let body = if number.is_multiple_of(2) {
        name.clone().into_bytes()
    } else {
        serde_json::json!({ "order_id": name }).to_string().into_bytes()
    };
    Trash {
        name,
        routing_key: "500ms.unpaid".to_owned(),
        properties: BasicProperties::default(),
        body,
        reason: UNKNOWN,
    }
}

/// Returns the properties of the `number`-th forged notice.
pub fn forged(seed: u64, number: usize) -> BasicProperties {
    let mut random = StdRng::seed_from_u64(seed ^ 0xBB67_AE85 ^ number as u64);
    let plain = BasicProperties::default();
    let levels = |levels: &[&str]| array(levels.iter().map(|it| text(it)).collect());
    let forged: &[(&str, AMQPValue)] = match random.random_range(0..8) {
        0 => &[("x-attempt", AMQPValue::LongInt(999_999))],
        1 => &[("x-attempt", AMQPValue::LongLongInt(i64::MIN))],
        2 => &[("x-death", death()), ("x-delivery-count", AMQPValue::LongInt(1_000))],
        3 => &[("x-park-reason", text("forged")), ("x-park-timeout", AMQPValue::Void)],
        4 => &[("CC", levels(&["1s.unpaid", "2s.unpaid"]))],
        5 => &[("BCC", levels(&["1s.unpaid"]))],
        6 => return plain.with_expiration("1".into()).with_priority(255),
        _ => return plain.with_delivery_mode(1).with_reply_to("nobody".into()).with_timestamp(1),
    };
    plain.with_headers(headers(forged))
}

fn headers(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert((*key).into(), value.clone());
    }
    table
}

fn array(values: Vec<AMQPValue>) -> AMQPValue {
    AMQPValue::FieldArray(FieldArray::from(values))
}

fn death() -> AMQPValue {
    array(vec![AMQPValue::FieldTable(headers(&[
        ("queue", text("orders.unpaid")),
        ("reason", text("expired")),
        ("count", AMQPValue::LongLongInt(1_000)),
        ("exchange", text("orders.in")),
        ("routing-keys", array(vec![text("500ms.unpaid")])),
    ]))])
}
