//! A database that is not there, refuses, or has other tables: one clear message each, and nothing is declared.

use std::net::TcpListener;

use crate::support::{Run, World};

/// `overdue run` with settings of its own; whatever is wrong with the database, the broker is not touched.
async fn start(world: &World, environment: &[(&str, &str)]) -> Run {
    let started = world.overdue_with(&["run"], environment);
    assert!(world.management().observe().await.unwrap().objects.queues.is_empty(), "{started}");
    started
}

#[apply(world_test)]
async fn a_wrong_password() {
    let world = World::empty().await;
    let url = world.database_user().await.replace(":secret@", ":wrong@");
    let wrong = [("OVERDUE_DATABASE__URL", url.as_str())];
    let started = start(&world, &wrong).await;
    insta::assert_snapshot!(world.shown(&started));
    let init = world.overdue_with(&["database", "init", "--yes"], &wrong);
    assert_eq!((init.code, init.stderr), (Some(77), started.stderr));
}

#[apply(world_test)]
async fn a_database_that_does_not_exist() {
    let world = World::empty().await;
    let mut url = world.services.database.clone();
    url.set_path("/nowhere");
    let started = start(&world, &[("OVERDUE_DATABASE__URL", url.as_str())]).await;
    insta::assert_snapshot!(world.shown(&started));
}

#[apply(world_test)]
async fn a_database_without_an_encoding() {
    let world = World::empty().await;
    let name = format!("{}_bytes", world.schema);
    let encoding = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    world.sql(&format!("CREATE DATABASE {name} {encoding}")).await;
    let mut url = world.services.database.clone();
    url.set_path(&format!("/{name}"));
    let started = start(&world, &[("OVERDUE_DATABASE__URL", url.as_str())]).await;
    world.sql(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
    assert_eq!(started.code, Some(78), "{started}");
    assert!(started.stderr.contains("has the encoding SQL_ASCII"), "{started}");
}

#[apply(world_test)]
async fn nobody_listens() {
    let world = World::empty().await;
    let nowhere = [("OVERDUE_DATABASE__URL", "postgres://overdue@127.0.0.1:1/overdue")];
    insta::assert_snapshot!(world.shown(&start(&world, &nowhere).await));
}

#[apply(world_test)]
async fn somebody_listens_and_never_answers() {
    let world = World::empty().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://overdue@127.0.0.1:{}/x", silent.local_addr().unwrap().port());
    let started = start(&world, &[("OVERDUE_DATABASE__URL", url.as_str())]).await;
    assert_eq!(started.code, Some(69), "{started}");
    assert!(started.stderr.contains("no connection to PostgreSQL at 127.0.0.1:"), "{started}");
}

#[apply(world_test)]
async fn missing_tables_and_the_command_that_creates_them() {
    let world = World::empty().await;
    let started = start(&world, &[]).await;
    insta::assert_snapshot!(world.shown(&started));
    assert!(started.stderr.contains("overdue database init"), "{started}");
    // Ours alone are not enough where nobody has order tables.
    let init = world.overdue(&["database", "init", "--yes"]);
    assert_eq!(init.code, Some(0), "{init}");
    assert_eq!(start(&world, &[]).await.code, Some(78));
    // Nobody can be asked.
    let init = world.overdue(&["database", "init", "--reference-tables"]);
    insta::assert_snapshot!("database_init_unasked", world.shown(&init));
    assert_eq!(start(&world, &[]).await.code, Some(78));
    // The advice is right, and can be followed twice.
    for _ in 0..2 {
        let init = world.overdue(&["database", "init", "--reference-tables", "--yes"]);
        insta::assert_snapshot!("database_init", world.shown(&init));
    }
    let mut process = world.started(|_| {}).await;
    assert!(process.is_running());
}

/// A table of the user, with a name of ours: nothing about it changes, not even its comment.
#[apply(world_test)]
async fn a_name_that_is_taken_is_left_alone() {
    let world = World::empty().await;
    world
        .sql(
            "CREATE TABLE outbox (id bigint PRIMARY KEY, payload jsonb);
             COMMENT ON TABLE outbox IS 'of the shop'",
        )
        .await;
    let init = world.overdue(&["database", "init", "--yes"]);
    assert_eq!(init.code, Some(78), "{init}");
    insta::assert_snapshot!(world.shown(&init));
    let comment = "SELECT count(*) FROM pg_description WHERE objoid = 'outbox'::regclass AND description = 'of the shop'";
    assert_eq!(world.number(comment).await, 1);
    assert_eq!(
        world.number("SELECT count(*) FROM pg_class WHERE oid = to_regclass('closures')").await,
        0
    );
}

#[apply(world_test)]
async fn order_tables_of_another_shape() {
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    world
        .sql(
            "CREATE TABLE orders (order_number bigint PRIMARY KEY, state text, pay_until timestamptz);
             CREATE TABLE order_items (order_id text, sku text, qty bigint);
             CREATE TABLE stock (sku text, available bigint, reserved bigint)",
        )
        .await;
    insta::assert_snapshot!(world.shown(&start(&world, &[]).await));
}

#[apply(world_test)]
async fn an_order_table_whose_id_is_a_number() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world
        .sql(
            "DROP TABLE order_items, orders;
             CREATE TABLE orders (id bigint PRIMARY KEY, status text, due_at timestamptz, closed_at timestamptz);
             CREATE TABLE order_items (order_id bigint, sku text, qty bigint)",
        )
        .await;
    insta::assert_snapshot!(world.shown(&start(&world, &[]).await));
    // A command that asks only for what is overdue says the same.
    let run = world.overdue(&["effect", "check", "close"]);
    assert!(run.stderr.contains("is built in") || run.stdout.contains("is built in"), "{run}");
}

