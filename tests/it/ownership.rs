//! What is ours on a broker is what we made: what a neighbour has under a name like ours is neither changed nor waited
//! for, and neighbours do not get in each other's way.

use lapin::{Consumer, options::BasicConsumeOptions, types::FieldTable};
use overdue::internals::{
    broker::{BrokerAddress, Management, TopologyChange},
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
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]).exits(0);
    assert_eq!(world.objects().await, before);
    insta::assert_snapshot!(world.shown(&applied));
    world.overdue(&["apply", "--yes", "--discard", "orders.refunds"]).exits(1);
    assert_eq!(world.objects().await, before);
}

#[apply(world_test)]
async fn queues_that_have_lost_their_marks_are_adopted_with_what_waits_in_them() {
    let world = applied().await;
    let marked = world.marks().await;
    assert_eq!(marked.len(), world.topology.objects().queues.len(), "{marked:?}");
    world.without_marks().await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "30m.unpaid", &["waits".to_owned()]).await;
    insta::assert_snapshot!(world.shown(&world.overdue(&["plan"])));
    world.overdue(&["verify"]).exits(0);
    world.overdue(&["apply", "--yes"]).exits(0);
    assert_eq!(world.marks().await, marked);
    assert_eq!(wire.ready("orders.delay.30m").await, 1);
    world.overdue(&["plan", "--check"]).exits(0);
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
    let noted = |run: &crate::support::Run| run.stdout.contains("1 consumer of another client");
    let planned = until("noted", look, noted).await;
    assert!(!planned.stdout.contains("- binding   orders.dlx -> orders.unpaid"), "{planned}");
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "100s"]).exits(0);
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
