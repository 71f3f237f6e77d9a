//! A database that is down, refuses, or has other tables: each gives one clear message, and nothing is declared.

use std::net::TcpListener;

use crate::{runs::Runs, support::World};

const INIT: [&str; 3] = ["database", "init", "--yes"];

/// Asserts that the broker has no queue.
async fn assert_nothing_declared(world: &World) {
    assert!(world.management().observe().await.unwrap().objects.queues.is_empty());
}

#[apply(world_test)]
async fn a_database_that_refuses_or_is_not_there() {
    let world = World::empty().await;
    let mut runs = Runs::default();
    let wrong = world.database_user().await.replace(":secret@", ":s3cret@");
    let mut nowhere = world.services.database.clone();
    nowhere.set_path("/nowhere");
    for (title, url, code) in [
        ("a wrong password", wrong.as_str(), 77),
        ("no such database", nowhere.as_str(), 78),
        ("no server listens", "postgres://overdue@127.0.0.1:1/overdue", 69),
    ] {
        runs.heading(title);
        let url = [("OVERDUE_DATABASE__URL", url)];
        let started = runs.at(&world, &["run"], &url);
        let init = world.overdue_with(&INIT, &url);
        assert_eq!((started.code, init.code), (Some(code), Some(code)), "{started}");
    }
    runs.heading("a search path that is no list of schemas");
    let path = [("OVERDUE_DATABASE__SEARCH_PATH", "Shop; DROP SCHEMA public")];
    for command in [&["run"][..], &INIT] {
        assert_eq!(runs.at(&world, command, &path).code, Some(78));
    }
    insta::assert_snapshot!(runs);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://overdue@127.0.0.1:{}/x", silent.local_addr().unwrap().port());
    let started =
        world.overdue_with(&["run"], &[("OVERDUE_DATABASE__URL", url.as_str())]).exits(69);
    assert!(started.stderr.contains("no connection to PostgreSQL at 127.0.0.1:"), "{started}");
    let name = format!("{}_bytes", world.schema);
    let encoding = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    world.sql(&format!("CREATE DATABASE {name} {encoding}")).await;
    let mut url = world.services.database.clone();
    url.set_path(&format!("/{name}"));
    let started = world.overdue_with(&["run"], &[("OVERDUE_DATABASE__URL", url.as_str())]);
    world.sql(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
    assert_eq!(started.code, Some(78), "{started}");
    assert!(started.stderr.contains("has the encoding SQL_ASCII"), "{started}");
    assert_nothing_declared(&world).await;
}

#[apply(world_test)]
async fn missing_tables_and_the_command_that_creates_them() {
    let world = World::empty().await;
    let mut runs = Runs::default();
    runs.at(&world, &["run"], &[]).reports("overdue database init");
    // Our tables are not enough without the order tables.
    world.overdue(&INIT).exits(0);
    world.overdue(&["run"]).exits(78);
    // Without a terminal the command cannot ask.
    runs.at(&world, &["database", "init", "--reference-tables"], &[]);
    world.overdue(&["run"]).exits(78);
    assert_nothing_declared(&world).await;
    // The advice is right, and can be followed twice.
    let all = ["database", "init", "--reference-tables", "--yes"];
    let [once, twice] = [(); 2].map(|()| runs.at(&world, &all, &[]));
    assert_eq!((once.code, once.stdout), (twice.code, twice.stdout));
    insta::assert_snapshot!(runs);
    let mut process = world.started(|_| {}).await;
    assert!(process.is_running());
}

/// A user's table with one of our names: nothing about it changes, not even its comment.
#[apply(world_test)]
async fn a_name_that_is_taken_is_left_alone() {
    let world = World::empty().await;
    world
        .sql(
            "CREATE TABLE outbox (id bigint PRIMARY KEY, payload jsonb);
             COMMENT ON TABLE outbox IS 'of the shop'",
        )
        .await;
    let mut runs = Runs::default();
    runs.at(&world, &INIT, &[]);
    insta::assert_snapshot!(runs);
    let comment = "SELECT count(*) FROM pg_description WHERE objoid = 'outbox'::regclass AND description = 'of the shop'";
    assert_eq!(world.number(comment).await, 1);
    let closures = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('closures')";
    assert_eq!(world.number(closures).await, 0);
}

/// Faults of one schema, one after the other: each start names the missing column, right or type.
#[apply(world_test)]
async fn order_tables_of_another_shape() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    let url = world.database_user().await;
    let schema = &world.schema;
    world.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}")).await;
    let mut runs = Runs::default();
    runs.heading("a user who may not change the tables");
    runs.at(&world, &["run"], &[("OVERDUE_DATABASE__URL", url.as_str())]);
    for (title, sql) in [
        (
            "an order table whose id is not unique",
            "DROP TABLE order_items, orders;
             CREATE TABLE orders (id bigint, status text, due_at timestamptz, closed_at timestamptz);
             CREATE TABLE order_items (order_id bigint, sku text, qty bigint)",
        ),
        (
            "order tables with other columns",
            "DROP TABLE orders;
             CREATE TABLE orders (order_number bigint PRIMARY KEY, state text, pay_until timestamptz)",
        ),
        ("an outbox with other columns", "ALTER TABLE outbox DROP COLUMN created_at"),
    ] {
        runs.heading(title);
        world.sql(sql).await;
        assert_eq!(runs.at(&world, &["run"], &[]).code, Some(78));
    }
    insta::assert_snapshot!(runs);
    assert_nothing_declared(&world).await;
}

