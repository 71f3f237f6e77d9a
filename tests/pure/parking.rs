//! The parking lot as data: why a message is there, which are asked for, what becomes of them.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldArray};
use overdue::internals::{
    order::{FinalState, OrderId, Outcome},
    parking::{Cause, Fate, Filter, ParkedMessage, Reasons, Selection, Stays, Totals, fate},
    topology::{Topology, level_routes::LevelRoutes},
    wire::{MAX_BODY_BYTES, Received},
};
use proptest::prelude::*;

use crate::{
    messages::{table, text},
    samples::{WITHOUT_FINDINGS, two_timeouts},
};

fn deaths(deaths: &[(&str, &str, u64)]) -> AMQPValue {
    let death = |(reason, queue, time): &(&str, &str, u64)| {
        AMQPValue::FieldTable(table(&[
            ("reason", text(reason)),
            ("queue", text(queue)),
            ("time", AMQPValue::Timestamp(*time)),
        ]))
    };
    AMQPValue::FieldArray(FieldArray::from(deaths.iter().map(death).collect::<Vec<_>>()))
}

fn received(key: &str, body: &[u8], headers: &[(&str, AMQPValue)]) -> Received {
    Received {
        routing_key: key.into(),
        headers: table(headers),
        body: body.to_vec(),
        ..Received::default()
    }
}

pub(crate) fn read(key: &str, body: &[u8], headers: &[(&str, AMQPValue)]) -> ParkedMessage {
    ParkedMessage::read(&two_timeouts(), &received(key, body, headers))
}

/// The good file, and what it makes of a message.
fn good(key: &str, body: &[u8]) -> (Topology, ParkedMessage) {
    let topology = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    let message = ParkedMessage::read(&topology, &received(key, body, &[]));
    (topology, message)
}

