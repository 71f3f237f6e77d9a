//! Rows of somebody else that no batch can take: each stands alone, and the others are closed.

use overdue::internals::{config::WorkerSettings, store::orders::Effect, worker::Counts};

use crate::support::{
    Parked, World, until,
    worker::{millis, settings},
    world::TOPOLOGY,
};

/// More than one batch, so that what one row does to its batch does not hide behind the others.
const ORDERS: usize = 5_000;

/// All are due, and their messages are there.
pub(super) async fn due(world: &World, count: usize) -> Vec<String> {
    let orders = world.orders("o", count, 0).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    orders
}

pub(super) fn sweeping() -> WorkerSettings {
    WorkerSettings { sweep_every: millis("1h"), sweep_grace: millis("1s"), ..settings() }
}

/// A trigger that refuses some orders, each with an SQLSTATE of its own: `o-0` with the first, and so on.
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
    for (order, date) in orders.iter().zip(["9999-12-31", "294000-01-01", "infinity"]) {
        world.sql(&format!("UPDATE orders SET due_at = '{date}' WHERE id = '{order}'")).await;
    }
    world.sql("UPDATE orders SET due_at = '-infinity' WHERE id = 'o-3'").await;
    world.sql("UPDATE orders SET due_at = '4000-01-01 BC' WHERE id = 'o-4'").await;
    let worker = world.worker();
    world.until_closed(ORDERS - 3).await;
    let counts = async || worker.counts();
    until("the others wait", counts, |counts| counts.held + counts.put_back >= 3).await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked), (0, 0));
}

#[apply(world_test)]
async fn a_row_that_raises_any_sqlstate_is_parked_with_it_and_the_others_are_closed() {
    const CODES: [&str; 6] = ["OS001", "21000", "38001", "XX000", "42P01", "25P02"];
    let world = World::new().await;
    refuse(&world, &CODES).await;
    due(&world, ORDERS).await;
    let worker = world.worker();
    world.until_closed(ORDERS - CODES.len()).await;
    let parked = world.parked(CODES.len()).await;
    for (n, code) in CODES.iter().enumerate() {
        let id = format!("o-{n}");
        let reason = parked.iter().find(|parked| parked.text() == id).unwrap().reason();
        assert!(reason.contains(&format!("SQLSTATE {code}")), "{reason}");
    }
    let others = ORDERS as u64 - 6;
    let all = |c: &Counts| c.closed + c.burst >= others && c.retried >= 18 && c.parked >= 6;
    worker.until("all counted", all).await;
    let counts = worker.stop().await;
    let closed = counts.closed + counts.burst;
    assert_eq!((closed, counts.retried, counts.parked), (others, 18, 6));
    world.assert_invariants().await;
}

/// Codes that are nobody's fault where the connection has them: raised by one row they stop only this one, and for
/// ever: what stands behind such a trigger may be a server that is unavailable.
#[apply(world_test)]
async fn a_row_that_raises_what_looks_like_an_outage_stops_only_itself() {
    const CODES: [&str; 8] =
        ["08006", "57P01", "53100", "25006", "0A000", "26000", "58030", "XX001"];
    let world = World::new().await;
    refuse(&world, &CODES).await;
    due(&world, 60).await;
    let worker = world.worker();
    world.until_closed(60 - CODES.len()).await;
    let counts = async || worker.counts();
    until("postponed", counts, |counts| counts.held + counts.put_back > 8).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (52, 0, 0));
}

/// A trigger that fails for each order `bad-…` as if the disk were full.
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

/// More of them than a page of the sweep holds, each as if the disk were full.
#[apply(world_test)]
async fn a_page_of_rows_that_all_fail_like_an_outage_does_not_stop_the_sweep() {
    let world = World::new().await;
    refuse_bad(&world).await;
    world.orders("bad", 600, -20_000).await;
    world.orders("o", 20, -10_000).await;
    let worker = world.worker_with(sweeping());
    world.until_closed(20).await;
    let swept = async || worker.counts().swept;
    until("the page is done with", swept, |swept| *swept == 20).await;
    worker.stop().await;
    world.assert_invariants().await;
}

