//! Messages for an exchange of the delayed message plugin, while the topology delays them in its place.
//!
//! A delayed message has one header, a table with everything that is restored when it is due. Meanwhile none of the
//! publisher's headers can be mistaken for a header of the program, and none is lost.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};

use super::{
    headers::{DELIVERY_TIME, X_DELAY, text, text_of, without},
    message::Message,
    received::Received,
};
use crate::{text::millis, topology::route::Route};

/// The header of a delayed message.
const WAITS: &str = "x-overdue-compat";
const KEY: &str = "key";
const DUE_MS: &str = "due-ms";
const EXPIRATION: &str = "expiration";
const HEADERS: &str = "headers";
/// More than the longest `x-delay` (49.7 days), by a clock that may have been set back meanwhile.
const LONGEST_MS: u64 = 100 * 24 * 60 * 60 * 1000;

/// A message that is published unchanged when its delay is over.
#[derive(Clone, Debug)]
pub struct Delayed {
    /// Deadline in milliseconds since 1970 by the database's clock; none if the publisher's delay has not begun.
    pub due_ms: Option<u64>,
    /// Delay that the publisher asks for.
    pub wanted: Option<Duration>,
    /// A delay above the longest possible one: the message is routed at once.
    pub too_long: Option<Duration>,
    original: Message,
}

impl Delayed {
    /// Reads a delivery of the queue of delayed messages. `old` is the exchange that publishers use: the header of a message
    /// from there is ignored, because the publisher forged it. `now_ms` is the time by the database's clock, and `longest`
    /// the longest possible delay.
    pub fn read(received: Received, old: &str, now_ms: u64, longest: Duration) -> Self {
        let wrapped = match received.headers.inner().get(WAITS) {
            Some(AMQPValue::FieldTable(table)) if *received.exchange != *old => unwrap(table),
            _ => None,
        };
        let latest = now_ms.saturating_add(LONGEST_MS.max(millis(2 * longest)));
        let wrapped = wrapped.filter(|it| it.due_ms <= latest);
        let Received { routing_key, message_id, content_type, headers, properties, body, .. } =
            received;
        let mut original = Message {
            exchange: String::new(),
            routing_key: routing_key.to_string(),
            message_id: message_id.unwrap_or_default().into(),
            content_type: content_type.as_deref().map(str::to_owned),
            headers: without_additions(&headers),
            properties: properties.map(|properties| *properties).unwrap_or_default(),
            body,
            needs_no_route: false,
        };
        let Some(wrapped) = wrapped else {
            let asked = x_delay(&headers);
            let wanted = asked.filter(|it| *it <= longest);
            let too_long = asked.filter(|it| *it > longest);
            return Self { due_ms: None, wanted, too_long, original };
        };
        original.routing_key = wrapped.key;
        original.headers = wrapped.headers;
        original.properties.expiration = wrapped.expiration;
        Self { due_ms: Some(wrapped.due_ms), wanted: None, too_long: None, original }
    }

    /// The message as published, for the exchange `due`.
    pub fn restored(&self, due: String) -> Message {
        Message { exchange: due, ..self.original.clone() }
    }

    /// The delayed message for `route`; it returns before `due_ms`.
    pub fn on_its_way(&self, route: Route, due_ms: u64) -> Message {
        let mut copy = self.original.clone();
        let mut table = FieldTable::default();
        table.insert(KEY.into(), text(&copy.routing_key));
        let due_ms = i64::try_from(due_ms).unwrap_or(i64::MAX);
        table.insert(DUE_MS.into(), AMQPValue::LongLongInt(due_ms));
        // The broker would expire the message before it is due.
        if let Some(expiration) = copy.properties.expiration.take() {
            table.insert(EXPIRATION.into(), text(&expiration));
        }
        table.insert(HEADERS.into(), AMQPValue::FieldTable(std::mem::take(&mut copy.headers)));
        copy.headers.insert(WAITS.into(), AMQPValue::FieldTable(table));
        copy.along(route)
    }
}

struct Wrapped {
    key: String,
    due_ms: u64,
    expiration: Option<String>,
    headers: FieldTable,
}

/// Any publisher to the topology's own exchanges can forge such a header; a table that the program does not write is ignored.
fn unwrap(table: &FieldTable) -> Option<Wrapped> {
    let (Some(AMQPValue::LongLongInt(due_ms)), Some(AMQPValue::FieldTable(headers))) =
        (table.inner().get(DUE_MS), table.inner().get(HEADERS))
    else {
        return None;
    };
    Some(Wrapped {
        key: text_of(table, KEY)?,
        due_ms: u64::try_from(*due_ms).ok()?,
        expiration: text_of(table, EXPIRATION),
        headers: headers.clone(),
    })
}

/// Drops headers that a quorum queue added, and the header that would delay the message again once it is due.
fn without_additions(headers: &FieldTable) -> FieldTable {
    without(headers, |header| {
        matches!(header, "x-delivery-count" | "x-acquired-count" | DELIVERY_TIME)
    })
}

/// The delay that a message asks for, as version 4.0.7 of the plugin reads it (tested): whole milliseconds in any integer
/// type but the signed byte, which the plugin does not accept; floating-point numbers without their fraction; digits as text.
/// None if it is below 1. The plugin takes up to 2³²−1; see [`Delayed::too_long`].
pub fn x_delay(headers: &FieldTable) -> Option<Duration> {
    let ms = match headers.inner().get(X_DELAY)? {
        AMQPValue::ShortShortUInt(n) => i64::from(*n),
        AMQPValue::ShortInt(n) => i64::from(*n),
        AMQPValue::ShortUInt(n) => i64::from(*n),
        AMQPValue::LongInt(n) => i64::from(*n),
        AMQPValue::LongUInt(n) => i64::from(*n),
        AMQPValue::LongLongInt(n) => *n,
        AMQPValue::Float(n) => whole(f64::from(*n))?,
        AMQPValue::Double(n) => whole(*n)?,
        AMQPValue::LongString(text) => digits(text.as_bytes())?,
        AMQPValue::ByteArray(bytes) => digits(bytes.as_slice())?,
        _ => return None,
    };
    let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(ms))
}

fn digits(text: &[u8]) -> Option<i64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// None if the number is too large for any delay.
fn whole(number: f64) -> Option<i64> {
    Duration::try_from_secs_f64(number).ok().and_then(|it| i64::try_from(it.as_secs()).ok())
}
