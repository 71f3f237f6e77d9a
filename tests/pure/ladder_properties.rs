//! Properties of every ladder, every delay and every routing key.

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::{
    ladder::{DelayError, Ladder, LadderSpec, MAX_MS, MAX_QUEUES, Place, Rounding, SpecError},
    objects::{Binding, Exchange, Objects, Queue, route},
};
use proptest::{prelude::*, sample::Index};

use crate::ladder::{ladder, objects};

/// A maximum in seconds: short and long are equally likely.
fn max_s() -> impl Strategy<Value = u64> {
    (1_u32..=28)
        .prop_flat_map(|bits| (1 << (bits - 1))..=(1_u64 << bits))
        .prop_map(|s| s.min(MAX_MS / 1_000))
}

/// A spec with a resolution of one second; its budget is the minimum and `more` queues, or none.
fn with_budget(max_s: u64, more: Option<u32>) -> LadderSpec {
    let max_queues = more.map(|more| (least(max_s) + more).min(MAX_QUEUES));
    LadderSpec { max_queues, ..LadderSpec::up_to(Duration::from_secs(max_s)) }
}

fn spec() -> impl Strategy<Value = LadderSpec> {
    (max_s(), prop::option::of(0_u32..120)).prop_map(|(max_s, more)| with_budget(max_s, more))
}

/// Any ladder to the second, and ladders with finer resolutions.
fn any_ladder() -> impl Strategy<Value = Ladder> {
    let compiled = |spec: LadderSpec| Ladder::compile("orders", &spec).expect("a good spec");
    let finer = (max_s(), prop::sample::select(vec![1, 10, 100, 1_000])).prop_map(|(steps, ms)| {
        let resolution = Duration::from_millis(ms);
        let max = resolution * u32::try_from(steps).expect("small");
        LadderSpec { max, resolution, max_queues: None }
    });
    prop_oneof![spec(), finer].prop_map(compiled)
}

fn rounding() -> impl Strategy<Value = Rounding> {
    prop_oneof![Just(Rounding::Down), Just(Rounding::Up)]
}

/// The minimum of queues: a place for every unit.
fn least(max_s: u64) -> u32 {
    ladder(Duration::from_secs(max_s), None).queue_count()
}

/// Average hops if all combinations of digits are equally likely.
fn hops_of(ladder: &Ladder) -> f64 {
    let digits = ladder.places().iter().map(|place| f64::from(place.highest()));
    digits.map(|digit| digit / (digit + 1.0)).sum()
}

/// A ladder's objects, with the objects around it.
fn with_ends(ladder: &Ladder) -> Objects {
    let mut objects = objects(ladder);
    for (name, kind, queue, pattern) in [
        ("orders.dlx", "topic", "orders.unpaid", "#.unpaid"),
        ("orders.park", "fanout", "orders.parked", ""),
    ] {
        let exchange = Exchange {
            name: name.to_owned(),
            kind: kind.to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: [("alternate-exchange".to_owned(), "orders.park".into())].into(),
        };
        objects.exchanges.insert(name.to_owned(), exchange);
        let arguments = [].into();
        let (durable, auto_delete, exclusive) = (true, false, false);
        let kind = "quorum".to_owned();
        let end =
            Queue { name: queue.to_owned(), kind, durable, auto_delete, exclusive, arguments };
        objects.queues.insert(queue.to_owned(), end);
        objects.bindings.insert(Binding {
            source: name.to_owned(),
            destination: queue.to_owned(),
            to_queue: true,
            routing_key: pattern.to_owned(),
            arguments: [].into(),
        });
    }
    objects
}

/// Follows a message: returns its queues with their TTLs, and its last queue. The message is in exactly one queue at a time.
fn followed(objects: &Objects, exchange: &str, key: &str) -> (Vec<(String, u64)>, String) {
    let (mut exchange, mut waits) = (exchange, Vec::new());
    loop {
        let routed = route(objects, exchange, key);
        assert!(routed.missing.is_empty(), "{key}: no exchange {:?}", routed.missing);
        let queues: Vec<&String> = routed.queues.iter().collect();
        let [queue] = queues[..] else { panic!("{key} at {exchange}: {queues:?}") };
        let queue = &objects.queues[queue];
        let Some(next) = queue.dead_letter_exchange() else { return (waits, queue.name.clone()) };
        assert!(waits.iter().all(|(name, _)| *name != queue.name), "{key}: {} twice", queue.name);
        let ttl_ms = queue.message_ttl_ms().expect("a TTL");
        waits.push((queue.name.clone(), u64::try_from(ttl_ms).expect("positive")));
        exchange = next;
    }
}

