//! `overdue explain`: the way of a notice. No broker and no database is asked.

use crate::support::{Folder, Run};

const TIMEOUT: &str = "[[timeout]]\nname = 'unpaid'\nafter = '30m'\n[retry]\nafter = ['5s']\n";
const LEVELS: &str = "name = 'orders'\n[delay]\nlevels = ['5s', '30s', '5m', '30m']\n";
const LADDER: &str = "name = 'orders'\n[delay]\nstrategy = 'ladder'\n[delay.ladder]\nmax = '30d'\n";
const PLUGIN: &str = "name = 'orders'\n[delay]\nstrategy = 'delayed-exchange'\n";

fn explain(delay: &str, arguments: &[&str]) -> Run {
    let folder = Folder::with(&[("topology.toml", &format!("{delay}{TIMEOUT}"))]);
    let nowhere = [
        ("OVERDUE_BROKER__URL", "amqp://nobody:secret@nowhere.invalid/shop"),
        ("OVERDUE_DATABASE__URL", "postgres://nobody:secret@nowhere.invalid/shop"),
    ];
    folder.run(&[&["explain", "--at", "2026-11-20T10:00:00Z"], arguments].concat(), &nowhere)
}

fn shown(delay: &str, arguments: &[&str]) -> String {
    let run = explain(delay, arguments);
    let end = match run.code {
        Some(0) => run.stdout,
        code => format!("exit code {}\n{}", code.unwrap_or(-1), run.stderr),
    };
    format!("$ overdue explain {}\n{end}\n", arguments.join(" "))
}

#[test]
fn the_way_of_a_delay_with_each_strategy() {
    let after = ["--after", "37m"];
    let texts = [LEVELS, LADDER, PLUGIN].map(|delay| shown(delay, &after));
    insta::assert_snapshot!(texts.concat());
}

#[test]
fn a_delay_by_another_name() {
    let ways: [&[&str]; 5] = [
        &[],
        &["--level", "5m"],
        &["--due-at", "2026-11-20T10:37:00.25Z"],
        &["--after", "0s"],
        &["--after", "3s"],
    ];
    insta::assert_snapshot!(ways.map(|way| shown(LEVELS, way)).concat());
    insta::assert_snapshot!("up_the_ladder", ways.map(|way| shown(LADDER, way)).concat());
}

#[test]
fn the_way_of_a_routing_key() {
    let texts = [
        shown(LADDER, &["--key", "0.0.7.3.unpaid"]),
        shown(LADDER, &["--key", "0.0.7.3.unpaid", "--exchange", "orders.ladder.1m"]),
        shown(LEVELS, &["--key", "30m.unpaid"]),
        shown(PLUGIN, &["--key", "unpaid", "--after", "37m"]),
    ];
    insta::assert_snapshot!(texts.concat());
}

#[test]
fn what_would_be_parked_is_an_error() {
    let texts = [
        shown(LADDER, &["--key", "0.0.7.6.unpaid"]),
        shown(LADDER, &["--key", "unpaid"]),
        shown(LADDER, &["--key", "0.0.7.3.unpayed"]),
        shown(LADDER, &["--key", "7.unpaid", "--exchange", "orders.in"]),
        shown(LEVELS, &["--key", "31m.unpaid"]),
        shown(LEVELS, &["--key", "30m.of.unpaid"]),
        shown(PLUGIN, &["--key", "unpaid"]),
        shown(LADDER, &["--after", "31d"]),
        shown(LADDER, &["--after=-5m"]),
        shown(LADDER, &["--key", "0.0.7.3.unpaid", "--level", "30m"]),
    ];
    insta::assert_snapshot!(texts.concat());
}

#[test]
fn json_is_for_programs() {
    let texts = [
        explain(LEVELS, &["--after", "37m", "-o", "json"]),
        explain(PLUGIN, &["--after", "60d", "-o", "json"]),
    ];
    let texts = texts.map(|run| run.stdout);
    let way: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(way["due_at"], "2026-11-20T10:37:00Z");
    insta::assert_snapshot!(texts.concat());
}

#[test]
fn shards_are_named_as_one() {
    let sharded = "[[timeout]]\nname = 'gift'\nafter = '30m'\nshards = 2\n";
    let run = explain(&format!("{LEVELS}{sharded}"), &["--timeout", "gift"]);
    assert!(run.stdout.contains("comes out    of orders.gift.shard-*, after 1 hop"), "{run}");
}

/// Years in levels of seconds are counted, not walked.
#[test]
fn a_delay_of_years_is_explained_at_once() {
    let run =
        explain("name = 'orders'\n[delay]\nlevels = ['1ms', '5s', '30m']\n", &["--after", "3650d"]);
    assert!(run.stdout.contains("175393 times"), "{run}");
}

#[test]
fn a_topology_without_a_ladder_has_none_to_export() {
    let of = |delay: &str| {
        let folder = Folder::with(&[("topology.toml", &format!("{delay}{TIMEOUT}"))]);
        folder.run(&["export", "--format", "ladder"], &[])
    };
    let run = of(LADDER);
    assert_eq!(run.code, Some(0), "{run}");
    insta::assert_snapshot!("the_ladder_for_publishers", run.stdout);
    let run = of(LEVELS);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("has the strategy `levels`, and no ladder"), "{run}");
}
