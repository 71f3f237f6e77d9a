//! Order services in other languages (`examples`), against the real worker process.

use std::{collections::BTreeSet, path::Path};

use lapin::types::AMQPValue;
use serde_json::{Value, json};

use crate::support::{Run, World, process::finish, programs::program, python, text};

pub(crate) const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"
ladder = { max = "1h" }

[[timeout]]
name = "unpaid"
after = "30m"

[retry]
after = ["1s"]
"#;

/// Asserts that messages closed the orders, and not before their deadlines.
async fn assert_closed_by_message(world: &World, count: i64) {
    world.until_closed(usize::try_from(count).unwrap()).await;
    world.assert_invariants().await;
    let closed = "SELECT count(*) FROM closures WHERE path = 'message'";
    assert_eq!(world.number(closed).await, count);
}

#[apply(world_test)]
async fn a_python_order_service_out_of_the_tutorial_gets_its_orders_closed() {
    let world = World::new().await;
    let process = world.started(|_| {}).await;
    let orders = world.orders("4711", 30, 1_000).await;
    assert!(world.pay(&orders[7]).await);
    let (url, mut arguments) = (world.broker_url(), vec![]);
    arguments.extend([url.as_str(), "1s.unpaid"]);
    arguments.extend(orders.iter().map(String::as_str));
    let run = python("examples/python/tutorial_order_service.py", &arguments, "").exits(0);
    assert_eq!(run.stdout.lines().count(), 30, "{run}");
    assert_closed_by_message(&world, 29).await;
    assert_eq!(world.status(&orders[7]).await, "paid");
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
    assert!(!process.log().contains("ERROR"), "{}", process.log());
}