/// Headers, body, the cause in words, and when it was parked, in seconds since 1970.
type Case<'a> = (&'a [(&'a str, AMQPValue)], &'a [u8], &'a str, Option<i64>);

/// What the broker parks has no reason of ours: its own says why.
#[test]
fn every_way_into_the_parking_lot_has_a_reason() {
    let topology = two_timeouts();
    let [one, other] = [0, 1].map(|n| topology.timeouts[n].name.clone());
    let business = topology.business_queue(&topology.timeouts[1]);
    let expired = ("expired", "orders.delay.30m", 1_000);
    let by = |reason: &str| deaths(&[(reason, &business, 2_000), expired]);
    let key = format!("30m.{one}");
    let too_large = [("x-death", by("rejected")), ("x-body-left-out", text("70000"))];
    let worker = [
        ("x-park-reason", text("the database does not know this order")),
        ("x-park-timeout", text(&other)),
        ("x-parked-at", AMQPValue::Timestamp(3_000)),
    ];
    let stale = [worker.as_slice(), &[("x-death", by("delivery_limit"))]].concat();
    let died =
        format!("workers ended while they processed it, up to the delivery limit of {business}");
    let cases: [Case<'_>; 9] = [
        (&worker, b"4711", "the database does not know this order", Some(3_000)),
        (&[("x-death", by("delivery_limit"))], b"4711", &died, Some(2_000)),
        // Somebody has put it back by hand, with what an earlier parking wrote.
        (&stale, b"4711", &died, Some(2_000)),
        (&[("x-death", by("rejected"))], b"\xff", "the body is not UTF-8", Some(2_000)),
        (&too_large, b"", "body or headers have 70000 bytes, more than 65536", Some(2_000)),
        (
            &[("x-death", by("rejected"))],
            b"4711",
            &format!(
                "a worker rejected it in {business}: it could not publish a copy with the reason"
            ),
            Some(2_000),
        ),
        (
            &[("x-death", deaths(&[expired]))],
            b"4711",
            &format!("due (orders.delay.30m), and no queue takes the routing key `{key}`"),
            Some(1_000),
        ),
        (&[], b"4711", &format!("no level takes the routing key `{key}`"), None),
        (&[("x-death", by("maxlen"))], b"4711", &format!("{business} was full"), Some(2_000)),
    ];
    for (headers, body, reason, at) in cases {
        let message = read(&key, body, headers);
        assert_eq!(message.cause.to_string(), reason);
        assert_eq!(message.parked_at.map(Timestamp::as_second), at, "{reason}");
        // What was in a business queue is for its timeout, whatever the routing key says.
        let expected = if at.is_some_and(|at| at >= 2_000) { &other } else { &one };
        assert_eq!(message.timeout.as_ref(), Some(expected), "{reason}");
    }
}

/// Somebody has given the parking lot a TTL, and an exchange for what it expires that leads back to it.
#[test]
fn what_expires_in_the_parking_lot_was_not_due() {
    let lot = two_timeouts().parked_queue();
    for (queue, is_lot) in [
        (lot.clone(), true),
        (format!("{lot}.12"), true),
        (format!("{lot}.x"), false),
        (format!("{lot}12"), false),
        ("orders.delay.30m".to_owned(), false),
    ] {
        let headers = [("x-death", deaths(&[("expired", &queue, 1_000)]))];
        let said = read("30m.unpaid", b"4711", &headers).cause.to_string();
        assert_eq!(said == format!("{queue} gave it up: expired"), is_lot, "{said}");
    }
}

#[test]
fn what_only_one_message_has_is_not_in_its_general_reason() {
    let (queue, routing_key) = ("a.queue".to_owned(), "30m.unpaid".to_owned());
    let due_unroutable = Cause::DueUnroutable { queue: queue.clone(), routing_key };
    let unroutable = Cause::Unroutable { routing_key: "30m.unpaid".to_owned() };
    for (cause, in_general) in [
        (Cause::TooLarge { bytes: 70_000 }, "body or headers have more than 65536 bytes"),
        (unroutable, "no level takes the routing key"),
        (due_unroutable, "due, and no queue takes the routing key"),
        (Cause::Full { queue }, "a.queue was full"),
        (Cause::Written("no such order".to_owned()), "no such order"),
    ] {
        assert_eq!(cause.in_general(), in_general);
    }
}

#[test]
fn forged_headers_are_no_reason_and_no_crash() {
    let forged = [
        AMQPValue::Void,
        AMQPValue::LongInt(-7),
        AMQPValue::Timestamp(u64::MAX),
        text("\u{1b}[2J"),
        AMQPValue::FieldArray(FieldArray::default()),
        AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(table(&[(
            "reason",
            AMQPValue::Boolean(true),
        )]))])),
    ];
    for value in forged {
        for name in ["x-death", "x-park-reason", "x-park-timeout", "x-parked-at", "x-attempt"] {
            let message = read("30m.unpaid", b"4711", &[(name, value.clone())]);
            assert_eq!(message.order.as_ref().map(OrderId::as_str), Some("4711"));
            assert!(!message.cause.to_string().is_empty(), "{name}: {value:?}");
            assert!(message.attempts <= 1_000_000);
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

#[test]
fn a_filter_takes_what_meets_all_its_conditions() {
    let known = [
        ("x-park-reason", text("The effect failed")),
        ("x-park-timeout", text("unpaid")),
        ("x-parked-at", AMQPValue::Timestamp(1_000)),
    ];
    let message = read("30m.unpaid", b"4711", &known);
    let unknown_age = read("30m.unpaid", b"4712", &[]);
    let (now, hour) = (at(1_000 + 3_600), Duration::from_hours(1));
    let filter = |change: fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        filter
    };
    let taking = [
        Filter::default(),
        filter(|it| it.reason = Some("EFFECT".to_owned())),
        filter(|it| it.timeout = Some("unpaid".to_owned())),
        filter(|it| it.orders = BTreeSet::from(["4711".to_owned()])),
        Filter { older_than: Some(hour), ..Filter::default() },
        Filter { newer_than: Some(hour + Duration::from_secs(1)), ..Filter::default() },
    ];
    assert!(taking.iter().all(|filter| filter.takes(&message, now)), "{taking:?}");
    let refusing = [
        filter(|it| it.reason = Some("nothing like it".to_owned())),
        filter(|it| it.timeout = Some("unshipped".to_owned())),
        filter(|it| it.orders = BTreeSet::from(["471".to_owned()])),
        Filter { older_than: Some(hour + Duration::from_secs(1)), ..Filter::default() },
        Filter { newer_than: Some(hour), ..Filter::default() },
    ];
    for filter in &refusing {
        assert!(!filter.takes(&message, now), "{filter:?}");
        // All conditions have to be met.
        let mut both = filter.clone();
        if both.orders.is_empty() {
            both.orders.insert("4711".to_owned());
        }
        assert!(!both.takes(&message, now), "{both:?}");
    }
    for filter in [&taking[4], &taking[5]] {
        assert!(!filter.takes(&unknown_age, now), "its age is not known: {filter:?}");
    }
    assert!(Filter::default().is_open() && !taking[1].is_open());
}

/// The notice of an order need not have the spelling of the database.
#[test]
fn a_filter_finds_a_uuid_in_any_spelling() {
    const SPELLINGS: [&str; 2] =
        ["2F1C0A3B-0000-4000-8000-00000000000B", "2f1c0a3b-0000-4000-8000-00000000000b"];
    for asked in SPELLINGS {
        let orders = OrderId::parse(asked).expect("an id").spellings().into_iter().collect();
        let filter = Filter { orders, ..Filter::default() };
        for written in SPELLINGS {
            let message = read("30m.unpaid", written.as_bytes(), &[]);
            assert!(filter.takes(&message, at(0)), "{asked} {written}");
        }
        let other = read("30m.unpaid", SPELLINGS[0].replace('B', "C").as_bytes(), &[]);
        assert!(!filter.takes(&other, at(0)), "{asked}");
    }
}

#[test]
fn of_equal_messages_as_many_are_taken_as_were_selected() {
    let [one, other] = [b"4711", b"4712"].map(|body| read("30m.unpaid", body, &[]));
    let mut left = Selection::from_iter([one.print, one.print]);
    let filter = Filter { selected: left.clone(), ..Filter::default() };
    let takes = |message| filter.takes_next(message, at(0), &mut left);
    assert_eq!([&other, &one, &one, &one].map(takes), [false, true, true, false]);
    assert!(left.is_empty());
    let everything = Filter::default();
    assert_eq!([&one, &one].map(|it| everything.takes_next(it, at(0), &mut left)), [true, true]);
}

#[test]
fn what_becomes_of_a_message_depends_on_its_order() {
    let (topology, message) = good("30m.unpaid", b"4711");
    let routes = LevelRoutes::default();
    let fate_of = |now: Option<Outcome>| fate(&topology, &routes, &message, now.as_ref());
    let late = Duration::from_mins(1);
    let failed = Outcome::Failed { cause: "23514".to_owned(), reason: "no".to_owned() };
    for outcome in [
        Outcome::Closed { late, state: FinalState::CLOSED },
        Outcome::Busy,
        Outcome::NotDue { remaining: Duration::ZERO },
        Outcome::Postponed { reason: "later".to_owned() },
    ] {
        let Fate::Replay(route) = fate_of(Some(outcome.clone())) else {
            panic!("{outcome:?} is to be replayed")
        };
        assert_eq!((&*route.exchange, &*route.routing_key), ("orders.dlx", "unpaid"));
    }
    let rest = Duration::from_mins(30);
    let Fate::Replay(route) = fate_of(Some(Outcome::NotDue { remaining: rest })) else {
        panic!("it waits for the rest")
    };
    assert_eq!(
        (route.exchange.as_str(), route.holds),
        ("orders.in", rest.saturating_sub(topology.lead.longest()))
    );
    assert_eq!(fate_of(Some(Outcome::AlreadyFinal)), Fate::Settle);
    assert_eq!(fate_of(Some(Outcome::Unknown)), Fate::Stay(Stays::UnknownOrder));
    assert_eq!(fate_of(Some(failed)), Fate::Stay(Stays::EffectFails));
    assert_eq!(fate_of(None), Fate::Stay(Stays::UnknownOrder));
    let closed = Outcome::Closed { late, state: FinalState::CLOSED };
    let fate_now = |message: &ParkedMessage| fate(&topology, &routes, message, Some(&closed));
    let unreadable = fate_now(&good("30m.unpaid", b"two words").1);
    assert_eq!(unreadable, Fate::Stay(Stays::Unreadable));
    assert_eq!(fate_now(&good("30m.gone", b"4711").1), Fate::Stay(Stays::NoTimeout));
}

/// Only what would be published needs one.
#[test]
fn what_no_queue_would_get_stays_until_the_topology_is_applied() {
    let (topology, message) = good("30m.unpaid", b"4711");
    let mut objects = topology.objects();
    objects.queues.remove("orders.unpaid");
    objects.bindings.retain(|it| it.destination != "orders.unpaid");
    let routes = LevelRoutes::of_objects(&topology, &objects);
    let closed = Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED };
    let mut totals = Totals::default();
    for (now, expected) in [
        (&closed, Fate::Stay(Stays::NoQueue)),
        (&Outcome::NotDue { remaining: Duration::from_mins(40) }, Fate::Stay(Stays::NoQueue)),
        (&Outcome::AlreadyFinal, Fate::Settle),
        (&Outcome::Unknown, Fate::Stay(Stays::UnknownOrder)),
    ] {
        let fate = fate(&topology, &routes, &message, Some(now));
        assert_eq!(fate, expected, "{now:?}");
        totals.add(&fate);
    }
    assert_eq!((totals.not_applied(), totals.total()), (2, 4));
}

