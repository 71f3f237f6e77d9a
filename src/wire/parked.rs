//! What a message in the parking lot says of itself: who parked it, why and when. Anybody can forge all of it.

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

use super::{headers, received::Received};

/// What the headers of a message in the parking lot say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parked {
    /// Why a worker parked it; it writes nothing on what the broker parks.
    pub reason: Option<String>,
    /// The timeout whose worker that was.
    pub timeout: Option<String>,
    /// The last queue that dead-lettered it, where one did.
    pub death: Option<Death>,
    /// When it was parked: by the worker's clock, or the broker's where that one did it, which writes none
    /// on what no queue has taken.
    pub at: Option<Timestamp>,
    /// How often it was tried before.
    pub attempts: u32,
}

/// Why a queue gave a message up, in the words of the broker (<https://www.rabbitmq.com/docs/dlx>).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Death {
    /// `expired`, `rejected`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// The queue it was in.
    pub queue: String,
    /// When.
    pub at: Option<Timestamp>,
}

impl Received {
    /// Reads the headers of a message in the parking lot.
    pub(crate) fn parked(&self) -> Parked {
        let headers = &self.headers;
        let death = last_death(headers);
        // A worker takes the deaths off its copies: where there is one, the broker has parked it since.
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

    /// Its headers by name, each as JSON, however it was made.
    pub fn shown_headers(&self) -> Vec<(String, Value)> {
        let headers = self.headers.inner().iter();
        headers.map(|(name, value)| (name.to_string(), json(value))).collect()
    }
}

/// A header's value in a line: a text as it is, everything else as JSON.
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

/// The first entry of `x-death` is the last one that was written.
fn last_death(headers: &FieldTable) -> Option<Death> {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { return None };
    let Some(AMQPValue::FieldTable(death)) = deaths.as_slice().first() else { return None };
    Some(Death {
        reason: headers::text_of(death, "reason")?,
        queue: headers::text_of(death, "queue")?,
        at: headers::time_of(death, "time"),
    })
}
