//! `overdue inspect` beside publishers and workers, whom it does not disturb.

use lapin::BasicProperties;

use crate::support::{Parked, Run, World, python, until};

/// An inspection that has begun: its queue is bound wherever messages may come.
struct Inspection(tokio::task::JoinHandle<Run>);

impl Inspection {
    async fn begin(world: &World, arguments: &[&str]) -> Self {
        let sources: Vec<String> =
            world.topology.entries().into_iter().map(|it| it.exchange).collect();
        let objects = world.objects().await;
        let taken = objects.bindings.iter().filter(|it| sources.contains(&it.source)).count();
        // Only now: its own bindings are none of those that it takes.
        let command =
            world.command(&[&["inspect", "--for", "5m", "-o", "json"], arguments].concat());
        let run = move || crate::support::process::finish(command, None);
        let inspection = Self(tokio::task::spawn_blocking(run));
        let bound = async || queues_of_inspections(world).await.1;
        // And to the exchange of the parking lot.
        until("bound", bound, |bound| *bound == taken + 1).await;
        inspection
    }

    async fn end(self) -> Run {
        self.0.await.unwrap()
    }
}

/// How many there are, and how many bindings they have.
async fn queues_of_inspections(world: &World) -> (usize, usize) {
    let objects = world.objects().await;
    let is_one = |name: &String| name.starts_with("orders.probe.inspect");
    let bindings =
        objects.bindings.iter().filter(|it| is_one(&it.destination) && !it.source.is_empty());
    (objects.queues.keys().filter(|name| is_one(name)).count(), bindings.count())
}

fn properties() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2).with_message_id("4711@1".into())
}

/// `<rule> <routing key> <notices> <first>` of each finding.
fn findings(run: &Run) -> Vec<String> {
    let json = run.json();
    let findings = json["findings"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    findings
        .map(|it| {
            let (rule, key) = (text(&it["rule"]), text(&it["subject"]["name"]));
            format!("{rule} {key} {} {}", it["notices"], text(&it["first"]))
        })
        .collect()
}

#[apply(world_test)]
async fn what_is_published_is_judged_and_goes_its_way() {
    let world = World::new().await;
    let inspection = Inspection::begin(&world, &["--notices", "7"]).await;
    let wire = world.wire().await;
    let publish = async |key: &str, properties, body: &[u8]| {
        assert!(wire.publish("orders.in", key, properties, body).await.is_ack(), "{key}");
    };
    publish("30m.unpaid", properties(), b"4711").await;
    publish("30m.unpaid", BasicProperties::default(), b"4712").await;
    publish("30m.unpaid", BasicProperties::default(), b"4713").await;
    publish("30m.unpaid", properties().with_expiration("2000000".into()), b"4714").await;
    publish("30m.unpaid", properties(), &vec![b'x'; 70_000]).await;
    // Parked: at once, and when its delay is over.
    publish("30min.unpaid", properties(), b"4715").await;
    publish("100ms.unpayed", properties(), b"4716").await;
    let run = inspection.end().await;
    assert_eq!(run.code, Some(2), "{run}");
    assert_eq!(
        findings(&run),
        [
            "expiration 30m.unpaid 1 4714",
            "routing-key 100ms.unpayed 1 4716",
            "routing-key 30min.unpaid 1 4715",
            "unreadable 30m.unpaid 1 -",
            "no-message-id 30m.unpaid 2 4712",
            "not-persistent 30m.unpaid 2 4712",
        ]
    );
    assert_eq!(run.json()["wrong"], 6, "{run}");
    assert_eq!(wire.ready("orders.delay.30m").await, 5);
    let mut parked = world.parked(2).await;
    parked.sort_by_key(Parked::text);
    assert_eq!(parked.iter().map(Parked::text).collect::<Vec<_>>(), ["4715", "4716"]);
    // The original of what was parked has what the broker writes, and none of the headers of `overdue`.
    assert!(!parked[0].headers.contains_key("x-death"), "{parked:?}");
    let gone = async || queues_of_inspections(&world).await.0;
    until("its queue is gone", gone, |queues| *queues == 0).await;
}

/// Also what is due, put back, or parked by a worker comes along these exchanges, and counts as nothing.
#[apply(world_test)]
async fn a_correct_order_service_beside_a_worker_is_found_to_be_correct() {
    let world = World::new().await;
    let worker = world.worker();
    let inspection = Inspection::begin(&world, &["--notices", "21"]).await;
    let orders = world.orders("4711", 20, 1_500).await;
    let line = |id: &String| format!("{id} 2099-11-20T10:30:00Z 500ms\n");
    let lines: Vec<String> = orders.iter().map(line).collect();
    let arguments = [&*world.broker_url(), "unpaid"];
    let run = python("examples/python/order_service.py", &arguments, &lines.concat());
    assert_eq!(run.code, Some(0), "{run}");
    // Retried, then parked.
    world.publish_to("orders.dlx", "unpaid", 1).await;
    world.until_closed(20).await;
    world.parked(1).await;
    let run = world.overdue(&["verify", "--probe"]);
    assert_eq!(run.code, Some(0), "{run}");
    let run = world.overdue(&["publish", "last", "--timeout", "unpaid"]);
    assert_eq!(run.code, Some(0), "{run}");
    let run = inspection.end().await;
    assert_eq!((run.code, &run.json()["notices"]), (Some(0), &21.into()), "{run}");
    assert_eq!(worker.stop().await.parked, 1);
}

#[apply(world_test)]
async fn seconds_on_a_ladder_are_found() {
    let world = World::of(crate::languages::LADDER).await;
    let inspection = Inspection::begin(&world, &["--notices", "3"]).await;
    let wire = world.wire().await;
    for (place, key) in [("1s", "1.unpaid"), ("10m", "0.0.0.3.unpaid"), ("1s", "99.unpaid")] {
        let exchange = format!("orders.ladder.{place}");
        assert!(wire.publish(&exchange, key, properties(), b"4711").await.is_ack(), "{key}");
    }
    let run = inspection.end().await;
    assert_eq!(
        findings(&run),
        ["routing-key 99.unpaid 1 4711", "seconds 1.unpaid 1 4711"],
        "{run}"
    );
    world.parked(1).await;
}

#[apply(world_test)]
async fn it_ends_when_nothing_is_published() {
    let world = World::new().await;
    let run = world.overdue(&["inspect", "--for", "100ms"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("listening to orders.in for 100ms, or 100 notices"), "{run}");
    assert!(run.stdout.contains("NOT OK: nothing was published"), "{run}");
}

/// What it cannot take goes, the oldest first: a queue with `reject-publish` would have the publisher's message nacked.
#[apply(world_test)]
async fn its_queue_is_small_and_nobody_elses() {
    let world = World::new().await;
    let inspection = Inspection::begin(&world, &["--notices", "1"]).await;
    let queues = world.objects().await.queues;
    let queue = queues.values().find(|it| it.name.starts_with("orders.probe.inspect")).unwrap();
    let kept = ["x-max-length", "x-max-length-bytes", "x-expires"];
    assert!(kept.iter().all(|limit| queue.arguments.contains_key(*limit)), "{queue:?}");
    assert!(!queue.arguments.contains_key("x-overflow") && queue.exclusive, "{queue:?}");
    world.publish_to("orders.in", "30m.unpaid", 1).await;
    assert_eq!(inspection.end().await.code, Some(2));
}
