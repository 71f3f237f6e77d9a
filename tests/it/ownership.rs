//! What is ours on a broker is what we made: what a neighbour has under a name like ours is neither changed nor waited
//! for, and neighbours do not get in each other's way.

use lapin::{Consumer, options::BasicConsumeOptions, types::FieldTable};
use overdue::internals::{
    broker::{BrokerAddress, Management, TopologyChange},
    objects::Objects,
    topology::Topology,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{Wire, World, samples::TWO_TIMEOUTS, until};

async fn applied() -> World {
    World::applied(TWO_TIMEOUTS).await
}

impl World {
    /// Writes another topology file.
    fn rewrite(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.topology_file()).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(self.topology_file(), text.replace(from, to)).unwrap();
    }

    async fn until_it_counts(&self, queue: &str, messages: u64) {
        let counted = async || self.management().observe().await.unwrap().messages_in(queue);
        until("counted", counted, |count| *count == Some(messages)).await;
    }

    /// As whoever deletes an exchange that nothing is published to.
    async fn without_marks(&self) {
        self.delete("exchanges", "orders.owned").await;
    }

    async fn marks(&self) -> Vec<String> {
        let objects = self.objects().await;
        let marks = objects.bindings.iter().filter(|binding| binding.mark_of().is_some());
        marks.map(|mark| format!("{} {}", mark.destination, mark.routing_key)).collect()
    }
}

/// Its consumer goes when it is dropped.
async fn consume(wire: &Wire, queue: &str) -> Consumer {
    let options = BasicConsumeOptions::default();
    let none = FieldTable::default();
    wire.channel.basic_consume(queue.into(), "".into(), options, none).await.unwrap()
}

#[apply(world_test)]
async fn a_neighbours_queue_with_a_name_like_ours_is_left_alone() {
    let world = applied().await;
    world.queue("orders.refunds", json!({ "x-dead-letter-exchange": "orders.park" })).await;
    world.queue("orders.delay.7m", json!({ "x-dead-letter-exchange": "orders.dlx" })).await;
    // It has every argument that a level of the topology has, and is not bound as one.
    let arguments = json!({
        "x-queue-type": "quorum", "x-dead-letter-exchange": "orders.dlx", "x-message-ttl": 480_000,
        "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
    });
    world.queue("orders.delay.8m", arguments).await;
    // Bound as ours would be: it is one of its arguments that ours do not have.
    let arguments = json!({ "x-dead-letter-exchange": "orders.park", "x-max-length": 5 });
    world.queue("orders.returns", arguments).await;
    world.bind("orders.dlx", "orders.returns", "#.returns").await;
    let before = world.objects().await;
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert_eq!(world.objects().await, before);
    insta::assert_snapshot!(world.shown(&applied));
    let refused = world.overdue(&["apply", "--yes", "--discard", "orders.refunds"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert_eq!(world.objects().await, before);
}

#[apply(world_test)]
async fn a_topology_whose_name_begins_with_ours_makes_no_saved_plan_stale() {
    let world = applied().await;
    let theirs = TWO_TIMEOUTS.replace("\"orders\"", "\"orders.eu\"");
    world.apply(&Topology::parse(&theirs).unwrap()).await;
    world.rewrite("30m", "40m");
    let saved = world.overdue(&["plan", "--save", "plan.json"]);
    assert_eq!(saved.code, Some(0), "{saved}");
    let theirs = Topology::parse(&theirs.replace("30m", "50m")).unwrap();
    world.apply(&theirs).await;
    let owned = |objects: &Objects| {
        let queues = objects.queues.keys().filter(|queue| queue.starts_with("orders.eu."));
        queues.cloned().collect::<Vec<_>>()
    };
    let before = owned(&world.objects().await);
    let applied = world.overdue(&["apply", "plan.json", "--wait", "--yes"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert_eq!(owned(&world.objects().await), before);
    assert!(!world.objects().await.queues.contains_key("orders.delay.30m"));
}

#[apply(world_test)]
async fn queues_that_have_lost_their_marks_are_adopted_with_what_waits_in_them() {
    let world = applied().await;
    let marked = world.marks().await;
    assert_eq!(marked.len(), world.topology.objects().queues.len(), "{marked:?}");
    world.without_marks().await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "30m.unpaid", &["waits".to_owned()]).await;
    let planned = world.overdue(&["plan"]);
    insta::assert_snapshot!(world.shown(&planned));
    assert_eq!(world.overdue(&["verify"]).code, Some(0));
    let applied = world.overdue(&["apply", "--yes"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert_eq!(world.marks().await, marked);
    assert_eq!(wire.ready("orders.delay.30m").await, 1);
    assert_eq!(world.overdue(&["plan", "--check"]).code, Some(0));
}

#[apply(world_test)]
async fn a_queue_that_has_lost_its_mark_is_retired_once_somebody_marks_it() {
    let world = applied().await;
    world.without_marks().await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "3s.unpaid", &["waits".to_owned()]).await;
    world.rewrite("\"3s\"", "\"4s\"");
    let left = world.overdue(&["apply", "--yes"]);
    assert_eq!(left.code, Some(0), "{left}");
    let before = world.objects().await;
    let is_bound = |objects: &Objects| {
        objects
            .bindings
            .iter()
            .any(|it| it.destination == "orders.delay.3s" && it.source == "orders.in")
    };
    assert!(is_bound(&before), "{left}");
    assert!(left.stdout.contains("bind it to orders.owned by delay/3s and apply again"), "{left}");
    world.bind("orders.owned", "orders.delay.3s", "delay/3s").await;
    let retired = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]);
    assert_eq!(retired.code, Some(0), "{retired}");
    assert!(!world.objects().await.queues.contains_key("orders.delay.3s"), "{retired}");
    assert_eq!(wire.ready("orders.unpaid").await, 1);
}

/// The management API as it is, but for one question.
async fn answering(world: &World, status: &str, body: &str) -> Management {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut url = world.services.management.clone();
    let service = format!("{}:{}", url.host_str().unwrap(), url.port_or_known_default().unwrap());
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    tokio::spawn(async move {
        loop {
            let (mut program, _) = listener.accept().await.unwrap();
            let (answer, service) = (answer.clone(), service.clone());
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(program.read_u8().await?);
                }
                if head.windows(16).any(|part| part == b"consumer_details") {
                    return program.write_all(answer.as_bytes()).await;
                }
                head.truncate(head.len() - 2);
                head.extend(b"connection: close\r\n\r\n");
                let mut service = TcpStream::connect(service).await?;
                service.write_all(&head).await?;
                tokio::io::copy(&mut service, &mut program).await.map(drop)
            });
        }
    });
    let broker = world.broker_url();
    Management::new(&BrokerAddress::parse(&broker, Some(url.as_str())).unwrap()).unwrap()
}

