//! The body of a message: "look at this order when the level lets it go".

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::order::{OrderId, OrderIdError};

/// Larger bodies are parked unread: a due notice has a hundred bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Parsers quote what they do not understand; the reason travels in a header, which has to fit into one frame.
const MAX_REASON_CHARS: usize = 200;

/// The message an order service publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// The order to look up when the message arrives.
    pub order_id: OrderId,
    /// When the publisher thinks it is due; a hint, the database decides.
    pub due_at: Option<Timestamp>,
}

/// Why a body is not a due notice. Such a message is parked with this text as its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is the sentence above it")]
pub enum Unreadable {
    #[error("the body is empty")]
    Empty,
    #[error("the body has {0} bytes, more than {max}", max = MAX_BODY_BYTES)]
    TooLarge(usize),
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body is not a due notice in JSON: {0}")]
    Json(String),
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
}

/// Values of any kind, so that one of the wrong kind is refused in the words of this contract.
#[derive(Deserialize)]
struct JsonNotice {
    order_id: Value,
    #[serde(default)]
    due_at: Value,
}

impl DueNotice {
    /// Reads a body: a JSON object with `order_id` and optionally `due_at`, or the bare order id as text.
    ///
    /// What starts like JSON is read as JSON whatever the content type says, because tutorials rarely set it.
    ///
    /// # Errors
    /// Says in one sentence why the body is not a due notice.
    pub fn decode(body: &[u8]) -> Result<Self, Unreadable> {
        if body.len() > MAX_BODY_BYTES {
            return Err(Unreadable::TooLarge(body.len()));
        }
        let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotUtf8)?;
        // Writers of UTF-8 on some platforms put a byte order mark first.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        match text.as_bytes().first() {
            None => Err(Unreadable::Empty),
            Some(b'{') => Self::decode_json(text),
            // serde would read a list as the fields in their order.
            Some(b'[' | b'"') => Err(Unreadable::Json("it is not an object".to_owned())),
            Some(_) => Ok(Self { order_id: OrderId::parse(text)?, due_at: None }),
        }
    }

    fn decode_json(text: &str) -> Result<Self, Unreadable> {
        let notice: JsonNotice =
            serde_json::from_str(text).map_err(|error| json(&error.to_string()))?;
        let due_at = due_at(&notice.due_at)?;
        match notice.order_id {
            Value::String(id) => Ok(Self { order_id: OrderId::parse(&id)?, due_at }),
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                Ok(Self { order_id: OrderId::parse(&number.to_string())?, due_at })
            }
            other => Err(json(&format!(
                "`order_id` is {}, it has to be text or a whole number of 64 bits",
                kind(&other)
            ))),
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

    /// The `message-id`: the same for each publish of the same order and deadline.
    pub fn message_id(&self) -> String {
        match self.due_at {
            Some(due_at) => format!("{}@{due_at}", self.order_id),
            None => self.order_id.to_string(),
        }
    }
}

fn due_at(value: &Value) -> Result<Option<Timestamp>, Unreadable> {
    const WANTED: &str = "it has to be a time with a zone, like 2026-11-20T10:30:00Z";
    match value {
        Value::Null => Ok(None),
        Value::String(text) => match text.parse() {
            Ok(time) => Ok(Some(time)),
            Err(error) => Err(json(&format!("`due_at` cannot be read, {WANTED}: {error}"))),
        },
        other => Err(json(&format!("`due_at` is {}, {WANTED}", kind(other)))),
    }
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
    Unreadable::Json(reason.chars().take(MAX_REASON_CHARS).collect())
}
