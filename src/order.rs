//! What a message says about an order, and what the database answers.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Bodies over 64 KiB are parked unread: a due notice is a hundred bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Longer ids are refused: with `@` and a deadline, or `#` and a delivery tag, behind it an id becomes a
/// `message-id`, and that is a short string of at most 255 bytes.
pub const MAX_ORDER_ID_BYTES: usize = 200;
/// Parsers quote what they do not understand; the reason travels in a header, which has to fit into one frame.
const MAX_REASON_CHARS: usize = 200;

/// The id of an order, as the order service writes it: 1 to 200 bytes, no white space, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OrderId(String);

impl OrderId {
    /// Checks a text that is to be an order id.
    ///
    /// # Errors
    /// Empty, longer than [`MAX_ORDER_ID_BYTES`], or with white space or control characters
    /// (PostgreSQL's `text` takes no NUL).
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        if text.is_empty() {
            return Err(Unreadable::EmptyOrderId);
        }
        if text.len() > MAX_ORDER_ID_BYTES {
            return Err(Unreadable::LongOrderId(text.len()));
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Unreadable::OrderIdCharacters);
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The message an order service publishes: "look at this order when the level lets it go".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// Which order.
    pub order_id: OrderId,
    /// When the publisher thinks it is due; a hint, the database decides.
    pub due_at: Option<Timestamp>,
}

/// Why a body is no due notice. Such a message is parked with this text as its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is the sentence above it")]
pub enum Unreadable {
    #[error("the body is empty")]
    Empty,
    #[error("the body has {0} bytes, more than 65536")]
    TooLarge(usize),
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body is no due notice in JSON: {0}")]
    Json(String),
    #[error("the order id is empty")]
    EmptyOrderId,
    #[error("the order id has {0} bytes, more than 200")]
    LongOrderId(usize),
    #[error("the order id has white space or control characters")]
    OrderIdCharacters,
}

#[derive(Deserialize)]
struct WireNotice {
    order_id: String,
    #[serde(default)]
    due_at: Option<Timestamp>,
}

impl DueNotice {
    /// Reads a body: a JSON object with `order_id` and optionally `due_at`, or the bare order id as text.
    ///
    /// What starts like JSON is read as JSON whatever the content type says, because tutorials rarely set it.
    ///
    /// # Errors
    /// Says in one sentence why the body is no due notice.
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
            Some(b'[' | b'"') => Err(Unreadable::Json("it is no object".to_owned())),
            Some(_) => Ok(Self { order_id: OrderId::parse(text)?, due_at: None }),
        }
    }

    fn decode_json(text: &str) -> Result<Self, Unreadable> {
        let wire: WireNotice =
            serde_json::from_str(text).map_err(|error| Unreadable::Json(brief(&error)))?;
        Ok(Self { order_id: OrderId::parse(&wire.order_id)?, due_at: wire.due_at })
    }

    /// The body to publish, `application/json`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = serde_json::json!({ "order_id": self.order_id });
        if let Some(due_at) = self.due_at {
            body["due_at"] = due_at.to_string().into();
        }
        body.to_string().into_bytes()
    }

    /// The `message-id`: the same for each publish of the same order and deadline.
    #[must_use]
    pub fn message_id(&self) -> String {
        match self.due_at {
            Some(due_at) => format!("{}@{due_at}", self.order_id),
            None => self.order_id.to_string(),
        }
    }
}

fn brief(error: &serde_json::Error) -> String {
    error.to_string().chars().take(MAX_REASON_CHARS).collect()
}

/// What the database said about one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This call brought it to its final state.
    Closed {
        /// How long after its deadline, by the database's clock.
        late: Duration,
    },
    /// Paid, closed before, or otherwise settled: nothing to do.
    AlreadyFinal,
    /// The deadline has not come; so long it is still to wait, by the database's clock.
    NotDue {
        /// Time to the deadline.
        remaining: Duration,
    },
    /// The database does not know it: not committed yet, or never.
    Unknown,
    /// The row itself makes the statement fail; the text says why.
    Failed {
        /// What PostgreSQL said.
        reason: String,
    },
}