#[apply(world_test)]
async fn a_user_who_may_do_what_is_documented_closes_orders() {
    let world = World::new().await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world
        .sql(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}"
        ))
        .await;
    let _process = world.started(|it| _ = it.env("OVERDUE_DATABASE__URL", url)).await;
    world.publish_orders("100ms", "o", 3, 0).await;
    world.until_closed(3).await;
    world.assert_invariants().await;
}

const EFFECT: &str = "SELECT id AS order_id, 'closed'::text AS outcome, due_at, now() AS decided_at
FROM orders WHERE id = ANY ($1::text[]) AND $2::text <> ''";

/// A statement on integer keys.
const NUMBERS: &str =
    "SELECT no::text AS order_id, 'done:gone'::text AS outcome, due_at, now() AS decided_at
FROM purchase
WHERE no = ANY ($1::text[]::bigint[]) AND $2::text <> ''";

/// Mistakes of a first try: each start names the correction.
#[apply(world_test)]
async fn effects_that_do_not_fit() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world.sql("CREATE TABLE purchase (no bigint PRIMARY KEY, due_at timestamptz NOT NULL)").await;
    let settings = "[effects.close]\nsql = \"mine.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), settings).unwrap();
    let mut runs = Runs::default();
    runs.heading("no such file");
    runs.at(&world, &["run"], &[]);
    for (sql, from, to) in [
        (EFFECT, "id = ANY ($1::text[])", "id::bigint = ANY ($1::bigint[])"),
        (EFFECT, "due_at,", "due_at::date AS due_at,"),
        (EFFECT, ", now() AS decided_at", ""),
        (EFFECT, EFFECT, "CLOSE ALL ORDERS"),
        (NUMBERS, "::text[]::bigint[]", "::text[]"),
        (NUMBERS, "::text[]::bigint[]", ""),
        (NUMBERS, " AND $2::text <> ''", ""),
        (NUMBERS, "no::text", "no"),
        (NUMBERS, "FROM purchase", "FROM purchases"),
        (NUMBERS, "WHERE no", "WHERE number"),
    ] {
        assert!(sql.contains(from), "{from}");
        std::fs::write(world.dir.path().join("mine.sql"), sql.replace(from, to)).unwrap();
        runs.heading(&format!("`{to}` in the place of `{from}`"));
        runs.at(&world, &["run"], &[]).exits(78);
    }
    runs.heading("an effect without SQL");
    let text = std::fs::read_to_string(world.topology_file()).unwrap();
    let text = text.replacen("after = \"1s\"", "after = \"1s\"\neffect = \"remind\"", 1);
    std::fs::write(world.topology_file(), text).unwrap();
    runs.at(&world, &["run"], &[]);
    insta::assert_snapshot!(runs);
    assert_nothing_declared(&world).await;
}
