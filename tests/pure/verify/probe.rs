//! Made-up results of canaries.

use std::{collections::BTreeMap, time::Duration};

use overdue::internals::{
    objects::Binding,
    plan::Snapshot,
    topology::Topology,
    verify::{Canaries, Canary, Fate, Tried, VerifyReport, judge},
};

use crate::samples::{DELAYED, LADDER, dotted_compat, two_timeouts};

const WITHIN: Duration = Duration::from_secs(10);

fn canaries() -> Canaries {
    Canaries::new(&two_timeouts(), "canary1", WITHIN).unwrap()
}

/// All canaries arrive 12 ms late, except those in `change`.
fn report(observed: &Snapshot, change: &[(&str, Fate)]) -> String {
    let canaries = canaries();
    let late = Duration::from_millis(12);
    let in_time = canaries.list.iter().map(|canary| {
        let after = canary.route.holds + late;
        (canary.id.clone(), Fate::Arrived { after })
    });
    let mut fates: BTreeMap<String, Fate> = in_time.collect();
    fates.extend(change.iter().map(|(id, fate)| ((*id).to_owned(), fate.clone())));
    let probe = judge(&two_timeouts(), observed, &canaries, &fates, WITHIN);
    VerifyReport::new(&two_timeouts(), "/", observed, Vec::new(), Some(probe)).to_string()
}

#[test]
fn what_is_sent() {
    insta::assert_debug_snapshot!(canaries());
    assert_eq!(Canaries::new(&two_timeouts(), "canary1", Duration::from_millis(749)), None);
}

#[test]
fn all_arrive() {
    insta::assert_snapshot!(report(&Snapshot::of(&two_timeouts()), &[]));
}

#[test]
fn lost_refused_early() {
    let refused = Fate::Refused { reason: "a queue is full".to_owned() };
    let early = Fate::Arrived { after: Duration::from_millis(650) };
    let changes = [
        ("canary1-1s", early),
        ("canary1-3s", Fate::Lost),
        ("canary1-1s.unpaid", refused),
        ("canary1-1s.unshipped", Fate::Lost),
    ];
    insta::assert_snapshot!(report(&Snapshot::of(&two_timeouts()), &changes));
}

#[test]
fn a_timeout_is_not_blamed_for_its_level() {
    let lost =
        ["canary1-1s", "canary1-1s.unpaid", "canary1-1s.unshipped"].map(|id| (id, Fate::Lost));
    let text = report(&Snapshot::of(&two_timeouts()), &lost);
    assert!(text.contains("has 1 error"), "{text}");
}

#[test]
fn a_copy_on_the_probe_is_no_proof_without_a_binding() {
    let mut observed = Snapshot::of(&two_timeouts());
    observed.objects.bindings.retain(|binding| binding.routing_key != "#.unpaid");
    let text = report(&observed, &[]);
    assert!(
        text.contains("timeout unpaid     through level 1s: 12 ms late; NO QUEUE of it is bound"),
        "{text}"
    );
}

#[test]
fn the_grain_of_clocks_is_not_early() {
    // The level expires 250 ms early.
    let after = Duration::from_millis(730);
    let text = report(&Snapshot::of(&two_timeouts()), &[("canary1-1s", Fate::Arrived { after })]);
    assert!(text.contains("level 1s           20 ms EARLY\n"), "{text}");
    assert!(text.contains("OK: "), "{text}");
}

/// A canary enters each place: with the place's own digit if it fits, otherwise with the smallest one.
#[test]
fn each_place_of_a_ladder() {
    let sent = |topology: &Topology| Canaries::new(topology, "canary1", WITHIN).unwrap();
    let ladder = sent(&Topology::parse(LADDER).unwrap());
    let shown = |canary: &Canary| format!("{} {}", canary.route.exchange, canary.route.routing_key);
    let ways: Vec<String> = ladder.list.iter().map(shown).collect();
    insta::assert_debug_snapshot!((ways, &ladder.too_long, &ladder.list[0].comes_out_at));
    // A level of a ladder is tried as well, even if a place has the same delay.
    let both = LADDER.replace("[delay]", "[delay]\nlevels = ['1s']");
    let both = sent(&Topology::parse(&both).unwrap());
    assert_eq!(both.list[0].subject, Tried::Level("1s".to_owned()));
    assert_eq!(both.list.len(), ladder.list.len() + 1);
    assert_eq!(both.too_long, ladder.too_long);
}

/// The probe's queue is bound behind the plugin's exchange, and gets no due message.
#[test]
fn the_plugins_exchange() {
    let sent = Canaries::new(&Topology::parse(DELAYED).unwrap(), "canary1", WITHIN).unwrap();
    insta::assert_debug_snapshot!(sent);
}

/// Canaries with the `x-delay` of a level and one that a worker must delay; none that another consumer would get.
#[test]
fn through_an_exchange_that_is_taken_over() {
    let topology = Topology::parse(&dotted_compat()).unwrap();
    let sent = |observed: &Snapshot| {
        let canaries = Canaries::new(&topology, "canary1", WITHIN).unwrap();
        let before = canaries.list.len();
        let canaries = canaries.with_taken_over(&topology, observed, "canary1", WITHIN);
        let ways = canaries.list[before..].iter().map(|it| (it.id.clone(), it.route.x_delay));
        (ways.collect::<Vec<_>>(), canaries.left_out)
    };
    let mut observed = Snapshot::of(&topology);
    let level = ("canary1-x-delay-1s".to_owned(), Some(1_000));
    let nobody = "exchange old reminders with an x-delay that is not a level: nobody consumes from a.b.compat";
    assert_eq!(sent(&observed), (vec![level.clone()], vec![nobody.to_owned()]));
    observed.consumed.insert("a.b.compat".to_owned());
    let rest = ("canary1-x-delay-1001ms".to_owned(), Some(1_001));
    assert_eq!(sent(&observed), (vec![level, rest], Vec::new()));
    observed.objects.bindings.insert(Binding {
        source: topology.compat_due_exchange(),
        destination: "mails".to_owned(),
        to_queue: true,
        routing_key: "#".to_owned(),
        arguments: BTreeMap::new(),
    });
    let left_out = "exchange old reminders: queue mails would get it";
    assert_eq!(sent(&observed), (Vec::new(), vec![left_out.to_owned()]));
}
