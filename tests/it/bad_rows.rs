//! Rows that no batch can close: the worker isolates each, and closes the others.

use overdue::internals::{config::WorkerSettings, store::orders::Effect, worker::Counts};

use crate::support::{
    World,
    orders::{WRITTEN, written},
    until,
    worker::{millis, settings},
    world::TOPOLOGY,
};

/// More than one batch, so that other rows do not hide a row's effect on its batch.
const ORDERS: usize = 1_500;

/// Creates due orders, and publishes their messages to the business queue.
pub(super) async fn due(world: &World, count: usize) -> Vec<String> {
    let orders = world.orders("o", count, 0).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    orders
}

pub(super) fn sweeping() -> WorkerSettings {
    WorkerSettings { sweep_every: millis("1h"), sweep_grace: millis("1s"), ..settings() }
}

/// Creates a trigger that refuses some orders, each with its own SQLSTATE: `o-0` with the first, and so on.
pub(super) async fn refuse(world: &World, codes: &[&str]) {
    let codes = codes.join(",");
    world
        .sql(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             DECLARE code text := (string_to_array('{codes}', ','))[1 + substr(NEW.id, 3)::int];
             BEGIN
                 IF code IS NOT NULL THEN RAISE EXCEPTION 'refused' USING ERRCODE = code; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.status = 'closed') EXECUTE FUNCTION refuse()"
        ))
        .await;
}

#[apply(world_test)]
async fn a_deadline_farther_than_any_calendar_holds_up_nobody() {
    let world = World::new().await;
    let orders = due(&world, ORDERS).await;
    for (order, date) in
        orders.iter().zip(["9999-12-31", "294000-01-01", "infinity", "-infinity", "4000-01-01 BC"])
    {
        world.sql(&format!("UPDATE orders SET due_at = '{date}' WHERE id = '{order}'")).await;
    }
    let worker = world.worker();
    world.until_closed(ORDERS - 3).await;
    worker.until("the others wait", |counts| counts.held + counts.put_back >= 3).await;
    worker.stops_after(0, 0).await;
}

/// A row's SQLSTATE concerns only that row. A code that looks like an outage keeps the row open forever: the trigger may call a server
/// that is unavailable. The last row fails at the commit, after the statement has returned its rows.
#[apply(world_test)]
async fn a_row_that_raises_an_sqlstate_is_parked_or_waits_and_the_others_are_closed() {
    const PARKED: [&str; 7] = ["OS001", "21000", "38001", "XX000", "42P01", "25P02", "OS002"];
    const WAIT: [&str; 8] =
        ["08006", "57P01", "53100", "25006", "0A000", "26000", "58030", "XX001"];
    let world = World::new().await;
    refuse(&world, &[&PARKED[..6], &WAIT].concat()).await;
    world
        .sql(
            "CREATE FUNCTION refuse_late() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'too late' USING ERRCODE = 'OS002'; END $$;
             CREATE CONSTRAINT TRIGGER refuse_late AFTER UPDATE ON orders DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.id = 'o-99' AND NEW.status = 'closed') EXECUTE FUNCTION refuse_late()",
        )
        .await;
    due(&world, ORDERS).await;
    let worker = world.worker();
    let good = ORDERS - PARKED.len() - WAIT.len();
    world.until_closed(good).await;
    let parked = world.parked(PARKED.len()).await;
    for (n, code) in (0..6).chain([99]).zip(PARKED) {
        let id = format!("o-{n}");
        let reason = parked.iter().find(|parked| parked.text() == id).unwrap().reason();
        assert!(reason.contains(&format!("SQLSTATE {code}")), "{reason}");
    }
    let all = |c: &Counts| {
        c.closed + c.burst >= good as u64
            && c.retried >= 21
            && c.parked >= 7
            && c.held + c.put_back > 8
    };
    worker.until("all counted", all).await;
    let counts = worker.stop().await;
    let closed = counts.closed + counts.burst;
    assert_eq!((closed, counts.retried, counts.parked), (good as u64, 21, 7));
    world.assert_invariants().await;
}

/// Creates a trigger that fails for each order `bad-…` as if the disk were full.
async fn refuse_bad(world: &World) {
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.status = 'closed' AND NEW.id LIKE 'bad-%') EXECUTE FUNCTION refuse()",
        )
        .await;
}

/// The bad rows fill two pages: each sweep stops there with an error, and the next one begins behind them.
#[apply(world_test)]
async fn two_pages_of_rows_that_all_fail_like_an_outage_hide_nothing_and_are_not_forgotten() {
    const WORKS: &str = "the sweep works again";
    let world = World::new().await;
    refuse_bad(&world).await;
    world.orders("bad", 1_100, -20_000).await;
    world.orders("o", 1, -10_000).await;
    let process = world.started(|command| {
        command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
        command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
    });
    let mut process = process.await;
    world.until_closed(1).await;
    let failures = async || process.logged("the sweep failed");
    let before = failures().await;
    until("it fails again and again", failures, |failed| *failed > before + 2).await;
    assert_eq!(process.logged(WORKS), 0, "{}", process.log());
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(1_101).await;
    process.until_logged(WORKS).await;
    world.assert_invariants().await;
}

