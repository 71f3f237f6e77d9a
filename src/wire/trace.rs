//! The trace context of a notice's request (<https://www.w3.org/TR/trace-context/>). It decides nothing: an invalid value is
//! ignored.

use std::collections::BTreeMap;

use lapin::types::FieldTable;
use serde::Serialize;

use super::{headers, received::Received};
use crate::order::OrderId;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// Size that every participant must propagate; a longer state may be dropped.
const MAX_STATE_BYTES: usize = 512;

/// `traceparent` and `tracestate`, version 00.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    #[serde(rename = "traceparent")]
    parent: String,
    #[serde(rename = "tracestate", skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// Trace contexts by order.
pub(crate) type Traces = BTreeMap<OrderId, Trace>;

impl Trace {
    /// None if `parent` is not `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits. A state is dropped if it has more than 512
    /// bytes, or characters that are not printable ASCII.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let parts: Vec<&str> = parent.splitn(5, '-').collect();
        let ["00", trace, span, flags] = parts[..] else { return None };
        let is_id = |id: &str, digits| is_hex(id, digits) && id.bytes().any(|digit| digit != b'0');
        if !is_id(trace, 32) || !is_id(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        let is_printable = |state: &&str| state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let state = state.filter(|state| (1..=MAX_STATE_BYTES).contains(&state.len()));
        let state = state.filter(is_printable).map(str::to_owned);
        Some(Self { parent: parent.to_owned(), state })
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.parent[3..35]
    }

    /// Writes the trace context into the headers of a message.
    pub fn write(&self, headers: &mut FieldTable) {
        headers.insert(PARENT.into(), headers::text(&self.parent));
        if let Some(state) = &self.state {
            headers.insert(STATE.into(), headers::text(state));
        }
    }

    /// The publisher's span: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        &self.parent[36..52]
    }

    /// Whether the publisher may have recorded its span.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.parent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// `tracestate` as received.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Received {
    /// Trace context of the request that the message belongs to.
    pub fn trace(&self) -> Option<Trace> {
        let text = |name| headers::text_of(&self.headers, name);
        Trace::parse(&text(PARENT)?, text(STATE).as_deref())
    }
}
