//! What must be true when the storm is over, beside the orders themselves: a function of the evidence.

use std::collections::{BTreeMap, BTreeSet};

/// Everything that is known at the end.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What does not hold of the orders, by `sql/invariants.sql`.
    pub broken: Vec<String>,
    /// Orders that are closed.
    pub closed: BTreeSet<String>,
    /// Orders that a subscriber of the events heard of.
    pub events: BTreeSet<String>,
    /// Everything that was published and belongs into the parking lot, by `message-id`.
    pub trash: BTreeMap<String, Expected>,
    /// Everything in the parking lot.
    pub parked: Vec<Parked>,
    /// Every end of a worker that nobody asked for.
    pub ends: Vec<String>,
    /// Lines of the workers' logs that say `panicked`.
    pub panics: Vec<String>,
    /// What is left in levels, business queues and the outbox.
    pub left: BTreeMap<String, u64>,
    /// Faults that broke connections: each may make a copy be parked a second time.
    pub interruptions: usize,
}

/// What has to be in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What the reason has to contain; empty if the broker parks without one.
    pub reason: String,
    /// How often it was published until the broker confirmed it.
    pub sent: usize,
}

/// A message in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub message_id: String,
    /// Empty if it has none.
    pub reason: String,
    /// Headers and the beginning of the body, for the person who reads a violation.
    pub about: String,
}

/// Every violation that the evidence shows, as `what: about`.
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

/// Garbage comes at least once: a worker that dies between the confirm of a copy and its ack parks it again.
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

/// Faultless evidence, and one thing in it made wrong.
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
        // A second copy is a worker's that died before its ack.
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
