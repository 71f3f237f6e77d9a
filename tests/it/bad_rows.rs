//! Rows of somebody else that no batch can take: each stands alone, and the others are closed.

use overdue::internals::{config::WorkerSettings, store::orders::Effect};

use crate::support::{
    Parked, World, until,
    worker::{millis, settings},
    world::TOPOLOGY,
};

/// More than one batch, so that what one row does to its batch does not hide behind the others.
const ORDERS: usize = 5_000;

/// All are due, and their messages are there.
async fn due(world: &World, count: usize) -> Vec<String> {
    let orders = world.orders("o", count, 0).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    orders
}

fn sweeping() -> WorkerSettings {
    WorkerSettings { sweep_every: millis("1h"), sweep_grace: millis("1s"), ..settings() }
}

/// A trigger that refuses some orders, each with an SQLSTATE of its own: `o-0` with the first, and so on.
async fn refuse(world: &World, codes: &[&str]) {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (ORDERS as u64 - 6, 18, 6));
    world.assert_invariants().await;
}

/// Codes that are nobody's fault where the connection has them: raised by one row they stop only this one, and for
/// ever: what stands behind such a trigger may be a server that is unavailable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_raises_what_looks_like_an_outage_stops_only_itself() {
    const CODES: [&str; 6] = ["08006", "57P01", "53100", "25006", "0A000", "26000"];
    let world = World::new().await;
    refuse(&world, &CODES).await;
    due(&world, 60).await;
    let worker = world.worker();
    world.until_closed(60 - CODES.len()).await;
    let counts = async || worker.counts();
    until("postponed", counts, |counts| counts.held + counts.put_back > 6).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (54, 0, 0));
}

/// A row whose trigger never ends is met by the statement time-out: the batch is split around it, and the others are
/// closed. Alone it is tried again later, because nobody knows whether it is the database that is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_exceeds_the_statement_time_out_stands_alone_and_is_closed_when_it_is_well() {
    let world = World::new().await;
    world
        .sql(
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
             CREATE TRIGGER hang BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.id = 'o-1' AND NEW.status = 'closed') EXECUTE FUNCTION hang()",
        )
        .await;
    due(&world, 4).await;
    let url = world.services.database_url(None);
    let more = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{more}options=-c%20statement_timeout%3D300ms");
    let worker = world.worker_at(world.address(), &url, settings());
    world.until_closed(3).await;
    assert_eq!(world.status("o-1").await, "unpaid");
    let counts = async || worker.counts();
    until("tried again", counts, |counts| counts.retried + counts.put_back >= 2).await;
    world.sql("DROP FUNCTION hang CASCADE").await;
    world.until_closed(4).await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// The SQLSTATE of a time-out, raised by one row at once: that it is cancelled says nothing about the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_cancelled_in_each_batch_holds_up_nobody_and_is_not_parked() {
    // So that it is alone when it comes back.
    let retries = [r#"["100ms", "200ms", "300ms"]"#, r#"["1s", "2s", "2s"]"#];
    let world = World::of(&TOPOLOGY.replacen(retries[0], retries[1], 1)).await;
    refuse(&world, &["57014"]).await;
    due(&world, 60).await;
    let worker = world.worker();
    world.until_closed(59).await;
    let counts = async || worker.counts();
    until("tried again alone", counts, |counts| counts.retried + counts.put_back >= 2).await;
    let counts = worker.counts();
    // Beside others that were closed it was its own fault, and that costs a retry.
    assert!(counts.closed == 59 && counts.retried <= 1, "{counts:?}");
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(60).await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// Somebody cancels the worker's statement, as administrators do: no order is at fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_somebody_cancels_is_closed_in_parts_and_burns_no_retry() {
    let world = World::new().await;
    due(&world, 60).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-17").await;
    let worker = world.worker();
    until("cancelled", async || world.cancel_waiting().await, |cancelled| *cancelled > 0).await;
    held.rollback().await.unwrap();
    world.until_closed(60).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (60, 0, 0));
    world.assert_invariants().await;
}

/// It fails when the transaction commits, after the statement has given its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sweep_closes_all_but_the_row_that_raises_an_sqlstate_of_its_own() {
    let world = World::new().await;
    refuse(&world, &["OS001"]).await;
    world.orders("o", ORDERS, -10_000).await;
    let worker = world.worker_with(sweeping());
    world.until_closed(ORDERS - 1).await;
    assert_eq!(worker.stop().await.swept, ORDERS as u64 - 1);
    assert_eq!(world.status("o-0").await, "unpaid");
}