/// A queue that somebody reads would be deleted for an answer that did not come.
#[apply(world_test)]
async fn consumers_that_are_not_known_are_not_taken_for_none() {
    let world = applied().await;
    let wire = world.wire().await;
    let _consumer = consume(&wire, "orders.delay.30m").await;
    let later = Topology::parse(&TWO_TIMEOUTS.replace("30m", "40m")).unwrap();
    for (status, body, known) in [
        ("200 OK", r#"{"consumer_details":[]}"#, true),
        ("404 Not Found", "{}", true),
        ("200 OK", "{}", false),
        ("200 OK", "<html>", false),
        ("401 Unauthorized", "{}", false),
        ("500 Internal Server Error", "{}", false),
        ("503 Service Unavailable", "", false),
    ] {
        let management = answering(&world, status, body).await;
        let planned = TopologyChange::new(&management, &later).plan().await;
        assert_eq!(planned.is_ok(), known, "{status} {body}: {planned:?}");
    }
}

/// A generation is another's queue unless it has our mark, whatever its name is.
#[apply(world_test)]
async fn a_worker_consumes_no_generation_that_is_not_ours() {
    let world = applied().await;
    world.store.init(&world.schema, true).await.unwrap();
    world.queue("orders.unpaid.2", json!({})).await;
    world.queue("orders.unpaid.3", json!({})).await;
    world.bind("orders.owned", "orders.unpaid.3", "business/unpaid").await;
    let worker = world.started(|_| {}).await;
    let wire = world.wire().await;
    for queue in ["orders.unpaid.2", "orders.unpaid.3"] {
        wire.publish_all("", queue, &["not a notice".to_owned()]).await;
    }
    world.until_empty("orders.unpaid.3").await;
    assert_eq!(wire.ready("orders.unpaid.2").await, 1, "{}", worker.log());
}

#[apply(world_test)]
async fn a_queue_that_somebody_else_consumes_is_not_retired() {
    let world = applied().await;
    let wire = world.wire().await;
    let consumer = consume(&wire, "orders.unpaid").await;
    world.rewrite("type = \"quorum\"", "type = \"quorum\"\ndelivery_limit = 7");
    let look = async || world.overdue(&["plan"]);
    let noted = |run: &crate::support::Run| run.stdout.contains("1 consumer of somebody else");
    let planned = until("noted", look, noted).await;
    assert!(!planned.stdout.contains("- binding   orders.dlx -> orders.unpaid"), "{planned}");
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    let objects = world.objects().await;
    assert!(objects.queues.contains_key("orders.unpaid"), "{applied}");
    assert!(
        objects
            .bindings
            .iter()
            .any(|it| it.destination == "orders.unpaid" && it.source == "orders.dlx")
    );
    drop((consumer, wire));
    let gone = |run: &crate::support::Run| run.stdout.contains("- queue     orders.unpaid\n");
    until("gone", async || world.overdue(&["plan"]), gone).await;
}

#[apply(world_test)]
async fn an_exchange_with_a_name_like_ours_is_foreign_and_waited_for_by_nobody() {
    let world = applied().await;
    world.exchange("orders.legacy", "topic", json!({})).await;
    world.bind("orders.legacy", "orders.delay.30m", "#").await;
    world.rewrite("30m", "40m");
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    let says = "more to come from exchange orders.legacy, which is not ours";
    assert!(applied.stdout.contains(says), "{applied}");
    assert!(world.objects().await.queues.contains_key("orders.delay.30m"));
}

/// What waits for it comes out where a worker with the old file consumes it, and only then it is removed.
#[apply(world_test)]
async fn a_timeout_is_removed_without_loss() {
    // Long enough that the broker counts what waits there, and that it still waits when the plan is made.
    let text = TWO_TIMEOUTS.replace("\"3s\"", "\"15s\"");
    let world = World::applied(&text).await;
    let wire = world.wire().await;
    let bodies: Vec<String> = (0..40).map(|number| format!("order {number}")).collect();
    world.rewrite("[[timeout]]\nname = \"unshipped\"\nafter = \"15s\"\n", "");
    wire.publish_all("orders.in", "15s.unshipped", &bodies).await;
    world.until_it_counts("orders.delay.15s", 40).await;
    let first = world.overdue(&["apply", "--yes"]);
    assert_eq!(first.code, Some(0), "{first}");
    assert!(first.stdout.contains("~ queue     orders.unshipped  (leaves)"), "{first}");
    assert!(first.stdout.ends_with("applied 1 of 1 steps\n"), "{first}");
    let out = async || wire.ready("orders.unshipped").await;
    until("out", out, |ready| *ready == 40).await;
    world.until_it_counts("orders.unshipped", 40).await;
    // Again, and with nobody who consumes them: nothing is lost, and nothing waits for ever.
    let waited = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]);
    assert_eq!(waited.code, Some(0), "{waited}");
    let stays = "stays: ~ queue     orders.unshipped  40 messages that no worker";
    assert!(waited.stdout.contains(stays), "{waited}");
    let taken = wire.take_all("orders.unshipped").await;
    let taken: Vec<String> = taken.iter().map(crate::support::messages::Parked::text).collect();
    assert_eq!(taken, bodies);
    world.until_it_counts("orders.unshipped", 0).await;
    let last = world.overdue(&["apply", "--yes"]);
    assert_eq!(last.code, Some(0), "{last}");
    let objects = world.objects().await;
    assert!(!objects.queues.contains_key("orders.unshipped"), "{last}");
    assert!(!objects.bindings.iter().any(|it| it.destination == "orders.unshipped"));
    assert_eq!(wire.ready("orders.parked").await, 0);
    assert_eq!(world.overdue(&["plan", "--check"]).code, Some(0));
}

