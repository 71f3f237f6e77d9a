//! The headers of a parked message: who parked it, why and when. Any publisher can forge all of them.

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

use super::{headers, received::Received};

/// Headers of a parked message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parked {
    /// Why a worker parked the message; none if the broker parked it.
    pub reason: Option<String>,
    /// The timeout whose worker parked the message.
    pub timeout: Option<String>,
    /// The last dead-lettering of the message, if it was dead-lettered.
    pub death: Option<Death>,
    /// When the message was parked, by the clock of the worker or the broker. The broker writes no time on an unroutable
    /// message.
    pub at: Option<Timestamp>,
    /// How many times the message was tried before.
    pub attempts: u32,
}

/// Why a queue dead-lettered the message, in the broker's terms (<https://www.rabbitmq.com/docs/dlx>).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Death {
    /// `expired`, `rejected`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// Queue that dead-lettered the message.
    pub queue: String,
    /// When the queue dead-lettered the message.
    pub at: Option<Timestamp>,
}

impl Received {
    /// Reads the headers of a parked message.
    pub(crate) fn parked(&self) -> Parked {
        let headers = &self.headers;
        let death = last_death(headers);
        // A worker's copies have no `x-death`: if there is one, the broker has parked the message since.
        let by_worker = death.is_none();
        let written = |name| headers::text_of(headers, name).filter(|_| by_worker);
        let parked_at = headers::parked_at(headers).filter(|_| by_worker);
        Parked {
            reason: written(headers::PARK_REASON),
            timeout: written(headers::PARK_TIMEOUT),
            at: death.as_ref().and_then(|death| death.at).or(parked_at),
            attempts: headers::attempt(headers),
            death,
        }
    }

    /// All headers by name, each as JSON, of any AMQP type.
    pub fn shown_headers(&self) -> Vec<(String, Value)> {
        let headers = self.headers.inner().iter();
        headers.map(|(name, value)| (name.to_string(), json(value))).collect()
    }
}

/// A header's value for a line: a text unchanged, everything else as JSON.
pub(crate) fn in_a_line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(value) => (*value).into(),
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => (*number).into(),
        AMQPValue::Float(number) => (*number).into(),
        AMQPValue::Double(number) => (*number).into(),
        AMQPValue::DecimalValue(decimal) => format!("{}e-{}", decimal.value, decimal.scale).into(),
        AMQPValue::ShortString(text) => text.to_string().into(),
        AMQPValue::LongString(text) => text.to_string().into(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::Timestamp(seconds) => i64::try_from(*seconds)
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .map_or_else(|| (*seconds).into(), |time| time.to_string().into()),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => {
            table.inner().iter().map(|(name, value)| (name.to_string(), json(value))).collect()
        }
        AMQPValue::Void => Value::Null,
    }
}

/// The broker writes the newest entry of `x-death` first.
fn last_death(headers: &FieldTable) -> Option<Death> {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { return None };
    let Some(AMQPValue::FieldTable(death)) = deaths.as_slice().first() else { return None };
    Some(Death {
        reason: headers::text_of(death, "reason")?,
        queue: headers::text_of(death, "queue")?,
        at: headers::time_of(death, "time"),
    })
}
