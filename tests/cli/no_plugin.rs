//! The strategy `delayed-exchange` on a broker without the plugin.

use crate::support::{World, samples::DELAYED, until};

/// Commands that declare or publish report the same, with an alternative.
#[apply(world_test)]
async fn every_command_refuses_and_nothing_is_changed() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world.orders("open", 1, 1_000_000).await;
    std::fs::write(world.topology_file(), DELAYED).unwrap();
    let before = world.management().observe().await.unwrap().objects;
    for command in [
        &["plan"][..],
        &["apply", "--yes"],
        &["run"],
        &["verify"],
        &["publish", "4711", "--timeout", "unpaid"],
        &["publish", "4711", "--timeout", "unpaid", "--after", "5m"],
        &["rebuild", "--yes"],
    ] {
        let run = world.overdue(command);
        assert_eq!((run.code, run.stdout.as_str()), (Some(78), ""), "{command:?}: {run}");
        let errors = run.stderr.lines().filter(|line| line.contains("x-delayed-message"));
        assert_eq!(errors.count(), 1, "{command:?}: {run}");
        let said = world.shown(&run);
        let (_, version) = said.split_once("RabbitMQ ").unwrap();
        let version = version.split(' ').next().unwrap().to_owned();
        // 4.0 could have the plugin, so the message asks for the plugin first.
        if !version.starts_with("4.0") {
            let said = said.replace(&format!("RabbitMQ {version}"), "RabbitMQ <version>");
            insta::assert_snapshot!("what_to_do_instead", said);
        }
        // The lock's queue is deleted a moment after the end of its command.
        let objects = async || world.management().observe().await.unwrap().objects;
        until("nothing is changed", objects, |objects| *objects == before).await;
    }
    // Commands that only read continue, and name the command with the reason.
    let run = world.overdue(&["parked", "list"]).exits(78);
    assert!(
        run.stderr.contains("has no queue orders.parked") && run.stderr.contains("`overdue apply`"),
        "{run}"
    );
    let run = world.overdue(&["doctor"]).exits(2);
    let line = run.stdout.lines().find(|line| line.contains("plugins")).unwrap();
    assert!(line.contains("error") && line.contains("rabbitmq_delayed_message_exchange"), "{run}");
    assert!(run.stdout.contains("or take another strategy"), "{run}");
    world.overdue(&["status"]).exits(0);
    // Commands without a broker work as before.
    world.overdue(&["check"]).exits(0);
    let dry = ["publish", "4711", "--timeout", "unpaid", "--after", "5m", "--dry-run"];
    world.overdue(&dry).exits(0);
}
