//! Plans that remove a timeout, as a person reads them, and from a file.

use std::collections::BTreeSet;

use overdue::internals::{
    objects::{Acks, Binding},
    plan::{BrokerIdentity, Clock, Drains, SavedPlan, Snapshot, diff},
    topology::Topology,
};

use crate::{
    broker_model::{applied, plan},
    plan_texts::{SMALL, holding, small, without_unshipped},
};

#[test]
fn a_timeout_that_was_removed() {
    insta::assert_snapshot!(plan(&without_unshipped(), &Snapshot::of(&small())), @r"
    Retire
      - binding   shop.dlx -> shop.unshipped  (#.unshipped)
            its timeout is no longer in the topology; what still comes due for it is parked
    Delete
      - queue     shop.unshipped
            retired and empty
    schedule() takes orders for the timeout that is removed until `overdue database init` has run with this file
    1 binding to take away, 1 queue to delete; no message is lost
    ");
}

/// First it is marked, and removed when the levels have nothing from before that mark.
#[test]
fn a_timeout_that_is_removed_in_stages() {
    let mut before = holding("shop.delay.30m", Some(40));
    before.acked.insert("shop.unshipped".to_owned(), Acks { count: 5, term: 1 });
    let first = plan(&without_unshipped(), &before);
    insta::assert_snapshot!("stage_1", first);
    let mut broker = applied(&before, &first);
    let after = |broker: &mut Snapshot, seconds: u64| {
        broker.clock = Some(Clock { now_s: seconds, counts_settle_s: 11 });
        plan(&without_unshipped(), broker)
    };
    insta::assert_snapshot!("stage_2", after(&mut broker, 1_808));
    for seconds in [0, 10, 11, 1_798, 1_808] {
        assert_eq!(after(&mut broker, seconds).steps, [], "{seconds}");
    }
    // The last of them have come out, and more for the other timeout has come in since.
    broker.messages.insert("shop.unshipped".to_owned(), 7);
    insta::assert_snapshot!("stage_3", after(&mut broker, 1_811));
    broker.messages.insert("shop.unshipped".to_owned(), 0);
    let last = after(&mut broker, 1_811);
    insta::assert_snapshot!("stage_4", last);
    // What is counted as nothing need not be waited for, once the count is new.
    broker.messages.insert("shop.delay.30m".to_owned(), 0);
    assert_eq!(after(&mut broker, 10).steps, []);
    assert_eq!(after(&mut broker, 11).steps, last.steps);
    // What was acked meanwhile may have been put back before: the time begins again.
    broker.messages.insert("shop.delay.30m".to_owned(), 40);
    broker.acked.insert("shop.unshipped".to_owned(), Acks { count: 6, term: 1 });
    let again = after(&mut broker, 1_811);
    insta::assert_snapshot!("stage_again", again);
    let mut later = applied(&broker, &again);
    assert_eq!(after(&mut later, 3_619).steps, []);
    assert_eq!(after(&mut later, 3_620).steps, last.steps);
    // Who does not count acks does not know it.
    later.acked.clear();
    assert_eq!(after(&mut later, 9_999).steps, []);
    // Back in the file: it leaves no more, and starts again another time.
    let back = plan(&small(), &broker);
    insta::assert_snapshot!("stage_back", back);
    assert_eq!(applied(&broker, &back).objects, small().objects());
}

#[test]
fn a_timeout_that_was_removed_with_messages() {
    let broker = holding("shop.unshipped", Some(12));
    insta::assert_snapshot!(plan(&without_unshipped(), &broker), @r"
    Refused
      ! queue     shop.unshipped is no longer in the topology and holds 12 messages
            let a worker with the old topology finish them, or lose them with --discard shop.unshipped
    1 refusal; nothing is carried out
    ");
}

#[test]
fn a_timeout_that_was_removed_with_nobody_knows_how_many_messages() {
    let broker = holding("shop.unshipped", None);
    insta::assert_snapshot!(plan(&without_unshipped(), &broker), @r"
    Refused
      ! queue     shop.unshipped is no longer in the topology and holds an unknown number of messages
            let a worker with the old topology finish them, or lose them with --discard shop.unshipped
    1 refusal; nothing is carried out
    ");
}

#[test]
fn a_timeout_that_was_removed_and_discarded() {
    let discard = BTreeSet::from(["shop.unshipped".to_owned()]);
    let broker = holding("shop.unshipped", Some(12));
    insta::assert_snapshot!(diff(&without_unshipped(), &broker, &discard), @r"
    Retire
      - binding   shop.dlx -> shop.unshipped  (#.unshipped)
            its timeout is no longer in the topology; what still comes due for it is parked; 12 messages in it are discarded
    Delete
      - queue     shop.unshipped  WITH 12 messages
            named with --discard
    schedule() takes orders for the timeout that is removed until `overdue database init` has run with this file
    1 binding to take away, 1 queue to delete; 12 messages are LOST
    ");
}

/// The broker does not count by routing key, so nobody knows how many of them are for the timeout.
#[test]
fn a_removed_timeout_that_levels_may_hold_messages_for() {
    insta::assert_snapshot!(plan(&without_unshipped(), &holding("shop.delay.30m", Some(40))), @r"
    Retire
      ~ queue     shop.unshipped  (leaves)
            its timeout is no longer in the topology; it stays bound until what waits for it in the levels (40 messages for all timeouts) has come out, for workers with the old topology to consume. A later apply removes it once it is empty, or this one with --wait. What comes due for it after that is parked
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.unshipped  0 messages for workers with the old topology to consume; it stays bound until what waits for it in the levels has come out (40 messages for all timeouts)
    schedule() takes orders for the timeout that is removed until `overdue database init` has run with this file
    1 queue to leave in stages; 1 retired queue is draining; no message is lost
    ");
}

/// Between the last look and the unbinding something came in: it waits, and nothing else waits for it.
#[test]
fn a_removed_timeout_that_got_a_message_when_it_was_unbound() {
    let mut broker = holding("shop.unshipped", Some(1));
    let other = |it: &Binding| it.destination != "shop.unshipped" || it.mark_of().is_some();
    broker.objects.bindings.retain(other);
    insta::assert_snapshot!(plan(&without_unshipped(), &broker), @r"
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.unshipped  1 message that no worker with this topology consumes: let one with the old topology finish, or lose them with --discard shop.unshipped
    no change: the broker has this topology; 1 retired queue is draining
    ");
    let longer = Topology::parse(
        &SMALL.replace("30m", "40m").replace(r#", { name = "unshipped", after = "40m" }"#, ""),
    );
    let longer = plan(&longer.expect("a good file"), &broker);
    assert!(longer.refusals.is_empty() && !longer.steps.is_empty(), "{longer}");
}

/// The queue is empty, but what comes out of the levels is for nobody.
#[test]
fn a_removed_timeout_that_is_discarded_while_messages_wait_in_levels() {
    let discard = BTreeSet::from(["shop.unshipped".to_owned()]);
    let broker = holding("shop.delay.30m", Some(40));
    insta::assert_snapshot!(diff(&without_unshipped(), &broker, &discard), @r"
    Retire
      - binding   shop.dlx -> shop.unshipped  (#.unshipped)
            its timeout is no longer in the topology; what still comes due for it is parked; up to 40 messages in the levels may be for it: without --discard it is removed in stages, and workers with the old topology close them
    Delete
      - queue     shop.unshipped
            retired and empty
    schedule() takes orders for the timeout that is removed until `overdue database init` has run with this file
    1 binding to take away, 1 queue to delete; no message is lost, but up to 40 messages in the levels may come to the parking lot
    ");
}

/// When it goes, where that is known.
#[test]
fn a_timeout_that_leaves_is_read_as_it_was_written() {
    let mut broker = holding("shop.delay.30m", Some(40));
    broker.acked.insert("shop.unshipped".to_owned(), Acks { count: 5, term: 1 });
    for clock in [None, Some(Clock { now_s: 1_000, counts_settle_s: 11 })] {
        broker.clock = clock;
        let planned = plan(&without_unshipped(), &broker);
        let goes = planned.draining.iter().map(|it| &it.drains);
        let is_known = |it: &Drains| matches!(it, Drains::Leaving { within: Some(_), .. });
        assert_eq!(goes.map(is_known).collect::<Vec<_>>(), [clock.is_some()], "{planned}");
        let place = BrokerIdentity { cluster: String::new(), virtual_host: String::new() };
        let saved = SavedPlan::new(&without_unshipped(), place, planned);
        let text = serde_json::to_string(&saved).expect("JSON");
        assert_eq!(SavedPlan::parse(&text).expect("what was written"), saved);
    }
}