/// A trigger that is broken for every order is not the orders' fault: once that is clear, nothing burns a retry, and
/// all are closed when somebody has repaired it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    Effect { sql: sql.replacen(from, to, 1), sql_file: "cancel.sql".to_owned(), ..Effect::close() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_outside_the_contract_concerns_its_order_only() {
    let outcome = "SELECT asked.id AS order_id,\n       CASE WHEN";
    let guarded = |value: &str| {
        format!(
            "SELECT asked.id AS order_id,\n       CASE WHEN asked.id = 'o-17' THEN {value} WHEN"
        )
    };
    let null = "CASE WHEN asked.id = 'o-17' THEN NULL ELSE";
    let cases = [
        (unlike(outcome, &guarded("'paid'")), "`paid` as `outcome` for order o-17"),
        (unlike(outcome, &guarded("NULL")), "NULL as `outcome` for order o-17"),
        (
            unlike("asked.due_at,\n", &format!("{null} asked.due_at END AS due_at,\n")),
            "NULL as `due_at` for order o-17",
        ),
        (
            unlike("now() AS decided_at", &format!("{null} now() END AS decided_at")),
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
        for part in [said, "effect `close` (cancel.sql)", "closed, already_final, not_due or busy"]
        {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let counts = worker.stop().await;
        assert_eq!((counts.closed, counts.retried, counts.parked), (59, 3, 1), "{said}");
    }
}

/// Nobody knows which order such a row is about: all without a row of their own are told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_without_an_order_id_concerns_the_orders_without_a_row() {
    let world = World::new().await;
    due(&world, 60).await;
    let effect = unlike("asked.id AS order_id", "nullif(asked.id, 'o-17') AS order_id");
    let worker = world.worker_of(effect, settings());
    world.until_closed(60).await;
    let parked: Vec<Parked> = world.parked(1).await;
    assert!(parked[0].reason().contains("NULL as `order_id`"), "{}", parked[0].reason());
    assert_eq!(worker.stop().await.closed, 59);
}

/// 500 rows are a page of the sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_cannot_be_taken_do_not_hide_the_orders_behind_them() {
    let page = "SELECT id AS order_id, due_at FROM (
        SELECT id, due_at FROM orders WHERE status = 'unpaid'
        UNION ALL SELECT 'with space ' || n, timestamptz '2000-01-01' FROM generate_series(1, 700) n
        UNION ALL SELECT repeat('x', 300) || n, timestamptz '2000-01-02' FROM generate_series(1, 700) n
        UNION ALL SELECT NULL, timestamptz '2000-01-03' FROM generate_series(1, 3)
        UNION ALL SELECT 'no deadline', NULL) AS seen (id, due_at)
        WHERE due_at <= now() - $2::bigint * interval '1 ms'";
    let paged = format!("{page} AND (due_at, id) > ($3, $4) ORDER BY due_at, id LIMIT $1");
    let oldest = format!("SELECT order_id FROM ({page} ORDER BY due_at, id LIMIT $1) AS oldest");
    for overdue_sql in [paged, oldest] {
        let world = World::new().await;
        world.orders("o", 500, -10_000).await;
        let effect = Effect { overdue_sql: Some(overdue_sql), ..Effect::close() };
        let worker = world.worker_of(effect, sweeping());
        world.until_closed(500).await;
        assert!(worker.is_running());
        assert_eq!(worker.stop().await.swept, 500);
    }
}

/// The statements and rows that a sweep reads grow with the orders, not with their square.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    assert_eq!(worker.stop().await.swept, GOOD as u64);
    let read = world.number("SELECT sum(rows)::bigint FROM pages").await;
    assert_eq!(read, i64::try_from(BAD + GOOD).unwrap());
    assert!(world.number("SELECT count(*) FROM pages").await <= 7);
}

/// Its statement would last for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_ends_with_the_worker_in_the_middle_of_a_statement() {
    let world = World::new().await;
    let slow = "SELECT id AS order_id FROM orders, pg_sleep(60)
                WHERE due_at <= now() - $2::bigint * interval '1 ms' LIMIT $1";
    let effect = Effect { overdue_sql: Some(slow.to_owned()), ..Effect::close() };
    world.orders("o", 1, -10_000).await;
    let worker = world.worker_of(effect, sweeping());
    let running = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE wait_event = 'PgSleep' AND query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()
         AND pid IN (SELECT pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE relnamespace = '{}'::regnamespace)",
        world.schema
    );
    let running = async || world.number(&running).await;
    until("the statement runs", running, |count| *count == 1).await;
    let asked = std::time::Instant::now();
    worker.stop().await;
    until("the statement is cancelled", running, |count| *count == 0).await;
    assert!(asked.elapsed() < std::time::Duration::from_secs(20));
}
