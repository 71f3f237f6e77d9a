//! Workers requeue notices through an exchange of their own: the broker returns a notice whose level is gone.

use futures_util::future::join_all;
use overdue::internals::{
    broker::PublishError,
    order::OrderId,
    topology::{
        Topology,
        route::{Delay, Route},
    },
    wire::{DueNotice, Message},
};

use crate::support::World;

/// Levels with `1h` and without it.
const LEVELS: [&str; 2] = ["levels = [\"1m\", \"1h\"]", "levels = [\"1m\"]"];
const LADDER: [&str; 2] = [
    "strategy = \"ladder\"\n[delay.ladder]\nmax = \"1h\"",
    "strategy = \"ladder\"\n[delay.ladder]\nmax = \"50m\"",
];

fn topology(delay: &str) -> String {
    format!("name = \"orders\"\n[delay]\n{delay}\n[[timeout]]\nname = \"unpaid\"\nafter = \"1m\"\n")
}

fn notice(route: &Route) -> Message {
    let order_id = OrderId::parse(&format!("o-{:x}", rand::random::<u64>())).unwrap();
    Message::notice(route.clone(), &DueNotice { order_id, due_at: None })
}

/// During the removal of a level, each message is in the level or returned. The publishers' exchange confirms a message and parks it,
/// or is gone.
async fn each_is_held_or_returned([before, after]: [&str; 2]) {
    let world = World::applied(&topology(before)).await;
    let (wire, publisher) = (world.wire().await, world.publisher().await);
    let by_publishers = world.topology.route("unpaid", &Delay::level("1h")).unwrap();
    let again = world.topology.again(by_publishers.clone());
    let queue = again.queues[0].as_str();
    // A waiting message prevents the deletion of the queue.
    publisher.publish(notice(&again)).await.unwrap();
    let publishing = async {
        let mut held = 1;
        loop {
            let sent = (0..50).map(|_| publisher.publish(notice(&again)));
            let results = join_all(sent).await;
            held += results.iter().filter(|result| result.is_ok()).count();
            let errors: Vec<PublishError> = results.into_iter().filter_map(Result::err).collect();
            for error in &errors {
                assert!(matches!(error, PublishError::Returned { .. }), "{before}: {error}");
            }
            if errors.len() == 50 {
                return held;
            }
        }
    };
    let after = Topology::parse(&topology(after)).unwrap();
    let (held, ()) = tokio::join!(publishing, world.apply(&after));
    let held = u32::try_from(held).unwrap();
    wire.until_ready(queue, held).await;
    assert_eq!(wire.ready("orders.parked").await, 0, "{before}");
    match publisher.publish(notice(&by_publishers)).await {
        Ok(()) => drop(world.parked(1).await),
        // A place of a ladder is deleted with its exchange.
        Err(error) => assert!(matches!(error, PublishError::NoExchange { .. }), "{error}"),
    }
}

#[apply(world_test)]
async fn what_is_put_back_while_its_level_goes_is_held_or_returned() {
    join_all([LEVELS, LADDER].map(each_is_held_or_returned)).await;
}
