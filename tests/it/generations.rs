//! A worker follows the generations of its queue, even without access to the management API.

use overdue::internals::{objects::Binding, plan::Change, topology::Topology};

use super::health::until_not_ready;
use crate::support::{World, until};

const BEFORE: &str = r#"
name = "orders"
delay.levels = ["100ms"]
queues.delivery_limit = 20
timeout = [{ name = "unpaid", after = "100ms" }]
"#;

/// The rights of a worker's user.
const RIGHTS: [&str; 3] = ["^$", r"^orders\.(again|events|park)$", r"^orders\.unpaid(\.[0-9]+)?$"];

#[apply(world_test)]
async fn a_worker_without_the_management_tag_finds_the_queue_that_took_the_place_of_its_own() {
    let mut world = World::of(BEFORE).await;
    let [broker, management] = world.broker_user("", Some(RIGHTS)).await;
    let mut worker = world.start(|command| {
        command
            .arg("--no-declare")
            .env("OVERDUE_BROKER__URL", broker)
            .env("OVERDUE_BROKER__MANAGEMENT_URL", management);
    });
    worker.until_logged("worker ready").await;
    world.publish_orders("100ms", "first", 1, 0).await;
    world.until_closed(1).await;

    let text = BEFORE.replace("20", "30");
    std::fs::write(world.topology_file(), &text).unwrap();
    world.topology = Topology::parse(&text).unwrap();
    world.overdue(&["apply", "--yes"]).exits(0).prints("+ queue     orders.unpaid.2");
    world.publish_orders("100ms", "second", 1, 0).await;
    world.until_closed(2).await;
    // The same session consumes the new queue.
    assert_eq!(worker.logged("worker ready"), 1, "{}", worker.log());
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
    assert!(worker.is_running());
    world.assert_invariants().await;
}

/// The queue has changed nine times; the older generations are gone.
#[apply(world_test)]
async fn a_worker_that_finds_none_of_its_queues_is_not_ready_and_says_what_to_do() {
    let world = World::of(BEFORE).await;
    let (management, mut objects) = (world.management(), world.own_objects().await);
    let mut queue = objects.queues.remove("orders.unpaid").unwrap();
    queue.name = "orders.unpaid.10".to_owned();
    management.apply(&Change::CreateQueue(queue)).await.unwrap();
    for it in objects.bindings.iter().filter(|it| it.destination == "orders.unpaid") {
        let binding = Binding { destination: "orders.unpaid.10".to_owned(), ..it.clone() };
        management.apply(&Change::Bind(binding)).await.unwrap();
    }
    world.delete("queues", "orders.unpaid").await;
    let before = world.own_objects().await;
    let applied = world.overdue(&["apply", "--yes"]).exits(0);
    assert_eq!(world.own_objects().await, before, "it is the queue in use: {applied}");

    let [broker, management] = world.broker_user("", Some(RIGHTS)).await;
    let mut worker = world.start(|command| {
        command
            .arg("--no-declare")
            .env("OVERDUE_WORKER__LISTEN", "127.0.0.1:0")
            .env("OVERDUE_WORKER__WATCH_EVERY", "100ms")
            .env("OVERDUE_BROKER__URL", broker)
            .env("OVERDUE_BROKER__MANAGEMENT_URL", management);
    });
    let address = worker.listens_at().await;
    until_not_ready(address, "consuming: nothing is consumed for timeout unpaid. The management")
        .await;
    let _with_tag = world.started(|_| {}).await;
    world.publish_orders("100ms", "o", 1, 0).await;
    world.until_closed(1).await;
    world.assert_invariants().await;
}

/// The worker's old queue drains next to the one in use. The worker consumes both, and adds no second binding, which would duplicate
/// each message.
#[apply(world_test)]
async fn a_worker_with_the_file_from_before_binds_no_queue_that_was_replaced() {
    let world = World::of(BEFORE).await;
    world.publish_orders("100ms", "first", 10, 0).await;
    let waits = async || world.management().observe().await.unwrap().messages_in("orders.unpaid");
    until("all of it is due", waits, |messages| *messages == Some(10)).await;
    world.apply(&Topology::parse(&BEFORE.replace("20", "30")).unwrap()).await;
    let before = world.own_objects().await;
    assert!(before.queues.contains_key("orders.unpaid.2"));
    let mut worker = world.started(|_| {}).await;
    worker.until_logged("the broker has these queues in use").await;
    world.publish_orders("100ms", "second", 10, 0).await;
    world.until_closed(20).await;
    assert_eq!(world.own_objects().await, before);
    world.assert_invariants().await;
}
