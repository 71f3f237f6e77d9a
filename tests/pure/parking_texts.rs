//! Texts and JSON of the parking lot: the state of an order, the criteria of a filter, and the counts of results.

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::{
    order::{FinalState, Outcome},
    parking::{Filter, Selection, Stays, Totals, state, state_word},
};

use crate::parking::read;

#[test]
fn the_state_of_an_order_has_a_text_and_a_word() {
    let (minute, reason) = (Duration::from_mins(1), "a check".to_owned());
    let closed = Outcome::Closed { late: minute, state: FinalState::CLOSED };
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: reason.clone() };
    let states = [
        (closed, "overdue by 60s", "overdue"),
        (Outcome::AlreadyFinal, "final", "final"),
        (Outcome::NotDue { remaining: Duration::ZERO }, "guarded", "guarded"),
        (Outcome::NotDue { remaining: minute }, "due in 60s", "not_due"),
        (Outcome::Unknown, "not in the database", "unknown"),
        (Outcome::Busy, "locked", "locked"),
        (failed, "its effect fails", "effect_fails"),
        (Outcome::Postponed { reason }, "its effect fails", "effect_fails"),
    ];
    for (outcome, text, word) in states {
        assert_eq!((&*state(Some(&outcome)), state_word(&outcome)), (text, word));
    }
    assert_eq!(state(None), "not asked");
}

#[test]
fn a_message_is_called_by_its_order() {
    assert_eq!(read("30m.unpaid", b"4711", &[]).label(), "4711");
    assert_eq!(read("30m.unpaid", b"two words", &[]).label(), "(unreadable)");
}

#[test]
fn a_filter_says_what_it_asks_for() {
    let orders = |count| (1..=count).map(|n| format!("o-{n:02}")).collect::<BTreeSet<_>>();
    let twenty = orders(20).into_iter().collect::<Vec<_>>().join(" ");
    let all = Filter {
        reason: Some("does not know".to_owned()),
        timeout: Some("unpaid".to_owned()),
        orders: orders(2),
        older_than: Some(Duration::from_hours(1)),
        newer_than: Some(Duration::from_hours(48)),
        selected: Selection::from_iter([1, 1]),
    };
    let everything = "2 selected messages, timeout unpaid, reason with \"does not know\", order o-01 o-02, \
                      parked longer than 1h ago, parked less than 2d ago";
    let cases = [
        (Filter::default(), "everything".to_owned()),
        (
            Filter { selected: Selection::from_iter([7]), ..Filter::default() },
            "1 selected message".to_owned(),
        ),
        (Filter { orders: orders(20), ..Filter::default() }, format!("order {twenty}")),
        (Filter { orders: orders(21), ..Filter::default() }, format!("order {twenty} and 1 more")),
        (all, everything.to_owned()),
    ];
    for (filter, text) in cases {
        assert_eq!(filter.to_string(), text);
    }
}

#[test]
fn a_fate_that_no_message_has_is_not_in_the_totals() {
    assert_eq!(Totals::default().to_string(), "       0  messages");
    let totals = Totals { waiting: 1, ..Totals::default() };
    let text = "       1  not due yet: wait in a level for the rest\n       1  message";
    assert_eq!(totals.to_string(), text);
    let totals = Totals { stays: [(Stays::NoTimeout, 2)].into(), ..Totals::default() };
    let text = "       2  stay: the topology does not have the timeout\n       2  messages";
    assert_eq!(totals.to_string(), text);
}
