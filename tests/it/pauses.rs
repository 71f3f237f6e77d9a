//! `overdue pause` and `resume`: no worker closes an order of the timeout while it is paused, and every one afterwards.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use overdue::internals::{config::WorkerSettings, timing::Timing, worker::Counts};

use super::parked::ends;
use crate::support::{
    World,
    pages::{get, metrics},
    samples::orders,
    until,
    worker::{millis, settings},
};

/// Both timeouts of the reference tables that need no shipping; the second one has an effect of its own.
fn two() -> String {
    let timeouts = [("unpaid", "100ms", "close"), ("unshipped", "100ms", "cancel")];
    orders("levels = ['100ms', '1s', '30m']", &timeouts, "['100ms', '1s']")
}

/// Two timeouts with one effect, or the first of them.
fn shared(timeouts: usize) -> String {
    let both = [("unpaid", "100ms", "close"), ("gift", "100ms", "close")];
    orders("levels = ['100ms', '1s', '30m']", &both[..timeouts], "['100ms', '1s']")
}

const CLOSED: &str = "SELECT count(*) FROM closures WHERE effect = 'close'";
const PAUSE: [&str; 6] =
    ["pause", "unpaid", "--for", "1h", "--why", "the payment provider is down"];

fn pause(world: &World) {
    ends(world, 0, &PAUSE);
}

fn resume(world: &World) {
    let run = ends(world, 0, &["resume", "unpaid"]);
    assert_eq!(run.stdout, "unpaid is resumed: what came due is closed now\n");
}

fn sweeps(command: &mut Command) {
    command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms").env("OVERDUE_WORKER__SWEEP_GRACE", "1ms");
}

fn sweeping() -> WorkerSettings {
    WorkerSettings { sweep_every: millis("100ms"), sweep_grace: millis("1ms"), ..settings() }
}

