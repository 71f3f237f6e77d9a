//! `overdue run` from a new virtual host and a new schema to a closed order, and its log.

use crate::support::{World, until};

#[apply(world_test)]
async fn run_declares_the_topology_and_closes_what_publish_announced() {
    let world = World::empty().await;
    world.overdue(&["database", "init", "--reference-tables", "--yes"]).exits(0);
    let mut process = world.started(|_| {}).await;
    let orders = world.orders("o", 2, 500).await;
    for (order, arguments) in
        orders.iter().zip([&["--level", "500ms"][..], &["--text", "--category", "virtual"]])
    {
        let published = world.overdue(&[&["publish", order], arguments].concat()).exits(0);
        assert_eq!(published.stdout, "published 1, refused 0\n");
    }
    world.until_closed(2).await;
    world.assert_invariants().await;
    process.stops().await;
    let log = process.log();
    assert!(log.contains("closed=2 already_final=0"), "{log}");
}

/// Sums the parked messages in the log lines at warn.
fn counted(log: &str) -> usize {
    let warned = log.lines().filter(|line| line.contains(" parked ") && line.contains("WARN"));
    let counts = warned.filter_map(|line| line.split_once("messages="));
    counts.filter_map(|(_, count)| count.split(' ').next()?.parse::<usize>().ok()).sum()
}

/// The log has a line per batch of parked messages at warn, and a line per message at debug.
#[apply(world_test)]
async fn parked_messages_do_not_flood_the_log() {
    const MESSAGES: usize = 300;
    for (filter, single_lines) in [("info", 0), ("debug", MESSAGES)] {
        let (world, wire) = World::new().await.wired().await;
        let garbage: Vec<String> = (0..MESSAGES).map(|n| format!("{{ {n}")).collect();
        wire.publish_all("orders.in", "100ms.unpaid", &garbage).await;
        let due = async || wire.ready("orders.unpaid").await;
        until("all are due", due, |due| *due as usize == MESSAGES).await;
        let mut process = world.started(|it| _ = it.env("OVERDUE_LOG__FILTER", filter)).await;
        world.parked(MESSAGES).await;
        // At its stop, a worker waits two seconds for the last confirms.
        until("all are reported", async || counted(&process.log()), |counted| *counted >= MESSAGES)
            .await;
        process.signal("TERM");
        process.ended().await;
        let log = process.log();
        let (warned, single): (Vec<&str>, Vec<&str>) =
            log.lines().filter(|line| line.contains(" parked ")).partition(|l| l.contains("WARN"));
        assert_eq!(single.len(), single_lines, "{log}");
        assert!(warned.len() < MESSAGES / 10, "{} lines: {log}", warned.len());
        for line in warned {
            assert!(line.contains(r#"parked timeout="unpaid" messages="#), "{line}");
            let first = r#"first_order="unreadable message" first_reason="the body "#;
            assert!(line.contains(first), "{line}");
        }
        assert_eq!(counted(&log), MESSAGES, "{log}");
    }
}

/// Returns a worker's log from start to end.
async fn log(world: &World, (variable, value): (&str, &str)) -> String {
    let mut process = world.started(|it| _ = it.env(variable, value)).await;
    process.signal("TERM");
    process.ended().await;
    process.log()
}

#[apply(world_test)]
async fn the_log_shows_no_password() {
    let world = World::new().await;
    let log = log(&world, ("OVERDUE_LOG__FILTER", "trace")).await;
    for url in [&world.services.broker, &world.services.database, &world.services.management] {
        let login = format!("{}:{}@", url.username(), url.password().unwrap());
        assert!(!log.contains(&login), "{login}");
    }
}

#[apply(world_test)]
async fn a_log_in_json_is_one_object_per_line() {
    let world = World::new().await;
    let log = log(&world, ("OVERDUE_LOG__FORMAT", "json")).await;
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = events.iter().map(|event| &event["fields"]["message"]).collect();
    assert!(messages.iter().any(|message| *message == "worker ready"), "{log}");
    assert!(messages.iter().any(|message| *message == "worker stopped"), "{log}");
}
