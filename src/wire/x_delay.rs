//! Messages that were published for an exchange of the delayed message plugin, on their way through ours.
//!
//! On its way a message has one header, a table with everything that is to be restored when it is due: nothing of the
//! publisher's can be mistaken for ours meanwhile, and nothing is lost.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};

use super::{
    headers::{DELIVERY_TIME, X_DELAY, text, text_of, without},
    message::Message,
    received::Received,
};
use crate::{text::millis, topology::route::Route};

/// The header of a message on its way.
const WAITS: &str = "x-overdue-compat";
const KEY: &str = "key";
const DUE_MS: &str = "due-ms";
const EXPIRATION: &str = "expiration";
const HEADERS: &str = "headers";
/// More than the longest `x-delay`, which is 49.7 days, by a clock that may have been set back meanwhile.
const LONGEST_MS: u64 = 100 * 24 * 60 * 60 * 1000;

/// A message that is to come out as it was published.
#[derive(Clone, Debug)]
pub struct Delayed {
    /// When, in milliseconds since 1970 by the database's clock; none where the publisher's delay has not begun.
    pub due_ms: Option<u64>,
    /// The delay that its publisher wants.
    pub wanted: Option<Duration>,
    /// A delay that is longer than anything here delays: it is routed at once.
    pub too_long: Option<Duration>,
    original: Message,
}

impl Delayed {
    /// From a delivery of the queue of such messages. `old` is the exchange that they are published to: what comes from
    /// there has no header of ours, whatever its publisher writes. `now_ms` is the time by the database's clock, and `longest` the
    /// longest delay that there is.
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

    /// As it was published, for the exchange `due`.
    pub fn restored(&self, due: String) -> Message {
        Message { exchange: due, ..self.original.clone() }
    }

    /// On its way along `route`; it comes back before `due_ms`.
    pub fn on_its_way(&self, route: Route, due_ms: u64) -> Message {
        let mut copy = self.original.clone();
        let mut table = FieldTable::default();
        table.insert(KEY.into(), text(&copy.routing_key));
        let due_ms = i64::try_from(due_ms).unwrap_or(i64::MAX);
        table.insert(DUE_MS.into(), AMQPValue::LongLongInt(due_ms));
        // Here it would end the message before it is due.
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

/// Whoever may publish to the topology's own exchanges can write such a header; what we could not have written is none.
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

/// Without what a quorum queue has added, and without what would hold it back once it is due.
fn without_additions(headers: &FieldTable) -> FieldTable {
    without(headers, |header| {
        matches!(header, "x-delivery-count" | "x-acquired-count" | DELIVERY_TIME)
    })
}

/// The delay that a message asks for, as the plugin reads it (its version 4.0.7, tried out): whole milliseconds in any
/// integer but the signed byte, which it does not take for a number; floating-point numbers without their fraction;
/// digits as text. None where it is not 1 or more. The plugin takes up to 2³²−1; see [`Delayed::too_long`].
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

/// What is too large for any delay is none.
fn whole(number: f64) -> Option<i64> {
    Duration::try_from_secs_f64(number).ok().and_then(|it| i64::try_from(it.as_secs()).ok())
}
