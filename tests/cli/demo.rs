//! The output of `overdue demo`.

use serde_json::Value;

use crate::support::{Folder, World};

/// Orders that are paid at once, never, and an hour after the purchase, which is twice the allowed time.
const REAL: &str = "order_id,purchased_at,approved_at
early,2017-10-02T10:56:00Z,2017-10-02T10:56:00Z
never,2017-10-02T10:56:00Z,
late,2017-10-02T10:56:00Z,2017-10-02T11:56:00Z
";

#[apply(world_test)]
async fn it_tells_what_became_of_the_orders_what_holds_and_how_fast_it_was() {
    let world = World::new().await;
    let run = world.overdue(&["demo", "--orders", "40", "--after", "500ms", "--keep"]).exits(0);
    for line in [
        "orders                     40   created at ",
        "lateness p50",
        "lateness p99",
        "lateness max",
    ] {
        assert!(run.stdout.contains(line), "{line}: {run}");
    }
    assert_eq!(run.stdout.matches("holds: ").count(), 11, "{run}");
    let remove = run.stdout.lines().last().unwrap().split(": overdue ").nth(1).unwrap();
    assert_eq!(world.number("SELECT count(*) FROM orders").await, 41);
    let removed = world.overdue(&remove.split(' ').collect::<Vec<_>>());
    assert!(removed.stdout.starts_with("removed 41 orders"), "{removed}");
    for table in ["orders", "order_items", "stock", "closures"] {
        assert_eq!(world.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

#[apply(world_test)]
async fn real_orders_are_played_faster() {
    let world = World::new().await;
    std::fs::write(world.dir.path().join("orders.csv"), REAL).unwrap();
    let run =
        world.overdue(&["demo", "--orders", "orders.csv", "--speed", "900", "-o", "json"]).exits(0);
    let report: Value = run.json();
    assert_eq!((&report["orders"], &report["after_ms"]), (&3.into(), &2_000.into()), "{run}");
    assert_eq!((&report["paid"], &report["payments_refused"]), (&1.into(), &1.into()), "{run}");
    assert_eq!((&report["closed"], &report["still_unpaid"]), (&2.into(), &0.into()), "{run}");
    assert!(report["lateness"]["p99_ms"].is_number(), "{run}");
    let invariants = report["invariants"].as_array().unwrap();
    assert!(invariants.len() == 11 && invariants.iter().all(|it| it["broken"] == 0), "{run}");
}

#[apply(world_test)]
async fn orders_that_are_closed_twice_are_found() {
    let world = World::new().await;
    world
        .sql(
            "CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 INSERT INTO closures (order_id, effect, path, due_at)
                 VALUES (NEW.order_id, NEW.effect, NEW.path, NEW.due_at);
                 RETURN NULL;
             END $$;
             CREATE TRIGGER twice AFTER INSERT ON closures FOR EACH ROW
             WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION twice()",
        )
        .await;
    let run =
        world.overdue(&["demo", "--orders", "9", "--after", "300ms", "--paid-share", "0"]).exits(1);
    assert!(run.stdout.contains("no order is closed twice, e.g. demo-"), "{run}");
    assert_eq!(run.stdout.matches("BROKEN by ").count(), 1, "{run}");
    assert!(run.stderr.contains("error: an invariant is broken"), "{run}");
}

/// Its orders would be in separate tables next to them, and their messages would be parked.
#[test]
fn it_plays_nothing_where_the_tables_are_of_others() {
    const OWN: &str = include_str!("../../examples/own-tables/topology.toml");
    const EXPIRE: &str = include_str!("../../tests/written/expire.toml");
    let replaced = EXPIRE.replace("[effects.expire]", "[effects.close]");
    let (reference, unpaid) = (include_str!("../../topology.toml"), &["--timeout", "unpaid"]);
    let own = "closes them: the settings have SQL of their own for that effect; ";
    for (topology, settings, arguments, says) in [
        (OWN, EXPIRE, &[][..], "closes them: no timeout in topology.toml has that effect; "),
        (OWN, EXPIRE, unpaid, "timeout `unpaid` in topology.toml has another effect; "),
        (reference, &replaced, &[], own),
        (reference, &replaced, unpaid, own),
    ] {
        let files = [
            ("topology.toml", topology),
            ("overdue.toml", settings),
            ("expire.sql", "SELECT"),
            ("expire_overdue.sql", "SELECT"),
        ];
        let arguments = [&["demo", "--after", "5s"], arguments].concat();
        let run = Folder::with(&files).run(&arguments, &[]).exits(78).reports(says);
        assert!(run.stderr.ends_with("and a database for the test (docs/sizing.md)\n"), "{run}");
    }
}

#[test]
fn what_cannot_be_played_is_refused_before_anything_is_created() {
    let files =
        [("topology.toml", include_str!("../../topology.toml")), ("bad.csv", "order_id\n1\n")];
    let folder = Folder::with(&files);
    for (arguments, code, text) in [
        (&["--orders", "none.csv"][..], 78, "cannot read the orders file none.csv: "),
        (&["--orders", "bad.csv"], 78, "1 mistake in bad.csv; correct the file and start again"),
        (&["--orders", "bad.csv", "--speed", "20000"], 64, "30m at speed 20000 is less than 100ms"),
        (&["--orders", "0"], 64, "a demo has 1 to 1000000 orders"),
        (&["--paid-share", "0.6", "--late-share", "0.6"], 64, "are more than 1 together"),
        (&["--remove", "x"], 64, "a run id looks like `demo-3f9a1c2b`"),
    ] {
        let run = folder.run(&[&["demo"], arguments].concat(), &[]).exits(code);
        assert!(run.stderr.contains(text), "{arguments:?}: {run}");
    }
}
