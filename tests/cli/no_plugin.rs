//! The strategy `delayed-exchange` on a broker without the plugin.

use crate::support::World;

const DELAYED: &str = "
name = \"orders\"

[delay]
strategy = \"delayed-exchange\"

[[timeout]]
name = \"unpaid\"
after = \"30m\"

[retry]
after = [\"1m\"]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_refuses_and_nothing_is_changed() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    std::fs::write(world.topology_file(), DELAYED).unwrap();
    let before = world.management().observe().await.unwrap().objects;
    for command in [&["plan"][..], &["apply", "--yes"], &["run"], &["verify"]] {
        let run = world.overdue(command);
        assert_eq!(run.code, Some(78), "{command:?}: {run}");
        let errors = run.stderr.lines().filter(|line| line.contains("x-delayed-message"));
        assert_eq!(errors.count(), 1, "{command:?}: {run}");
        assert_eq!(world.management().observe().await.unwrap().objects, before);
    }
}