/// All unacked messages fail as if the disk were full, and more of them are ready. Only another order can show that the disk has
/// space.
#[apply(world_test)]
async fn what_comes_behind_rows_that_all_fail_like_an_outage_is_closed() {
    let world = World::new().await;
    refuse_bad(&world).await;
    let bad = world.orders("bad", 300, 0).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &bad).await;
    let mut process = world
        .started(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
            command.env("OVERDUE_WORKER__BATCH_SIZE", "50");
            command.env("OVERDUE_WORKER__IN_FLIGHT", "1");
        })
        .await;
    process.until_logged("orders cannot be closed").await;
    world.publish_orders("100ms", "good", 1, 0).await;
    world.until_closed(1).await;
    assert_eq!(world.status("good-0").await, "closed");
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(301).await;
    world.parked(0).await;
    world.assert_invariants().await;
}

/// A trigger that fails for every order is not the orders' fault. Once the worker knows this, no retry is used, and
/// all orders are closed after the repair.
#[apply(world_test)]
async fn what_fails_for_every_order_burns_no_retry_and_parks_nothing() {
    // Long retries, so that the first orders, before the worker knows, do not use them up.
    let retries = [r#"["100ms", "200ms", "300ms"]"#, r#"["1s", "2s", "2s"]"#];
    let world = World::of(&TOPOLOGY.replacen(retries[0], retries[1], 1)).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO no_such_table VALUES (1); RETURN NEW; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.status = 'closed') EXECUTE FUNCTION refuse()",
        )
        .await;
    due(&world, 300).await;
    let worker = world.worker();
    let counts = async || worker.counts();
    until("around", counts, |counts| counts.held + counts.put_back > 2 * 300).await;
    assert!(worker.counts().retried < 20, "{:?}", worker.counts());
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(300).await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// A row without an order id may be about any order without a row.
#[apply(world_test)]
async fn an_answer_outside_the_contract_concerns_its_order_only() {
    const WRONG: [(&str, &str); 5] = [
        ("o-17", "`paid` as `outcome` for order o-17"),
        ("o-18", "NULL as `outcome` for order o-18"),
        ("o-19", "NULL as `due_at` for order o-19"),
        ("o-20", "NULL as `decided_at` for order o-20"),
        ("o-21", "NULL as `order_id`"),
    ];
    let changes = [
        (
            "SELECT id,\n       CASE WHEN status <> 'unpaid' THEN",
            "SELECT nullif(id, 'o-21'),\n       CASE WHEN id = 'o-17' THEN 'paid' WHEN id = 'o-18' THEN NULL WHEN status <> 'unpaid' THEN",
        ),
        (
            "due_at,\n       now()\nFROM asked WHERE",
            "CASE WHEN id = 'o-19' THEN NULL ELSE due_at END,\n       CASE WHEN id = 'o-20' THEN NULL ELSE now() END\nFROM asked WHERE",
        ),
    ];
    let mut sql = WRITTEN.to_owned();
    for (from, to) in changes {
        assert!(sql.contains(from), "{from}");
        sql = sql.replacen(from, to, 1);
    }
    let effect = written(&sql);
    let world = World::new().await;
    due(&world, 60).await;
    // Such an order is paid, or due tomorrow: the test needs only the date.
    world.sql("UPDATE orders SET due_at = now() + interval '1 day' WHERE id IN ('o-17', 'o-18', 'o-19', 'o-20', 'o-21')").await;
    let worker = world.worker_of(effect, settings());
    world.until_closed(60 - WRONG.len()).await;
    let parked = world.parked(WRONG.len()).await;
    for (order, said) in WRONG {
        let reason = parked.iter().find(|parked| parked.text() == order).unwrap().reason();
        for part in [
            said,
            "effect `close` (close.sql)",
            "closed, done:<word>, already_final, not_due or busy",
        ] {
            assert!(order == "o-21" && part != said || reason.contains(part), "{part}: {reason}");
        }
    }
    worker.until("all counted", |c| c.retried >= 15 && c.parked >= 5).await;
    assert_eq!(worker.stops_after(15, 5).await.closed, 55);
}

/// A page of the sweep has 500 rows.
#[apply(world_test)]
async fn ids_that_cannot_be_taken_do_not_hide_the_orders_behind_them() {
    let page = "SELECT id AS order_id, due_at FROM (
        SELECT id, due_at FROM orders WHERE status = 'unpaid'
        UNION ALL SELECT 'with space ' || n, timestamptz '2000-01-01' FROM generate_series(1, 700) n
        UNION ALL SELECT repeat('x', 300) || n, timestamptz '2000-01-02' FROM generate_series(1, 700) n
        UNION ALL SELECT NULL, timestamptz '2000-01-03' FROM generate_series(1, 3)
        UNION ALL SELECT 'no deadline', NULL) AS seen (id, due_at)
        WHERE due_at <= now() - $2::bigint * interval '1 ms'";
    let overdue_sql = format!("{page} AND (due_at, id) > ($3, $4) ORDER BY due_at, id LIMIT $1");
    let world = World::new().await;
    world.orders("o", 500, -10_000).await;
    let effect = Effect::written("close", WRITTEN, Some(&overdue_sql));
    let worker = world.worker_of(effect, sweeping());
    world.until_closed(500).await;
    assert!(worker.is_running());
    worker.until("all counted", |c| c.swept >= 500).await;
    assert_eq!(worker.stop().await.swept, 500);
}
