//! A ladder on a real broker: any delay, and what becomes of messages when it changes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use overdue::internals::{
    config::WorkerSettings,
    order::OrderId,
    plan::Snapshot,
    topology::{Topology, route::Delay},
    wire::{DueNotice, Message},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    World,
    worker::{millis, settings},
};

const RULES: &str = "
[[timeout]]
name = \"unpaid\"
after = \"2s\"

[retry]
after = [\"1s\", \"2s\"]
";

fn text(delay: &str) -> String {
    format!("name = \"orders\"\n[delay]\n{delay}\n{RULES}")
}

fn ladder(max: &str) -> String {
    text(&format!("strategy = \"ladder\"\nladder = {{ max = \"{max}\" }}"))
}

/// With other digits, and so with other names.
fn ladder_of(max: &str, queues: u32) -> String {
    text(&format!("strategy = \"ladder\"\nladder = {{ max = \"{max}\", queues = {queues} }}"))
}

fn levels() -> String {
    text("levels = [\"1s\", \"2s\", \"3s\"]")
}

/// Delays in milliseconds, each anywhere in the range.
fn delays_ms(count: usize, range: std::ops::Range<u64>) -> Vec<u64> {
    let seed = rand::random::<u64>();
    // Shown where the test fails.
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(range.clone())).collect()
}

impl World {
    /// Orders that are due after these delays, and a notice for each, as the topology sends it.
    async fn orders_after(&self, prefix: &str, delays_ms: &[u64]) {
        const ORDERS: &str = "INSERT INTO orders (id, category, due_at) \
            SELECT $1 || n, 'x', now() + ms * interval '1 ms' FROM unnest($2::bigint[]) WITH ORDINALITY t (ms, n)";
        let ms: Vec<i64> = delays_ms.iter().map(|ms| i64::try_from(*ms).unwrap()).collect();
        let client = self.store.client().await.unwrap();
        client.execute(ORDERS, &[&format!("{prefix}-"), &ms]).await.unwrap();
        let publisher = self.publisher().await;
        let sent = delays_ms.iter().enumerate().map(|(n, ms)| {
            let delay = Delay::Exactly(Duration::from_millis(*ms));
            let order_id = OrderId::parse(&format!("{prefix}-{}", n + 1)).unwrap();
            let route = self.topology.route("unpaid", &delay).unwrap();
            publisher.publish(Message::notice(route, &DueNotice { order_id, due_at: None }))
        });
        for result in join_all(sent).await {
            result.unwrap();
        }
    }

    async fn changes_to(&mut self, text: &str) {
        std::fs::write(self.topology_file(), text).unwrap();
        self.topology = Topology::parse(text).unwrap();
        self.apply_meanwhile(&["apply", "--yes"]).await.exits(0);
    }

    /// On a thread of its own, while messages go on.
    pub(super) async fn apply_meanwhile(
        &self,
        arguments: &'static [&'static str],
    ) -> crate::support::Run {
        let command = self.command(arguments);
        let run = move || crate::support::process::finish(command, None);
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    async fn seen(&self) -> Snapshot {
        self.management().observe().await.unwrap()
    }

    /// Exactly what the topology has, but for what is foreign.
    pub(super) async fn has_exactly_the_topology(&self, foreign: &str) {
        let mut seen = self.objects().await;
        seen.exchanges
            .retain(|name, _| !name.is_empty() && !name.starts_with("amq.") && name != foreign);
        seen.bindings.retain(|it| !it.source.is_empty());
        assert_eq!(seen, self.topology.objects());
    }
}

/// Never before the due instant by the database's clock (an invariant of every world), and without another hop: the worker
/// holds what is left below a second.
#[apply(world_test)]
async fn orders_due_after_any_delay_are_closed_when_they_are_due() {
    const ORDERS: usize = 150;
    let world = World::of(&ladder("20s")).await;
    let worker = world.worker();
    world.orders_after("o", &delays_ms(ORDERS, 1_000..6_000)).await;
    world.until_closed(ORDERS).await;
    world.assert_invariants().await;
    let counts = worker.stop().await;
    assert_eq!((counts.put_back, counts.retried, counts.parked), (0, 0, 0), "{counts:?}");
}