#[test]
fn totals_add_up() {
    let (topology, message) = good("30m.unpaid", b"4711");
    let mut totals = Totals::default();
    let overdue = Outcome::Closed { late: Duration::ZERO, state: FinalState::CLOSED };
    let early = Outcome::NotDue { remaining: Duration::from_mins(40) };
    for now in [&overdue, &overdue, &early, &Outcome::AlreadyFinal, &Outcome::Unknown] {
        totals.add(&fate(&topology, &LevelRoutes::default(), &message, Some(now)));
    }
    totals.unconfirmed = 3;
    assert_eq!((totals.leaving(), totals.total()), (4, 8));
    insta::assert_snapshot!(totals.to_string(), @"
           2  overdue: straight to the worker
           1  not due yet: wait in a level for the rest
           1  final: taken out, nothing is published
           3  not confirmed by the broker: stay
           1  stays: the database does not know the order
           8  messages
    ");
}

proptest! {
    /// Whatever texts come, few are kept, and every message is counted.
    #[test]
    fn reasons_are_counted_in_bounded_memory(texts in prop::collection::vec("[a-z]{0,3}", 0..600)) {
        let mut reasons = Reasons::default();
        for text in &texts {
            reasons.add(&Cause::Written(text.clone()));
        }
        prop_assert_eq!(reasons.total(), texts.len() as u64);
        let (most, others) = reasons.most_frequent(usize::MAX);
        let different = texts.iter().collect::<BTreeSet<_>>().len();
        prop_assert_eq!(most.len(), different.min(200));
        prop_assert_eq!(most.iter().map(|it| it.1).sum::<u64>() + others, texts.len() as u64);
        prop_assert!(most.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        let (few, rest) = reasons.most_frequent(3);
        prop_assert_eq!(few.iter().map(|it| it.1).sum::<u64>() + rest, texts.len() as u64);
    }
}

/// A publisher that has written the header itself has left nothing out.
#[test]
fn only_a_large_body_can_have_been_left_out() {
    for (size, body, left_out) in [
        (MAX_BODY_BYTES, "", None),
        (MAX_BODY_BYTES + 1, "", Some(MAX_BODY_BYTES + 1)),
        (MAX_BODY_BYTES + 1, "4711", None),
    ] {
        let headers = [("x-body-left-out", text(&size.to_string()))];
        let received = received("30m.unpaid", body.as_bytes(), &headers);
        assert_eq!(received.body_left_out(), left_out, "{size} {body}");
    }
}
