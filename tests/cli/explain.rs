//! `overdue publish --dry-run`: the path of a notice, without a broker.

use crate::{runs::Runs, support::Folder};

const TIMEOUT: &str = "[[timeout]]\nname = 'unpaid'\nafter = '30m'\n[retry]\nafter = ['5s']\n";
const LEVELS: &str = "name = 'orders'\n[delay]\nlevels = ['5s', '30s', '5m', '30m']\n";
const LADDER: &str = "name = 'orders'\n[delay]\nstrategy = 'ladder'\n[delay.ladder]\nmax = '30d'\n";
const PLUGIN: &str = "name = 'orders'\n[delay]\nstrategy = 'delayed-exchange'\n";

#[test]
fn a_dry_run_prints_exchange_routing_key_and_level() {
    let cases: [(&str, &[&str]); 12] = [
        (LEVELS, &[]),
        (LEVELS, &["--level", "5m"]),
        (LEVELS, &["--after", "37m"]),
        (LEVELS, &["--after", "0s", "-o", "json"]),
        (LEVELS, &["--due-at", "2024-11-20T10:37:00Z"]),
        (LADDER, &["--after", "37m"]),
        (LADDER, &["--after", "3s", "-o", "json"]),
        (PLUGIN, &["--after", "37m"]),
        (PLUGIN, &["--after", "60d", "-o", "json"]),
        (LADDER, &["--after", "31d"]),
        (LEVELS, &["--level", "31m"]),
        (LEVELS, &["--timeout", "unpayed"]),
    ];
    let nowhere = [("OVERDUE_BROKER__URL", "amqp://nobody:secret@nowhere.invalid/shop")];
    let mut runs = Runs::default();
    for (delay, arguments) in cases {
        let file = format!("{delay}{TIMEOUT}");
        let arguments = [&["publish", "4711", "--dry-run"], arguments].concat();
        runs.on(&[("topology.toml", &file)], &arguments, &nowhere);
    }
    insta::assert_snapshot!(runs);
}

#[test]
fn a_topology_without_a_ladder_has_none_to_export() {
    let of = |delay: &str| {
        let folder = Folder::with(&[("topology.toml", &format!("{delay}{TIMEOUT}"))]);
        folder.run(&["export", "--format", "ladder"], &[])
    };
    let run = of(LADDER).exits(0);
    insta::assert_snapshot!("the_ladder_for_publishers", run.stdout);
    of(LEVELS).exits(78).reports("has the strategy `levels`, and no ladder");
}
