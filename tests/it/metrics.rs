//! `/metrics`: what the worker did, what waits, and that looking costs the worker nothing.

use std::{
    collections::BTreeSet,
    io::Write,
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::net::TcpStream;

use crate::support::{
    Proxy, World,
    pages::{exchange, get, metrics, sum},
    until,
};

async fn until_metric(address: SocketAddr, metric: &str, labels: &[&str], value: f64) {
    let what = format!("{metric} {labels:?} is {value}");
    let look = async || sum(&metrics(address).await, metric, labels);
    until(&what, look, |seen| (seen - value).abs() < 0.1).await;
}

/// The last of what is asked at the start is there.
async fn until_compared(address: SocketAddr) {
    let look = async || metrics(address).await;
    let series = "overdue_looked_timestamp_seconds{at=\"topology\"}";
    until("a comparison of the topology", look, |seen| seen.contains_key(series)).await;
}

/// Messages that come in time, orders that no message came for, and paid ones: each that was due and unpaid is counted
/// once, with the path that closed it.
#[apply(world_test)]
async fn every_order_that_was_due_and_unpaid_is_counted_once() {
    let world = World::new().await;
    let sweeps = [("OVERDUE_WORKER__SWEEP_EVERY", "200ms"), ("OVERDUE_WORKER__SWEEP_GRACE", "2s")];
    let (_process, address) = world.listening(|it| _ = it.envs(sweeps)).await;
    let published = world.orders("published", 120, 300).await;
    world.orders("lost", 30, 300).await;
    let paid = world.orders("paid", 10, 3_600_000).await;
    for id in &paid {
        assert!(world.pay(id).await);
    }
    world.publish("300ms", &published).await;
    // Copies close nothing twice.
    world.publish("500ms", &published).await;
    world.publish("100ms", &paid).await;
    world.until_closed(150).await;
    world.until_empty("orders.unpaid").await;
    let closed = ["outcome=\"closed\""];
    until_metric(address, "overdue_outcomes_total", &closed, 150.0).await;
    let seen = metrics(address).await;
    for path in ["message", "sweep", "burst"] {
        let of_path = format!("path=\"{path}\"");
        let sql = format!("SELECT count(*) FROM closures WHERE path = '{path}'");
        #[expect(clippy::cast_precision_loss, reason = "a count of this test")]
        let rows = world.number(&sql).await as f64;
        let labels = [closed[0], &of_path];
        assert!((sum(&seen, "overdue_outcomes_total", &labels) - rows).abs() < 0.1, "{path}");
        let late = [of_path.as_str(), "timeout=\"unpaid\""];
        assert!((sum(&seen, "overdue_lateness_seconds_count", &late) - rows).abs() < 0.1, "{path}");
    }
    until_metric(address, "overdue_overdue_orders", &["effect=\"close\""], 0.0).await;
    // No order of the sweep was closed before the grace was over.
    let early = ["path=\"sweep\"", "le=\"1\""];
    assert!(sum(&seen, "overdue_lateness_seconds_bucket", &early) < 0.1);
    world.assert_invariants().await;
}

/// Also one that is held because its body says that it is early, before the database is asked.
#[apply(world_test)]
async fn an_early_message_is_counted_as_held() {
    let world = World::new().await;
    let (_process, address) =
        world.listening(|command| _ = command.env("OVERDUE_WORKER__HOLD", "5m")).await;
    let ids = world.orders("o", 1, 240_000).await;
    let due_at: String = world.rows("SELECT to_json(due_at) #>> '{}' FROM orders").await[0].get(0);
    let body = serde_json::json!({ "order_id": ids[0], "due_at": due_at }).to_string();
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &[body]).await;
    until_metric(address, "overdue_held_total", &["timeout=\"unpaid\""], 1.0).await;
}