/// Notices for orders of the second timeout.
async fn publish_unshipped(world: &World, ids: &[String]) {
    let bodies: Vec<String> = ids.iter().map(|id| format!(r#"{{"order_id":"{id}"}}"#)).collect();
    world.wire().await.publish_all("orders.in", "100ms.unshipped", &bodies).await;
}

/// Paid orders that were to be shipped by now.
async fn unshipped(world: &World, prefix: &str, count: usize) -> Vec<String> {
    let orders = world.orders(prefix, count, 3_600_000).await;
    for id in &orders {
        assert!(world.pay(id).await, "{id}");
    }
    world.sql(&format!("UPDATE orders SET ship_by = now() WHERE id LIKE '{prefix}-%'")).await;
    orders
}

/// Three workers, and a load of orders with and without messages, many of them at once.
#[apply(world_test)]
async fn from_the_moment_it_returns_no_worker_closes_an_order_of_the_timeout() {
    let world = World::of(&two()).await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(world.started(sweeps).await);
    }
    let (goes_on, made) = (AtomicBool::new(true), AtomicUsize::new(0));
    let load = async {
        for round in 0.. {
            let orders = world.orders_without_stock(&format!("o{round}"), 300).await;
            made.fetch_add(orders.len(), Ordering::Relaxed);
            world.publish("100ms", &orders[..150]).await;
            if !goes_on.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let paused = async {
        until("closed", async || world.number(CLOSED).await, |closed| *closed >= 600).await;
        pause(&world);
        let closed = world.number(CLOSED).await;
        for worker in &mut workers {
            worker.until_logged("the timeout is paused").await;
        }
        // All three go on with the others: by messages, and by the sweep.
        let others = unshipped(&world, "paid", 20).await;
        publish_unshipped(&world, &others[..10]).await;
        let cancelled = async || world.statuses().await.get("cancelled").copied();
        until("cancelled", cancelled, |cancelled| *cancelled == Some(20)).await;
        goes_on.store(false, Ordering::Relaxed);
        closed
    };
    let ((), closed) = tokio::join!(load, paused);
    world.until_empty("orders.unpaid").await;
    assert_eq!(world.number(CLOSED).await, closed, "closed while it was paused");
    resume(&world);
    world.until_closed(made.into_inner()).await;
    world.assert_invariants().await;
    assert_eq!(world.number("SELECT count(*) - count(DISTINCT order_id) FROM closures").await, 0);
    assert_eq!(world.wire().await.ready("orders.parked").await, 0, "it burns no try");
}

/// What began before is waited for, and what comes meanwhile is refused at once.
#[apply(world_test)]
async fn it_waits_for_whoever_closes_orders_already() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let orders = world.orders_without_stock("o", 2).await;
    let held = world.stall(&mut client, "o-0").await;
    let worker = world.patient_worker(settings());
    world.publish("100ms", &orders[..1]).await;
    world.until_stalled().await;
    let mut pausing = world.command(&PAUSE).spawn().unwrap();
    world.until_rows("pauses", 1).await;
    world.publish("100ms", &orders[1..]).await;
    worker.until("the other one is refused", |counts| counts.put_back + counts.held >= 1).await;
    assert!(pausing.try_wait().unwrap().is_none(), "it returned before the first one was closed");
    held.commit().await.unwrap();
    let ended = until("it returns", async || pausing.try_wait().unwrap(), Option::is_some).await;
    assert!(ended.unwrap().success());
    assert_eq!(
        (world.status("o-0").await, world.status("o-1").await),
        ("closed".into(), "unpaid".into())
    );
    worker.stop().await;
}

/// The pause is in force before the wait for whoever closes orders, and whoever ends the wait has been told so. The wait names who does
/// not stop; for all others the pause holds.
#[apply(world_test)]
async fn a_wait_that_is_ended_leaves_a_pause_and_says_so() {
    const CLOSING: &str = "SELECT refuse_paused('orders', 'unpaid', 'close', 1)";
    const SAID: &str =
        "unpaid is paused; waiting for the workers that began to close its orders before\n";
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(CLOSING).await.unwrap();
    let mut interrupted = world.spawn(world.command(&PAUSE));
    interrupted.until_logged(SAID).await;
    interrupted.signal("INT");
    assert!(!interrupted.ended().await.success());
    assert!(world.overdue(&["pauses"]).stdout.starts_with("unpaid is paused until "));
    // By a database that fails.
    let mut failed = world.spawn(world.command(&PAUSE));
    failed.until_logged(SAID).await;
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"
    );
    let ended = async || (world.number(&end).await, failed.is_running()).1;
    until("its session is ended", ended, |runs| !runs).await;
    assert_eq!(failed.ended().await.code(), Some(69), "{}", failed.log());
    let unknown =
        "unpaid is paused; whether anybody who began before still closes its orders is not known: ";
    assert!(failed.log().contains(unknown), "{}", failed.log());
    let resume = "; `overdue resume unpaid` ends the pause\n";
    assert!(failed.log().ends_with(resume), "{}", failed.log());

    let timing = Timing { closings: Duration::from_millis(100), ..Timing::often() };
    let impatient = world.store.clone().with_timing(Arc::new(timing));
    let holders = impatient.await_closings("orders", ("unpaid", "close")).await.unwrap();
    let found: Vec<_> = holders.iter().map(|it| (it.pid, it.application.as_str())).collect();
    assert_eq!(found, [(pid, "overdue")]);
    let other = world.store.client().await.unwrap();
    let refused = other.batch_execute(CLOSING).await;
    assert_eq!(refused.unwrap_err().code().unwrap().code(), "OV001");
    transaction.commit().await.unwrap();
    assert_eq!(world.store.await_closings("orders", ("unpaid", "close")).await.unwrap(), []);
    // A pause that was written without an end has one in ten years.
    world.sql("UPDATE pauses SET ends_at = 'infinity'").await;
    let refused = other.batch_execute(CLOSING).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert!(refused.code().code() == "OV001" && refused.detail().is_some(), "{refused}");
    assert!(world.overdue(&["pauses"]).stdout.starts_with("unpaid is paused until 20"));
}

/// By the database's clock, whatever is done.
#[apply(world_test)]
async fn it_ends_after_its_time() {
    let world = World::clocked().await;
    let orders = world.orders("o", 3, 0).await;
    pause(&world);
    let worker = world.worker_with(sweeping());
    world.publish("100ms", &orders[..2]).await;
    let waits = |counts: &Counts| counts.put_back + counts.held >= 2;
    let counts = worker.until("both wait", waits).await;
    assert_eq!((world.closed().await, counts.retried, counts.parked), (0, 0, 0));
    world.clock().advance("59 min").await;
    assert!(world.overdue(&["pauses"]).stdout.starts_with("unpaid is paused until "));
    world.clock().advance("1 min").await;
    // The sweep of a worker that has seen the clock leap forward waits.
    let later = world.worker_with(sweeping());
    world.until_closed(3).await;
    assert_eq!(world.overdue(&["pauses"]).stdout, "nothing is paused\n");
    let run = ends(&world, 1, &["resume", "unpaid"]);
    assert_eq!(run.stderr, "error: nothing was changed: unpaid is not paused\n");
    worker.stop().await;
    later.stop().await;
}

/// By the database's clock, which goes only where it is set, and once back: in each second one worker closes what the rate lets it.
#[apply(world_test)]
async fn a_rate_is_kept_by_all_workers_together() {
    const USED: &str = "SELECT count(*) FROM pauses
        WHERE used_until > clock_timestamp() AND used_until <= clock_timestamp() + interval '1 s'";
    let world = World::clocked().await;
    world.clock().stop().await;
    // Overdue for so long that it is so by any clock.
    world.orders("o", 1_200, -3_600_000).await;
    pause(&world);
    let run = ends(&world, 0, &["resume", "unpaid", "--rate", "300/s"]);
    assert!(
        run.stdout.starts_with("unpaid is resumed with 300 orders per second, until "),
        "{run}"
    );
    let workers = [world.worker_with(sweeping()), world.worker_with(sweeping())];
    for second in 1..100 {
        let done = async || (world.closed().await, world.number(USED).await);
        let enough = |(closed, used): &(i64, i64)| *closed == 1_200 || *used == 1;
        until("closed, or the second is used up", done, enough).await;
        let closed = world.closed().await;
        assert!(closed <= 300 * second, "{closed} in {second} s");
        if closed == 1_200 {
            break;
        }
        world.clock().advance(if second == 2 { "-5 min" } else { "1 s" }).await;
    }
    world.until_closed(1_200).await;
    // Nothing has come for two minutes: the rate is over.
    world.clock().advance("3 min").await;
    assert_eq!(world.overdue(&["pauses"]).stdout, "nothing is paused\n");
    for worker in workers {
        worker.stop().await;
    }
}

/// Orders that come as usual would be late at it once many are due together.
#[apply(world_test)]
async fn a_rate_ends_beside_a_few_orders_per_second_and_not_beside_a_backlog() {
    const IN_FORCE: &str = "SELECT count(*) FROM pauses WHERE ends_at > clock_timestamp()";
    let world = World::clocked().await;
    world.clock().stop().await;
    for (orders, each, minutes, lasts) in [
        (1, "500 ms", 3, false),
        // A quarter of the rate.
        (75, "1 s", 3, true),
        (75, "1 s", 5, false),
        (300, "1 s", 30, true),
        // Of each second a third is waited for something else.
        (200, "1 s", 30, true),
        // As many as go at once, and the database is slow.
        (300, "5 s", 30, true),
    ] {
        pause(&world);
        ends(&world, 0, &["resume", "unpaid", "--rate", "300"]);
        let closings = format!(
            "DO $$ DECLARE ends timestamptz := clock_timestamp() + interval '{minutes} min';
             BEGIN
                 WHILE clock_timestamp() < ends LOOP
                     PERFORM refuse_paused('orders', 'unpaid', 'close', {orders});
                     UPDATE clock SET ahead = ahead + interval '{each}';
                 END LOOP;
             END $$"
        );
        world.sql(&closings).await;
        let in_force = world.number(IN_FORCE).await;
        assert_eq!(in_force, i64::from(lasts), "{orders} each {each}, after {minutes} min");
    }
}

/// What was closed is not asked for again, however often the rest has to wait.
#[apply(world_test)]
async fn an_order_that_fails_is_parked_at_a_rate_as_well() {
    let world = World::new().await;
    let orders = world.orders("o", 60, -3_600_000).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW WHEN (NEW.id = 'o-0' AND NEW.status = 'closed')
             EXECUTE FUNCTION refuse()",
        )
        .await;
    pause(&world);
    world.publish("100ms", &orders).await;
    ends(&world, 0, &["resume", "unpaid", "--rate", "20"]);
    let worker = world.worker_with(sweeping());
    world.until_closed(59).await;
    assert!(world.parked(1).await[0].reason().contains("no"));
    world.assert_invariants().await;
    worker.stop().await;
}

