//! `[compat.x-delay]`: programs that were written for the delayed message exchange plugin, on a broker without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use lapin::{BasicProperties, types::AMQPValue};
use overdue::internals::{objects::Binding, plan::Change, topology::Topology};
use serde_json::Value;

use crate::support::{
    Parked, Proxy, Run, Wire, World, headers, pages::get, programs::node, python, table, text,
    until, world::TOPOLOGY,
};

const COMPAT: &str = r#"
[compat.x-delay]
exchange = "reminders"
type = "direct"
"#;

fn with_levels() -> String {
    format!("{TOPOLOGY}{COMPAT}")
}

fn with_ladder() -> String {
    let ladder = "strategy = \"ladder\"\nladder = { max = \"1h\" }\nlevels = [";
    with_levels().replace("levels = [", ladder)
}

/// A world with a queue `mails` where messages for `welcome` are due.
async fn world_of_mails(topology: &str) -> (World, Wire) {
    let (world, wire) = World::of(topology).await.wired().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", &world.topology.compat_due_exchange(), "welcome").await;
    (world, wire)
}

/// Two seconds in a ladder, and the rest in the worker.
const DELAY_MS: i32 = 2_900;

/// Every form of `x-delay`: who waits waits exactly once and not too short, who does not is not kept; nothing else of a
/// message changes.
pub(super) fn assert_forms(run: &Run) {
    assert_eq!(run.code, Some(0), "{run}");
    let lines: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cases: BTreeSet<&str> = lines.iter().map(|it| it["case"].as_str().unwrap()).collect();
    assert_eq!(cases.len(), lines.len(), "each once: {run}");
    let delay = |line: &Value| line["delay"].as_u64().unwrap();
    for line in &lines {
        assert!(line["took"].as_f64().unwrap() >= line["delay"].as_f64().unwrap(), "early: {line}");
        assert_eq!(line["key"], "welcome", "{line}");
        assert_eq!(line["changed"], serde_json::json!([]), "{line}");
    }
    let late = lines.iter().position(|line| delay(line) >= 3_000).unwrap();
    let kept: Vec<&Value> = lines[late..].iter().filter(|line| delay(line) == 0).collect();
    assert!(kept.is_empty(), "they are to come at once: {kept:?}");
}

async fn forms_on(topology: &str) {
    let (world, _wire) = world_of_mails(topology).await;
    let worker = world.worker();
    let url = world.broker_url();
    let arguments = [url.as_str(), "reminders", "welcome", "mails", "hostile"];
    assert_forms(&python("tests/python/x_delay.py", &arguments, ""));
    if let Some(run) = node("tests/javascript/x_delay.js", &arguments[..4], "") {
        assert_forms(&run);
    }
    world.until_empty("orders.compat").await;
    world.parked(0).await;
    worker.stop().await;
}

#[apply(world_test)]
async fn every_form_of_x_delay_is_kept_as_long_as_the_plugin_keeps_it_with_a_ladder() {
    forms_on(&with_ladder()).await;
}

#[apply(world_test)]
async fn every_form_of_x_delay_is_kept_as_long_as_the_plugin_keeps_it_with_levels() {
    forms_on(&with_levels()).await;
}

/// 50 days are more than the plugin takes, and less than this ladder; 61 days are more than both.
#[apply(world_test)]
async fn a_delay_above_the_limit_of_the_plugin_waits_in_a_ladder_that_goes_so_far() {
    let topology = with_ladder().replace("max = \"1h\"", "max = \"60d\"");
    let topology = format!("{topology}\n[queues]\ntype = \"classic\"\n");
    let (world, wire) = world_of_mails(&topology).await;
    let mut worker = world.started(|_| {}).await;
    for (days, body) in [(50, "later"), (61, "at once")] {
        let ms = AMQPValue::LongLongInt(days * 86_400_000);
        wire.publish("reminders", "welcome", headers(&[("x-delay", ms)]), body.as_bytes()).await;
    }
    assert_eq!(wire.take_many("mails", 1).await[0].text(), "at once");
    worker.until_logged("x_delay_ms=5270400000").await;
    let places = world.topology.objects().queues.into_keys();
    let places: Vec<String> = places.filter(|it| it.starts_with("orders.ladder.")).collect();
    let waiting = async || {
        let mut waiting = 0;
        for place in &places {
            waiting += wire.ready(place).await;
        }
        waiting
    };
    until("it waits in the ladder", waiting, |waiting| *waiting == 1).await;
    assert_eq!(wire.take("mails").await, None);
    worker.stopped().await;
}

