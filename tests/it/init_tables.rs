//! `overdue init` on tables of real projects: its questions, its files, and whether these close the right rows; and on tables that
//! are ambiguous.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;
use overdue::internals::store::Store;

use crate::{
    parked::ends,
    schemas::{close_overdue, differences, in_schema},
    support::{Run, World, orders::described},
};

/// The first option of each question: `--zone UTC` of a line that begins with it.
fn asked(run: &Run) -> Vec<String> {
    let lines: Vec<&str> = run.stdout.lines().collect();
    let is_option = |it: &str| it.starts_with("       --");
    // Only the first choice of each question.
    let first = lines.windows(2).filter(|it| !is_option(it[0]) && is_option(it[1]));
    first.map(|it| it[1].trim().to_owned()).collect()
}

/// Each key of a description; a release is named after its table.
fn keys(text: &str) -> BTreeMap<String, String> {
    let table: toml::Table = toml::from_str(text).unwrap();
    let effect = table["effects"]["expire"].as_table().unwrap();
    let shown = |it: &toml::Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let mut keys: BTreeMap<String, String> = effect
        .iter()
        .filter(|(key, _)| *key != "since" && *key != "release")
        .map(|(key, value)| (key.clone(), shown(value)))
        .collect();
    for release in effect.get("release").and_then(toml::Value::as_array).into_iter().flatten() {
        let release = release.as_table().unwrap();
        let of =
            release.get("table").or(release.get("delete")).and_then(toml::Value::as_str).unwrap();
        keys.extend(
            release.iter().map(|(key, value)| (format!("release of {of}, {key}"), shown(value))),
        );
    }
    // The alias of an item is arbitrary.
    for value in keys.values_mut() {
        *value = value.replace("line.", "item.").replace("AS line", "AS item");
    }
    keys
}

/// Differences from the description that a person has written.
fn other(written: &str, right: &str) -> Vec<String> {
    let (written, right) = (keys(written), keys(right));
    let names: std::collections::BTreeSet<&String> = written.keys().chain(right.keys()).collect();
    let none = "nothing".to_owned();
    let of =
        |keys: &BTreeMap<String, String>, name: &String| keys.get(name).unwrap_or(&none).clone();
    let different = names.into_iter().filter(|name| written.get(*name) != right.get(*name));
    different
        .map(|name| format!("{name}: {} instead of {}", of(&written, name), of(&right, name)))
        .collect()
}

async fn a_project(name: &str) -> World {
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    let tables = fs::read_to_string(format!("tests/schemas/{name}.sql")).unwrap();
    world.sql(&in_schema(&world, &tables)).await;
    world
}

fn written(world: &World, name: &str) -> String {
    fs::read_to_string(world.dir.path().join("made").join(name)).unwrap()
}

/// Runs init, answers its questions, and returns the differences of the result.
async fn proposed(name: &str, table: &str, answers: &[&str]) -> Vec<String> {
    let world = a_project(name).await;
    let first = world.overdue(&["init", "asked", "--table", table]);
    let questions = asked(&first);
    assert_eq!(first.code, Some(if questions.is_empty() { 0 } else { 2 }), "{first}");

    ends(&world, 0, &[&["init", "made", "--table", table], answers].concat());
    let text = written(&world, "overdue.toml");
    let right = fs::read_to_string(format!("tests/schemas/{name}.toml")).unwrap();
    let right = in_schema(&world, &right).replace(&format!("{}.", world.schema), "");

    let mut table: toml::Table = toml::from_str(&text).unwrap();
    let effect = table["effects"]["expire"].as_table_mut().unwrap();
    effect.insert("since".to_owned(), "all".into());
    let effect = described("expire", &effect.to_string());
    world.store.check_effect(&effect).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let store = Store::new(&world.services.database_url(None), &world.schema, 4).unwrap();
    close_overdue(&store, &effect).await;
    let wrong = differences(&world, name).await;

    let comes_out = if wrong.is_empty() { "what must".to_owned() } else { wrong.join("\n  ") };
    let other: Vec<String> = other(&text, &right).iter().map(|it| format!("  {it}\n")).collect();
    let said = format!(
        "asks\n  {}\nanswers\n  {}\ndifferences\n{}comes out\n  {comes_out}\n",
        questions.join("\n  "),
        answers.join(" "),
        other.concat()
    );
    assert_snapshot!(format!("{name}_as_proposed"), said);
    wrong
}

