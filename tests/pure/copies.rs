//! The headers that a copy of a message keeps, on every path that republishes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable};
use overdue::internals::wire::{Message, Received};

use crate::{messages::route, samples::two_timeouts};

/// A publisher's headers; the last is only the beginning of a name in [`DROPPED`].
const KEPT: [&str; 3] = ["x-shop", "traceparent", "x-opt-delivery"];
/// Headers that the broker added, or obeys as instructions to route or delay the copy.
const DROPPED: [&str; 9] = [
    "x-opt-delivery-time",
    "x-delay",
    "x-death",
    "x-first-death-queue",
    "x-last-death-reason",
    "x-delivery-count",
    "x-acquired-count",
    "CC",
    "BCC",
];
/// Headers that the worker wrote on an earlier copy, and writes again only if they are true of this one.
const OURS: [&str; 5] =
    ["x-attempt", "x-guarded", "x-park-reason", "x-park-timeout", "x-parked-at"];

fn received() -> Received {
    let mut headers = FieldTable::default();
    for name in KEPT.iter().chain(&DROPPED).chain(&OURS) {
        // A distant time, for a reader that takes the value for a time.
        headers.insert((*name).into(), AMQPValue::LongLongInt(i64::MAX));
    }
    Received { headers, body: b"4711".to_vec(), ..Received::default() }
}

fn names(headers: &FieldTable) -> BTreeSet<String> {
    headers.inner().keys().map(ToString::to_string).collect()
}

#[test]
fn no_copy_has_a_header_that_says_where_or_until_when_it_is_kept() {
    let topology = two_timeouts();
    let of = |message: Message| names(&message.headers);
    let received = received();
    let parked =
        received.park(&topology, &topology.timeouts[0], "no reason", Timestamp::UNIX_EPOCH);
    let paths: [(&str, BTreeSet<String>, &[&str]); 6] = [
        ("in hand", names(&received.clone().without_needless_headers().headers), &["x-attempt"]),
        ("put back, or a retry", of(received.put_back(route(None), 2, 0)), &["x-attempt"]),
        (
            "put back, guarded",
            of(received.put_back(route(None), 2, 1)),
            &["x-attempt", "x-guarded"],
        ),
        (
            "put back to the plugin",
            of(received.put_back(route(Some(5)), 2, 0)),
            &["x-attempt", "x-delay"],
        ),
        ("parked", of(parked), &["x-attempt", "x-park-reason", "x-park-timeout", "x-parked-at"]),
        ("replayed", of(received.replayed(route(None))), &[]),
    ];
    for (path, found, with) in paths {
        let expected = KEPT.iter().chain(with).map(|name| (*name).to_owned()).collect();
        assert_eq!(found, expected, "{path}");
    }
}