/// Usual delays take one hop if this hardly raises the average.
#[test]
fn a_round_ladder_is_taken_where_it_is_nearly_the_best() {
    let (hour, minutes) = (Duration::from_hours(1), Duration::from_mins);
    let units =
        |ladder: &Ladder| ladder.places().iter().map(|place| place.unit()).collect::<Vec<_>>();
    let (few, enough) = (ladder(hour, Some(73)), ladder(hour, Some(74)));
    assert_eq!(units(&enough), [Duration::from_secs(1), Duration::from_secs(10), minutes(1)]);
    assert_ne!(units(&few), units(&enough));
    // At most half of the 5.78 hops that one queue per bit takes on average; usual delays take one hop.
    assert!(enough.summary().average_hops < 2.75, "{}", enough.summary());
    for usual in [5, 15, 30, 60].map(minutes) {
        assert_eq!(enough.enter(usual, Rounding::Down, "unpaid").unwrap().hops.len(), 1);
    }
}

proptest! {
    /// The broker's TTLs add up to the rounded delay, and the path reports that time.
    #[test]
    fn a_delay_is_held_rounded_as_said(
        ladder in any_ladder(), at in any::<Index>(), below in 0_u32..1_000_000, rounding in rounding(),
    ) {
        let max_ms = usize::try_from(ladder.max().as_millis())?;
        let ms = Duration::from_millis(u64::try_from(at.index(max_ms + 1))?);
        let delay = ms.saturating_sub(Duration::from_nanos(below.into()));
        let path = ladder.enter(delay, rounding, "unpaid").expect("a path");
        let total = path.total();
        match rounding {
            Rounding::Down => prop_assert!(total <= delay && delay < total + ladder.resolution()),
            Rounding::Up => prop_assert!(total >= delay && total < delay + ladder.resolution()),
        }
        prop_assert!(path.hops.len() <= ladder.summary().worst_hops);
        prop_assert!(path.routing_key.len() <= 255);
        let (waits, end) = followed(&with_ends(&ladder), &path.exchange, &path.routing_key);
        let said: Vec<(String, u64)> = path.hops.iter()
            .map(|hop| (hop.queue.clone(), u64::try_from(hop.hold.as_millis()).expect("small")))
            .collect();
        prop_assert_eq!(waits, said);
        prop_assert_eq!(end, "orders.unpaid");
        prop_assert_eq!(ladder.enter(total, rounding, "unpaid"), Ok(path));
    }

    #[test]
    fn two_delays_have_two_keys(ladder in any_ladder(), one in any::<Index>(), other in any::<Index>()) {
        let steps = usize::try_from(ladder.max().as_millis() / ladder.resolution().as_millis())?;
        let key = |steps: usize| {
            let delay = ladder.resolution() * u32::try_from(steps).expect("small");
            ladder.enter(delay, Rounding::Down, "unpaid").expect("a path").routing_key
        };
        let (one, other) = (one.index(steps + 1), other.index(steps + 1));
        prop_assert_eq!(one == other, key(one) == key(other));
    }

    /// Includes digit strings that no delay has, with leading zeros at the entry and with words behind them.
    #[test]
    fn every_digit_string_waits_as_long_as_it_says(
        ladder in any_ladder(), digits in prop::collection::vec(any::<Index>(), 40), entry in any::<Index>(),
        more in prop::collection::vec(0_u32..100, 0..3),
    ) {
        let places = ladder.places();
        let entry = entry.index(places.len());
        let digit = |(place, digit): (&Place, &Index)| digit.index(place.highest() as usize + 1);
        let digits: Vec<usize> = places.iter().zip(&digits).map(digit).take(entry + 1).collect();
        let words = digits.iter().map(ToString::to_string).chain(more.iter().map(ToString::to_string));
        let key = words.chain(["unpaid".to_owned()]).collect::<Vec<_>>().join(".");
        let exchange = ladder.exchange(places[entry]);
        let (waits, end) = followed(&with_ends(&ladder), &exchange, &key);
        prop_assert_eq!(waits.len(), digits.iter().filter(|digit| **digit > 0).count());
        let held = places.iter().zip(&digits).map(|(place, digit)| place.unit() * u32::try_from(*digit).unwrap());
        let waited = waits.iter().map(|(_, ms)| Duration::from_millis(*ms));
        prop_assert_eq!(held.sum::<Duration>(), waited.sum());
        prop_assert_eq!(end, "orders.unpaid");
    }

    /// A key without a digit for each place is parked: at once, or later at a word that is not a digit. It is never lost.
    #[test]
    fn any_other_key_ends_in_the_parking_lot(
        ladder in any_ladder(), entry in any::<Index>(), key in "[0-9]{0,3}(\\.(0|1|2|7|99|x|unpaid|\\+1|01)){0,8}",
    ) {
        let places = &ladder.places()[..=entry.index(ladder.places().len())];
        let exchange = ladder.exchange(*places.last().unwrap());
        let (_, end) = followed(&with_ends(&ladder), &exchange, &key);
        let words: Vec<&str> = key.split('.').collect();
        let is_digit = |(place, word): (&Place, &&str)| (0..=place.highest()).any(|digit| digit.to_string() == **word);
        let has_digits = words.len() > places.len() && places.iter().zip(&words).all(is_digit);
        let is_due = has_digits && *words.last().unwrap() == "unpaid";
        prop_assert_eq!(end, if is_due { "orders.unpaid" } else { "orders.parked" });
    }

    #[test]
    fn the_budget_is_kept_and_every_delay_is_expressed(spec in spec()) {
        let ladder = Ladder::compile("orders", &spec).expect("a good spec");
        prop_assert!(spec.max_queues.is_none_or(|queues| ladder.queue_count() <= queues));
        prop_assert_eq!(ladder.max(), spec.max);
        let largest: Duration = ladder.places().iter().map(|place| place.unit() * place.highest()).sum();
        prop_assert!(largest >= spec.max, "{:?} at most", largest);
        prop_assert!(ladder.places().last().expect("a place").unit() <= spec.max);
        prop_assert_eq!(&ladder, &Ladder::compile("orders", &spec).expect("the same again"));
    }

    #[test]
    fn a_place_for_every_unit_takes_the_fewest_queues(max_s in max_s()) {
        let spec = LadderSpec::up_to(Duration::from_secs(max_s));
        let with = |queues| Ladder::compile("orders", &LadderSpec { max_queues: Some(queues), ..spec });
        let (too_few, enough) = (with(least(max_s) - 1), with(least(max_s)));
        let named = matches!(too_few, Err(SpecError::TooFewQueues { least: named, .. }) if named == least(max_s));
        prop_assert!(named, "{:?}", too_few);
        prop_assert_eq!(enough.map(|ladder| ladder.queue_count()), Ok(least(max_s)));
    }

    #[test]
    fn fewer_queues_never_have_fewer_hops(max_s in max_s(), fewer in 0_u32..120, more in 0_u32..120) {
        let hops = |more| hops_of(&Ladder::compile("orders", &with_budget(max_s, Some(more))).expect("a good spec"));
        prop_assert!(hops(fewer) + 1e-9 >= hops(fewer + more));
        prop_assert!(hops_of(&ladder(Duration::from_secs(max_s), None)) + 1e-9 >= hops(fewer));
    }

    #[test]
    fn names_are_unique(ladder in any_ladder()) {
        let objects = objects(&ladder);
        prop_assert_eq!(objects.exchanges.len(), ladder.summary().exchanges);
        prop_assert_eq!(objects.queues.len(), ladder.queue_count() as usize);
        let all: BTreeSet<&String> = objects.exchanges.keys().chain(objects.queues.keys()).collect();
        prop_assert_eq!(all.len(), objects.exchanges.len() + objects.queues.len(), "a queue is called like an exchange");
        prop_assert!(all.iter().all(|name| name.starts_with("orders.ladder.") && name.len() < 200));
        let parks = |exchange: &&Exchange| exchange.alternate() == Some("orders.park");
        let others: Vec<&Exchange> = objects.exchanges.values().filter(|it| !parks(it)).collect();
        prop_assert_eq!(others, [&objects.exchanges[&ladder.again_exchange()]]);
    }

    /// Therefore a ladder can grow and shrink: a message in an old ladder is right in the new one, or has objects of its own.
    #[test]
    fn two_ladders_share_only_what_is_alike(
        one in spec(), max_s in max_s(), grown in 0_u64..5, more in prop::option::of(0_u32..40), same in any::<bool>(),
    ) {
        let near = one.max.as_secs() + grown;
        let max_s = if same { near.min(MAX_MS / 1_000) } else { max_s };
        let other = with_budget(max_s, more);
        let [one, other] = [one, other].map(|spec| objects(&Ladder::compile("orders", &spec).expect("a good spec")));
        for (name, queue) in &one.queues {
            prop_assert!(other.queues.get(name).is_none_or(|other| other == queue), "{}", name);
        }
        for binding in &one.bindings {
            let there = other.exchanges.contains_key(&binding.source)
                && (other.exchanges.contains_key(&binding.destination)
                    || other.queues.contains_key(&binding.destination));
            prop_assert!(!there || other.bindings.contains(binding), "{:?}", binding);
        }
    }

    #[test]
    fn what_is_longer_than_the_maximum_is_refused(ladder in any_ladder(), ns in 1_u64.., rounding in rounding()) {
        let delay = ladder.max() + Duration::from_nanos(ns);
        let refused = ladder.enter(delay, rounding, "unpaid");
        prop_assert!(matches!(refused, Err(DelayError::TooLong { .. })), "{:?}", refused);
    }
}