#[apply(world_test)]
async fn what_waits_in_database_and_broker_is_shown() {
    let world = World::new().await;
    // Otherwise the sweep may close the overdue ones before they are counted.
    let without_sweep = [("SWEEP_EVERY", "1h"), ("SWEEP_GRACE", "90m"), ("STUCK_AFTER", "3h")]
        .map(|(name, value)| (format!("OVERDUE_WORKER__{name}"), value));
    // Kept from publishing events by another relay, which hangs.
    let relay = world.store.client().await.unwrap();
    let lead = include_str!("../../sql/outgoing_lead.sql");
    let parts = relay.query(lead, &[&"outbox", &vec!["outbox"], &false]).await.unwrap();
    assert_eq!(parts.len(), 1);
    let (_process, address) = world.listening(|it| _ = it.envs(without_sweep)).await;
    world.orders("overdue", 7, -3_600_000).await;
    world.publish_orders("30m", "o", 5, 1_800_000).await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned(), "{]".to_owned()]).await;
    until_metric(address, "overdue_overdue_orders", &["effect=\"close\""], 7.0).await;
    let oldest = metrics(address).await["overdue_oldest_overdue_seconds{effect=\"close\"}"];
    assert!(oldest > 3_599.0, "{oldest}");
    let level = ["queue=\"orders.delay.30m\"", "holds=\"level\""];
    until_metric(address, "overdue_queue_messages", &level, 5.0).await;
    let parked = ["queue=\"orders.parked\"", "holds=\"parked\""];
    until_metric(address, "overdue_queue_messages", &parked, 2.0).await;
    until_metric(address, "overdue_parked_total", &["reason=\"unreadable\""], 2.0).await;
    until_compared(address).await;
    until_metric(address, "overdue_drift_findings", &["severity=\"error\""], 0.0).await;
    world
        .sql("INSERT INTO outbox (event, order_id) SELECT 'order.closed', 'o' FROM generate_series(1, 3)")
        .await;
    until_metric(address, "overdue_outbox_events", &[], 3.0).await;
}

/// An alert sees that by the attempts; the log has the first one.
#[apply(world_test)]
async fn each_attempt_at_a_queue_that_refuses_is_counted() {
    let world = World::new().await;
    let [broker, management] = world.broker_user("management", Some([".*", ".*", "^$"])).await;
    let urls = [("OVERDUE_BROKER__URL", broker), ("OVERDUE_BROKER__MANAGEMENT_URL", management)];
    // It never says that it is ready.
    let mut process = world.start(|command| {
        let listen = ("OVERDUE_WORKER__LISTEN", "127.0.0.1:0");
        command
            .arg("--no-declare")
            .envs(urls)
            .envs([listen, ("OVERDUE_WORKER__WATCH_EVERY", "100ms")]);
    });
    let address = process.listens_at().await;
    let attempts = async || sum(&metrics(address).await, "overdue_queue_losses_total", &[]);
    until("four attempts", attempts, |attempts| *attempts > 3.5).await;
    assert_eq!(process.logged("this queue is not consumed at present"), 1, "{}", process.log());
}

#[apply(world_test)]
async fn a_management_api_that_fails_is_logged_when_that_begins_and_when_it_is_over() {
    let world = World::new().await;
    let proxy = Proxy::to(&world.services.management_socket()).await;
    let url = format!("http://admin:admin@127.0.0.1:{}", proxy.port());
    let (mut process, address) =
        world.listening(|it| _ = it.env("OVERDUE_BROKER__MANAGEMENT_URL", url)).await;
    until_compared(address).await;
    let failures =
        async || sum(&metrics(address).await, "overdue_look_failures_total", &["at=\"broker\""]);
    proxy.refuse();
    process.until_logged("the management API gives no answer").await;
    let first = failures().await;
    until("three more", failures, |failures| *failures > first + 2.5).await;
    let lines = async || {
        let log = process.log();
        ["the management API gives no answer", "the management API answers again"].map(|text| {
            log.lines().filter(|it| it.contains(text) && it.contains("at=\"broker\"")).count()
        })
    };
    // On a slow machine it has failed before, too.
    let [_, over] = until("one line", lines, |[begins, over]| *begins == over + 1).await;
    proxy.pass();
    until("that it is over", lines, |[begins, again]| begins == again && *again > over).await;
}

/// Whatever messages say, the series are those that the topology file and the program name.
#[apply(world_test)]
async fn a_flood_of_garbage_makes_no_new_series() {
    let world = World::new().await;
    let (_process, address) = world.listening(|_| {}).await;
    until_compared(address).await;
    let is_queue = |series: &&String| series.starts_with("overdue_queue_messages{");
    let queues = async || metrics(address).await.keys().filter(is_queue).count();
    let all = world.topology.objects().queues.len();
    until("every queue", queues, |seen| *seen == all).await;
    let looked = |series: &&String| series.starts_with("overdue_looked_timestamp_seconds{");
    let looked = async || metrics(address).await.keys().filter(looked).count();
    until("broker, database and topology", looked, |seen| *seen == 3).await;
    // Of the database several things are asked, one after the other.
    for series in ["overdue_orders", "outbox_events", "scheduled_notices", "due_orders"] {
        let name = format!("overdue_{series}");
        let there = async || metrics(address).await.keys().any(|it| it.starts_with(&name));
        until(series, there, |there| *there).await;
    }
    let series = async || metrics(address).await.into_keys().collect::<BTreeSet<String>>();
    let before = series().await;
    let garbage: Vec<String> = (0..300).map(|n| format!("{{ {n} \"timeout\": \"t{n}\"")).collect();
    let unknown: Vec<String> =
        (0..100).map(|n| format!("{{\"order_id\":\"nobody-{n}\"}}")).collect();
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &garbage).await;
    wire.publish_all("orders.in", "100ms.unpaid", &unknown).await;
    until_metric(address, "overdue_parked_total", &["reason=\"unreadable\""], 300.0).await;
    until_metric(address, "overdue_parked_total", &["reason=\"unknown\""], 100.0).await;
    let after = series().await;
    let differ: Vec<&String> = after.symmetric_difference(&before).collect();
    assert!(differ.is_empty(), "{differ:?}");
    // Names and format are what Prometheus itself takes, where its tool is.
    let Some(mut promtool) = promtool() else { return };
    let text = get(address, "/metrics").await.body;
    let mut promtool = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// One message, closing goes on, and when the other one has gone the port is taken.