/// More of them than two pages: each sweep ends there, says so, and the next one begins behind them.
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

/// The rows of the oldest page end each session that would close them.
#[apply(world_test)]
async fn what_comes_behind_a_page_that_ends_its_connection_is_closed_by_the_sweep() {
    let world = World::new().await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); RETURN NEW; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.status = 'closed' AND NEW.id LIKE 'bad-%') EXECUTE FUNCTION refuse()",
        )
        .await;
    world.orders("bad", 500, -20_000).await;
    world.orders("o", 20, -10_000).await;
    let settings = WorkerSettings { sweep_every: millis("100ms"), ..sweeping() };
    let worker = world.worker_with(settings);
    world.until_closed(20).await;
    worker.stop().await;
    world.assert_invariants().await;
}

/// As if the disk were full, for everything that is in hand, and for more than a channel has in hand. Nothing but another order
/// shows that it is not.
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
    let good = world.orders("good", 1, 0).await;
    world.publish("100ms", &good).await;
    world.until_closed(1).await;
    assert_eq!(world.status("good-0").await, "closed");
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(301).await;
    world.parked(0).await;
    world.assert_invariants().await;
}

/// It fails when the transaction commits, after the statement has given its rows.
#[apply(world_test)]
async fn a_row_that_fails_only_at_commit_stands_alone() {
    let world = World::new().await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'too late' USING ERRCODE = 'OS002'; END $$;
             CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON orders DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.id = 'o-17' AND NEW.status = 'closed') EXECUTE FUNCTION refuse()",
        )
        .await;
    due(&world, 60).await;
    let worker = world.worker();
    world.until_closed(59).await;
    let parked = world.parked(1).await.remove(0);
    assert!(parked.reason().contains("SQLSTATE OS002"), "{}", parked.reason());
    assert_eq!(worker.stop().await.closed, 59);
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn the_sweep_closes_all_but_the_row_that_raises_an_sqlstate_of_its_own() {
    let world = World::new().await;
    refuse(&world, &["OS001"]).await;
    world.orders("o", ORDERS, -10_000).await;
    let worker = world.worker_with(sweeping());
    world.until_closed(ORDERS - 1).await;
    worker.until("all counted", |c| c.swept >= ORDERS as u64 - 1).await;
    assert_eq!(worker.stop().await.swept, ORDERS as u64 - 1);
    assert_eq!(world.status("o-0").await, "unpaid");
}

