//! The body of a due notice: it names the order to query when the message is due.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::order::{OrderId, OrderIdError};

/// Larger bodies are parked unread: a due notice has a hundred bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// A parser quotes its input in the error; the reason is sent in a header, which must fit into one frame.
const MAX_REASON_CHARS: usize = 200;
/// JSON pointer at which the program itself writes the order id.
const ORDER_ID: &str = "/order_id";
/// Characters of an ignored `due_at` that a log line shows.
const MAX_HINT_CHARS: usize = 60;
/// A smaller number is in seconds since 1970, which covers times until the year 5138.
const LEAST_MS: i64 = 100_000_000_000;

/// The message an order service publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// The order to query when the message arrives.
    pub order_id: OrderId,
    /// The deadline as its publisher knows it: a hint, because the database decides.
    pub due_at: Option<Timestamp>,
}

/// Why a body is not a due notice. The worker parks such a message with this text as its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is the sentence above it")]
pub enum Unreadable {
    #[error("the body is empty")]
    Empty,
    #[error("the body has {0} bytes, more than {max}", max = MAX_BODY_BYTES)]
    TooLarge(usize),
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body is a serialized Java object; publish the order id as text, or JSON")]
    Java,
    #[error("the body is not a due notice in JSON: {0}")]
    Json(String),
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
}

/// A body that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadNotice {
    /// The order, and when its publisher thinks it is due.
    pub notice: DueNotice,
    /// `due_at` as published, if it is not a time with a zone: the hint is ignored.
    pub ignored_due_at: Option<String>,
}

/// Members of any JSON type, so that a wrong type is reported with this module's error text.
#[derive(Deserialize)]
struct JsonNotice {
    #[serde(default)]
    order_id: Value,
    #[serde(default)]
    due_at: Value,
}

impl DueNotice {
    /// Reads a body: a JSON object with `order_id` and optionally `due_at`, or the bare order id, as text or as JSON text.
    ///
    /// A body that starts like JSON is read as JSON, whatever its content type: publishers that follow a tutorial rarely set
    /// one.
    ///
    /// # Errors
    /// The reason why the body is not a due notice.
    pub fn decode(body: &[u8]) -> Result<Self, Unreadable> {
        Self::read(body, &[]).map(|read| read.notice)
    }

    /// Reads a body. Its order id is at the first of these JSON pointers that leads to a value, or at `/order_id`, where the
    /// program itself writes it.
    ///
    /// # Errors
    /// The reason why the body is not a due notice.
    pub fn read(body: &[u8], order_id: &[String]) -> Result<ReadNotice, Unreadable> {
        if body.len() > MAX_BODY_BYTES {
            return Err(Unreadable::TooLarge(body.len()));
        }
        let text = std::str::from_utf8(body).map_err(|_| match body {
            [0xac, 0xed, 0, 5, ..] => Unreadable::Java,
            _ => Unreadable::NotUtf8,
        })?;
        // Some platforms write a byte order mark before UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        let bare = |id: &str| {
            let notice = Self { order_id: OrderId::parse(id)?, due_at: None };
            Ok(ReadNotice { notice, ignored_due_at: None })
        };
        match text.as_bytes().first() {
            None => Err(Unreadable::Empty),
            Some(b'"') => bare(&parse::<String>(text)?),
            Some(b'{') if order_id.is_empty() => {
                // serde skips other members.
                let JsonNotice { order_id, due_at } = parse(text)?;
                match order_id {
                    Value::Null => Err(missing(&parse(text)?, &[])),
                    id => found(&id, &due_at),
                }
            }
            Some(b'{' | b'[') => {
                let body: Value = parse(text)?;
                let mut pointers = order_id.iter().map(String::as_str).chain([ORDER_ID]);
                match pointers.find_map(|it| body.pointer(it).filter(|value| !value.is_null())) {
                    Some(id) => found(id, body.get("due_at").unwrap_or(&Value::Null)),
                    None => Err(missing(&body, order_id)),
                }
            }
            Some(_) => bare(text),
        }
    }

    /// The body to publish, `application/json`.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = serde_json::json!({ "order_id": self.order_id });
        if let Some(due_at) = self.due_at {
            body["due_at"] = due_at.to_string().into();
        }
        body.to_string().into_bytes()
    }

    /// The `message-id`: equal for each publish of the same order and deadline.
    pub fn message_id(&self) -> String {
        match self.due_at {
            Some(due_at) => format!("{}@{due_at}", self.order_id),
            None => self.order_id.to_string(),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| json(&error.to_string()))
}

fn found(order_id: &Value, hint: &Value) -> Result<ReadNotice, Unreadable> {
    let order_id = match order_id {
        Value::String(id) => OrderId::parse(id)?,
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            OrderId::parse(&number.to_string())?
        }
        other => {
            let kind = kind(other);
            let wanted = "it has to be text or a whole number of 64 bits";
            return Err(json(&format!("the order id is {kind}, {wanted}")));
        }
    };
    let due_at = due_at(hint);
    let unread = !hint.is_null() && due_at.is_none();
    let ignored_due_at = unread.then(|| hint.to_string().chars().take(MAX_HINT_CHARS).collect());
    Ok(ReadNotice { notice: DueNotice { order_id, due_at }, ignored_due_at })
}

/// Parses a time with a zone, or a number: seconds since 1970, or milliseconds from `LEAST_MS` on.
fn due_at(hint: &Value) -> Option<Timestamp> {
    match hint {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => match number.as_i64() {
            Some(seconds) if seconds < LEAST_MS => Timestamp::from_second(seconds).ok(),
            Some(ms) => Timestamp::from_millisecond(ms).ok(),
            None => {
                let seconds = Duration::try_from_secs_f64(number.as_f64()?).ok()?;
                Timestamp::UNIX_EPOCH.checked_add(seconds).ok()
            }
        },
        _ => None,
    }
}

/// Describes a body without an order id.
fn missing(body: &Value, order_id: &[String]) -> Unreadable {
    let has = |member: &str| body.get(member).is_some();
    let seen = match body {
        Value::Array(_) if body.pointer("/2/callbacks").is_some() => {
            "the body is a Celery task; set message.order_id = [\"/0/0\"] for its first argument".to_owned()
        }
        _ if has("messageType") && has("message") => {
            "the body is a MassTransit envelope; set message.order_id, for example [\"/message/orderId\"]".to_owned()
        }
        _ if has("displayName") && has("job") => {
            "the body is a Laravel job, whose order id is in serialized PHP".to_owned()
        }
        Value::Object(members) => {
            let names: Vec<&str> = members.keys().map(String::as_str).collect();
            format!("its members are {}", names.join(", "))
        }
        _ => "the body is a list".to_owned(),
    };
    let pointers: Vec<&str> = order_id.iter().map(String::as_str).chain([ORDER_ID]).collect();
    json(&format!("no order id at {}; {seen}", pointers.join(" or ")))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn json(reason: &str) -> Unreadable {
    let plain = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
    Unreadable::Json(plain.take(MAX_REASON_CHARS).collect())
}
