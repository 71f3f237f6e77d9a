//! `overdue verify` reads each kind of fact from a real broker. `tests/pure/verify` tests
//! the findings.

mod printed;
mod probes;
mod stuck;

use lapin::{options::BasicConsumeOptions, types::FieldTable};
use overdue::internals::{broker::PublishError, plan::QueueStats, wire::Message};
use reqwest::Method;
use serde_json::json;

use crate::support::{Run, Services, World, samples::TWO_TIMEOUTS, until};

/// A world with the declared topology.
pub(crate) async fn applied() -> World {
    World::applied(TWO_TIMEOUTS).await
}

/// A world with nothing on the broker.
pub(crate) async fn empty() -> World {
    World::bare(Services::main(), TWO_TIMEOUTS).await
}

impl World {
    /// Runs `overdue verify`, which must find something; returns severity, rule and subject of each finding.
    fn findings(&self) -> Vec<String> {
        let run = self.overdue(&["verify", "-o", "json"]).exits(2);
        run.findings()
    }

    /// Binds an exchange to another one.
    async fn lead(&self, source: &str, to: &str, key: &str) {
        let path = ["e", source, "e", to];
        self.call(Method::POST, "bindings", &path, json!({ "routing_key": key })).await;
    }
}

/// Other objects, and a policy on a queue that has only a similar name.
#[apply(world_test)]
async fn nothing_is_found_beside_objects_of_others() {
    let world = applied().await;
    world.exchange("orders", "topic", json!({})).await;
    world.queue("orders.report", json!({})).await;
    world.bind("orders", "orders.report", "#").await;
    // Any client may listen to events.
    world.bind("orders.events", "orders.report", "#").await;
    world.policy("policies", "reports", r"^orders\.report$", json!({ "message-ttl": 1 })).await;
    world.until_policy("orders.report", "reports").await;
    let run = world.overdue(&["verify"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run}");
    assert_eq!(run.stdout, "OK: topology `orders` matches the broker, 6 queues\n");
}

/// Type, arguments and flags of exchanges and queues, bindings to both, policies of both kinds, and consumers.
#[apply(world_test)]
async fn each_kind_of_fact_is_read() {
    let world = applied().await;
    world.unbind("orders.dlx", "orders.unshipped", "#.unshipped").await;
    world.delete("queues", "orders.delay.30m").await;
    world.delete("queues", "orders.delay.3s").await;
    // A level without at-least-once, and with another TTL than its name.
    let arguments = json!({
        "x-queue-type": "quorum", "x-message-ttl": 2000, "x-dead-letter-exchange": "orders.dlx",
    });
    world.queue("orders.delay.3s", arguments).await;
    world.bind("orders.in", "orders.delay.3s", "3s.*").await;
    world.delete("exchanges", "orders.events").await;
    let body = json!({ "type": "topic", "durable": true, "internal": true });
    world.call(Method::PUT, "exchanges", &["orders.events"], body).await;
    world.queue("audit", json!({})).await;
    world.bind("orders.park", "audit", "").await;
    world.bind("orders.in", "orders.unpaid", "now.unpaid").await;
    world.exchange("legacy", "topic", json!({})).await;
    world.bind("legacy", "orders.unpaid", "paid.late").await;
    world.lead("legacy", "orders.in", "#").await;
    let limits = json!({ "max-length": 1000, "delivery-limit": 5 });
    world.policy("policies", "catch-all", r"^orders\.(unpaid|delay\.1s)$", limits).await;
    let drops = json!({ "overflow": "drop-head" });
    world.policy("operator-policies", "catch-all", r"^orders\.unpaid$", drops).await;
    let wire = world.wire().await;
    let options = BasicConsumeOptions::default();
    let consuming = wire.channel.basic_consume(
        "orders.unpaid".into(),
        "".into(),
        options,
        FieldTable::default(),
    );
    let _consumer = consuming.await.unwrap();
    let counted = async || {
        let found = world.overdue(&["verify", "-o", "json"]).findings();
        let stats = world.management().stats_and_policies().await.unwrap();
        let applied = |it: &&QueueStats| it.policy.is_some() || it.operator_policy.is_some();
        let consumer = "error foreign-consumer queue orders.unpaid".to_owned();
        (found.contains(&consumer), stats.values().filter(applied).count())
    };
    until("consumer and policies", counted, |seen| *seen == (true, 2)).await;
    let run = world.overdue(&["verify"]).exits(2);
    insta::assert_snapshot!(run.stdout.replace(&world.vhost, "VHOST"));
}

/// The output of `plan` about policies, before and after; `verify` reports the same about existing objects.
#[apply(world_test)]
async fn plan_says_what_policies_will_do() {
    let world = empty().await;
    let user = json!({ "message-ttl": 1_500_000, "max-length": 1_000 });
    world.policy("policies", "all", r"^orders\.(delay|unpaid)", user).await;
    let operator = json!({ "expires": 20_000_000, "message-ttl": 3_000 });
    world.policy("operator-policies", "lim", "^orders[.]delay", operator).await;
    let planned = world.overdue(&["plan"]).exits(0);
    insta::assert_snapshot!(world.shown(&planned));
    let notes = |run: &Run| run.json()["plan"]["notes"].clone();
    let before = notes(&world.overdue(&["plan", "-o", "json"]));
    let applied = world.overdue(&["apply", "--yes"]).exits(0);
    assert!(applied.stdout.contains("but policies change what the topology does"), "{applied}");
    let after = world.overdue(&["plan", "-o", "json", "--check"]).exits(0);
    assert_eq!(before, notes(&after));
    assert_eq!(
        after.json()["summary"],
        "no change: the broker has this topology, but policies change what it does"
    );
    world.until_policy("orders.unpaid", "all").await;
    world.until_policy("orders.delay.30m", "lim").await;
    let report = world.overdue(&["verify", "-o", "json"]).exits(2).json();
    let found = report["findings"].as_array().unwrap().iter();
    let found: Vec<_> = found.filter(|it| it["severity"] != "note").collect();
    let before = before.as_array().unwrap();
    assert_eq!(found.len(), before.len(), "{report}");
    for (found, note) in found.iter().zip(before) {
        assert_eq!((&found["message"], &found["fix"]), (&note["message"], &note["fix"]));
    }
}

/// The keys came with 4.3.1; an older broker refuses them, so verify has nothing to find.
#[apply(world_test)]
async fn delayed_retry() {
    let world = applied().await;
    let definition = json!({ "delayed-retry-type": "all", "delayed-retry-min": 1000 });
    let set = world.try_policy("policies", "retry", r"^orders\.unpaid$", definition).await;
    if world.services.broker_version().await < "4.3.1".parse().unwrap() {
        let refused = set.unwrap_err();
        assert!(refused.contains("not recognised policy settings"), "{refused}");
        return;
    }
    set.unwrap();
    world.until_policy("orders.unpaid", "retry").await;
    let run = world.overdue(&["verify"]).exits(0);
    let note = "sets delayed-retry-type to all on queue orders.unpaid\n";
    assert!(run.stdout.contains(note), "{run}");
}

/// The broker routes by the rules about objects: an exchange without a queue hides the alternate, and a copy arrives twice.
#[apply(world_test)]
async fn the_broker_routes_as_the_rules_say() {
    let world = applied().await;
    world.exchange("audit", "fanout", json!({})).await;
    world.lead("orders.in", "audit", "7m.*").await;
    world.exchange("copy", "fanout", json!({})).await;
    world.lead("orders.dlx", "copy", "#.unshipped").await;
    world.bind("copy", "orders.unpaid", "").await;
    let expected = [
        "error alternate-exchange exchange orders.in",
        "error foreign-subscriber exchange orders.dlx",
        "warning foreign-publisher queue orders.unpaid",
        "warning foreign-subscriber exchange orders.in",
        "warning routing-overlap exchange orders.dlx",
    ];
    let mut found = world.findings();
    found.sort_unstable();
    assert_eq!(found, expected);
    let lost = Message {
        exchange: "orders.in".to_owned(),
        routing_key: "7m.unknown".to_owned(),
        message_id: "lost".to_owned(),
        ..Message::default()
    };
    let answer = world.publisher().await.publish(lost).await;
    assert!(matches!(answer, Err(PublishError::Returned { .. })), "{answer:?}");
    assert_eq!(world.take("orders.parked").await.len(), 0);
    world.publish_to("orders.in", "1s.unshipped", 1).await;
    for queue in ["orders.unpaid", "orders.unshipped"] {
        let look = async || world.take(queue).await.len();
        until("the same message", look, |taken| *taken == 1).await;
    }
}
