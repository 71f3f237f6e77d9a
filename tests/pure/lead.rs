//! How early the messages of levels expire.

use std::time::Duration;

use overdue::internals::{
    objects::Argument,
    plan::{Snapshot, diff},
    topology::{
        Topology,
        check::Surroundings,
        least_lead,
        level::{Lead, Level},
        lint,
        report::render,
    },
};
use proptest::prelude::*;

const FILE: &str = "name = \"orders\"\n[delay]\nlevels = [\"1ms\", \"100ms\", \"1s\", \"30m\"]\n\
    [[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n[retry]\nafter = [\"1s\"]\n";

fn with_lead(lead: &str) -> String {
    FILE.replace("[delay]", &format!("[delay]\nlead = {lead}"))
}

fn ttls(text: &str) -> Vec<(String, i64)> {
    let topology = Topology::parse(text).expect("a good file");
    let objects = topology.objects();
    let ttl = |queue: &str| match objects.queues[queue].arguments["x-message-ttl"] {
        Argument::Integer(ms) => ms,
        ref other => panic!("{other:?}"),
    };
    let queues = topology.delay_queues();
    queues.map(|(level, queue)| (level.to_string(), ttl(&queue))).collect()
}

#[test]
fn a_level_lets_go_two_seconds_early_and_a_short_one_a_quarter_of_it() {
    let of = |expected: [(&str, i64); 4]| expected.map(|(level, ms)| (level.to_owned(), ms));
    assert_eq!(ttls(FILE), of([("1ms", 1), ("100ms", 75), ("1s", 750), ("30m", 1_798_000)]));
    assert_eq!(
        ttls(&with_lead("\"0s\"")),
        of([("1ms", 1), ("100ms", 100), ("1s", 1_000), ("30m", 1_800_000)])
    );
    let longer = with_lead("\"2s\"").replace("\"1ms\", \"100ms\", \"1s\"", "\"5s\"");
    let longer = longer.replace("after = [\"1s\"]", "after = [\"5s\"]");
    assert_eq!(ttls(&longer), [("5s".to_owned(), 3_000), ("30m".to_owned(), 1_798_000)]);
}

#[test]
fn a_lead_that_is_wrong_is_shown_with_its_place_and_the_way_out() {
    let shown = ["\"500ms\"", "\"50ms\"", "\"soon\"", "\"2m\"", "3", "\"1ms\""].map(|lead| {
        let text = with_lead(lead);
        render("topology.toml", &text, &lint(&text, &Surroundings::default()))
    });
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn a_lead_is_a_minute_at_the_most() {
    let lead = |text: &str| text.parse::<Lead>().ok();
    assert_eq!(lead("1m"), Some(Lead::Given(Duration::from_mins(1))));
    assert_eq!(lead("60001ms"), None);
}

/// A delay without a level of its own can be as short as the lead, or shorter.
#[test]
fn a_lead_that_is_not_less_than_half_of_a_delay_is_a_quarter_of_it() {
    let lead = Lead::Given(Duration::from_secs(1));
    let of =
        [400, 1_000, 2_000, 2_001, 10_000].map(|ms| lead.of(Duration::from_millis(ms)).as_millis());
    assert_eq!(of, [100, 250, 500, 1_000, 1_000]);
}

/// Deliveries can wait this long for one another without being late.
#[test]
fn every_delay_ends_early_by_the_least_lead_or_more() {
    let least = |delay: &str| {
        let timeout = "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n";
        let text = format!("name = \"orders\"\n[delay]\n{delay}\n{timeout}");
        least_lead(&Topology::parse(&text).expect("a good file")).as_millis()
    };
    let ladder = "strategy = \"ladder\"\nladder = { max = \"1h\" }";
    assert_eq!(least("levels = [\"30m\"]"), 2_000);
    assert_eq!(least("levels = [\"1s\", \"30m\"]"), 250);
    assert_eq!(least("levels = [\"30m\"]\nlead = \"0s\""), 0);
    assert_eq!(least(ladder), 500);
    assert_eq!(least(&format!("{ladder}\nlevels = [\"1s\", \"30m\"]")), 250);
    assert_eq!(least("strategy = \"delayed-exchange\"\nlead = \"3s\""), 3_000);
}

/// A lead is like any other argument: waiting messages leave the old queue at the old time.
#[test]
fn a_changed_lead_is_a_new_generation_of_each_level_that_it_changes() {
    let before = Topology::parse(&with_lead("\"0s\"")).expect("a good file");
    let after = Topology::parse(FILE).expect("a good file");
    let plan = diff(&after, &Snapshot::of(&before), &std::collections::BTreeSet::new());
    insta::assert_snapshot!(plan);
}

proptest! {
    #[test]
    fn every_level_is_still_a_delay_on_the_broker(ms in 1_u64..10_000, lead_ms in 0_u64..60_000) {
        let level: Level = format!("{ms}ms").parse().unwrap();
        for lead in [Lead::Usual, Lead::Given(Duration::from_millis(lead_ms))] {
            let holds = lead.lets_go(&level).as_duration();
            let delay = level.ttl().as_duration();
            prop_assert!(holds <= delay && holds * 2 >= delay, "{:?}", holds);
            prop_assert!(delay.saturating_sub(holds) <= lead.longest());
        }
    }
}