#[apply(world_test)]
async fn a_port_that_is_taken_is_reported_once_and_taken_later() {
    let world = World::new().await;
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let listen = address.to_string();
    let mut process = world.started(|it| _ = it.env("OVERDUE_WORKER__LISTEN", &listen)).await;
    process.until_logged("are not served").await;
    world.publish_orders("300ms", "o", 20, 300).await;
    world.until_closed(20).await;
    drop(other);
    process.until_logged("serving /metrics").await;
    assert_eq!(get(address, "/livez").await.status, 200);
    assert_eq!(process.logged("are not served"), 1, "{}", process.log());
    assert!(process.log().contains("another process listens there"), "{}", process.log());
}

/// Under scrapes as fast as they go orders are closed, and neither database nor broker is asked for it.
#[apply(world_test)]
async fn scrapes_slow_clients_and_garbage_hold_up_nothing() {
    let world = World::new().await;
    let hourly = |it: &mut Command| _ = it.env("OVERDUE_WORKER__WATCH_EVERY", "1h");
    let (mut process, address) = world.listening(hourly).await;
    let asked = async || {
        let seen = metrics(address).await;
        let at = |at: &str| {
            seen.get(&format!("overdue_looked_timestamp_seconds{{at=\"{at}\"}}")).copied()
        };
        [at("database"), at("broker"), at("topology")]
    };
    let looked = until("the first look", asked, |at| at.iter().all(Option::is_some)).await;
    let stop = AtomicBool::new(false);
    let scraping = async {
        let mut scrapes = 0_u32;
        while scrapes <= 10 || !stop.load(Ordering::Relaxed) {
            assert!(metrics(address).await.len() > 100);
            scrapes += 1;
        }
    };
    let closing = async {
        world.publish_orders("300ms", "o", 500, 300).await;
        world.until_closed(500).await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(scraping, closing);
    assert_eq!(asked().await, looked);
    // As many clients as it takes, none of which sends a whole request, and some that send anything.
    let mut slow = Vec::new();
    for _ in 0..100 {
        slow.push(TcpStream::connect(address).await.unwrap());
    }
    // A probe that came behind them would be a restart.
    assert_eq!(get(address, "/livez").await.status, 200);
    world.publish_orders("300ms", "beside", 100, 300).await;
    world.until_closed(600).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).into_bytes();
    for garbage in [
        b"\r\n\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /metrics\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
        &long,
    ] {
        // Where it is cut off in the middle, that is an answer as well.
        let answer = exchange(address, garbage).await.unwrap_or_default();
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
    assert_eq!(get(address, "/nothing").await.first(), "there are /metrics, /livez and /readyz");
    assert!(process.is_running());
    assert_eq!(get(address, "/metrics").await.status, 200);
    drop(slow);
}

/// The one of the machine, or the one that `make test` takes out of Debian's package.
fn promtool() -> Option<Command> {
    let taken_out = concat!(env!("CARGO_MANIFEST_DIR"), "/target/prometheus/promtool");
    let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let found = ["promtool", taken_out].into_iter().find(is_there);
    if found.is_none() {
        eprintln!(
            "LEFT OUT: promtool is not installed (package prometheus); `make test` gets it on Debian, as root"
        );
    }
    found.map(Command::new)
}

#[test]
fn promtool_takes_the_alerts_and_their_tests_pass() {
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");
        let Some(mut promtool) = promtool() else { return };
        let run = promtool.args(arguments).current_dir(folder).output().unwrap();
        assert!(run.status.success(), "{arguments:?}: {run:?}");
    }
}
