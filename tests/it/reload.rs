//! SIGHUP: what the files say now is checked, taken where it adds, refused with the reason otherwise; closing goes on.

use std::{fs, time::Duration};

use crate::support::{WorkerProcess, World, pages::get, until, world::TOPOLOGY};

const RELOADED: &str = "reloaded: settings, topology and effects are those of the files now";
const REFUSED: &str = "not reloaded: everything goes on as before";

fn write(world: &World, name: &str, text: &str) {
    fs::write(world.dir.path().join(name), text).unwrap();
}

/// Sends the signal, and waits for the `count`th line with `text`.
async fn hang_up(worker: &mut WorkerProcess, text: &str, count: usize) {
    worker.signal("HUP");
    until(text, async || worker.logged(text), |seen| *seen >= count).await;
    assert_eq!(worker.logged(text), count, "{}", worker.log());
}

async fn ends_well(mut worker: WorkerProcess) {
    assert!(worker.is_running());
    worker.signal("TERM");
    assert_eq!(worker.ended(Duration::from_mins(1)).await.code(), Some(0), "{}", worker.log());
}

/// A level, a timeout with its effect, a category and another `after`, while orders of the first timeout become due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_added_works_without_a_restart_and_no_order_notices() {
    let world = World::new().await;
    let mut worker = world.started(|_| {}).await;
    let id = worker.id();
    let orders = world.orders("o", 400, 500).await;
    for (part, level) in orders.chunks(100).zip(["100ms", "500ms", "1s", "2s"]) {
        world.publish(level, part).await;
    }
    let more = TOPOLOGY.replace("\"30m\"]", "\"5m\", \"30m\"]").replace(
        "after = \"1s\"\nafter_by_category = { virtual = \"500ms\" }",
        "after = \"2s\"\nafter_by_category = { virtual = \"500ms\", fresh = \"100ms\" }",
    );
    assert_ne!(more, TOPOLOGY);
    let more =
        format!("{more}\n[[timeout]]\nname = \"unshipped\"\nafter = \"5m\"\neffect = \"cancel\"\n");
    write(&world, "topology.toml", &more);
    hang_up(&mut worker, RELOADED, 1).await;
    let wire = world.wire().await;
    assert_eq!(wire.ready("orders.delay.5m").await, 0);
    world.orders("sent", 1, 1_000_000).await;
    assert!(world.pay("sent-0").await);
    world.sql("UPDATE orders SET ship_by = now() WHERE id = 'sent-0'").await;
    let run = world.overdue(&["publish", "sent-0", "--timeout", "unshipped", "--level", "100ms"]);
    assert_eq!(run.code, Some(0), "{run}");
    until("cancelled", async || world.status("sent-0").await, |status| status == "cancelled").await;
    world.until_closed(400).await;
    world.assert_invariants().await;
    assert_eq!(worker.id(), id);
    assert_eq!(wire.ready("orders.parked").await, 0);
    // Twenty at once, with orders in between, are harmless as well.
    let orders = world.orders("p", 300, 300).await;
    for part in orders.chunks(15) {
        world.publish("300ms", part).await;
        worker.signal("HUP");
    }
    world.until_closed(700).await;
    world.assert_invariants().await;
    assert_eq!(wire.ready("orders.parked").await, 0);
    ends_well(worker).await;
}

