//! The request that a notice belongs to (<https://www.w3.org/TR/trace-context/>). It decides nothing: what is not as it should be is
//! left out.

use std::collections::BTreeMap;

use lapin::types::FieldTable;
use serde::Serialize;

use super::{headers, received::Received};
use crate::order::OrderId;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// What everybody has to pass on; longer ones may be left out.
const MAX_STATE_BYTES: usize = 512;

/// `traceparent` and `tracestate`, version 00.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    #[serde(rename = "traceparent")]
    parent: String,
    #[serde(rename = "tracestate", skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// Of the notices of some orders.
pub(crate) type Traces = BTreeMap<OrderId, Trace>;

impl Trace {
    /// None if `parent` is not `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits. A state of more than 512 bytes, or with other characters than printable ASCII, is
    /// left out.
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

    /// 32 digits.
    pub fn trace_id(&self) -> &str {
        &self.parent[3..35]
    }

    /// What is published with these headers belongs to the request.
    pub fn write(&self, headers: &mut FieldTable) {
        headers.insert(PARENT.into(), headers::text(&self.parent));
        if let Some(state) = &self.state {
            headers.insert(STATE.into(), headers::text(state));
        }
    }

    /// 16 digits: what its publisher did.
    pub fn span_id(&self) -> &str {
        &self.parent[36..52]
    }

    /// Whether its publisher may have recorded it.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.parent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// `tracestate`, as it came.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Received {
    /// The request that it belongs to.
    pub fn trace(&self) -> Option<Trace> {
        let text = |name| headers::text_of(&self.headers, name);
        Trace::parse(&text(PARENT)?, text(STATE).as_deref())
    }
}
