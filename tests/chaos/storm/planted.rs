//! Each kind of violation is noticed: evidence without fault, and one thing in it made wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::{Answer, Evidence, Expected, Order, Parked, Shelf, Violation, judge};

fn closed(id: &str) -> Order {
    Order {
        id: id.to_owned(),
        status: "closed".to_owned(),
        closed_at_us: Some(1_500),
        closures: vec![(1_700, "message".to_owned())],
        changes: vec![("closed".to_owned(), 1_600)],
    }
}

fn paid(id: &str) -> Order {
    Order {
        id: id.to_owned(),
        status: "paid".to_owned(),
        closed_at_us: None,
        closures: Vec::new(),
        changes: vec![("paid".to_owned(), -20_000)],
    }
}

fn faultless() -> Evidence {
    let expected = |reason: &str| Expected { reason: reason.to_owned(), sent: 1, confirmed: true };
    let parked = |message_id: &str, reason: &str| Parked {
        message_id: message_id.to_owned(),
        reason: reason.to_owned(),
        about: String::new(),
    };
    let shelf = Shelf {
        sku: "hot-0".to_owned(),
        initial: 100,
        available: 97,
        reserved: 0,
        sold: 3,
        in_unpaid: 0,
        in_paid: 3,
    };
    Evidence {
        orders: vec![closed("c"), paid("p")],
        created: ["c", "p"].map(str::to_owned).into(),
        answers: BTreeMap::from([
            ("c".to_owned(), vec![Answer::Refused]),
            ("p".to_owned(), vec![Answer::Unknown, Answer::Refused]),
        ]),
        shelves: vec![shelf],
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
        events: BTreeSet::from(["c".to_owned()]),
        interruptions: 1,
        ..Evidence::default()
    }
}

/// The one violation that a change of faultless evidence makes.
fn planted(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = faultless();
    change(&mut evidence);
    let name = |violation: &Violation| {
        let name = format!("{violation:?}");
        name.split('(').next().unwrap_or_default().to_owned()
    };
    judge(&evidence).iter().map(name).collect()
}

#[test]
fn nothing_is_wrong_with_faultless_evidence() {
    assert_eq!(judge(&faultless()), []);
    assert_eq!(judge(&Evidence::default()), []);
}

#[test]
fn an_order_that_is_not_final_is_noticed() {
    let unpaid = Order {
        status: "unpaid".to_owned(),
        closed_at_us: None,
        closures: vec![],
        changes: vec![],
        ..closed("c")
    };
    assert_eq!(planted(|e| e.orders[0] = unpaid), ["NotFinal"]);
    assert_eq!(planted(|e| drop(e.orders.remove(1))), ["OrderLost"]);
}

#[test]
fn a_second_closure_is_noticed_and_so_is_a_second_change() {
    let second = (2_000, "sweep".to_owned());
    assert_eq!(planted(|e| e.orders[0].closures.push(second)), ["ChangedTwice"]);
    assert_eq!(
        planted(|e| e.orders[0].changes.push(("closed".to_owned(), 9_000))),
        ["ChangedTwice"]
    );
}

#[test]
fn a_paid_order_that_is_closed_is_noticed_and_so_is_a_closed_one_that_is_paid() {
    let was_paid = ("paid".to_owned(), -1);
    assert_eq!(planted(|e| e.orders[0].changes.insert(0, was_paid)), ["ChangedTwice"]);
    assert_eq!(
        planted(|e| e.orders[1].closures.push((1, "message".to_owned()))),
        ["Contradiction"]
    );
    assert_eq!(planted(|e| e.orders[1].closed_at_us = Some(1)), ["Contradiction"]);
    assert_eq!(planted(|e| e.orders[1].changes.clear()), ["Contradiction"]);
    assert_eq!(planted(|e| e.orders[0].closures.clear()), ["Contradiction"]);
}

#[test]
fn a_closing_before_the_deadline_is_noticed_by_each_clock() {
    assert_eq!(planted(|e| e.orders[0].closed_at_us = Some(-1)), ["ClosedEarly"]);
    assert_eq!(planted(|e| e.orders[0].closures[0].0 = -1), ["ClosedEarly"]);
    assert_eq!(planted(|e| e.orders[0].changes[0].1 = -1), ["ClosedEarly"]);
}

#[test]
fn a_payment_that_is_lost_or_nobodys_is_noticed() {
    assert_eq!(planted(|e| e.answers.get_mut("c").unwrap().push(Answer::Taken)), ["PaymentLost"]);
    assert_eq!(planted(|e| drop(e.answers.remove("p"))), ["PaidByNobody"]);
}

#[test]
fn stock_that_is_made_or_held_for_nobody_is_noticed() {
    assert_eq!(planted(|e| e.shelves[0].available += 1), ["StockNotConserved"]);
    let held = |e: &mut Evidence| {
        e.shelves[0].reserved += 1;
        e.shelves[0].available -= 1;
    };
    assert_eq!(planted(held), ["StockMisassigned"]);
    assert_eq!(planted(|e| e.shelves[0].in_paid -= 1), ["StockMisassigned"]);
}

#[test]
fn a_parking_lot_that_is_not_exactly_the_garbage_is_noticed() {
    assert_eq!(planted(|e| drop(e.parked.remove(2))), ["GarbageLost"]);
    assert_eq!(
        planted(|e| e.parked[0].reason = "the body is not UTF-8".to_owned()),
        ["WrongReason"]
    );
    assert_eq!(planted(|e| e.parked[0].reason.clear()), ["WrongReason"]);
    assert_eq!(planted(|e| e.parked[2].reason = "some".to_owned()), ["WrongReason"]);
    assert_eq!(planted(|e| e.parked.push(e.parked[0].clone())), ["TooManyCopies"]);
    assert_eq!(planted(|e| e.interruptions = 0), ["TooManyCopies"]);
    let good = Parked { message_id: "o-1".to_owned(), reason: String::new(), about: String::new() };
    assert_eq!(planted(|e| e.parked.push(good)), ["GoodMessageParked"]);
}

#[test]
fn garbage_that_was_never_confirmed_may_be_missing() {
    let unconfirmed = |e: &mut Evidence| {
        e.trash.get_mut("garbage-2").unwrap().confirmed = false;
        drop(e.parked.remove(2));
    };
    assert_eq!(planted(unconfirmed), [""; 0]);
}

#[test]
fn workers_messages_and_events_that_are_lost_are_noticed() {
    assert_eq!(planted(|e| e.ends.push("worker 1: exit code 1".to_owned())), ["WorkerEnded"]);
    assert_eq!(planted(|e| e.panics.push("panicked at".to_owned())), ["WorkerPanicked"]);
    assert_eq!(planted(|e| e.left.extend([("orders.unpaid".to_owned(), 1)])), ["MessagesLeft"]);
    assert_eq!(planted(|e| e.outbox = 1), ["EventsLeft"]);
    assert_eq!(planted(|e| e.events.clear()), ["EventLost"]);
}