/// Neither what waits in the queue of the timeout nor what is to be unbound is a worker's business.
#[apply(world_test)]
async fn a_worker_starts_before_the_removal_of_a_timeout_is_applied() {
    let mut world = applied().await;
    world.store.init(&world.schema, true).await.unwrap();
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unshipped", &["waits".to_owned()]).await;
    world.rewrite("[[timeout]]\nname = \"unshipped\"\nafter = \"3s\"\n", "");
    let text = std::fs::read_to_string(world.topology_file()).unwrap();
    world.topology = Topology::parse(&text).unwrap();
    let before = world.objects().await;
    let mut worker = world.started(|_| {}).await;
    assert!(worker.is_running());
    assert_eq!(world.objects().await.bindings, before.bindings);
    assert_eq!(wire.ready("orders.unshipped").await, 1);
}

#[apply(world_test)]
async fn a_renamed_topology_names_what_the_old_name_left() {
    let world = applied().await;
    world.rewrite("\"orders\"", "\"shop\"");
    let planned = world.overdue(&["plan"]);
    assert!(
        planned.stdout.contains("? topology  orders\n        it has 6 queues here"),
        "{planned}"
    );
    let found = world.overdue(&["apply", "--yes"]);
    assert_eq!(found.code, Some(0), "{found}");
    assert!(world.objects().await.queues.contains_key("orders.unpaid"));
}