/// A table that has the name of one of ours.
#[apply(world_test)]
async fn an_outbox_of_another_shape() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world.sql("ALTER TABLE outbox DROP COLUMN created_at").await;
    insta::assert_snapshot!(world.shown(&start(&world, &[]).await));
}

#[apply(world_test)]
async fn a_user_who_may_not_change_the_tables() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    let url = world.database_user().await;
    let schema = &world.schema;
    world.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}")).await;
    let started = start(&world, &[("OVERDUE_DATABASE__URL", url.as_str())]).await;
    insta::assert_snapshot!(world.shown(&started));
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
    let _process = world
        .started(|command| {
            command.env("OVERDUE_DATABASE__URL", url);
        })
        .await;
    let orders = world.orders("o", 3, 0).await;
    world.publish("100ms", &orders).await;
    world.until_closed(3).await;
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn a_search_path_that_is_no_list_of_schemas() {
    let world = World::empty().await;
    let wrong = [("OVERDUE_DATABASE__SEARCH_PATH", "Shop; DROP SCHEMA public")];
    let init = world.overdue_with(&["database", "init", "--yes"], &wrong);
    insta::assert_snapshot!(world.shown(&init));
    let started = start(&world, &wrong).await;
    assert_eq!(started.code, Some(78), "{started}");
}

const EFFECT: &str = "SELECT id AS order_id, 'closed'::text AS outcome, due_at, now() AS decided_at
                      FROM orders WHERE id = ANY ($1::text[]) AND $2::text <> ''";

/// `[effects.close]` in `overdue.toml`, and what the start says about it.
async fn start_with_effect(sql: &str) -> String {
    start_on_tables("", sql).await
}

/// The same, with more tables.
async fn start_on_tables(tables: &str, sql: &str) -> String {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world.sql(tables).await;
    std::fs::write(world.dir.path().join("mine.sql"), sql).unwrap();
    let file = "[effects.close]\nsql = \"mine.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), file).unwrap();
    let started = start(&world, &[]).await;
    assert_eq!(started.code, Some(78), "{started}");
    world.shown(&started)
}

#[apply(world_test)]
async fn an_effect_with_other_parameters() {
    let sql = EFFECT.replace("$1::text[]", "$1::bigint[]").replace("id =", "id::bigint =");
    insta::assert_snapshot!(start_with_effect(&sql).await);
}

