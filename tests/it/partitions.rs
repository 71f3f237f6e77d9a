//! Orders partitioned by the day of their deadline: the test runs their page, and checks the plans of its statements.

use overdue::internals::{
    order::{OrderId, Outcome},
    store::orders::{ClosingPath, Effect},
};

use crate::{
    own_tables::write_effect,
    page::{blocks, file_of, read},
    support::{
        World, until,
        worker::{millis, settings},
    },
};

const PAGE: &str = "examples/own-tables/partitioned/README.md";
const EXAMPLE: &str = "examples/own-tables/partitioned";

#[test]
fn the_page_shows_the_tables_of_the_example() {
    let blocks = blocks(PAGE);
    let mut shown = blocks.iter().filter_map(|(_, text)| file_of(text));
    let tables = shown.find(|(name, _)| *name == "tables.sql").unwrap();
    assert_eq!(tables.1, read(&format!("{EXAMPLE}/tables.sql")));
}

/// Partitions of ten past days, of today, and of thirty to come.
const PARTITIONS: usize = 41;

/// The tables and the effect of the page.
async fn shop() -> (World, Effect) {
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    for (_, text) in blocks(PAGE) {
        if let Some((_, sql)) = file_of(&text) {
            world.sql(sql).await;
        }
    }
    world.sql(&read(&format!("{EXAMPLE}/function.sql"))).await;
    world.sql("SELECT purchase_days(current_date - 10, current_date)").await;
    let read = |name: &str| read(&format!("{EXAMPLE}/{name}"));
    let (sql, overdue) = (read("expire.sql"), read("expire_overdue.sql"));
    let effect = Effect::written("expire", &sql, Some(&overdue));
    world.store.check_effect(&effect).await.unwrap();
    (world, effect)
}

/// Orders 1 to 3000 of the last hour, some of other days, and one that is not due.
async fn filled() -> (World, Effect) {
    let (world, effect) = shop().await;
    world
        .sql(
            "INSERT INTO article VALUES (7, 0);
             INSERT INTO purchase SELECT n, 10, now() - n * interval '1 s' FROM generate_series(1, 3000) n;
             INSERT INTO purchase SELECT n, 10, now() - interval '9 days' + n * interval '1 s' FROM generate_series(5001, 5010) n;
             INSERT INTO purchase VALUES (6001, 20, now() - interval '8 days'), (6002, 10, now() + interval '8 days');
             INSERT INTO purchase_line SELECT purchase_no, 7, 2 FROM purchase;
             ANALYZE purchase, purchase_line, article",
        )
        .await;
    (world, effect)
}

/// The contract for an order in any partition: due, paid, not due, unknown, twice, in another spelling, locked.
#[apply(world_test)]
async fn an_order_is_found_in_any_partition() {
    let (world, effect) = filled().await;
    let mut client = world.store.client().await.unwrap();
    let locked = client.transaction().await.unwrap();
    locked
        .execute("SELECT FROM purchase WHERE purchase_no IN (3, 5003) FOR UPDATE", &[])
        .await
        .unwrap();
    let ids = ["1", "002", "5001", "6001", "6002", "9", "3", "5003", "77777"];
    let ids: Vec<OrderId> = ids.iter().map(|id| OrderId::parse(id).unwrap()).collect();
    let run = async |ids: &[OrderId]| {
        world.store.run_effect(&effect, ids, ClosingPath::Message).await.unwrap()
    };
    let outcomes = run(&ids).await;
    let closed = |outcome: &Outcome| matches!(outcome, Outcome::Closed { state, .. } if state.as_str() == "expired");
    assert!([0, 1, 2, 5].iter().all(|place| closed(&outcomes[*place])), "{outcomes:?}");
    assert_eq!(outcomes[3], Outcome::AlreadyFinal);
    assert!(matches!(outcomes[4], Outcome::NotDue { .. }), "{outcomes:?}");
    assert_eq!(outcomes[6..8], [Outcome::Busy, Outcome::Busy]);
    assert_eq!(outcomes[8], Outcome::Unknown);
    locked.rollback().await.unwrap();
    let outcomes = run(&ids).await;
    assert!([6, 7].iter().all(|place| closed(&outcomes[*place])), "{outcomes:?}");
    assert!(
        [0, 1, 2, 3, 5].iter().all(|place| outcomes[*place] == Outcome::AlreadyFinal),
        "{outcomes:?}"
    );
    assert_eq!(world.number("SELECT on_hand::bigint FROM article").await, 12);
    let once =
        "SELECT count(DISTINCT order_id) * 100 + count(*) FROM closures WHERE outcome = 'expired'";
    assert_eq!(world.number(once).await, 606);
}

