//! The rights reach no further: neighbours by name, and objects of the topology that a role does not need.

use overdue::internals::{
    objects::{Objects, Queue},
    plan::Change,
};

use super::{
    drive::{Done, consume, is_refusal, publish},
    login, request, role,
};
use crate::support::{
    Services, World,
    samples::{DOTTED, dotted, dotted_compat, dotted_ladder},
};

/// A queue like the parking lot of `a.b`, under another name.
fn queue(name: &str) -> Change {
    let topology = dotted();
    let Objects { queues, .. } = topology.objects();
    Change::CreateQueue(Queue { name: name.to_owned(), ..queues["a.b.parked"].clone() })
}

fn assert_refused(what: &str, done: &Done) {
    assert!(done.as_ref().is_err_and(|error| is_refusal(error)), "{what}: {done:?}");
}

/// The objects that each role may not publish to or consume from, in addition to those that are closed to all.
pub(crate) struct Closed<'a> {
    pub(crate) publisher: [&'a [&'a str]; 2],
    pub(crate) worker: [&'a [&'a str]; 2],
    pub(crate) administrator: [&'a [&'a str]; 2],
}

const NEIGHBOURS: [&str; 5] =
    ["aXb.unpaid", "a.b.unpaid.x", "a.b.unpaid2", "xa.b.unpaid", "a.b.unpaid.2.3"];

pub(crate) async fn assert_tight(services: Services, text: &str, closed: &Closed<'_>) {
    let world = World::bare(services, text).await;
    let topology = world.topology.clone();
    world.apply(&topology).await;
    for neighbour in NEIGHBOURS {
        world.management().apply(&queue(neighbour)).await.unwrap();
    }
    let roles = [
        ("publisher", &closed.publisher, &NEIGHBOURS[..]),
        ("worker", &closed.worker, &NEIGHBOURS),
        ("topology", &closed.administrator, &["aXb.unpaid", "xa.b.unpaid"]),
    ];
    for (name, [exchanges, queues], neighbours) in roles {
        let user = login(&world, &role(&topology, name), &request(&world)).await;
        for exchange in exchanges.iter().chain(&["aXb.in", "xa.b.in", ""]) {
            let done = publish(&world, Some(&user), exchange, "30m.unpaid").await;
            assert_refused(&format!("{name} to exchange `{exchange}`"), &done);
        }
        for queue in queues.iter().chain(neighbours) {
            assert_refused(&format!("{name} from {queue}"), &consume(&world, &user, queue).await);
        }
        for declared in ["aXb.q", "a.b", "xa.b.q"] {
            let done = world.management_of(&user).apply(&queue(declared)).await;
            assert_refused(declared, &done.map_err(|error| error.to_string()));
        }
    }
}

#[apply(world_test)]
async fn nobody_reaches_the_neighbours() {
    let queues = &["a.b.parked", "a.b.delay.30m"];
    let closed = Closed {
        publisher: [
            &["a.b.again", "a.b.park", "a.b.dlx", "a.b.events", "a.b.in2"],
            &["a.b.unpaid", "a.b.parked", "a.b.delay.30m"],
        ],
        worker: [&["a.b.in", "a.b.dlx", "a.b.unpaid", "a.b.again.2"], queues],
        administrator: [&["a.b.events"], &["a.b.parked"]],
    };
    assert_tight(Services::main(), DOTTED, &closed).await;
}

#[apply(world_test)]
async fn nobody_reaches_more_of_a_ladder_or_beside_it() {
    let queues = &["a.b.parked", "a.b.ladder.delay.1s", "a.b.ladder.delay.10s"];
    let exchanges = ["a.b.in", "a.b.dlx", "a.b.ladder.1m", "a.b.ladderx1s", "a.b.ladder.1s-2.1s"];
    let closed = Closed {
        publisher: [&[&exchanges[..], &["a.b.ladder.again"]].concat(), queues],
        worker: [&[&exchanges[..], &["a.b.again", "a.b.ladder.1s"]].concat(), queues],
        administrator: [&["a.b.events"], &["a.b.parked"]],
    };
    assert_tight(Services::main(), &dotted_ladder(), &closed).await;
}

#[apply(world_test)]
async fn nobody_reaches_more_of_a_taken_over_exchange() {
    let queues = &["a.b.parked", "a.b.compat.delay.1s"];
    let closed = Closed {
        publisher: [
            &["a.b.compat.in", "a.b.compat.rest", "a.b.compat.due", "old reminders"],
            &["a.b.compat", "a.b.compat.delay.1s"],
        ],
        worker: [&["a.b.compat.in", "old reminders", "a.b.dlx"], queues],
        administrator: [&["a.b.events", "old reminders2", "old"], &["a.b.parked"]],
    };
    assert_tight(Services::main(), &dotted_compat(), &closed).await;
}