/// A topology that only takes the place of the plugin.
#[apply(world_test)]
async fn it_takes_no_timeout() {
    let topology =
        format!("name = \"orders\"\nqueues.type = \"classic\"\ndelay.levels = [\"1s\"]\n{COMPAT}");
    let (world, wire) = world_of_mails(&topology).await;
    let worker = world.started(|_| {}).await;
    for ms in [1_000, 1_300] {
        let published = Instant::now();
        wire.publish("reminders", "welcome", delay_of(ms), b"due").await;
        assert_eq!(wire.take_many("mails", 1).await[0].text(), "due");
        assert!(published.elapsed().as_millis() >= ms.cast_unsigned().into(), "it came early");
    }
    world.overdue(&["verify"]).exits(0);
    worker.stopped().await;
}

/// The program of the page that people find when they leave the plugin: publisher and consumer as they were.
#[apply(world_test)]
async fn a_publisher_and_a_consumer_written_for_the_plugin_run_unchanged() {
    let world = World::of(&with_ladder()).await;
    let worker = world.worker();
    let consumer = world.started_consumer();
    // It binds its queue to the old name, and the worker moves that.
    let management = world.management();
    let due = world.topology.compat_due_exchange();
    let moved = async || {
        let bindings = management.observe().await.unwrap().objects.bindings;
        let to = |source: &str| {
            bindings
                .iter()
                .any(|it| it.source == source && it.destination.starts_with("reminders-"))
        };
        to(&due) && !to("reminders")
    };
    until("the binding is where messages are due", moved, |moved| *moved).await;
    world.publish_reminders();
    assert_reminded(&consumer.await.unwrap());
    worker.stop().await;
}

/// Who may publish to the old name chooses neither routing key nor headers nor time of what the worker publishes for him.
#[apply(world_test)]
async fn a_forged_header_buys_nothing() {
    let (world, wire) = world_of_mails(&with_levels()).await;
    let worker = world.worker();
    wire.queue("refunds", &[]).await;
    wire.bind("refunds", &world.topology.compat_due_exchange(), "refund").await;
    let forged = AMQPValue::FieldTable(table(&[
        ("key", text("refund")),
        ("due-ms", AMQPValue::LongLongInt(1)),
        ("headers", AMQPValue::FieldTable(table(&[("role", text("admin"))]))),
    ]));
    for ms in [0, 1_300] {
        let headers =
            headers(&[("x-overdue-compat", forged.clone()), ("x-delay", AMQPValue::LongInt(ms))]);
        let published = Instant::now();
        wire.publish("reminders", "welcome", headers, b"forged").await;
        let mails = wire.take_many("mails", 1).await;
        assert!(published.elapsed().as_millis() >= ms.cast_unsigned().into(), "it came early");
        assert_eq!(mails[0].key, "welcome");
        assert_eq!(mails[0].headers.get("x-overdue-compat"), Some(&forged));
        assert_eq!(mails[0].headers.get("role"), None);
    }
    worker.stop().await;
    assert_eq!(wire.take("refunds").await, None);
}

/// Who may publish to the topology's own exchanges can forge the header of a message on its way. What cannot be published as that
/// says is parked once, and the others go on.
#[apply(world_test)]
async fn a_forged_header_of_a_message_on_its_way_stops_nothing() {
    let (world, wire) = world_of_mails(&with_levels()).await;
    let worker = world.worker();
    let table = |entries: &[(&str, AMQPValue)]| AMQPValue::FieldTable(table(entries));
    let forged = [
        (1, vec![], vec![("expiration", text(&"9".repeat(300)))]),
        (1, vec![], vec![("expiration", text("abc"))]),
        (1, vec![("CC", text("welcome"))], vec![]),
        (1, vec![], vec![("key", text(&"k".repeat(300)))]),
        (i64::MAX, vec![], vec![]),
    ];
    let count = forged.len();
    for (due_ms, headers, more) in forged {
        let ours = [
            ("key", text("welcome")),
            ("due-ms", AMQPValue::LongLongInt(due_ms)),
            ("headers", table(&headers)),
        ];
        let waits = [("x-overdue-compat", table(&[&ours[..], &more].concat()))];
        wire.publish("orders.dlx", "100ms.compat", self::headers(&waits), b"forged").await;
        wire.publish("reminders", "welcome", delay_of(1_300), b"as it should be").await;
    }
    let mails = wire.take_many("mails", count).await;
    assert!(mails.iter().all(|it| it.text() == "as it should be"));
    world.parked(count).await;
    world.until_empty("orders.compat").await;
    worker.stop().await;
    assert_eq!(wire.take("mails").await, None, "nothing was published again");
}

