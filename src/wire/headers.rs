//! Headers of messages: the program's own headers, and headers that the broker adds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable, LongString};

/// How many times a message was retried, as an integer.
pub(crate) const ATTEMPT: &str = "x-attempt";
/// How many times in a row the order was overdue and guarded by its effect, as an integer.
pub(crate) const GUARDED: &str = "x-guarded";
/// Why a message is in the parking lot.
pub(crate) const PARK_REASON: &str = "x-park-reason";
/// The timeout that a parked message came from.
pub(crate) const PARK_TIMEOUT: &str = "x-park-timeout";
/// When the worker parked the message, as an AMQP timestamp: seconds since 1970 by the worker's clock.
const PARKED_AT: &str = "x-parked-at";
/// Marks a message of `overdue verify --probe`; its value is the canary's id. A worker acks a message with this header.
pub(crate) const CANARY: &str = "x-overdue-canary";
/// Replaces properties that no AMQP client can parse; its value is the reason.
pub const PROPERTIES_DROPPED: &str = "x-dropped-properties";
/// Replaces all other properties if a body was too large to keep: the size of the body in bytes, as text.
pub const BODY_LEFT_OUT: &str = "x-body-left-out";

/// How long the exchange of the delayed message plugin delays a message, in milliseconds.
pub(crate) const X_DELAY: &str = "x-delay";
/// Quorum queues of RabbitMQ 4.4 deliver a message only from this time on, in milliseconds since 1970. A copy with this
/// header is delayed in any queue, also in a level or the parking lot.
pub(crate) const DELIVERY_TIME: &str = "x-opt-delivery-time";

/// Further routing keys of a message: an array of texts (<https://www.rabbitmq.com/docs/sender-selected>).
pub(super) const OTHER_ROUTES: [&str; 2] = ["CC", "BCC"];

/// More attempts than any retry list has: a forged header must not make a message wait forever.
const MAX_ATTEMPT: u32 = 1_000_000;
/// A trigger can raise a text of any length, and the headers must fit into one frame; some brokers limit a frame to 8 KiB.
const MAX_REASON_BYTES: usize = 1_000;

/// How many times the message was tried. A value that the program does not write counts as 0, because headers can be forged.
pub fn attempt(headers: &FieldTable) -> u32 {
    number(headers, ATTEMPT)
}

/// How many times in a row the order was overdue and guarded.
pub fn guarded(headers: &FieldTable) -> u32 {
    number(headers, GUARDED)
}

fn number(headers: &FieldTable, name: &str) -> u32 {
    let number = match headers.inner().get(name) {
        Some(AMQPValue::LongInt(n)) => u32::try_from(*n).ok(),
        Some(AMQPValue::LongLongInt(n)) => u32::try_from(*n).ok(),
        Some(AMQPValue::LongUInt(n)) => Some(*n),
        _ => None,
    };
    number.filter(|number| *number <= MAX_ATTEMPT).unwrap_or(0)
}

/// Whether a message is a canary, with any value.
pub(crate) fn is_canary(headers: &FieldTable) -> bool {
    headers.contains_key(CANARY)
}

/// The id of a canary that a probe has sent.
pub fn canary_id(headers: &FieldTable) -> Option<String> {
    text_of(headers, CANARY)
}

/// Bytes of a body that was left out.
pub(super) fn body_left_out(headers: &FieldTable) -> Option<usize> {
    text_of(headers, BODY_LEFT_OUT)?.parse().ok()
}

/// About how many bytes of memory a header value takes in addition to its text: many times its size in a frame.
pub(crate) const VALUE_BYTES: usize = 2 * size_of::<AMQPValue>();

/// About how many bytes of memory the headers take.
pub(super) fn bytes(headers: &FieldTable) -> usize {
    headers.inner().iter().map(|(name, value)| name.as_str().len() + value_bytes(value)).sum()
}

