//! A described effect: the findings of `effect check` before the first row is closed, and rows that wait for `effect accept`.

use std::fs;

use crate::{
    page::read,
    support::{Run, World},
};

/// The description of the example's tables.
const EXPIRE: &str = r#"
[effects.expire]
table = "purchase"
key = "purchase_no"
open = "state = 10"
deadline = "pay_until"
since = "all"
set = { state = "90" }
event = "purchase.expired"

[[effects.expire.release]]
table = "article"
add = { on_hand = "line.pieces" }
from = "purchase_line AS line"
where = "line.purchase_no = row.purchase_no AND article.article_no = line.article_no"
"#;

/// The example's tables, with five overdue purchases of one article and two that are not due.
pub(super) async fn shop() -> World {
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    world.sql(&read("examples/own-tables/tables.sql")).await;
    world
        .sql(
            "INSERT INTO article VALUES (7, 100);
             INSERT INTO purchase (purchase_no, pay_until)
             SELECT n, now() + CASE WHEN n > 5 THEN interval '1 day' ELSE interval '-1 min' END FROM generate_series(1, 7) n;
             INSERT INTO purchase_line SELECT purchase_no, 7, 2 FROM purchase",
        )
        .await;
    let topology = read("examples/own-tables/topology.toml");
    fs::write(world.topology_file(), topology).unwrap();
    describe(&world, &[]);
    world
}