/// A notice that is far too early goes back for the rest, by the ladder; so does a retry.
#[apply(world_test)]
async fn early_notices_and_retries_wait_in_the_ladder() {
    let (world, wire) = World::of(&ladder("20s")).await.wired().await;
    let early = world.orders("early", 20, 7_500).await;
    let through = wire.listen("orders.ladder.again", "#").await;
    let worker = world.worker_with(WorkerSettings { hold: millis("900ms"), ..settings() });
    wire.publish_all("orders.dlx", "0.unpaid", &early).await;
    wire.publish_all("orders.dlx", "0.unpaid", &["nobody".to_owned()]).await;
    world.until_closed(20).await;
    world.assert_invariants().await;
    let parked = world.parked(1).await;
    assert!(parked[0].reason().ends_with("given up after 2 retries"), "{:?}", parked[0]);
    let counts = worker.stop().await;
    assert!(counts.put_back >= 20 && counts.retried == 2, "{counts:?}");
    let keys: Vec<String> = wire.take_all(&through).await.into_iter().map(|it| it.key).collect();
    // The rest when they are asked for is some seconds, and a retry's is one.
    let at_first = |key: &&String| key.ends_with(".unpaid") && **key != "1.unpaid";
    assert!(keys.iter().filter(at_first).count() >= 20, "{keys:?}");
    assert!(keys.contains(&"1.unpaid".to_owned()), "retries: {keys:?}");
}

/// The copies are refused; their orders are asked for again and again, and closed at their deadline.
#[apply(world_test)]
async fn orders_whose_copies_are_refused_are_closed_on_time() {
    let (world, wire) = World::of(&ladder("9s")).await.wired().await;
    let mut process = world.started(|it| _ = it.env("OVERDUE_WORKER__HOLD", "500ms")).await;
    world.call(Method::DELETE, "exchanges", &["orders.ladder.again"], Value::Null).await;
    // Early enough that there is a rest when they are asked for, however slow the machine is.
    let early = world.orders("early", 20, 8_000).await;
    wire.publish_all("orders.dlx", "0.unpaid", &early).await;
    process.until_logged("messages wait: the broker has not confirmed their copies").await;
    assert!(process.log().contains("no exchange `orders.ladder.again`"), "{}", process.log());
    world.until_closed(20).await;
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
}

/// More, other digits, levels, and back, with messages waiting in each and a publisher that knows only the last.
#[apply(world_test)]
async fn a_ladder_that_changes_and_goes_loses_nothing_that_waits() {
    const EACH: usize = 60;
    let mut world = World::of(&ladder("10s")).await;
    let wire = world.wire().await;
    let foreign = "orders.ladder.zz";
    world.exchange(foreign, "topic", json!({})).await;
    let mut worker = world.worker();
    let mut went_elsewhere = 0;
    let changes = [ladder_of("70s", 16), levels(), ladder("10s")];
    world.orders_after("first", &delays_ms(EACH, 1_000..10_000)).await;
    for (n, change) in changes.iter().enumerate() {
        world.changes_to(change).await;
        went_elsewhere += worker.stop().await.parked;
        worker = world.worker();
        world.orders_after(&format!("o{n}"), &delays_ms(EACH, 1_000..9_000)).await;
    }
    let all = EACH * (changes.len() + 1);
    world.apply_meanwhile(&["apply", "--yes", "--wait"]).await.exits(0);
    world.until_closed(all).await;
    world.assert_invariants().await;
    // Copies for a place that went since the worker's last look: the originals have waited elsewhere, and nobody sweeps.
    went_elsewhere += worker.stop().await.parked;
    let copies = wire.take_all("orders.parked").await;
    assert!(u64::try_from(copies.len()).unwrap() <= went_elsewhere, "{copies:?}");
    assert!(copies.iter().all(|copy| copy.reason().is_empty()), "{copies:?}");
    world.has_exactly_the_topology(foreign).await;
    assert!(world.seen().await.objects.exchanges.contains_key(foreign));
}

/// What has nowhere to go is parked, and stands in nobody's way.
#[apply(world_test)]
async fn messages_for_no_queue_hold_up_none_of_a_hundred_good_ones() {
    /// More than twice as many as the broker of the tests has slots.
    const LOST: u32 = 2_500;
    let (_world, wire) = World::of(&ladder("10s")).await.wired().await;
    let good = wire.listen("orders.dlx", "#.unpaid").await;
    let bodies: Vec<String> = (0..LOST).map(|n| n.to_string()).collect();
    wire.publish_all("orders.ladder.1s", "1.nobody", &bodies).await;
    let published = Instant::now();
    wire.publish_all("orders.ladder.1s", "2.unpaid", &bodies[..100]).await;
    let arrived = wire.take_many(&good, 100).await;
    let waited = published.elapsed();
    assert_eq!(arrived.len(), 100);
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    // If they were held up, the broker would try again as many as it has slots every three minutes.
    wire.until_ready("orders.parked", LOST).await;
}