/// The recursion is bounded: frames with tables nested more than a few dozen times are dropped before.
fn value_bytes(value: &AMQPValue) -> usize {
    VALUE_BYTES
        + match value {
            AMQPValue::LongString(text) => text.as_bytes().len(),
            AMQPValue::ShortString(text) => text.as_str().len(),
            AMQPValue::ByteArray(bytes) => bytes.as_slice().len(),
            AMQPValue::FieldArray(values) => values.as_slice().iter().map(value_bytes).sum(),
            AMQPValue::FieldTable(table) => bytes(table),
            _ => 0,
        }
}

/// When a worker parked the message.
pub(super) fn parked_at(headers: &FieldTable) -> Option<Timestamp> {
    time_of(headers, PARKED_AT)
}

/// A time that can be printed; a forged time may be outside that range.
pub(super) fn time_of(headers: &FieldTable, name: &str) -> Option<Timestamp> {
    let Some(AMQPValue::Timestamp(seconds)) = headers.inner().get(name) else { return None };
    Timestamp::from_second(i64::try_from(*seconds).ok()?).ok()
}

pub(super) fn text_of(headers: &FieldTable, name: &str) -> Option<String> {
    match headers.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The headers that a copy keeps. A copy with `x-death` would look to the broker like a cycle.
pub(super) fn kept(headers: &FieldTable) -> FieldTable {
    without(headers, is_dropped)
}

/// The headers that a replayed copy keeps: its retries are counted from 0.
pub(super) fn kept_of_replayed(headers: &FieldTable) -> FieldTable {
    without(headers, |header| is_dropped(header) || header == ATTEMPT)
}

pub(super) fn without(headers: &FieldTable, is_dropped: impl Fn(&str) -> bool) -> FieldTable {
    let kept = headers.inner().iter().filter(|(key, _)| !is_dropped(key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>().into()
}

/// Replaces the delay that the original was delivered with; the plugin makes that value negative.
pub(super) fn set_delay(headers: &mut FieldTable, x_delay: Option<u32>) {
    if let Some(ms) = x_delay {
        headers.insert(X_DELAY.into(), AMQPValue::LongLongInt(i64::from(ms)));
    }
}

pub(super) fn set_tries(headers: &mut FieldTable, attempt: u32, guarded: u32) {
    headers.insert(ATTEMPT.into(), AMQPValue::LongLongInt(i64::from(attempt)));
    if guarded > 0 {
        headers.insert(GUARDED.into(), AMQPValue::LongLongInt(i64::from(guarded)));
    }
}

pub(super) fn set_parked(headers: &mut FieldTable, timeout: &str, reason: &str, at: Timestamp) {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    let at_s = u64::try_from(at.as_second()).unwrap_or_default();
    headers.insert(PARKED_AT.into(), AMQPValue::Timestamp(at_s));
    headers.insert(PARK_REASON.into(), text(reason));
    headers.insert(PARK_TIMEOUT.into(), text(timeout));
}

pub(super) fn set_canary(headers: &mut FieldTable, id: &str) {
    headers.insert(CANARY.into(), text(id));
}

pub(super) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text.as_bytes().to_vec()))
}

/// Whether a copy drops this header. Dead-lettering, delivery or an earlier parking added it, or it would make the broker
/// route the copy to further queues or delay it.
fn is_dropped(header: &str) -> bool {
    is_of_dead_lettering(header)
        || header.starts_with("x-delivery-count")
        || OTHER_ROUTES.contains(&header)
        || matches!(
            header,
            "x-acquired-count"
                | X_DELAY
                | DELIVERY_TIME
                | PARK_REASON
                | PARK_TIMEOUT
                | PARKED_AT
                | GUARDED
        )
}

/// Whether the broker writes this header when it dead-letters a message.
pub(crate) fn is_of_dead_lettering(header: &str) -> bool {
    ["x-death", "x-first-death-", "x-last-death-"].iter().any(|prefix| header.starts_with(prefix))
}