/// A worker sweeps from the oldest day on.
#[apply(world_test)]
async fn the_sweep_goes_through_the_days() {
    let (world, effect) = filled().await;
    world.apply(&world.topology).await;
    let worker = world.worker_of(
        effect,
        overdue::internals::config::WorkerSettings { sweep_grace: millis("1ms"), ..settings() },
    );
    let expired = async || world.number("SELECT count(*) FROM purchase WHERE state = 90").await;
    until("all expired", expired, |seen| *seen == 3010).await;
    worker.stop().await;
    assert_eq!(world.number("SELECT on_hand::bigint FROM article").await, 6020);
    assert_eq!(world.number("SELECT count(*) FROM purchase WHERE state <> 90").await, 2);
    assert_eq!(world.number("SELECT count(*) - count(DISTINCT order_id) FROM closures").await, 0);
}

/// A deadline moves past midnight during the statement: the row is busy or queried again, and never closed twice.
#[apply(world_test)]
async fn a_deadline_that_moves_to_another_day_is_found_there() {
    let (world, effect) = filled().await;
    let mut client = world.store.client().await.unwrap();
    let moving = client.transaction().await.unwrap();
    moving
        .execute(
            "UPDATE purchase SET pay_until = now() + interval '5 days' WHERE purchase_no = 1",
            &[],
        )
        .await
        .unwrap();
    let id = [OrderId::parse("1").unwrap()];
    let asked = world.store.run_effect(&effect, &id, ClosingPath::Message).await.unwrap();
    assert_eq!(asked, [Outcome::Busy]);
    moving.commit().await.unwrap();
    let asked = world.store.run_effect(&effect, &id, ClosingPath::Message).await.unwrap();
    assert!(matches!(asked[..], [Outcome::NotDue { .. }]), "{asked:?}");
    world
        .sql("UPDATE purchase SET pay_until = now() - interval '9 days' WHERE purchase_no = 1")
        .await;
    let asked = world.store.run_effect(&effect, &id, ClosingPath::Message).await.unwrap();
    assert!(matches!(asked[..], [Outcome::Closed { .. }]), "{asked:?}");
}

/// Lines of a generic plan, as a worker's session makes it; PostgreSQL prunes partitions by `arguments`.
async fn plan(world: &World, sql: &str, types: &str, arguments: &str) -> Vec<String> {
    let client = world.store.client().await.unwrap();
    let settings =
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";
    client.batch_execute(&format!("{settings}; PREPARE it {types} AS {sql}")).await.unwrap();
    // EXPLAIN alone shows all partitions; an executed plan shows only the remaining ones.
    let rows = client
        .query(&format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE it {arguments}"), &[])
        .await
        .unwrap();
    client.batch_execute("DEALLOCATE it").await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn scans<'a>(plan: &'a [String], of: &str) -> Vec<&'a str> {
    plan.iter().filter(|line| line.contains(of)).map(String::as_str).collect()
}