macro_rules! projects {
    ($($name:ident, $table:literal, $is_right:literal, [$($answer:literal),*];)*) => {$(
        #[apply(world_test)]
        async fn $name() {
            let wrong = proposed(stringify!($name), $table, &[$($answer),*]).await;
            assert_eq!(wrong.is_empty(), $is_right, "{wrong:?}");
        }
    )*};
}

// Thirteen are right with two answers. pretix needs a third one: a settings table lists the events whose orders do not expire.
projects! {
    tickets, "reservations", true, [];
    checkouts, "checkouts", true, ["--set", "status='expired'"];
    pretix, "pretixbase_order", false, ["--open", "status = 'n' AND NOT require_approval AND NOT valid_if_pending", "--set", "status='e'"];
    medusa, "order", true, ["--open", "status = 'pending' AND deleted_at IS NULL", "--after", "30m"];
    hievents, "orders", true, ["--zone", "UTC", "--set", "status='ABANDONED'"];
    hyperswitch, "payment_intent", true, ["--zone", "UTC"];
    evergreen, "hold_request", true, ["--set", "cancel_cause=2", "--release", "copy SET status = 7 WHERE copy.id = row.current_copy AND copy.status = 8"];
    eshop, "orders", true, ["--after", "1m", "--set", "OrderStatus='AwaitingValidation'"];
    btcpay, "Invoices", true, ["--deadline", "to_timestamp((\"Blob2\" ->> 'expirationTime')::bigint)", "--set", "Status='Expired'"];
    evershop, "order", true, ["--after", "30m", "--set", "status='canceled'"];
    spree, "spree_stock_reservations", true, ["--zone", "UTC"];
    oscar, "order_order", true, ["--after", "30m", "--set", "status='Cancelled'"];
    loms, "orders", true, ["--after", "10m", "--zone", "UTC"];
    idempotency, "idempotency_keys", true, [];
}

// Tables that were written after init.
projects! {
    saleor, "order_order", true, ["--deadline", "created_at + (SELECT channel.expire_orders_after * interval '1 minute' FROM channel_channel AS channel WHERE channel.id = row.channel_id)"];
    alfio, "tickets_reservation", true, ["--set", "status='CANCELLED'"];
    sylius, "sylius_order", true, ["--deadline", "checkout_completed_at + interval '5 days'", "--zone", "UTC", "--set", "state='cancelled'"];
    calcom, "SelectedSlots", true, ["--zone", "UTC"];
    lago, "wallets", true, ["--open", "status = 0", "--zone", "UTC", "--set", "status=1"];
    seats, "seat", true, ["--set", "state='free'", "--set", "held_by=NULL", "--set", "held_until=NULL"];
    lightning, "invoices", true, ["--open", "state = 0", "--deadline", "to_timestamp(creation_date + expiry)", "--set", "state=2"];
    quotes, "sale_order", true, ["--open", "state IN ('draft', 'sent')", "--zone", "Europe/Berlin", "--set", "state='cancel'"];
    contracts, "contracts", true, ["--open", "doc ->> 'state' = 'offered'", "--unless", "EXISTS (SELECT FROM disputes WHERE disputes.contract_id = row.id)",
        "--deadline", "to_timestamp((doc ->> 'until')::bigint / 1000.0)", "--set", "doc=jsonb_set(doc, '{state}', '\"lapsed\"')"];
}

