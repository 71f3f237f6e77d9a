//! `effect check` on tables that must not be read from end to end: plain ones and partitioned ones.

use crate::{
    described::{check, shop},
    support::{Run, World, process::finish, until},
};

/// PostgreSQL's statistics are complete once the sessions of the check have ended.
async fn check_as_role(world: &World, url: &str) -> Run {
    let sessions =
        format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{}'", world.schema);
    let mut command = world.command(&["effect", "check", "expire"]);
    command.env("OVERDUE_DATABASE__URL", url);
    let run = finish(command, None);
    until("sessions have ended", async || world.number(&sessions).await, |left| *left == 0).await;
    run
}

/// The table has 5,007 rows, of which 7 are open.
#[apply(world_test)]
async fn a_check_reads_only_open_rows_by_the_index() {
    let world = shop().await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world
        .sql(&format!(
            "INSERT INTO purchase (purchase_no, state, pay_until) SELECT n, 90, now() FROM generate_series(1001, 6000) n;
             GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema};
             ANALYZE purchase"
        ))
        .await;
    check_as_role(&world, &url).await.exits(0);
    let read = |column: &str, view: &str| {
        format!(
            "SELECT sum({column})::bigint FROM {view} WHERE schemaname = '{schema}' AND relname = 'purchase'"
        )
    };
    let [by_scan, by_index] =
        [("seq_tup_read", "pg_stat_user_tables"), ("idx_tup_read", "pg_stat_user_indexes")]
            .map(|(column, view)| read(column, view));
    let before = world.number(&by_scan).await;
    check_as_role(&world, &url).await.exits(0);
    assert_eq!(world.number(&by_scan).await, before);
    let entries = world.number(&by_index).await;
    assert!((1..1_000).contains(&entries), "{entries}");
}

#[apply(world_test)]
async fn an_index_without_the_deadline_is_named_if_many_rows_are_open() {
    let world = shop().await;
    world
        .sql(
            "DROP INDEX purchase_waiting;
             CREATE INDEX ON purchase (state);
             INSERT INTO purchase (purchase_no, state, pay_until) SELECT n, 90, now() FROM generate_series(1001, 2000) n;
             ANALYZE purchase",
        )
        .await;
    // A sort of seven rows is cheap.
    check(&world).exits(0);
    world
        .sql(
            "INSERT INTO purchase (purchase_no, pay_until) SELECT n, now() + interval '1 day' FROM generate_series(10001, 20000) n;
             ANALYZE purchase",
        )
        .await;
    let run = check(&world).exits(2);
    let finding = format!(
        "a look for overdue rows reads all open rows of {}.purchase, more than 10000: CREATE INDEX",
        world.schema
    );
    assert!(run.stdout.contains(&finding), "{run}");
}

/// The oldest 100,000 open rows are overdue, and there are others.
#[apply(world_test)]
async fn open_rows_that_are_not_counted_to_their_end_are_not_judged() {
    let world = shop().await;
    world
        .sql(
            "INSERT INTO purchase (purchase_no, pay_until)
             SELECT n, now() + (n - 100200) * interval '1 s' FROM generate_series(100, 100300) n;
             ANALYZE purchase",
        )
        .await;
    let run = check(&world);
    assert!(run.stdout.contains("open         100000 orders or more"), "{run}");
    assert!(!run.stdout.contains("every open row is overdue"), "{run}");
}

#[apply(world_test)]
async fn partitions_are_a_part_of_their_table() {
    let world = shop().await;
    let schema = &world.schema;
    world
        .sql(
            "ALTER TABLE purchase RENAME TO one;
             CREATE TABLE purchase (purchase_no bigint, state int NOT NULL, pay_until timestamptz NOT NULL, PRIMARY KEY (purchase_no))
                 PARTITION BY RANGE (purchase_no);
             CREATE TABLE low PARTITION OF purchase FOR VALUES FROM (0) TO (4);
             CREATE TABLE high PARTITION OF purchase FOR VALUES FROM (4) TO (1000) PARTITION BY RANGE (purchase_no);
             CREATE TABLE high_1 PARTITION OF high DEFAULT;
             INSERT INTO purchase SELECT purchase_no, state, pay_until FROM one;
             CREATE INDEX ON purchase (pay_until, purchase_no) WHERE state = 10",
        )
        .await;
    let run = check(&world).exits(0);
    assert!(run.stdout.contains("7 rows of") && !run.stdout.contains("triggers"), "{run}");
    let shown = world.overdue(&["effect", "show", "expire"]).exits(0);
    let index = format!("purchase_expire_due_2 ON {schema}.low (pay_until, purchase_no)");
    assert!(shown.stdout.contains(&index), "{shown}");
}
