//! The request that a notice belongs to (<https://www.w3.org/TR/trace-context/>). It decides nothing: what is not as it should be is
//! left out.

use std::collections::BTreeMap;

use lapin::types::FieldTable;
use serde::Serialize;

use super::{headers, message::Message, received::Received};
use crate::order::OrderId;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const PARENT_BYTES: usize = 55;
/// What everybody has to pass on; longer ones may be left out.
const MAX_STATE_BYTES: usize = 512;

/// `traceparent` and `tracestate`, version 00.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Trace {
    #[serde(rename = "traceparent")]
    parent: String,
    #[serde(rename = "tracestate", skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// Of the notices of some orders.
pub(crate) type Traces = BTreeMap<OrderId, Trace>;

impl Trace {
    /// None if `parent` is not as it should be. A state of more than 512 bytes, or with other characters than printable ASCII, is
    /// left out.
    pub(crate) fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        // It is somebody else's, and may be long.
        if parent.len() != PARENT_BYTES {
            return None;
        }
        let parts: Vec<&str> = parent.split('-').collect();
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
    pub(crate) fn trace_id(&self) -> &str {
        &self.parent[3..35]
    }

    fn write(&self, headers: &mut FieldTable) {
        headers.insert(PARENT.into(), headers::text(&self.parent));
        if let Some(state) = &self.state {
            headers.insert(STATE.into(), headers::text(state));
        }
    }
}

/// What a span below it needs.
#[cfg(feature = "otlp")]
impl Trace {
    /// 16 digits: what its publisher did.
    pub(crate) fn span_id(&self) -> &str {
        &self.parent[36..52]
    }

    /// Whether its publisher may have recorded it.
    pub(crate) fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.parent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Received {
    /// The request that it belongs to.
    pub(crate) fn trace(&self) -> Option<Trace> {
        let text = |name| headers::text_of(&self.headers, name);
        Trace::parse(&text(PARENT)?, text(STATE).as_deref())
    }
}

impl Message {
    /// The same, which belongs to a request.
    pub(crate) fn of_trace(mut self, trace: Option<&Trace>) -> Self {
        if let Some(trace) = trace {
            trace.write(&mut self.headers);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_as_it_should_be_or_it_is_none() {
        let trace = Trace::parse(PARENT, None).unwrap();
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        #[cfg(feature = "otlp")]
        assert_eq!((trace.span_id(), trace.is_sampled()), ("00f067aa0ba902b7", true));
        #[cfg(feature = "otlp")]
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let parent = format!("{}{flags}", &PARENT[..53]);
            assert_eq!(Trace::parse(&parent, None).unwrap().is_sampled(), is_sampled, "{flags}");
        }
        let wrong = [
            ("00-", "ff-"),
            ("00-", "01-"),
            ("-01", "-01-more"),
            ("-01", "-0"),
            ("-01", "-0g"),
            ("-01", "-é"),
            ("4bf92f35", "4BF92F35"),
            ("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            ("00f067aa0ba902b7", "0000000000000000"),
            ("00f067aa0ba902b7", "00f067aa0ba902b"),
            ("00-4bf9", " 00-4bf9"),
        ];
        for (part, other) in wrong {
            let parent = PARENT.replacen(part, other, 1);
            assert_ne!(parent, PARENT);
            assert_eq!(Trace::parse(&parent, None), None, "{parent}");
        }
        assert_eq!(Trace::parse("", None), None);
    }

    #[test]
    fn a_state_that_is_none_leaves_the_parent() {
        let longest = "x".repeat(MAX_STATE_BYTES);
        let longer = format!("{longest}x");
        let kept = |state| Trace::parse(PARENT, Some(state)).unwrap().state;
        for state in ["vendor=a b,other=1", &longest] {
            assert_eq!(kept(state).as_deref(), Some(state));
        }
        for state in ["", &longer, "a=\u{e4}", "a=\n"] {
            assert_eq!(kept(state), None, "{state}");
        }
    }
}
