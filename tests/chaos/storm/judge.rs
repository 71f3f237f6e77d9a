//! Judges the evidence after a storm, as a function without I/O.

use std::collections::{BTreeMap, BTreeSet};

/// All evidence of a storm.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Violations of `sql/invariants.sql`.
    pub broken: Vec<String>,
    /// Ids of closed orders.
    pub closed: BTreeSet<String>,
    /// Ids of orders for which a subscriber received an event.
    pub events: BTreeSet<String>,
    /// Every published message that must be parked, by `message-id`.
    pub trash: BTreeMap<String, Expected>,
    /// The messages in the parking lot.
    pub parked: Vec<Parked>,
    /// Every unrequested end of a worker.
    pub ends: Vec<String>,
    /// Lines of the workers' logs that contain `panicked`.
    pub panics: Vec<String>,
    /// Counts of levels, business queues and the outbox in the end.
    pub left: BTreeMap<String, u64>,
    /// Faults that broke connections: each may park a republished message a second time.
    pub interruptions: usize,
}

/// A message that must be parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Part of its reason; empty if the broker parks it without a reason.
    pub reason: String,
    /// Number of publishes until the broker confirmed.
    pub sent: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub message_id: String,
    /// Empty if the message has no reason.
    pub reason: String,
    /// Headers and the beginning of the body, printed with a violation.
    pub about: String,
}

/// Returns every violation that the evidence shows, as `what: about`.
pub fn judge(evidence: &Evidence) -> Vec<String> {
    let mut found = evidence.broken.clone();
    let unheard = evidence.closed.difference(&evidence.events);
    found.extend(unheard.map(|id| format!("event lost: {id}")));
    judge_parking_lot(evidence, &mut found);
    found.extend(evidence.ends.iter().map(|end| format!("a worker ended by itself: {end}")));
    found.extend(evidence.panics.iter().map(|line| format!("a worker panicked: {line}")));
    let left = evidence.left.iter().filter(|(_, count)| **count > 0);
    found.extend(left.map(|(place, count)| format!("something is left: {count} in {place}")));
    found.sort();
    found
}

/// Garbage is parked at least once: a worker that dies between the confirm and its ack parks it again.
fn judge_parking_lot(evidence: &Evidence, found: &mut Vec<String>) {
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for Parked { message_id, reason, about } in &evidence.parked {
        let Some(expected) = evidence.trash.get(message_id) else {
            found.push(format!("a good message was parked: {message_id}, `{reason}`, {about}"));
            continue;
        };
        *copies.entry(message_id).or_default() += 1;
        let wanted = &expected.reason;
        if reason.is_empty() != wanted.is_empty() || !reason.contains(wanted) {
            found
                .push(format!("wrong reason: {message_id}, `{reason}` is not `{wanted}`, {about}"));
        }
    }
    for (name, Expected { sent, .. }) in &evidence.trash {
        match copies.get(name.as_str()) {
            None => found.push(format!("garbage lost: {name}")),
            Some(copies) if *copies > sent + evidence.interruptions => {
                found.push(format!("parked too often: {name}, {copies} copies of {sent} sent"));
            }
            Some(_) => {}
        }
    }
}

/// Each case changes one thing in faultless evidence.
#[test]
#[ignore = "tests the storm itself: `make chaos`"]
fn each_violation_is_noticed() {
    type Plant = (fn(&mut Evidence), &'static str);
    let expected = |reason: &str| Expected { reason: reason.to_owned(), sent: 1 };
    let parked = |message_id: &str, reason: &str| {
        let [message_id, reason, about] = [message_id, reason, ""].map(str::to_owned);
        Parked { message_id, reason, about }
    };
    let faultless = Evidence {
        closed: BTreeSet::from(["c".to_owned()]),
        events: BTreeSet::from(["c".to_owned()]),
        trash: BTreeMap::from([
            ("garbage-1".to_owned(), expected("the body is empty")),
            ("garbage-2".to_owned(), expected("")),
        ]),
        // The second copy is from a worker that died before its ack.
        parked: vec![
            parked("garbage-1", "the body is empty"),
            parked("garbage-1", "the body is empty"),
            parked("garbage-2", ""),
        ],
        interruptions: 1,
        ..Evidence::default()
    };
    assert_eq!(judge(&faultless), [""; 0]);
    let plants: [Plant; 11] = [
        (
            |it| it.broken.push("no order is closed twice: o-1".to_owned()),
            "no order is closed twice",
        ),
        (|it| it.events.clear(), "event lost"),
        (|it| drop(it.parked.pop()), "garbage lost"),
        (|it| it.parked[0].reason = "the body is not UTF-8".to_owned(), "wrong reason"),
        (|it| it.parked[0].reason.clear(), "wrong reason"),
        (|it| it.parked[2].reason = "some".to_owned(), "wrong reason"),
        (|it| it.interruptions = 0, "parked too often"),
        (|it| it.parked[2].message_id = "o-1".to_owned(), "a good message was parked"),
        (|it| it.ends.push("worker 1".to_owned()), "a worker ended by itself"),
        (|it| it.panics.push("panicked at".to_owned()), "a worker panicked"),
        (|it| it.left.extend([("outbox".to_owned(), 1)]), "something is left"),
    ];
    for (plant, what) in plants {
        let mut evidence = faultless.clone();
        plant(&mut evidence);
        assert!(judge(&evidence)[0].starts_with(what), "{what}: {:?}", judge(&evidence));
    }
}