/// An order service of `examples`, which publishes a due notice for each line of its input.
struct OrderService(&'static str);

impl OrderService {
    /// Runs it; `None` if the machine lacks its language.
    fn run(&self, world: &World, more: &[&str], lines: &str) -> Option<Run> {
        let mut command = program(&Path::new(env!("CARGO_MANIFEST_DIR")).join(self.0))?;
        command.arg(world.broker_url()).arg("unpaid").args(more);
        Some(finish(command, Some(lines.as_bytes())))
    }

    /// Tests the duties of an example.
    async fn does_its_work(&self) {
        let world = World::empty().await;
        // Without the exchange, the only answer is the end of the channel.
        let Some(run) = self.run(&world, &[], "4711 2026-11-20T10:30:00Z 30m\n") else { return };
        assert!(run.code != Some(0) && run.stdout.is_empty(), "{run}");
        self.says_what_is_not_published(&world).await;
        self.knows_each_way_on_a_ladder(&world).await;
        let ladder = World::of(LADDER).await;
        let file = ladder.dir.path().join("ladder.json");
        let file = file.to_str().unwrap();
        let run = ladder.overdue(&["export", "--format", "ladder"]);
        std::fs::write(file, run.stdout).unwrap();
        // The notice waits a second on the broker, and the remaining time with the worker.
        self.has_its_orders_closed(&ladder, &[file], "1500").await;
        self.has_its_orders_closed(&World::new().await, &[], "1s").await;
    }

    /// Asserts that the messages close the orders; they are published twice, as after a lost connection.
    async fn has_its_orders_closed(&self, world: &World, more: &[&str], delay: &str) {
        let worker = world.worker();
        world.orders("4711", 10, 1_500).await;
        let sql = "SELECT id || to_char(due_at AT TIME ZONE 'UTC', ' YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\" ') FROM orders";
        let rows = world.rows(sql).await;
        let lines: String = rows.iter().map(|row| row.get::<_, String>(0) + delay + "\n").collect();
        for _ in 0..2 {
            let run = self.run(world, more, &lines).expect("it is there");
            assert_eq!(
                (run.code, run.stdout.matches(": confirmed\n").count()),
                (Some(0), 10),
                "{run}"
            );
        }
        assert_closed_by_message(world, 10).await;
        let counts = worker.stop().await;
        assert_eq!((counts.parked, counts.swept), (0, 0), "{counts:?}");
    }

    /// The program names the first message that the broker returns or nacks, and ends.
    async fn says_what_is_not_published(&self, world: &World) {
        let lines = "4711 2026-11-20T10:30:00Z 30m\n4712 2026-11-20T10:30:00Z 30m\n";
        world.exchange("orders.in", "topic", json!({})).await;
        let run = self.run(world, &[], lines).expect("it is there");
        let why = "4711: returned, no queue takes 30m.unpaid at orders.in";
        assert!(run.code != Some(0) && run.stderr.contains(why), "{run}");
        let wire = world.wire().await;
        let full =
            [("x-max-length", AMQPValue::LongInt(0)), ("x-overflow", text("reject-publish"))];
        wire.queue("full", &full).await;
        wire.bind("full", "orders.in", "#").await;
        let run = self.run(world, &[], lines).expect("it is there");
        assert!(run.code != Some(0) && run.stderr.contains("4711: nacked"), "{run}");
        assert!(!run.stderr.contains("4712") && run.stdout.is_empty(), "{run}");
    }

    /// Compares paths with the golden vectors, and checks the messages.
    async fn knows_each_way_on_a_ladder(&self, world: &World) {
        let vectors: Value =
            serde_json::from_str(include_str!("../../examples/ladder-vectors.json")).unwrap();
        let (mut ladders, wire) = (vectors.as_array().unwrap().clone(), world.wire().await);
        if Path::new(self.0).extension().is_some_and(|end| end == "java") {
            // Only the ladder in its source.
            ladders.truncate(1);
        }
        for ladder in ladders {
            let mut queues = Vec::new();
            for place in ladder["places"].as_array().unwrap() {
                let exchange = place["exchange"].as_str().unwrap();
                world.exchange(exchange, "topic", json!({})).await;
                queues.push((exchange, wire.listen(exchange, "#").await));
            }
            let cases = ladder["cases"].as_array().unwrap().iter();
            let (wrong, cases): (Vec<_>, Vec<_>) = cases
                .filter(|case| case["rounding"] == "down")
                .partition(|case| !case["error"].is_null());
            let file = world.dir.path().join("ladder.json");
            std::fs::write(&file, ladder.to_string()).unwrap();
            let run = |line: String| {
                self.run(world, &[file.to_str().unwrap()], &line).expect("it is there")
            };
            let line =
                |case: &&Value| format!("o-{0} 2026-11-20T10:30:00Z {0}\n", case["delay_ms"]);
            run(cases.iter().map(line).collect()).exits(0);
            let expected = cases.iter().map(|case| {
                let text = |key: &str| case[key].as_str().unwrap().to_owned();
                (format!("o-{}", case["delay_ms"]), text("exchange"), text("routing_key"))
            });
            let mut seen = BTreeSet::new();
            for (exchange, queue) in &queues {
                for message in wire.take_all(queue).await {
                    let body = message.text();
                    let id = match serde_json::from_str::<Value>(&body) {
                        Ok(json) => json["order_id"].as_str().unwrap().to_owned(),
                        Err(_) => body,
                    };
                    assert_eq!(message.delivery_mode, Some(2));
                    assert_eq!(message.message_id, Some(format!("{id}@2026-11-20T10:30:00Z")));
                    seen.insert((id, (*exchange).to_owned(), message.key));
                }
            }
            assert_eq!(seen, expected.collect::<BTreeSet<_>>());
            // The program refuses a delay beyond the ladder before it sends anything.
            for case in wrong {
                let refused = run(line(&case));
                assert!(refused.code != Some(0) && refused.stdout.is_empty(), "{refused}");
            }
        }
    }
}

macro_rules! order_services {
    ($($name:ident: $source:expr;)*) => {
        $(
            #[apply(world_test)]
            async fn $name() {
                OrderService($source).does_its_work().await;
            }
        )*
    };
}

order_services! {
    in_python: "examples/python/order_service.py";
    in_python_with_asyncio: "examples/python/aio_order_service.py";
    in_javascript: "examples/javascript/order_service.js";
    in_java: "examples/java/OrderService.java";
    in_go: "examples/go/order_service.go";
    in_php: "examples/php/order_service.php";
    in_rust: "examples/rust/order_service.rs";
}
