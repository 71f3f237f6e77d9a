//! A change of the strategy under load: orders are created, published and due meanwhile.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use overdue::internals::{
    order::OrderId,
    topology::{Topology, route::Delay},
    wire::{DueNotice, Message},
};
use tokio::sync::watch;

use super::delayed::RULES;
use crate::support::{World, process::LATE_COUNTS, until};

/// Orders at once; with [`EVERY`] 200/s.
const AT_ONCE: usize = 4;
const EVERY: Duration = Duration::from_millis(20);
/// The least number of orders with each topology: a second and a half of them.
const WITH_EACH: usize = 300;

fn text(delay: &str) -> String {
    format!("name = \"orders\"\n[delay]\n{delay}\n{RULES}")
}

/// A service that publishes with the current topology until it is stopped.
struct Service {
    topology: watch::Sender<Option<Topology>>,
    published: AtomicUsize,
}

impl Service {
    fn new(topology: &Topology) -> Self {
        let (topology, _) = watch::channel(Some(topology.clone()));
        Self { topology, published: AtomicUsize::new(0) }
    }

    /// Publishes orders that are due after a second to three; each publish must succeed.
    async fn run(&self, world: &World) {
        const ORDERS: &str = "INSERT INTO orders (id, category, due_at) \
            SELECT id, 'x', now() + ms * interval '1 ms' FROM unnest($1::text[], $2::bigint[]) t (id, ms)";
        let client = world.store.client().await.unwrap();
        let publisher = world.publisher().await;
        let mut tick = tokio::time::interval(EVERY);
        let topology = || self.topology.borrow().clone();
        while let Some(topology) = topology() {
            tick.tick().await;
            let first = self.published.load(Ordering::Relaxed);
            let delays: Vec<i64> = (0..AT_ONCE).map(|_| rand::random_range(1_000..3_000)).collect();
            let ids: Vec<String> = (first..first + AT_ONCE).map(|n| format!("o-{n}")).collect();
            client.execute(ORDERS, &[&ids, &delays]).await.unwrap();
            let sent = ids.iter().zip(&delays).map(|(id, ms)| {
                let delay = Delay::Exactly(Duration::from_millis(u64::try_from(*ms).unwrap()));
                let route = topology.route("unpaid", &delay).unwrap();
                let notice = DueNotice { order_id: OrderId::parse(id).unwrap(), due_at: None };
                publisher.publish(Message::notice(route, &notice))
            });
            for result in join_all(sent).await {
                result.unwrap();
            }
            self.published.fetch_add(AT_ONCE, Ordering::Relaxed);
        }
    }

    async fn publishes_with(&self, text: &str) {
        self.topology.send_replace(Some(Topology::parse(text).unwrap()));
        let before = self.published.load(Ordering::Relaxed);
        let published = async || self.published.load(Ordering::Relaxed);
        until("it publishes", published, |published| *published >= before + WITH_EACH).await;
    }
}

/// The procedure of docs/apply.md: both strategies exist while the services change from one to the other.
#[apply(world_test)]
async fn levels_to_a_ladder_and_back_with_a_live_publisher() {
    let levels = text("levels = [\"1s\", \"2s\"]");
    let ladder = text("strategy = \"ladder\"\nladder = { max = \"10s\" }");
    let both = text("strategy = \"ladder\"\nladder = { max = \"10s\" }\nlevels = [\"1s\", \"2s\"]");
    let mut world = World::of(&levels).await;
    let service = Service::new(&world.topology);
    let changing = async {
        let mut worker = world.started(|_| {}).await;
        service.publishes_with(&levels).await;
        let changes = [(&both, &ladder), (&ladder, &ladder), (&both, &levels), (&levels, &levels)];
        for (topology, published_with) in changes {
            std::fs::write(world.topology_file(), topology).unwrap();
            world.apply_meanwhile(&["apply", "--yes"]).await.exits(0);
            let old = std::mem::replace(&mut worker, world.started(|_| {}).await);
            old.signal("TERM");
            service.publishes_with(published_with).await;
        }
        service.topology.send_replace(None);
        worker
    };
    let (worker, ()) = tokio::join!(changing, service.run(&world));
    let published = service.published.load(Ordering::Relaxed);
    world.until_closed(published).await;
    world.assert_invariants().await;
    // A stalled worker leaves many due orders: their messages begin a burst, which closes orders ahead.
    let by_message = "SELECT count(*) FROM closures WHERE path IN ('message', 'burst')";
    assert_eq!(world.number(by_message).await, i64::try_from(published).unwrap());
    world.parked(0).await;
    world.overdue_with(&["apply", "--yes", "--wait"], &[LATE_COUNTS]).exits(0);
    world.topology = Topology::parse(&levels).unwrap();
    assert_eq!(world.own_objects().await, world.topology.objects());
    drop(worker);
}