#[apply(world_test)]
async fn an_effect_with_other_columns() {
    let wrong_type = EFFECT.replace("due_at,", "due_at::date AS due_at,");
    insta::assert_snapshot!("effect_column_type", start_with_effect(&wrong_type).await);
    let missing = EFFECT.replace(", now() AS decided_at", "");
    insta::assert_snapshot!("effect_column_missing", start_with_effect(&missing).await);
}

#[apply(world_test)]
async fn an_effect_that_is_no_sql() {
    insta::assert_snapshot!(start_with_effect("CLOSE ALL ORDERS").await);
}

/// Tables of another shape, with the mistakes of a first try, one after the other: each says what to write.
#[apply(world_test)]
async fn an_effect_on_keys_that_are_numbers() {
    const TABLE: &str =
        "CREATE TABLE purchase (no bigint PRIMARY KEY, due_at timestamptz NOT NULL)";
    const GOOD: &str =
        "SELECT no::text AS order_id, 'done:gone'::text AS outcome, due_at, now() AS decided_at
FROM purchase
WHERE no = ANY ($1::text[]::bigint[]) AND $2::text <> ''";
    let tries = [
        (
            "::text[]::bigint[]",
            "::text[]",
            [
                "effect `close` (mine.sql, line 3) failed",
                "write $1::text[]::bigint[] (or ::uuid[])",
            ],
        ),
        (
            "::text[]::bigint[]",
            "",
            [
                "effect `close` (mine.sql) does not fit",
                "$1 is bigint[]: write $1::text[]::bigint[]",
            ],
        ),
        (
            " AND $2::text <> ''",
            "",
            ["effect `close` (mine.sql) does not fit", "$2 text is missing: use it"],
        ),
        (
            "no::text",
            "no",
            ["column 1 is `order_id bigint`, not `order_id text`", "write …::text AS order_id"],
        ),
        (
            "FROM purchase",
            "FROM purchases",
            [
                "effect `close` (mine.sql, line 2) failed",
                "correct the name in the SQL, or add its schema",
            ],
        ),
        (
            "WHERE no",
            "WHERE number",
            ["effect `close` (mine.sql, line 3) failed", "correct the name of the column"],
        ),
    ];
    for (from, to, expected) in tries {
        assert!(GOOD.contains(from), "{from}");
        let said = start_on_tables(TABLE, &GOOD.replace(from, to)).await;
        for part in expected {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
}

#[apply(world_test)]
async fn an_effect_whose_file_is_missing_or_that_nobody_defined() {
    let world = World::empty().await;
    let file = "[effects.close]\nsql = \"elsewhere.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), file).unwrap();
    insta::assert_snapshot!("effect_file_missing", world.shown(&start(&world, &[]).await));
    let text = std::fs::read_to_string(world.topology_file()).unwrap();
    let text = text.replace("after = \"1s\"", "after = \"1s\"\neffect = \"remind\"");
    std::fs::write(world.topology_file(), text).unwrap();
    insta::assert_snapshot!("effect_undefined", world.shown(&start(&world, &[]).await));
}

#[apply(world_test)]
async fn an_effect_of_ones_own_runs() {
    let world = World::new().await;
    // Somebody else's tables have other states.
    world.sql("DROP TRIGGER orders_transition ON orders").await;
    let sql = "WITH done AS (
                   UPDATE orders SET status = 'cancelled' WHERE id = ANY ($1) AND status = 'unpaid'
                   AND due_at <= now() AND $2::text <> '' RETURNING id, due_at
               ) SELECT id AS order_id, 'closed'::text AS outcome, due_at, now() AS decided_at FROM done";
    std::fs::write(world.dir.path().join("cancel.sql"), sql).unwrap();
    let file = "[effects.close]\nsql = \"cancel.sql\"\n";
    std::fs::write(world.dir.path().join("overdue.toml"), file).unwrap();
    let _process = world.started(|_| {}).await;
    let orders = world.orders("o", 4, 0).await;
    world.publish("100ms", &orders).await;
    let statuses = async || world.statuses().await;
    crate::support::until("all cancelled", statuses, |seen| seen.get("cancelled") == Some(&4))
        .await;
}
