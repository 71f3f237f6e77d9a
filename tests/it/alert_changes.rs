//! `[[alert]]` of a worker whose files change, or cannot be read.

use std::{fs, process::Command, time::Duration};

use crate::support::{
    WorkerProcess, World,
    pages::metrics,
    until,
    webhook::{Posted, Webhook},
    world::TOPOLOGY,
};

use super::alerts::{OK, QUICK, says, settings, until_said, worker};

/// What an effect left behind that a reload has taken away is not wrong for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_is_gone_after_a_reload_is_not_late_for_ever() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    let mine = TOPOLOGY.replace("[retry]", "effect = \"mine\"\n\n[retry]");
    let close = "[effects.mine]\nsql = \"mine.sql\"\noverdue_sql = \"mine_overdue.sql\"\n";
    let write = |name: &str, text: &str| fs::write(world.dir.path().join(name), text).unwrap();
    write("mine.sql", include_str!("../../sql/close.sql"));
    write("mine_overdue.sql", include_str!("../../sql/overdue_ids.sql"));
    write("topology.toml", &mine);
    settings(&world, &webhook, &format!("{QUICK}\non = [\"late\"]\n{close}"));
    let (mut process, address) = world.listening(|_| {}).await;
    let lost = world.orders("lost", 1, -2_000).await;
    let late = until_said(&webhook, "late", "wrong").await;
    assert!(late["text"].as_str().unwrap().contains("effect mine"), "{late}");
    let of_mine = async || {
        let metrics = metrics(address).await;
        metrics.keys().filter(|it| it.contains("effect=\"mine\"")).count()
    };
    assert!(of_mine().await >= 4);
    write("topology.toml", TOPOLOGY);
    process.signal("HUP");
    process.until_logged("reloaded: ").await;
    // Its counters stay: they are what was counted.
    until("only a counter", of_mine, |series| *series == 1).await;
    assert!(world.pay(&lost[0]).await);
    until_said(&webhook, "late", "over").await;
}

/// A file system that does not answer: each alert waits for its own file, and nobody else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_cannot_be_read_holds_up_nothing() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    let file = world.dir.path().join("webhook.url");
    fs::write(&file, webhook.url()).unwrap();
    let alert = |n: usize| {
        format!(
            "[[alert]]\nname = \"a{n}\"\nformat = \"json\"\nurl_file = \"webhook.url\"\n{QUICK}\n"
        )
    };
    // More than the worker has threads for its work.
    let alerts: Vec<String> = (0..8).map(alert).collect();
    fs::write(world.dir.path().join("overdue.toml"), alerts.concat()).unwrap();
    let mut process = worker(&world).await;
    fs::remove_file(&file).unwrap();
    // It is opened when somebody writes, and nobody does.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("cannot be read within 3 s").await;
    let orders = world.orders("o", 200, 300).await;
    world.publish("300ms", &orders).await;
    world.until_closed(200).await;
    process.signal("TERM");
    // Nobody ever writes.
    let status = process.ended(Duration::from_mins(1)).await;
    assert_eq!(status.code(), Some(0), "{}", process.log());
}

/// A worker without alerts gets one, then another one; what was parked before is not its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_are_taken_by_sighup() {
    let world = World::new().await;
    let (one, other) = (Webhook::new(OK).await, Webhook::new(OK).await);
    let mut process = worker(&world).await;
    let wire = world.wire().await;
    let park = async |bodies: &[&str]| {
        let bodies: Vec<String> = bodies.iter().map(|&it| it.to_owned()).collect();
        wire.publish_all("orders.in", "100ms.unpaid", &bodies).await;
    };
    park(&["{", "{{"]).await;
    until("both are parked", async || wire.ready("orders.parked").await, |n| *n == 2).await;
    let reload = async |process: &mut WorkerProcess, webhook: &Webhook, count| {
        settings(&world, webhook, &format!("{QUICK}\non = [\"parked\"]"));
        process.signal("HUP");
        until("reloaded", async || process.logged("reloaded: "), |seen| *seen == count).await;
    };
    reload(&mut process, &one, 1).await;
    park(&["{{{"]).await;
    assert_eq!(until_said(&one, "parked", "over").await["count"], 1);
    // The URL is in the file, which is read for each message; the name makes it another alert.
    let said = one.posted().len();
    settings(&world, &other, &format!("{QUICK}\non = [\"parked\"]"));
    park(&["{{{{"]).await;
    assert_eq!(until_said(&other, "parked", "over").await["count"], 1);
    let said_by_old = other.posted().len();
    let renamed = fs::read_to_string(world.dir.path().join("overdue.toml")).unwrap();
    let renamed = renamed.replace("\"on-call\"", "\"renamed\"");
    fs::write(world.dir.path().join("overdue.toml"), renamed).unwrap();
    process.signal("HUP");
    until("reloaded", async || process.logged("reloaded: "), |seen| *seen == 2).await;
    park(&["{{{{{"]).await;
    let by_new = |posted: &Posted| posted.json()["alert"] == "renamed";
    other.until("a message of the new alert", by_new).await;
    let said_by = async || other.posted().iter().rfind(|it| says(it, "parked", "over")).cloned();
    until("it is over", said_by, |it| it.as_ref().is_some_and(by_new)).await;
    let by_old = other.posted().iter().filter(|it| !by_new(it)).count();
    assert_eq!((one.posted().len(), by_old), (said, said_by_old));
}