/// A trigger that is broken for every order is not the orders' fault: once that is clear, nothing burns a retry, and
/// all are closed when somebody has repaired it.
#[apply(world_test)]
async fn what_fails_for_every_order_burns_no_retry_and_parks_nothing() {
    // So that the first few, of which nobody knows yet, have not used up their retries.
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

/// `close`, with another word or a NULL in the answer for `o-17`.
fn unlike(from: &str, to: &str) -> Effect {
    let sql = Effect::close().sql;
    assert!(sql.contains(from), "{from}");
    let sql_file = "cancel.sql".to_owned();
    Effect { sql: sql.replacen(from, to, 1), sql_file, ..Effect::close() }
}

#[apply(world_test)]
async fn an_answer_outside_the_contract_concerns_its_order_only() {
    let outcome = "CASE WHEN status <> 'unpaid' THEN";
    let guarded =
        |value: &str| format!("CASE WHEN id = 'o-17' THEN {value} WHEN status <> 'unpaid' THEN");
    let null = "CASE WHEN id = 'o-17' THEN NULL ELSE";
    let (due_at, decided_at) = ("due_at,\n       now()\nFROM asked", "now()\nFROM asked WHERE");
    let cases = [
        (unlike(outcome, &guarded("'paid'")), "`paid` as `outcome` for order o-17"),
        (unlike(outcome, &guarded("NULL")), "NULL as `outcome` for order o-17"),
        (
            unlike(due_at, &due_at.replacen("due_at", &format!("{null} due_at END"), 1)),
            "NULL as `due_at` for order o-17",
        ),
        (
            unlike(decided_at, &decided_at.replacen("now()", &format!("{null} now() END"), 1)),
            "NULL as `decided_at` for order o-17",
        ),
    ];
    for (effect, said) in cases {
        let world = World::new().await;
        let orders = due(&world, 60).await;
        // Such an order is paid, or due tomorrow: what it is worth knowing of is its date.
        world.sql("UPDATE orders SET due_at = now() + interval '1 day' WHERE id = 'o-17'").await;
        let worker = world.worker_of(effect, settings());
        world.until_closed(orders.len() - 1).await;
        let parked = world.parked(1).await.remove(0);
        assert_eq!(parked.text(), "o-17");
        let reason = parked.reason();
        for part in [
            said,
            "effect `close` (cancel.sql)",
            "closed, done:<word>, already_final, not_due or busy",
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        worker.until("all counted", |c| c.retried >= 3 && c.parked >= 1).await;
        let counts = worker.stop().await;
        assert_eq!((counts.closed, counts.retried, counts.parked), (59, 3, 1), "{said}");
    }
}

/// Nobody knows which order such a row is about: all without a row of their own are told so.
#[apply(world_test)]
async fn a_row_without_an_order_id_concerns_the_orders_without_a_row() {
    let world = World::new().await;
    due(&world, 60).await;
    let effect = unlike("SELECT id AS order_id", "SELECT nullif(id, 'o-17') AS order_id");
    let later = "SELECT id,\n       CASE";
    assert!(effect.sql.contains(later));
    let sql = effect.sql.replacen(later, "SELECT nullif(id, 'o-17'),\n       CASE", 1);
    let worker = world.worker_of(Effect { sql, ..effect }, settings());
    world.until_closed(60).await;
    let parked: Vec<Parked> = world.parked(1).await;
    assert!(parked[0].reason().contains("NULL as `order_id`"), "{}", parked[0].reason());
    assert_eq!(worker.stop().await.closed, 59);
}

/// 500 rows are a page of the sweep.
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
    let effect = Effect { overdue_sql: Some(overdue_sql), ..Effect::close() };
    let worker = world.worker_of(effect, sweeping());
    world.until_closed(500).await;
    assert!(worker.is_running());
    worker.until("all counted", |c| c.swept >= 500).await;
    assert_eq!(worker.stop().await.swept, 500);
}

/// The statements and rows that a sweep reads grow with the orders, not with their square.
#[apply(world_test)]
async fn orders_that_cannot_be_closed_are_passed_over_page_by_page() {
    const BAD: usize = 2_000;
    const GOOD: usize = 1_000;
    let world = World::new().await;
    world.orders("bad", BAD, -20_000).await;
    world.orders("o", GOOD, -10_000).await;
    world.sql("CREATE TABLE pages (rows bigint)").await;
    let page = Effect::close().overdue_sql.unwrap();
    let page = format!(
        "WITH page AS MATERIALIZED ({page}), counted AS (INSERT INTO pages SELECT count(*) FROM page)
         SELECT order_id, due_at FROM page ORDER BY due_at, order_id"
    );
    // Somebody guards the bad ones.
    let guarded =
        unlike("asked.due_at <= now()", "asked.due_at <= now() AND asked.id NOT LIKE 'bad-%'");
    let effect = Effect { overdue_sql: Some(page), ..guarded };
    let worker = world.worker_of(effect, sweeping());
    world.until_closed(GOOD).await;
    worker.until("all counted", |c| c.swept >= GOOD as u64).await;
    assert_eq!(worker.stop().await.swept, GOOD as u64);
    let read = world.number("SELECT sum(rows)::bigint FROM pages").await;
    assert_eq!(read, i64::try_from(BAD + GOOD).unwrap());
    assert!(world.number("SELECT count(*) FROM pages").await <= 7);
}
