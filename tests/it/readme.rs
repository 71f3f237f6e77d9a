//! README.md: its commands, its statement and its message work for a shop of bookings.

use lapin::BasicProperties;

use crate::{
    page::{blocks, read, run_commands, run_statement},
    support::{World, until},
};

#[apply(world_test)]
async fn every_block_of_the_readme_runs() {
    let world = World::empty().await;
    std::fs::remove_file(world.topology_file()).unwrap();
    world
        .sql(
            "CREATE TABLE events (event_id bigint PRIMARY KEY, seats_free integer NOT NULL);
             CREATE TABLE bookings (
                 booking_no  bigint PRIMARY KEY,
                 event_id    bigint NOT NULL REFERENCES events,
                 seats       integer NOT NULL,
                 state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'paid', 'expired')),
                 hold_until  timestamptz NOT NULL
             );
             CREATE INDEX ON bookings (hold_until, booking_no) WHERE state = 'pending';
             INSERT INTO events VALUES (7, 100);
             INSERT INTO bookings VALUES (1, 7, 1, 'pending', '2099-01-01')",
        )
        .await;
    let wire = world.wire().await;
    let (mut worker, mut kinds) = (None, Vec::new());
    let notices = async || wire.ready("bookings.delay.30m").await;
    for (language, text) in blocks("README.md") {
        match language.as_str() {
            "sh" => drop(run_commands(&world, &text, &mut worker).await),
            "sql" => {
                run_statement(&world, &text).await;
                until("the notice waits", notices, |ready| *ready == 1).await;
                let due =
                    "SELECT count(*) FROM bookings WHERE hold_until <= now() + interval '30 min'";
                assert_eq!(world.number(due).await, 1);
            }
            // A picture, and the output of `overdue status`.
            "mermaid" | "text" => {}
            other => panic!("a block that nobody runs: {other}"),
        }
        kinds.push(language);
    }
    assert_eq!(kinds, ["mermaid", "sh", "sh", "sql", "text"]);
    let body = r#"{"order_id": 4711}"#;
    assert!(
        read("README.md").contains(&format!("`{body}`")),
        "the message that a service publishes"
    );
    wire.publish("bookings.in", "30m.unpaid", BasicProperties::default(), body.as_bytes()).await;
    until("both wait", notices, |ready| *ready == 2).await;
    let worker = worker.expect("README runs a worker");
    assert!(!worker.log().contains("ERROR"), "{}", worker.log());
}