/// At the old name messages come early, so a binding there is moved; nobody is asked without a terminal.
#[apply(world_test)]
async fn exit_plugin_moves_a_binding_and_asks_before() {
    let (world, wire) = World::of(&with_levels()).await.wired().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", "reminders", "welcome").await;
    let early = async || world.management().early_bindings(&world.topology).await.unwrap();

    let bind = ["exit-plugin", "reminders", "--bind"];
    world
        .overdue(&bind)
        .exits(64)
        .prints("move reminders -> mails by \"welcome\" to orders.compat.due -> mails");
    assert_eq!(early().await.len(), 1);

    let shown = world.overdue(&["exit-plugin", "reminders", "-o", "json"]).json();
    assert_eq!((&shown["state"], &shown["in_topology"]), (&"taken_over".into(), &true.into()));
    assert_eq!(shown["bindings"][0]["destination"], "mails", "{shown}");
    world.overdue(&[&bind[..], &["--yes"]].concat()).exits(0);
    assert_eq!(early().await, []);
    // Nothing is left to ask about.
    world.overdue(&bind).exits(0);

    let run = world.overdue(&["exit-plugin", "remainders", "--bind", "--yes"]).exits(1);
    assert!(run.stderr.contains("has no exchange remainders"), "{run}");
    let before = world.management().observe().await.unwrap().objects;
    world.overdue(&["exit-plugin", "orders.in", "--bind", "--yes"]).exits(1);
    assert_eq!(world.management().observe().await.unwrap().objects, before);
}

/// What another exchange sends to the plugin's is copied to `orders.compat.in` while that leads nowhere; `apply` makes what
/// stands behind it, and keeps the copy.
#[apply(world_test)]
async fn what_led_to_the_plugins_exchange_leads_to_what_takes_its_place() {
    let world = World::empty().await;
    std::fs::write(world.topology_file(), with_levels()).unwrap();
    let topology = Topology::parse(&with_levels()).unwrap();
    let entry = topology.compat_in_exchange();
    let (management, wire) = (world.management(), world.wire().await);
    for name in [&entry, &topology.mark_exchange()] {
        let exchange = topology.objects().exchanges[name].clone();
        management.apply(&Change::CreateExchange(exchange)).await.unwrap();
    }
    management.apply(&Change::Bind(topology.exchange_mark(&entry).unwrap())).await.unwrap();
    world.exchange("events", "topic", serde_json::json!({})).await;
    let copy = Binding {
        source: "events".to_owned(),
        destination: entry,
        to_queue: false,
        routing_key: "#".to_owned(),
        arguments: BTreeMap::new(),
    };
    management.apply(&Change::Bind(copy.clone())).await.unwrap();
    assert!(wire.publish("events", "welcome", delay_of(500), b"by the old way").await.is_ack());

    world.overdue(&["apply", "--yes"]).exits(0);
    assert!(management.observe().await.unwrap().objects.bindings.contains(&copy));
    wire.queue("mails", &[]).await;
    wire.bind("mails", &topology.compat_due_exchange(), "welcome").await;
    wire.publish("events", "welcome", delay_of(1_000), b"by the new one").await;
    assert_eq!(wire.take_many("mails", 1).await[0].text(), "by the new one");
    world.parked(0).await;
    world.overdue(&["verify"]).exits(0);
}

/// A worker that stops gives back what it keeps, and the next one keeps it for the rest.
#[apply(world_test)]
async fn what_a_worker_keeps_outlives_it() {
    let (world, wire) = world_of_mails(&with_levels()).await;
    let published = Instant::now();
    // Steps of a second, and the rest: the second worker still has some to make where something takes long.
    wire.publish("reminders", "welcome", delay_of(4_900), b"kept").await;
    for _ in 0..2 {
        let worker = world.worker();
        let taken = async || worker.counts().put_back;
        until("a step was made", taken, |put_back| *put_back > 0).await;
        worker.stop().await;
    }
    let worker = world.worker();
    let mails = wire.take_many("mails", 1).await;
    assert!(published.elapsed() >= Duration::from_millis(4_900)); // data: its delay
    assert_eq!((mails[0].key.as_str(), mails[0].text().as_str()), ("welcome", "kept"));
    assert_eq!(mails[0].headers.get("x-delay"), Some(&AMQPValue::LongInt(4_900)));
    worker.stop().await;
    assert_eq!(wire.take("mails").await, None);
}