/// Whoever looks at no page of a worker and has no alert: its sweep looks itself.
#[apply(world_test)]
async fn a_worker_that_nobody_asks_sees_that_a_pause_has_ended() {
    let world = World::new().await;
    world.orders("o", 3, -3_600_000).await;
    pause(&world);
    let mut worker = world
        .started(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1ms");
            command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
        })
        .await;
    worker.until_logged("the timeout is paused").await;
    resume(&world);
    world.until_closed(3).await;
}

/// Nobody knows of which timeout an order is that the sweep finds: of such an effect it leaves them all.
#[apply(world_test)]
async fn of_two_timeouts_with_one_effect_the_other_one_is_closed_by_its_messages() {
    const ALONE: &str = "\ngift shares its effect with a paused timeout: until the pause ends, its orders are closed by their messages alone\n";
    let world = World::of(&shared(2)).await;
    let orders = world.orders("o", 3, -1_000).await;
    pause(&world);
    let worker = world.worker_with(sweeping());
    let gift = [r#"{"order_id":"o-0"}"#.to_owned()];
    world.wire().await.publish_all("orders.in", "100ms.gift", &gift).await;
    world.publish("100ms", &orders[1..2]).await;
    world.until_closed(1).await;
    worker.until("the other waits", |counts| counts.put_back + counts.held >= 1).await;
    assert_eq!(world.status("o-0").await, "closed");
    assert_eq!(worker.counts().swept, 0);
    // Without a message an order of the other timeout stays open as well.
    let shown = world.overdue(&["pauses"]).stdout;
    assert!(shown.ends_with(ALONE), "{shown}");
    resume(&world);
    assert_eq!(world.overdue(&["pauses"]).stdout, "nothing is paused\n");
    world.until_closed(3).await;
    worker.until("closed from the table", |counts| counts.swept + counts.burst >= 1).await;
    world.assert_invariants().await;
    worker.stop().await;

    // A worker that has another topology file does not know that there is such a timeout, and its sweep would find the order.
    let older = world.dir.path().join("older.toml");
    std::fs::write(&older, shared(1)).unwrap();
    world.orders("older", 3, -3_600_000).await;
    ends(&world, 0, &["pause", "gift", "--for", "1h", "--why", "a test"]);
    let mut worker = world
        .started(|command| {
            sweeps(command);
            command.env("OVERDUE_TOPOLOGY", &older);
        })
        .await;
    worker.until_logged("the timeout is paused").await;
    assert_eq!(world.closed().await, 3);
    ends(&world, 0, &["resume", "gift"]);
    world.until_closed(6).await;
}

#[apply(world_test)]
async fn a_worker_is_ready_meanwhile_and_says_so() {
    let world = World::new().await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "100ms");
            command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
        })
        .await;
    let first = async || get(address, "/readyz").await.first().to_owned();
    until("ready", first, |line| line == "ready").await;
    pause(&world);
    world.publish_orders("100ms", "o", 1, -3_600_000).await;
    let by = "ready; unpaid is paused until ";
    let line = until("paused", first, |line| line.starts_with(by)).await;
    assert!(line.ends_with(": the payment provider is down"), "{line}");
    let lasts = async || metrics(address).await;
    let name = r#"overdue_paused_seconds{effect="close",timeout="unpaid"}"#;
    let metrics = until("counted", lasts, |metrics| metrics.get(name) > Some(&0.0)).await;
    assert!(metrics[r#"overdue_ready{condition="closing"}"#] > 0.5);
    resume(&world);
    until("ready", first, |line| line == "ready").await;
    until("counted", lasts, |metrics| metrics.get(name) == Some(&0.0)).await;
}

#[apply(world_test)]
async fn a_pause_is_changed_by_another_one_and_what_cannot_be_paused_is_refused() {
    let world = World::new().await;
    let refused = |arguments: &[&str], code: i32, says: &str| {
        ends(&world, code, arguments).reports(says);
    };
    let [command, _, lasts, hour, why, text] = PAUSE;
    let meant = "no timeout `unpiad` in the topology (did you mean `unpaid`?); it has `unpaid`";
    refused(&[command, "unpiad", lasts, hour, why, text], 78, meant);
    refused(&["resume", "unpiad"], 78, "no timeout `unpiad`");
    refused(&[command, "unpaid", lasts, hour, why, " "], 64, "--why has 0 bytes");
    refused(&["resume", "unpaid", "--rate", "0"], 64, "`0` is not a number of orders per second");
    refused(&["resume", "unpaid"], 1, "unpaid is not paused");
    assert_eq!(world.number("SELECT count(*) FROM pauses").await, 0);

    pause(&world);
    // Another one makes it longer, and gives the reason of that.
    let longer = ["pause", "unpaid", "--for", "3h", "--why", "still down", "-o", "json"];
    let pauses = ends(&world, 0, &longer).json()["pauses"].as_array().unwrap().clone();
    assert_eq!((pauses.len(), pauses[0]["why"].as_str()), (1, Some("still down")));
    let sql = "SELECT count(*) FROM pauses WHERE paused_at < clock_timestamp() AND ends_at > paused_at + interval '179 min'";
    assert_eq!(world.number(sql).await, 1);
    world.sql("INSERT INTO pauses (topology, timeout, effect, why, ends_at) VALUES ('other', 'unpaid', 'theirs', 'theirs', 'infinity')").await;
    let shown = world.overdue(&["pauses"]).stdout;
    assert_eq!(shown.lines().count(), 1, "those of another topology are theirs");
    resume(&world);
    let actions =
        "SELECT string_agg(concat_ws('|', via, action, what, why), ', ' ORDER BY id) FROM actions";
    let expected = "cli|pause|unpaid for 1h|the payment provider is down, cli|pause|unpaid for 3h|still down, cli|resume|unpaid";
    assert_eq!(world.texts(actions).await, [expected]);

    world.sql("DROP TABLE pauses").await;
    for command in [&["pauses"][..], &PAUSE, &["run"]] {
        refused(command, 78, "overdue database init");
    }
}
