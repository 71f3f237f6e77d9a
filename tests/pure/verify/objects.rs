//! Rules about objects: every topology's objects keep them, and each edit that breaks one is found.

use overdue::internals::{objects::Objects, topology::Topology, verify::check};
use proptest::prelude::*;

use super::{Table, alternate, argument, bind, foreign, unbind};
use crate::{
    generate,
    samples::{WITHOUT_FINDINGS, edited},
};

proptest! {
    /// No file gives a cycle, an exchange without an alternate, or a key with no queue or several.
    #[test]
    fn every_topology_keeps_every_rule(topology in generate::topology()) {
        prop_assert_eq!(check(&topology, &topology.objects()), []);
    }

    /// A route of due messages back into any level is found.
    #[test]
    fn every_way_back_is_found(topology in generate::topology(), level: prop::sample::Index) {
        let mut objects = topology.objects();
        let level = topology.delay_queue(level.get(&topology.levels));
        bind(&mut objects, &topology.due_exchange(), &level, "#");
        let found = check(&topology, &objects);
        let is_cycle = |rule: &str, subject: String| {
            rule == "dead-letter-cycle" && subject == format!("queue {level}")
        };
        prop_assert!(found.iter().any(|it| is_cycle(it.rule, it.subject.to_string())), "{:#?}", found);
    }
}

/// Makes a level dead-letter into another one.
fn lead(objects: &mut Objects, from: &str, to: &str, routing_key: &str) {
    let via = format!("orders.via.{from}");
    foreign(objects, &via, "topic");
    let level = format!("orders.delay.{from}");
    argument(objects, &level, "x-dead-letter-exchange", via.as_str());
    bind(objects, &via, &format!("orders.delay.{to}"), routing_key);
}

#[test]
fn cycles() {
    let topology = Topology::parse(WITHOUT_FINDINGS).unwrap();
    let mut table = Table::new(&topology);
    table.objects("a level that leads back to itself", |it| {
        bind(it, "orders.dlx", "orders.delay.5m", "5m.again");
    });
    table.objects("a cycle of several levels is one finding", |it| {
        for (from, to) in [("5s", "30s"), ("30s", "5m"), ("5m", "5s")] {
            lead(it, from, to, "#");
        }
    });
    table.objects("with a consumer in it, as the broker allows it", |it| {
        argument(it, "orders.unpaid", "x-dead-letter-exchange", "orders.in");
    });
    for back in ["1h.#", "#.unpaid"] {
        table.objects(format!("back by {back}, there by 5s.#"), |it| {
            lead(it, "5s", "30s", "5s.#");
            lead(it, "30s", "5s", back);
        });
    }
    table.objects("through an exchange whose type does not say what it routes", |it| {
        foreign(it, "legacy", "headers");
        bind(it, "orders.dlx", "legacy", "#");
        alternate(it, "legacy", Some("orders.in"));
    });
    insta::assert_snapshot!(table);
}

#[test]
fn routes() {
    let topology = Topology::parse(WITHOUT_FINDINGS).unwrap();
    let mut table = Table::new(&topology);
    for exchange in ["orders.dlx", "orders.in"] {
        table.objects(format!("{exchange} has no alternate"), |it| alternate(it, exchange, None));
    }
    table.objects("an alternate that is not there", |it| {
        alternate(it, "orders.dlx", Some("orders.lost"));
    });
    table.objects("an alternate that leads nowhere", |it| unbind(it, "orders.parked"));
    // The broker uses an alternate exchange only if an exchange has no route, even one to nowhere.
    for with_queue in [false, true] {
        table.objects(format!("an exchange beside the alternate, queue: {with_queue}"), |it| {
            foreign(it, "audit", "topic");
            bind(it, "orders.dlx", "audit", "#.unknown");
            if with_queue {
                bind(it, "audit", "orders.unpaid", "#.unknown");
            }
        });
    }
    for missing in ["x-overflow", "x-dead-letter-strategy"] {
        table.objects(format!("at least once without {missing}"), |it| {
            it.queues.get_mut("orders.delay.5m").unwrap().arguments.remove(missing);
        });
    }
    table.objects("at least once with drop-head", |it| {
        argument(it, "orders.unpaid", "x-overflow", "drop-head");
    });
    table.objects("a timeout that nothing is bound for", |it| unbind(it, "orders.unpaid"));
    table.objects("a dead letter exchange that is not there", |it| {
        argument(it, "orders.delay.5m", "x-dead-letter-exchange", "orders.gone");
    });
    table.objects("a routing key of its own, without a binding", |it| {
        argument(it, "orders.delay.5m", "x-dead-letter-routing-key", "due");
    });
    table.objects("the default exchange, to a queue by its name", |it| {
        argument(it, "orders.delay.5m", "x-dead-letter-exchange", "");
        argument(it, "orders.delay.5m", "x-dead-letter-routing-key", "orders.unpaid");
    });
    table.objects("the default exchange, to a queue that is not there", |it| {
        argument(it, "orders.delay.5m", "x-dead-letter-exchange", "");
        argument(it, "orders.delay.5m", "x-dead-letter-routing-key", "due");
    });
    table.objects("two queues for one key", |it| {
        bind(it, "orders.in", "orders.delay.5m", "30m.unpaid");
    });
    table.objects("a queue that is bound twice", |it| {
        bind(it, "orders.dlx", "orders.unpaid", "30m.unpaid");
    });
    table.objects("an exchange on the way", |it| {
        unbind(it, "orders.unpaid");
        foreign(it, "hop", "topic");
        bind(it, "orders.dlx", "hop", "#.unpaid");
        bind(it, "hop", "orders.unpaid", "#.unpaid");
    });
    insta::assert_snapshot!(table);
}

/// A queue next to the shards gets each of their messages as well.
#[test]
fn a_queue_beside_the_shards_gets_each_message_again() {
    let sharded = edited("effect =", "shards = 2\neffect =");
    let sharded = Topology::parse(&sharded).unwrap();
    let mut table = Table::new(&sharded);
    table.objects("a queue beside its shards", |it| {
        it.queues.extend(Topology::parse(WITHOUT_FINDINGS).unwrap().objects().queues);
        bind(it, "orders.dlx", "orders.unpaid", "#.unpaid");
    });
    table.row("a foreign queue takes the share of a shard", |it| {
        bind(&mut it.objects, "orders.unpaid.shards", "audit", "1");
    });
    insta::assert_snapshot!(table);
}