/// Each file in turn becomes invalid: the message names file and line, and the next signal takes the corrected one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_invalid_is_named_with_its_line_and_closing_goes_on() {
    let world = World::new().await;
    let close = include_str!("../../sql/close.sql");
    let topology = TOPOLOGY.replace("[retry]", "effect = \"mine\"\n\n[retry]");
    let settings = "[effects.mine]\nsql = \"mine.sql\"\n";
    let files =
        [("topology.toml", topology.as_str()), ("overdue.toml", settings), ("mine.sql", close)];
    for (name, text) in files {
        write(&world, name, text);
    }
    let mut worker = world.started(|_| {}).await;
    let line = 1 + close.lines().position(|line| line.contains("due_at <= now()")).unwrap();
    let cases = [
        (
            "topology.toml",
            topology.replace("after = \"1s\"", "aftr = \"1s\""),
            "topology.toml:9:1".to_owned(),
        ),
        ("topology.toml", format!("{topology}\n[["), "topology.toml:".to_owned()),
        (
            "overdue.toml",
            format!("{settings}\n[worker]\nbatch_size = 0\n"),
            "overdue.toml:5:".to_owned(),
        ),
        ("overdue.toml", "[effects.mine]\nsql = \"gone.sql\"\n".to_owned(), "gone.sql".to_owned()),
        (
            "mine.sql",
            close.replace("due_at <= now()", "dew_at <= now()"),
            format!("mine.sql, line {line}"),
        ),
    ];
    for (count, (name, text, named)) in (1..).zip(cases) {
        let good = files.iter().find(|(file, _)| *file == name).unwrap().1;
        assert_ne!(text, good, "{name}");
        write(&world, name, &text);
        hang_up(&mut worker, REFUSED, count).await;
        let log = worker.log();
        let said = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
        assert!(said.contains(&named), "{named}: {said}");
        let orders = world.orders(&format!("o{count}"), 20, 100).await;
        world.publish("100ms", &orders).await;
        world.until_closed(20 * count).await;
        write(&world, name, good);
    }
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
    assert_eq!(worker.logged("worker ready"), 1, "{}", worker.log());
    hang_up(&mut worker, RELOADED, 1).await;
    world.assert_invariants().await;
    ends_well(worker).await;
}

/// What would take something away, and what takes a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_only_add_is_refused_with_the_reason() {
    let world = World::new().await;
    let mut worker = world.started(|_| {}).await;
    let before = world.management().queue_names().await.unwrap();
    let cases = [
        ("topology.toml", TOPOLOGY.replace("\"2s\", ", ""), "queue orders.delay.2s"),
        (
            "topology.toml",
            TOPOLOGY.replace("name = \"unpaid\"", "name = \"unpayed\""),
            "queue orders.unpaid",
        ),
        (
            "topology.toml",
            TOPOLOGY.replace("name = \"orders\"", "name = \"others\""),
            "exchange orders.",
        ),
        (
            "topology.toml",
            TOPOLOGY.replace("[delay]", "[delay]\nlead = \"20ms\""),
            "queue orders.delay.100ms (with other arguments)",
        ),
        ("overdue.toml", "[log]\nfilter = \"debug\"\n".to_owned(), "[log] has changed"),
        (
            "overdue.toml",
            "[[alert]]\nname = \"a\"\nformat = \"slack\"\nurl_file = \"gone.url\"\n".to_owned(),
            "alert `a`: cannot read url_file gone.url",
        ),
    ];
    for (count, (name, text, reason)) in (1..).zip(cases) {
        assert_ne!(text, TOPOLOGY, "{name}");
        write(&world, name, &text);
        hang_up(&mut worker, REFUSED, count).await;
        let log = worker.log();
        let said = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
        assert!(said.contains(reason), "{reason}: {said}");
        write(&world, "topology.toml", TOPOLOGY);
        write(&world, "overdue.toml", "");
    }
    assert_eq!(world.management().queue_names().await.unwrap(), before);
    let orders = world.orders("o", 20, 100).await;
    world.publish("100ms", &orders).await;
    world.until_closed(20).await;
    ends_well(worker).await;
}

/// Another statement for the same effect, other settings, and a stop that comes while the worker of before drains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sql_of_an_effect_and_settings_are_taken_and_a_stop_in_between_is_a_stop() {
    let world = World::new().await;
    let close = include_str!("../../sql/close.sql");
    write(&world, "topology.toml", &TOPOLOGY.replace("[retry]", "effect = \"mine\"\n\n[retry]"));
    write(&world, "overdue.toml", "[effects.mine]\nsql = \"mine.sql\"\n");
    write(&world, "mine.sql", close);
    let mut worker = world.started(|_| {}).await;
    write(&world, "mine.sql", &close.replace("order.closed", "order.expired"));
    write(
        &world,
        "overdue.toml",
        "[effects.mine]\nsql = \"mine.sql\"\n[worker]\nbatch_size = 7\ndrain = \"40s\"\n",
    );
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "order.expired").await;
    hang_up(&mut worker, RELOADED, 1).await;
    let orders = world.orders("o", 30, 100).await;
    world.publish("100ms", &orders).await;
    world.until_closed(30).await;
    wire.take_many(&subscriber, 30).await;
    worker.signal("HUP");
    ends_well(worker).await;
    world.assert_invariants().await;
}