/// The project's database is in another zone: in the session's zone, rows would be closed five hours late.
#[apply(world_test)]
async fn a_deadline_without_a_zone_is_shown_in_both_zones_and_not_used() {
    let world = a_project("spree").await;
    let url = world.services.database_url(None);
    let sign = if url.contains('?') { "&" } else { "?" };
    let url = format!("{url}{sign}options=-ctimezone%3DAmerica/New_York");
    let environment = [("OVERDUE_DATABASE__URL", url.as_str())];
    world.sql("DELETE FROM spree_stock_reservations; INSERT INTO spree_stock_reservations VALUES (1, 1, 1, 1, 1, '2026-01-05 17:00')").await;
    let run =
        world.overdue_with(&["init", "made", "--table", "spree_stock_reservations"], &environment);
    assert_eq!(run.code, Some(2), "{run}");
    let both = "the newest is 2026-01-05 17:00, which is 2026-01-05T17:00Z in UTC, and 2026-01-05T22:00Z in America/New_York";
    assert!(run.stdout.contains(both), "{run}");
    assert_eq!(asked(&run), ["--zone UTC"]);
    assert!(written(&world, "overdue.toml").contains("\n# zone = \"UTC\"\n"));
    // The project deletes its rows.
    assert!(written(&world, "topology.toml").contains("\ngone = \"ack\""));
    let check = ["effect", "check", "expire", "--config", "made/overdue.toml"];
    let both = "zone: the deadline `expires_at` is a timestamp without time zone";
    let of_one_row = "(of one row, 2026-01-05 17:00:00 is 2026-01-05T17:00Z in UTC, and 2026-01-05T22:00Z in America/New_York, the zone of this session)";
    let files = ["--config", "made/overdue.toml", "--topology", "made/topology.toml"];
    let init = [&["database", "init", "--yes"][..], &files].concat();
    for refused in [&check[..], &init] {
        let run = world.overdue_with(refused, &environment);
        assert_eq!(run.code, Some(78), "{run}");
        assert!(run.stderr.contains(both) && run.stderr.contains(of_one_row), "{run}");
    }
}

/// A world with made-up tables.
async fn made_up(sql: &str) -> World {
    let world = World::empty().await;
    world.sql(sql).await;
    world
}

const ORDERS: &str = "CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, created_at timestamptz NOT NULL)";

#[apply(world_test)]
async fn a_time_of_creation_is_no_deadline() {
    let world = made_up(&format!(
        "{ORDERS};
         INSERT INTO orders SELECT n, CASE WHEN n < 9 THEN 'pending' ELSE 'expired' END, now() - n * interval '1 hour' FROM generate_series(1, 10) n"
    ))
    .await;
    // The warning also appears if the column is given as the deadline.
    for more in [&[][..], &["--deadline", "created_at"]] {
        let folder = format!("made{}", more.len());
        let run = world.overdue(&[&["init", &folder, "--table", "orders"], more].concat());
        assert_eq!(run.code, Some(2), "{run}");
        let why = "created_at says when a row was made (by created_at 8 of 8 open rows are overdue, the newest by 60m): after which time is it overdue?";
        assert!(run.stdout.contains(why), "{run}");
        assert_eq!(asked(&run), ["--after 30m"]);
        let text = fs::read_to_string(world.dir.path().join(&folder).join("overdue.toml")).unwrap();
        assert!(text.contains("\n# deadline = \"created_at + interval '30 minutes'\"\n"), "{text}");
    }
    ends(
        &world,
        0,
        &["init", "made", "--table", "orders", "--deadline", "created_at", "--after", "2h"],
    );
    assert!(
        written(&world, "overdue.toml")
            .contains("\ndeadline = \"created_at + interval '2 hours'\"\n")
    );
    let topology = written(&world, "topology.toml");
    assert!(
        topology.contains("levels = [\"5s\", \"1m\", \"2h\"]")
            && topology.contains("after = \"2h\""),
        "{topology}"
    );
}

/// A complete file with notes, marks and questions.
#[apply(world_test)]
async fn a_file_with_everything() {
    let world = made_up(
        "CREATE TABLE product (id bigint PRIMARY KEY, quantity int NOT NULL);
         CREATE TABLE event (id bigint PRIMARY KEY, seats_free int NOT NULL, seats_sold int NOT NULL);
         CREATE TABLE booking (id uuid PRIMARY KEY, state smallint NOT NULL DEFAULT 10 CHECK (state IN (10, 20, 90)), event_id bigint REFERENCES event,
             seats int NOT NULL, is_vip boolean NOT NULL DEFAULT false, valid_until date, hold_until timestamptz, created_at timestamptz NOT NULL,
             updated_at timestamp, deleted_at timestamptz, lock_version int NOT NULL DEFAULT 0);
         CREATE TABLE booking_extra (booking_id uuid REFERENCES booking, product_id bigint REFERENCES product, qty int);
         CREATE TABLE booking_note (booking_id uuid REFERENCES booking, note text);
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TRIGGER audit AFTER UPDATE ON booking FOR EACH ROW EXECUTE FUNCTION f();
         ALTER TABLE booking ENABLE ROW LEVEL SECURITY;
         INSERT INTO booking (id, state, seats, hold_until, created_at, valid_until)
         SELECT md5(n::text)::uuid, 10, 1, now() + interval '1 hour', now() + interval '45 minutes', current_date FROM generate_series(1, 5) n",
    )
    .await;
    let since = ["--since", "2026-12-01T09:00Z"];
    let run = ends(&world, 2, &[&["init", "made", "--table", "booking"][..], &since].concat());
    assert_snapshot!("said", world.shown(&run).replace(&world.schema, "<schema>"));
    assert_snapshot!("overdue.toml", written(&world, "overdue.toml"));
    assert_snapshot!("topology.toml", written(&world, "topology.toml"));
    let mode = |name: &str| {
        fs::metadata(world.dir.path().join("made").join(name)).unwrap().permissions().mode()
    };
    assert_eq!(mode("overdue.toml") & 0o777, 0o600);
    // A missing answer is a missing key, so the effect does not run.
    let run = ends(&world, 78, &["effect", "check", "expire", "--config", "made/overdue.toml"]);
    assert!(run.stderr.contains("open"), "{run}");
    // Existing files are not overwritten.
    let again = ends(&world, 1, &["init", "made", "--table", "booking"]);
    assert!(
        again.stderr.contains("made already has topology.toml, overdue.toml: nothing was written"),
        "{again}"
    );
}

