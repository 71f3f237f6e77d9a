//! `overdue effect watch` next to a cron: the test plays the cron.

use std::{
    fs::{self, File},
    path::Path,
};

use crate::support::{World, until};

const SETTINGS: &str = r#"
[effects.leave]
table = "cart"
key = "id"
open = "state = 'open'"
unless = "row.asked"
deadline = "leave_at"
since = "all"
set = { state = "'left'" }
"#;

#[apply(world_test)]
async fn rows_that_a_cron_closes_are_compared_with_their_deadlines() {
    let world = World::of_tables().await;
    world
        .sql(
            "CREATE TABLE cart (id text PRIMARY KEY, state text NOT NULL DEFAULT 'open', asked boolean, leave_at timestamptz);
             CREATE INDEX ON cart (leave_at, id) WHERE state = 'open';
             INSERT INTO cart SELECT name, 'open', name = 'asked', now() + late FROM (VALUES
                 ('late', interval '-5 minutes'), ('later', '-6 minutes'), ('deleted', '-60 seconds'),
                 ('paid_late', '-2 minutes'), ('stays', '-1 hour'), ('asked', '-1 minute'),
                 ('early', '10 minutes 30 seconds'), ('paid', '10 minutes'), ('tomorrow', '1 day')) AS it (name, late);
             INSERT INTO cart VALUES ('never', 'open', false, NULL)",
        )
        .await;
    fs::write(world.dir.path().join("overdue.toml"), SETTINGS).unwrap();
    let output = world.dir.path().join("watched");
    let mut command =
        world.command(&["effect", "watch", "leave", "--for", "1h", "--every", "100ms"]);
    command.stdout(File::create(&output).unwrap());
    let mut watch = world.spawn_with_output(command);
    let says = async |what: &str| {
        until(what, async || read(&output), |text| text.contains(what)).await;
    };
    says("watching 8 open rows of cart until ").await;
    world
        .sql(
            "UPDATE cart SET state = 'left' WHERE id IN ('late', 'later', 'early');
             UPDATE cart SET state = 'paid' WHERE id IN ('paid', 'paid_late');
             DELETE FROM cart WHERE id = 'deleted'",
        )
        .await;
    for line in [
        "late: due ",
        "later: due ",
        "early: due ",
        "paid: due ",
        "paid_late: due ",
        "deleted: due ",
    ] {
        says(&format!("\n{line}")).await;
    }
    assert!(!read(&output).contains("stays: due"), "{}", read(&output));
    watch.signal("INT");
    assert!(watch.ended().await.success(), "{}", watch.log());
    let text = read(&output);
    let line = |begins: &str, ends: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(begins));
        let line = found.unwrap_or_else(|| panic!("{begins}: {text}"));
        assert!(line.contains(ends), "{line}");
    };
    line("late: ", "(5m");
    line("early: ", " early)");
    line("paid: ", "no longer open at ");
    line("paid_late: ", "in another state at ");
    line("deleted: ", "deleted today at ");
    line("6 rows came due in ", "the effect would have closed each at its deadline");
    line("closed today ", "3 rows after the deadline: median 5m");
    line("1 of them deleted", "");
    line("left after it ", "1 row,");
    line("still open ", "2 rows (2 overdue before the first look, 1 kept open by `unless`)");
    line("stays: due ", "overdue for 1h");
    line("closed before it ", "1 row: median 10m");
    line("left before it ", "1 row: paid or otherwise");
    line("1 row closed 10m", "before the deadline of the effect, and 3 after it");
    // The command has closed no row.
    assert_eq!(world.rows_of("closures").await, 0);
    assert_eq!(world.rows_of("cart WHERE state = 'open'").await, 4);

    let json = ["effect", "watch", "leave", "--for", "200ms", "--every", "100ms", "-o", "json"];
    let run = world.overdue(&json).exits(0);
    let report = run.json();
    assert_eq!(report["still_open"], 2, "{run}");
    assert_eq!(report["longest_open"][0]["key"], "stays", "{run}");
    assert_eq!((&report["came_due"], &report["forgot_rows"]), (&2.into(), &false.into()), "{run}");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