/// Killed while copies are on their way, confirmed or not: a message may come twice, none is missing, none is early.
#[apply(world_test)]
async fn killed_in_the_middle_nothing_is_lost_and_nothing_is_early() {
    const EACH: usize = 100;
    let (world, wire) = world_of_mails(&with_ladder()).await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let through = world.services.broker_url(&world.vhost, Some(proxy.port()));
    let mut process = world.started(|it| _ = it.env("OVERDUE_BROKER__URL", through)).await;
    let mut published = Vec::new();
    for n in 0..2 * EACH {
        published.push(Instant::now());
        wire.publish("reminders", "welcome", delay_of(DELAY_MS), n.to_string().as_bytes()).await;
        match n {
            // Of what follows neither copies nor acks get out; soon enough the broker would miss heartbeats as well.
            70 => {
                let copied =
                    async || wire.ready("orders.ladder.delay.2s").await + wire.ready("mails").await;
                until("a copy is in the ladder, or was", copied, |copied| *copied > 0).await;
                proxy.freeze_to_service();
            }
            EACH => {
                wire.until_ready("orders.compat", 0).await;
            }
            _ if n > EACH && n % 35 == 0 => {}
            _ => continue,
        }
        if n >= EACH {
            process.kill();
            process = world.started(|_| {}).await;
        }
    }
    let mut all = BTreeSet::new();
    while all.len() < published.len() {
        let came = wire.take_many("mails", 1).await.remove(0);
        let n: usize = came.text().parse().unwrap();
        let waited = published[n].elapsed();
        assert!(waited.as_millis() >= DELAY_MS.unsigned_abs().into(), "{n} after {waited:?}");
        assert_eq!(came.headers.get("x-delay"), Some(&AMQPValue::LongInt(DELAY_MS)));
        all.insert(n);
    }
    world.until_empty("orders.compat").await;
    world.parked(0).await;
}

/// A subscriber's queue that refuses keeps messages in the worker, and `/readyz` says so.
#[apply(world_test)]
async fn what_a_full_queue_refuses_is_tried_again_and_the_worker_says_so() {
    let (world, wire) = World::of(&with_levels()).await.wired().await;
    let full = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    wire.queue("mails", &full).await;
    wire.bind("mails", &world.topology.compat_due_exchange(), "welcome").await;
    let (_process, address) = world.listening(|_| {}).await;
    // No level has that delay: the broker has what goes through a level.
    for body in ["one", "two"] {
        wire.publish("reminders", "welcome", delay_of(150), body.as_bytes()).await;
    }
    let says = async || get(address, "/readyz").await.body;
    let failing = |page: &String| page.contains("orders copies");
    until("a line about copies", says, failing).await;
    assert_eq!(get(address, "/livez").await.body, "live\n");
    let mails = wire.take_many("mails", 2).await;
    assert_eq!(mails.iter().map(Parked::text).collect::<BTreeSet<_>>().len(), 2);
    let works = |page: &String| !page.contains("copies");
    until("no line about copies", says, works).await;
}

/// Both come without their being asked for: the section is taken out, nothing that waits is lost, everything goes.
#[apply(world_test)]
async fn the_section_comes_and_goes() {
    let world = World::of(TOPOLOGY).await;
    let before = world.objects().await;
    let with = Topology::parse(&with_levels()).unwrap();
    world.apply(&with).await;
    std::fs::write(world.topology_file(), with_levels()).unwrap();
    world.overdue(&["verify"]).exits(0);
    world.apply(&with).await;

    std::fs::write(world.topology_file(), TOPOLOGY).unwrap();
    // Without it, their queue stays bound for the longest level.
    let discard = ["apply", "--yes", "--wait", "--discard", "orders.compat"];
    world.overdue(&discard).exits(0);
    assert_eq!(world.objects().await, before);
}

fn delay_of(ms: i32) -> BasicProperties {
    headers(&[("x-delay", AMQPValue::LongInt(ms))])
}

fn assert_reminded(run: &Run) {
    let wanted = "waiting\nreceived now with welcome\nreceived sooner with welcome\nreceived late with welcome\n";
    assert_eq!(run.stdout, wanted, "{run}");
    let page = include_str!("../../docs/leaving-the-delayed-message-plugin.md");
    for line in wanted.lines() {
        assert!(page.lines().any(|shown| shown == line), "the page does not show: {line}");
    }
}

impl World {
    fn publish_reminders(&self) {
        let url = self.broker_url();
        // Longer than on the page: whoever is slow meanwhile changes no order.
        let input = "welcome 6500 late\nwelcome 2500 sooner\nwelcome - now\n";
        let run = python("examples/python/delayed_publisher.py", &[&url, "reminders"], input);
        let published: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(run.code, Some(0), "{run}");
        let expected = [
            "published late with welcome, x-delay 6500",
            "published sooner with welcome, x-delay 2500",
            "published now with welcome, x-delay -",
        ];
        assert_eq!(published, expected, "{run}");
        // As the page shows it: each line of input, and what is printed for it.
        let shown: Vec<String> =
            input.lines().zip(expected).map(|(line, said)| format!("{line}\n{said}\n")).collect();
        let page = include_str!("../../docs/leaving-the-delayed-message-plugin.md");
        let shown = shown.concat().replace("2500", "1000").replace("6500", "2500");
        assert!(page.contains(&shown), "the page shows another transcript");
    }

    fn started_consumer(&self) -> tokio::task::JoinHandle<Run> {
        let url = self.broker_url();
        tokio::task::spawn_blocking(move || {
            let arguments = [url.as_str(), "reminders", "welcome", "3"];
            python("examples/python/delayed_consumer.py", &arguments, "")
        })
    }
}