#[apply(world_test)]
async fn a_table_without_rows_says_so() {
    let world = made_up(
        "CREATE TABLE hold (id int PRIMARY KEY, status text NOT NULL DEFAULT 'held' CHECK (status IN ('held', 'released', 'expired')), expires_at timestamptz)",
    )
    .await;
    ends(&world, 0, &["init", "made", "--table", "hold"]);
    let text = written(&world, "overdue.toml");
    assert!(
        text.contains("# note: the table has no rows, so no guess was compared with any"),
        "{text}"
    );
    assert!(
        text.contains("open = \"status = 'held'\"") && text.contains("status = \"'expired'\""),
        "{text}"
    );
}

#[apply(world_test)]
async fn what_is_no_table_is_refused_with_what_to_write() {
    let world =
        made_up(&format!("{ORDERS}; CREATE VIEW open_orders AS SELECT * FROM orders")).await;
    let mut said = String::new();
    for arguments in [
        &["--table", "ordrs"][..],
        &["--table", "open_orders"],
        &["--table", "a.b.c"],
        &["--table", "orders", "--open", "stat = 'pending'"],
        &["--table", "orders", "--deadline", "due_at"],
        &["--table", "orders", "--set", "stat='expired'"],
        &["--table", "orders", "--after", "30"],
        &["--table", "orders", "--release", "article"],
        &["--table", "orders", "--timeout", "un paid"],
    ] {
        let run = ends(&world, 64, &[&["init", "made"], arguments].concat());
        said += &["$ overdue init ", &arguments.join(" "), "\n", &run.stderr].concat();
        assert!(!world.dir.path().join("made").exists(), "{run}");
    }
    let port = world.services.database.port().unwrap_or_default();
    assert_snapshot!(said.replace(&format!(":{port}"), ":<postgres>"));
}

/// Half of the sample has the last keys, the other half is from pages all over the table.
#[apply(world_test)]
async fn of_a_large_table_some_rows_are_looked_at() {
    let world = made_up(&format!(
        "{ORDERS}; ALTER TABLE orders ADD expires_at timestamptz;
         INSERT INTO orders SELECT n, CASE WHEN n % 100 = 0 THEN 'pending' WHEN n % 100 = 1 THEN 'expired' ELSE 'paid' END, now(), now() + interval '1 hour'
         FROM generate_series(1, 100000) n;
         ANALYZE orders"
    ))
    .await;
    ends(&world, 0, &["init", "made", "--table", "orders"]);
    let text = written(&world, "overdue.toml");
    let rows = text
        .split_once("guess: of ")
        .unwrap()
        .1
        .split_once(" rows looked at status is 'paid' (")
        .unwrap()
        .0;
    let rows: usize = rows.replace(',', "").parse().unwrap();
    assert!((5_001..=10_000).contains(&rows), "{text}");
    assert!(text.contains("open = \"status = 'pending'\""), "{text}");
    // The time between creation and deadline is known.
    let topology = written(&world, "topology.toml");
    assert!(
        topology.contains("# guess: from created_at to expires_at of most rows")
            && topology.contains("after = \"1h\""),
        "{topology}"
    );
}

