//! Messages that a queue holds back, and queues that no member leads, in readings that are made up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use overdue::internals::{
    diagnostic::{Severity, Target},
    plan::{Change, QueueStats, Snapshot, diff},
    topology::Topology,
    verify::{MemberState, findings, leaders_not_known, no_leader},
};
use serde_json::{Value, json};

use crate::samples::{LADDER, two_timeouts};

const NOW_MS: u64 = 1_795_600_000_000;
/// Of 365 days.
const TEN_YEARS_MS: u64 = 315_360_000_000;
/// The last timer of a node that started then, and one millisecond: this has ended a queue.
const TOO_FAR_MS: u64 = 11_018_882_309_297;

/// What the management API says of one queue.
fn numbers(name: &str, more: &Value) -> QueueStats {
    let mut queue = json!({ "name": name, "type": "quorum", "messages": 0, "messages_ready": 0,
                            "messages_unacknowledged": 0, "messages_dlx": 0 });
    queue.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(queue).unwrap()
}

fn found_in(topology: &Topology, queue: &str, more: &Value) -> String {
    let stats = BTreeMap::from([(queue.to_owned(), numbers(queue, more))]);
    let now = Timestamp::from_millisecond(NOW_MS.try_into().unwrap()).unwrap();
    let found = findings(topology, &Snapshot::of(topology), &stats, now);
    let target = Target { topology: "orders", virtual_host: "shop" };
    let text = |it: &overdue::internals::diagnostic::Diagnostic| {
        let it = it.rendered(&target);
        let [reason, fix] = [it.reason, it.fix].map(Option::unwrap_or_default);
        let (rule, severity, subject) = (it.rule, it.severity, it.subject);
        format!("{severity} {rule} {subject}: {}\n  {reason}\n  {fix}\n", it.message)
    };
    found.iter().map(text).collect()
}

fn found(queue: &str, more: &Value) -> String {
    found_in(&two_timeouts(), queue, more)
}

/// As a 4.3.6 has them, and a broker before it.
#[test]
fn nothing_is_found_where_nothing_is_held_back() {
    for more in [
        json!({}),
        json!({ "messages": 40, "messages_ready": 40, "messages_delayed": 0 }),
        json!({ "messages_delayed": null, "next_delayed_at": null, "last_delayed_at": null }),
        // A value that there is not may come as a text.
        json!({ "messages_delayed": "", "next_delayed_at": "undefined", "last_delayed_at": [] }),
        json!({ "messages_delayed": -1, "last_delayed_at": -1 }),
    ] {
        for queue in ["orders.delay.30m", "orders.unpaid", "orders.parked", "somebody.elses"] {
            assert_eq!(found(queue, &more), "", "{queue} {more}");
        }
    }
}

#[test]
fn what_is_held_back_where_a_ttl_or_a_person_is_to_wait_for_it() {
    let delayed = json!({ "messages": 2, "messages_delayed": 2, "next_delayed_at": NOW_MS + 5_000,
                          "last_delayed_at": NOW_MS + 60_000 });
    // An older broker may not say until when.
    let one = json!({ "messages_delayed": 1 });
    insta::assert_snapshot!(
        [("orders.delay.30m", &delayed), ("orders.parked", &delayed), ("orders.delay.1s", &one)]
            .map(|(queue, more)| found(queue, more))
            .concat()
    );
    let ladder = Topology::parse(LADDER).unwrap();
    let digit = ladder.objects().queues.into_keys().find(|it| it.contains(".ladder.")).unwrap();
    assert!(
        found_in(&ladder, &digit, &delayed)
            .starts_with(&format!("warning held-back queue {digit}: "))
    );
    // Delayed retry does that, and there it may.
    assert_eq!(found("orders.unpaid", &delayed), "");
    assert_eq!(found("somebody.elses", &delayed), "");
}

#[test]
fn a_message_that_is_more_than_ten_years_away() {
    let at = |last: u64| json!({ "messages_delayed": 1, "next_delayed_at": last, "last_delayed_at": last });
    for queue in ["orders.delay.30m", "orders.unpaid", "orders.parked"] {
        let rule = |last| found(queue, &at(last)).contains("error held-back-for-years");
        let far = NOW_MS + TEN_YEARS_MS;
        for (last, expected) in [
            (NOW_MS - 1, false),
            (far, false),
            (far + 1, true),
            (TOO_FAR_MS, true),
            // Microseconds, and the largest that a header can say.
            (NOW_MS * 1_000, true),
            (i64::MAX.try_into().unwrap(), true),
        ] {
            assert_eq!(rule(last), expected, "{queue} {last}");
        }
    }
    let shielded = json!({ "messages_delayed": 2, "next_delayed_at": NOW_MS + 60_000,
                           "last_delayed_at": TOO_FAR_MS });
    insta::assert_snapshot!(
        [
            found("orders.delay.30m", &at(TOO_FAR_MS)),
            found("orders.unpaid", &at(NOW_MS * 1_000)),
            found("orders.parked", &shielded),
        ]
        .concat()
    );
}

/// Neither ready nor unacked, and the count of all may have been taken a moment before.
#[test]
fn a_queue_that_only_holds_messages_back_is_not_empty() {
    let before = Topology::parse(
        "name = \"orders\"\n[delay]\nlevels = [\"1s\", \"30m\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n",
    )
    .unwrap();
    let after = Topology::parse(
        "name = \"orders\"\n[delay]\nlevels = [\"1s\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n",
    )
    .unwrap();
    let deletes = |more: Value| {
        let held = numbers("orders.delay.30m", &more).held();
        let mut observed = Snapshot::of(&before);
        observed.messages.remove("orders.delay.30m");
        observed.messages.extend(held.map(|held| ("orders.delay.30m".to_owned(), held)));
        let plan = diff(&after, &observed, &std::collections::BTreeSet::new());
        plan.changes().any(|change| {
            matches!(change, Change::DeleteQueue { queue, .. } if queue == "orders.delay.30m")
        })
    };
    assert!(deletes(json!({})));
    assert!(deletes(json!({ "messages_delayed": 0 })));
    assert!(!deletes(json!({ "messages": 1, "messages_delayed": 1 })));
    assert!(!deletes(json!({ "messages": 0, "messages_delayed": 1 })));
    assert!(!deletes(json!({ "messages": null, "messages_delayed": 0 })), "not known is not none");
}

#[test]
fn a_queue_that_no_member_leads() {
    let topology = two_timeouts();
    let state =
        |node: &str, state: &str| MemberState { node: node.to_owned(), state: state.to_owned() };
    let without = BTreeMap::from([
        (
            "orders.unpaid".to_owned(),
            vec![state("rabbit@a", "noproc"), state("rabbit@b", "pre_vote")],
        ),
        ("orders.delay.1s".to_owned(), Vec::new()),
        // Deleted meanwhile, and one that is not ours.
        ("orders.delay.7s".to_owned(), Vec::new()),
    ]);
    let found = no_leader(&topology, &Snapshot::of(&topology), &without);
    assert!(found.iter().all(|it| it.rule == "no-leader"));
    let severities: Vec<_> = found.iter().map(|it| it.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
    let found: Vec<_> = found.iter().map(|it| format!("{}: {}", it.subject, it.message)).collect();
    let not_known = leaders_not_known("500 Internal Server Error");
    assert_eq!(not_known.severity, Severity::Warning);
    assert_eq!(
        found,
        [
            "queue orders.delay.1s: one node knows no leader of it, and its members do not answer",
            "queue orders.unpaid: no member leads it: rabbit@a is noproc, rabbit@b is pre_vote",
        ]
    );
}