/// Writes the description with other texts.
fn describe(world: &World, changes: &[(&str, &str)]) {
    let text = changes.iter().fold(EXPIRE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
}

pub(super) fn check(world: &World) -> Run {
    world.overdue(&["effect", "check", "expire"])
}

#[apply(world_test)]
async fn what_an_effect_would_do_is_shown_row_by_row_and_in_sums() {
    let world = shop().await;
    world
        .sql(
            "CREATE TABLE audit (purchase_no bigint);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO audit VALUES (NEW.purchase_no); RETURN NEW; END $$;
             CREATE TRIGGER note AFTER UPDATE ON purchase FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .await;
    let run = check(&world).exits(0);
    let text = run.stdout.replace(&format!("{}.", world.schema), "");
    for line in [
        "tried on     7 orders, rolled back: 5 expired, 2 not_due",
        "would do     to 7 open rows, due or not, rolled back: 7 rows of purchase: state 10 → 90; article.on_hand +14 in 1 row",
        "purchase 1: state 10 → 90",
        "article 7: on_hand 100 → 114",
        "triggers     audit: 7 rows inserted",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(world.number("SELECT count(*) FROM audit").await, 0);
    assert_eq!(world.number("SELECT on_hand::bigint FROM article").await, 100);
}

/// A mistake in the tables or in the description, and the answer of the check.
struct Wrong {
    tables: &'static str,
    description: &'static [(&'static str, &'static str)],
    says: &'static str,
    code: i32,
}

#[apply(world_test)]
async fn what_is_wrong_is_found_with_what_to_write() {
    let wrong = [
        Wrong {
            tables: "ALTER TABLE purchase ADD lock_version int NOT NULL DEFAULT 0",
            description: &[],
            says: "lock_version is not raised",
            code: 2,
        },
        Wrong {
            tables: "",
            description: &[(
                "line.purchase_no = row.purchase_no",
                "line.pieces = row.purchase_no * 1000",
            )],
            says: "nothing is given back to article: its `where` finds no row for 7 open rows of purchase",
            code: 2,
        },
        Wrong {
            tables: "ALTER TABLE article DROP CONSTRAINT article_on_hand_check",
            description: &[("\"line.pieces\"", "\"-line.pieces * 100\"")],
            says: "article.on_hand of 7 becomes -1300",
            code: 2,
        },
        Wrong {
            tables: "",
            description: &[("state = 10", "state = 11")],
            says: "no row is open by `state = 11`: there are state: '10' (7)",
            code: 2,
        },
        Wrong {
            tables: "DROP INDEX purchase_waiting",
            description: &[],
            says: "a look for overdue rows reads all of purchase: CREATE INDEX CONCURRENTLY IF NOT EXISTS purchase_expire_due ON purchase \
                   (pay_until, purchase_no) WHERE state = 10;",
            code: 2,
        },
        Wrong {
            tables: "UPDATE purchase SET pay_until = now() - interval '20 s'",
            description: &[],
            says: "if pay_until is when a row was made, write deadline = \"pay_until + interval '30 minutes'\"",
            code: 2,
        },
        Wrong {
            tables: "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
                     CREATE TRIGGER never BEFORE UPDATE ON purchase FOR EACH ROW EXECUTE FUNCTION never()",
            description: &[],
            says: "would do     is not known, because closing these rows together fails: SQLSTATE P0001: db error: ERROR: never",
            code: 2,
        },
        Wrong {
            tables: "ALTER TABLE purchase_line DROP CONSTRAINT purchase_line_purchase_no_fkey; ALTER TABLE purchase DROP CONSTRAINT purchase_pkey",
            description: &[],
            says: "key: nothing says that purchase_no is unique in purchase",
            code: 78,
        },
        Wrong {
            tables: "ALTER TABLE purchase ALTER pay_until TYPE timestamp",
            description: &[],
            says: "the deadline `pay_until` is a timestamp without time zone",
            code: 78,
        },
        Wrong {
            tables: "ALTER TABLE purchase ALTER pay_until TYPE date",
            description: &[],
            says: "for its end write deadline = \"(pay_until + 1)::timestamp\", and its zone",
            code: 78,
        },
        Wrong {
            tables: "",
            description: &[("state = 10", "stat = 10")],
            says: "does not fit: open: column \"stat\" does not exist, at character 1 of `stat = 10`; Perhaps you meant to reference the column \"purchase.state\".",
            code: 78,
        },
        Wrong {
            tables: "",
            description: &[("table = \"purchase\"", "table = \"purchases\"")],
            says: "table: there is no table purchases",
            code: 78,
        },
        Wrong {
            tables: "",
            description: &[
                ("table = \"article\"", "table = \"purchase\""),
                ("article.article_no = line.article_no", "true"),
                ("on_hand", "state"),
            ],
            says: "purchase is changed twice",
            code: 78,
        },
    ];
    for Wrong { tables, description, says, code } in wrong {
        let world = shop().await;
        world.sql(tables).await;
        describe(&world, description);
        let run = check(&world);
        let text = run.to_string().replace(&format!("{}.", world.schema), "");
        assert!(text.contains(says), "{says}\n{text}");
        assert_eq!(run.code, Some(code), "{says}\n{text}");
    }
}

/// The check finds a mistake in the file without a database.
#[apply(world_test)]
async fn a_description_that_does_not_fit_itself_is_refused_with_its_key() {
    let world = World::empty().await;
    for (change, says) in [
        (
            ("key = \"purchase_no\"\n", ""),
            "effects.expire.key: add the column that messages name a row by",
        ),
        (
            ("set = { state = \"90\" }", "delete = true\nset = { state = \"90\" }"),
            "effects.expire.delete: there is `set` as well",
        ),
        (("state = 10", "(state = 10"), "effects.expire.open: `(state = 10` has `(` without `)`"),
        (("state = 10", "state = 10; DROP TABLE article"), "has a semicolon"),
        (
            ("since = \"all\"", "since = \"yesterday\""),
            "effects.expire.since: write a time with its zone",
        ),
        (
            ("purchase.expired", "purchase.Expired"),
            "effects.expire.event: its last word becomes the outcome",
        ),
        (
            ("where = ", "# where = "),
            "effects.expire.release: it has no `where`, so it would change every row",
        ),
        (("table = \"purchase\"\n", ""), "effects.expire: it has neither `table` nor `sql`"),
    ] {
        describe(&world, &[change]);
        let run = check(&world).exits(78);
        assert!(run.stderr.contains(says), "{says}\n{run}");
    }
}

#[apply(world_test)]
async fn history_is_closed_when_a_person_has_accepted_it() {
    let world = shop().await;
    world.sql("INSERT INTO purchase (purchase_no, pay_until) SELECT n, now() - interval '9 days' FROM generate_series(11, 30) n").await;
    // The description of the first start does not decide about the old rows.
    describe(&world, &[("since = \"all\"\n", "")]);
    let topology = overdue::internals::topology::Topology::parse(
        &fs::read_to_string(world.topology_file()).unwrap(),
    )
    .unwrap();
    world.apply(&topology).await;
    let often = |command: &mut std::process::Command| {
        command
            .env("OVERDUE_WORKER__SWEEP_EVERY", "100ms")
            .env("OVERDUE_WORKER__SWEEP_GRACE", "1ms");
    };
    let closed = "SELECT count(*) FROM purchase WHERE state = 90";
    let mut worker = world.started(often).await;
    worker.until_logged("closes nothing yet: more than ten rows are overdue").await;
    let run = world.overdue(&["status"]);
    assert!(run.stdout.contains("do: overdue effect accept expire"), "{run}");
    assert_eq!(world.number(closed).await, 0);
    let run = world.overdue(&["effect", "accept", "expire"]).exits(64);
    assert!(run.stdout.contains("25 rows overdue, the oldest since "), "{run}");
    assert!(run.stdout.contains("article.on_hand +10 in 1 row"), "{run}");
    assert_eq!(world.number(closed).await, 0);
    world.overdue(&["effect", "accept", "expire", "--yes"]).exits(0);
    world.until_rows("purchase WHERE state = 90", 25).await;
    drop(worker);
    let run = world.overdue(&["effect", "accept", "expire"]).exits(0);
    assert!(run.stdout.contains("waits for nothing"), "{run}");

    // A wider condition adds rows.
    world.sql("ALTER TABLE purchase DROP CONSTRAINT purchase_state_check").await;
    world.sql("INSERT INTO purchase (purchase_no, state, pay_until) SELECT n, 15, now() - interval '9 days' FROM generate_series(41, 60) n").await;
    describe(&world, &[("since = \"all\"\n", ""), ("state = 10", "state IN (10, 15)")]);
    let mut worker = world.started(often).await;
    worker
        .until_logged(
            "its description has `open = state IN (10, 15)` now, and had `open = state = 10`",
        )
        .await;
    assert_eq!(world.number("SELECT count(*) FROM purchase WHERE state = 15").await, 20);
    drop(worker);

    // With a first deadline, the guard and the query for overdue rows skip older rows.
    let since = "since = \"2026-01-01T00:00Z\"";
    world.sql("UPDATE purchase SET state = 10, pay_until = '2025-12-31T23:59Z' WHERE purchase_no > 40; TRUNCATE effects, closures").await;
    describe(&world, &[("since = \"all\"", since)]);
    world
        .sql("INSERT INTO purchase (purchase_no, pay_until) VALUES (100, now() - interval '1 min')")
        .await;
    let _worker = world.started(often).await;
    world.until_rows("purchase WHERE purchase_no = 100 AND state = 90", 1).await;
    assert_eq!(
        world.number("SELECT count(*) FROM purchase WHERE state = 10 AND purchase_no > 40").await,
        20
    );
    let run = world.overdue(&["effect", "check", "expire", "--order", "41"]);
    assert!(run.stdout.contains("1 already_final"), "{run}");
}

/// Five orders of one article give back five times, in one batch.
#[apply(world_test)]
async fn the_statements_are_shown_as_they_are_run() {
    let world = shop().await;
    let run = world.overdue(&["effect", "show", "expire"]).exits(0);
    let text = run.stdout.replace(&world.schema, "shop");
    insta::assert_snapshot!("effect_show", text);
}