/// The pages of sweep, burst, `status` and `rebuild`: each uses its index, in the order of the days, without a sort.
#[apply(world_test)]
async fn pages_are_read_by_the_index_of_the_days_that_matter() {
    let (world, effect) = filled().await;
    let sql = world.store.statements(&effect).await.unwrap().overdue.clone().unwrap();
    let pages = [
        // 11 days to now.
        ("(500, 0, '-infinity', '')", 11),
        // After an order of today: today.
        ("(2000, 0, now() - interval '1 s', '1')", 2),
        // All open orders, a hundred years ahead.
        ("(5000, -3153600000000, '-infinity', '')", PARTITIONS),
    ];
    for (arguments, most) in pages {
        let plan = plan(&world, &sql, "", arguments).await;
        let text = plan.join("\n");
        assert!(
            !text.contains("Seq Scan") && !text.contains("Sort") && !text.contains("Merge Append"),
            "{text}"
        );
        let scans = scans(&plan, "_pay_until_purchase_no_idx on purchase_");
        assert!(!scans.is_empty() && scans.len() <= most, "{arguments}\n{text}");
    }
}

/// The statement of the function in the first step, and in the second.
#[apply(world_test)]
async fn a_batch_of_messages_looks_into_three_partitions() {
    let (world, _) = filled().await;
    let function = read(&format!("{EXAMPLE}/function.sql"));
    let (_, statement) = function.split_once(" IN\n").unwrap();
    let (statement, _) = statement.split_once("        LOOP\n").unwrap();
    let mut statement = statement.to_owned();
    let parameters = [
        ("ANY (ids", "ANY ($1"),
        ("(ids)", "($1)"),
        ("BETWEEN since AND till", "BETWEEN $2 AND $3"),
        ("'expire', path", "'expire', 'message'"),
        ("traces ->", "NULL::jsonb ->"),
    ];
    for (name, parameter) in parameters {
        assert!(statement.contains(name), "{name}");
        statement = statement.replace(name, parameter);
    }
    let types = "(text[], timestamptz, timestamptz)";
    for (bounds, most) in [
        ("now() - interval '1 day', now() + interval '1 day'", 3),
        ("'-infinity', 'infinity'", PARTITIONS),
    ] {
        let plan =
            plan(&world, &statement, types, &format!("(ARRAY['11', '12', '13'], {bounds})")).await;
        let text = plan.join("\n");
        assert!(!text.contains("Seq Scan"), "{text}");
        // Scans to lock, to update, and to find busy rows.
        let scans = scans(&plan, "_pkey on purchase_2");
        assert!((1..=3 * most).contains(&scans.len()), "{most}: {}\n{text}", scans.len());
        let ran = scans.iter().filter(|line| !line.contains("never executed")).count();
        assert!((1..=2 * most).contains(&ran), "{most}: {ran}\n{text}");
    }
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 3);
}

/// The commands for people.
#[apply(world_test)]
async fn the_commands_work_on_partitions() {
    let (world, effect) = filled().await;
    let folder = world.dir.path();
    write_effect(&world, &effect).await;
    for (name, path) in [
        ("overdue.toml", "tests/written/expire.toml"),
        ("topology.toml", "examples/own-tables/topology.toml"),
    ] {
        std::fs::write(folder.join(name), read(path)).unwrap();
    }
    world.overdue(&["effect", "check", "--all"]).exits(0).prints("open         3011 orders");
    let explain = world.overdue(&["explain", "--order", "6002", "-o", "json"]);
    assert_eq!(explain.json()["order"]["status"], "not_due", "{explain}");
    world.overdue(&["rebuild"]).prints("3011 notices");
    let report = world.overdue(&["doctor", "-o", "json"]).json();
    let checks = report["checks"].as_array().unwrap();
    for rule in ["effects", "sweep-index", "closing"] {
        let check = checks
            .iter()
            .find(|it| it["rule"] == rule && it["subject"]["name"] == "Database")
            .unwrap();
        assert_eq!(check["severity"], "ok", "{check}");
    }
}