#[apply(world_test)]
async fn tables_that_look_like_it_are_named() {
    let world = made_up(&format!(
        "{ORDERS}; CREATE TABLE \"Hold\" (id int PRIMARY KEY, \"expiresAt\" timestamptz); CREATE TABLE article (id int PRIMARY KEY, price int)"
    ))
    .await;
    let url = world.database_user().await;
    let grant = format!(
        "GRANT USAGE ON SCHEMA {0} TO {0}; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {0}",
        world.schema
    );
    world.sql(&grant).await;
    let path = format!("nowhere,{}", world.schema);
    let environment =
        [("OVERDUE_DATABASE__URL", url.as_str()), ("OVERDUE_DATABASE__SEARCH_PATH", &path)];
    let run = world.overdue_with(&["init"], &environment);
    assert_eq!(run.code, Some(2), "{run}");
    let named: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        named,
        [
            "tables with a state and a time:",
            "  overdue init --table '\"Hold\"'",
            "  overdue init --table orders"
        ],
        "{run}"
    );
    assert!(run.stderr.contains("2 of 3 tables"), "{run}");
    assert!(!world.dir.path().join("overdue.toml").exists());
}

/// Adds another table to the same files.
#[apply(world_test)]
async fn a_second_table_is_added_to_the_files() {
    let world = made_up(&format!(
        "{ORDERS}; CREATE TABLE carts (id uuid PRIMARY KEY, status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'expired')), expires_at timestamptz NOT NULL);
         INSERT INTO orders VALUES (1, 'pending', now()), (2, 'expired', now())"
    ))
    .await;
    ends(&world, 0, &["init", "made", "--table", "orders", "--after", "30m"]);
    let before = [written(&world, "overdue.toml"), written(&world, "topology.toml")];
    let add = ["init", "made", "--add", "--table", "carts", "--after", "2h"];
    ends(&world, 0, &add);
    let settings = written(&world, "overdue.toml");
    assert!(
        settings.starts_with(before[0].trim_end())
            && settings.contains("\n[effects.expire_cart]\n"),
        "{settings}"
    );
    let topology = written(&world, "topology.toml");
    assert!(
        topology.contains("levels = [\"5s\", \"1m\", \"30m\", \"2h\"]")
            && topology.contains("name = \"cart\""),
        "{topology}"
    );
    let check = ["check", "--topology", "made/topology.toml", "--config", "made/overdue.toml"];
    let run = ends(&world, 0, &check);
    assert!(run.stdout.contains("2 timeouts"), "{run}");
    for (more, says) in [
        (
            &[][..],
            "overdue.toml already has [effects.expire_cart]: nothing was written; name another one with --effect",
        ),
        (
            &["--effect", "another"],
            "topology.toml already has the timeout `cart`: nothing was written; name another one with --timeout",
        ),
    ] {
        let run = ends(&world, 1, &[&add[..], more].concat());
        assert!(run.stderr.contains(says), "{run}");
    }
    assert_eq!(
        [written(&world, "overdue.toml"), written(&world, "topology.toml")],
        [settings, topology]
    );
}

/// A person types each answer at the keyboard; no question has a default.
#[apply(world_test)]
async fn at_a_terminal_it_asks() {
    let world = made_up(
        "CREATE TABLE product (id bigint PRIMARY KEY, quantity int NOT NULL);
         CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, product_id bigint REFERENCES product, qty int NOT NULL, created_at timestamp NOT NULL);
         INSERT INTO product VALUES (1, 5);
         INSERT INTO orders SELECT n, 'pending', 1, 1, '2026-01-05 17:00' FROM generate_series(1, 5) n",
    )
    .await;
    let since = ["--since", "2026-12-01T09:00Z"];
    let init = [&["init", "made", "--table", "orders"][..], &since].concat();
    // The end of the input ends the command.
    let run = world.overdue_at_terminal(&init, "\n\u{4}");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.ends_with("error: nothing was written\n"), "{run}");
    // open, the state, after (wrong at first), zone and release by their numbers.
    let run = world.overdue_at_terminal(&init, "\nsoon\n45m\n1\nexpired\n1\n");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.to_string().contains("`soon` is no time: write 30m, 2h or 5d"), "{run}");
    assert_snapshot!(written(&world, "overdue.toml"));
}