/// `/readyz` says ready all the time: who looks at it does not see the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_takes_other_files_is_ready_all_the_time() {
    let world = World::new().await;
    let (mut worker, address) = world.listening(|_| {}).await;
    until("ready", async || get(address, "/readyz").await.status, |status| *status == 200).await;
    write(&world, "topology.toml", &TOPOLOGY.replace("\"30m\"]", "\"5m\", \"30m\"]"));
    for count in 1..=3 {
        worker.signal("HUP");
        let look = async || {
            let page = get(address, "/readyz").await;
            assert_eq!(page.status, 200, "{}\n{}", page.body, worker.log());
            worker.logged(RELOADED)
        };
        until(RELOADED, look, |seen| *seen == count).await;
    }
    let page = get(address, "/metrics").await.body;
    assert!(page.contains("overdue_reloads_total 3\n"), "{page}");
    assert!(worker.is_running());
    ends_well(worker).await;
}

/// Who may not declare waits for who may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_declares_nothing_takes_what_somebody_has_applied() {
    let world = World::new().await;
    let mut worker = world.spawn(world.command(&["run", "--no-declare"]));
    worker.until_logged("worker ready").await;
    let more = format!(
        "{TOPOLOGY}\n[[timeout]]\nname = \"unshipped\"\nafter = \"2s\"\neffect = \"cancel\"\n"
    );
    write(&world, "topology.toml", &more);
    hang_up(&mut worker, REFUSED, 1).await;
    assert!(worker.log().contains("there is no queue orders.unshipped"), "{}", worker.log());
    let run = world.overdue(&["apply", "--yes"]);
    assert_eq!(run.code, Some(0), "{run}");
    hang_up(&mut worker, RELOADED, 1).await;
    ends_well(worker).await;
}

/// The password rotation of docs/operations.md, with a user that may log in and declare, and not read from the queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_would_consume_nothing_is_refused_and_the_one_that_works_goes_on() {
    let world = World::new().await;
    let urls = |urls: [String; 2]| {
        let [broker, management] = urls;
        format!("[broker]\nurl = \"{broker}\"\nmanagement_url = \"{management}\"\n")
    };
    let good = urls(world.urls_of(None));
    write(&world, "overdue.toml", &good);
    let mut worker = world
        .started(|command| {
            command.env_remove("OVERDUE_BROKER__URL").env_remove("OVERDUE_BROKER__MANAGEMENT_URL");
        })
        .await;
    let user = world.broker_user("administrator", Some([".*", ".*", "^$"])).await;
    write(&world, "overdue.toml", &urls(user));
    hang_up(&mut worker, REFUSED, 1).await;
    let log = worker.log();
    let said = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
    assert!(said.contains("nothing is consumed for timeout unpaid"), "{said}");
    assert_eq!(worker.logged(RELOADED), 0, "{log}");
    // The sweep is far away: a message closes them.
    let orders = world.orders("o", 20, 100).await;
    world.publish("100ms", &orders).await;
    world.until_closed(20).await;
    write(&world, "overdue.toml", &good);
    hang_up(&mut worker, RELOADED, 1).await;
    ends_well(worker).await;
}

/// An order that nobody can close does not count as often as a worker begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_order_that_is_not_closed_makes_no_reloaded_worker_unready() {
    let world = World::new().await;
    world.orders("lost", 1, -7_200_000).await;
    let (worker, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
        })
        .await;
    // It has closed nothing, and then it has.
    let page = async || get(address, "/readyz").await;
    until("not ready", page, |it| it.first().starts_with("not ready: closing: ")).await;
    let orders = world.orders("o", 1, 100).await;
    world.publish("100ms", &orders).await;
    until("ready", page, |it| it.status == 200).await;
    for count in 1..=2 {
        worker.signal("HUP");
        let look = async || {
            let page = page().await;
            assert_eq!(page.status, 200, "{}\n{}", page.body, worker.log());
            worker.logged(RELOADED)
        };
        until(RELOADED, look, |seen| *seen == count).await;
    }
    assert_eq!(page().await.status, 200);
    // Whoever takes over has to close something as well.
    world.orders("later", 1, 0).await;
    until("not ready", page, |it| it.first().starts_with("not ready: closing: ")).await;
    ends_well(worker).await;
}
