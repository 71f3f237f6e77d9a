//! `traceparent` and `tracestate` of a notice: valid by W3C, or left out, and passed on unchanged.

use lapin::types::{AMQPValue, FieldTable};
use overdue::internals::wire::{Received, Trace};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_parent_names_the_trace_the_span_and_whether_it_is_sampled() {
    let trace = Trace::parse(PARENT, None).unwrap();
    assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(trace.span_id(), "00f067aa0ba902b7");
    for (flags, is_sampled) in
        [("00", false), ("01", true), ("02", false), ("03", true), ("ff", true)]
    {
        let parent = format!("{}{flags}", &PARENT[..53]);
        assert_eq!(Trace::parse(&parent, None).unwrap().is_sampled(), is_sampled, "{flags}");
    }
}

#[test]
fn a_parent_is_as_it_should_be_or_it_is_none() {
    let wrong = [
        ("00-", "ff-"),
        ("00-", "01-"),
        ("00-", ""),
        ("-01", ""),
        ("-01", "-01-more"),
        ("-01", "-0"),
        ("-01", "-0g"),
        ("-01", "-é"),
        ("4bf92f35", "4BF92F35"),
        ("4bf92f35", "4bf92f3"),
        ("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
        ("00f067aa0ba902b7", "0000000000000000"),
        ("00f067aa0ba902b7", "00f067aa0ba902b"),
        ("00f067aa0ba902b7", "00f067aa0ba902b77"),
        ("00-4bf9", " 00-4bf9"),
    ];
    for (part, other) in wrong {
        let parent = PARENT.replacen(part, other, 1);
        assert_ne!(parent, PARENT);
        assert_eq!(Trace::parse(&parent, None), None, "{parent}");
    }
    assert_eq!(Trace::parse("", None), None);
}

/// 512 bytes must be passed on.
#[test]
fn a_state_that_is_none_leaves_the_parent() {
    let longest = "x".repeat(512);
    let longer = format!("{longest}x");
    let kept = |state| Trace::parse(PARENT, Some(state)).unwrap().state().map(str::to_owned);
    for state in ["vendor=a b,other=1", "~", &longest] {
        assert_eq!(kept(state).as_deref(), Some(state));
    }
    for state in ["", &longer, "a=\u{e4}", "a=\n", "a=\u{7f}"] {
        assert_eq!(kept(state), None, "{state}");
    }
}

#[test]
fn what_is_written_on_a_message_is_read_from_its_delivery() {
    for state in [None, Some("vendor=1")] {
        let trace = Trace::parse(PARENT, state);
        let mut received = Received::default();
        trace.as_ref().unwrap().write(&mut received.headers);
        assert_eq!(received.headers.inner().len(), 1 + state.iter().len());
        assert_eq!(received.trace(), trace);
    }
    let mut headers = FieldTable::default();
    headers.insert("traceparent".into(), AMQPValue::ShortString(PARENT.into()));
    for headers in [FieldTable::default(), headers] {
        assert_eq!(Received { headers, ..Received::default() }.trace(), None);
    }
}
