//! The rights reach no further: neighbours by name, and objects of the topology that a role has no business with.

use overdue::internals::{
    objects::{Objects, Queue},
    plan::Change,
};

use super::{
    drive::{Done, consume, is_refusal, publish},
    login, request, role,
};
use crate::support::{
    World,
    samples::{DOTTED, dotted},
};

fn queue(name: &str) -> Change {
    let topology = dotted();
    let Objects { queues, .. } = topology.objects();
    Change::CreateQueue(Queue { name: name.to_owned(), ..queues["a.b.parked"].clone() })
}

fn assert_refused(what: &str, done: &Done) {
    assert!(done.as_ref().is_err_and(|error| is_refusal(error)), "{what}: {done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reaches_the_neighbours() {
    let topology = dotted();
    let world = World::applied(DOTTED).await;
    for neighbour in ["aXb.unpaid", "a.b.unpaid.x", "a.b.unpaid2", "xa.b.unpaid", "a.b.unpaid.2.3"]
    {
        world.management().apply(&queue(neighbour)).await.unwrap();
    }
    let request = request(&world);
    let publisher = login(&world, &role(&topology, "publisher"), &request).await;
    let worker = login(&world, &role(&topology, "worker"), &request).await;
    let administrator = login(&world, &role(&topology, "topology"), &request).await;

    let closed = [
        (&publisher, vec!["a.b.park", "a.b.dlx", "a.b.events", "aXb.in", "a.b.in2", ""]),
        (&worker, vec!["a.b.dlx", "a.b.unpaid", "aXb.in", "a.b.in.2", ""]),
        (&administrator, vec!["a.b.events", "aXb.in", "xa.b.in", ""]),
    ];
    for (user, exchanges) in closed {
        for exchange in exchanges {
            let done = publish(&world, Some(user), exchange, "30m.unpaid").await;
            assert_refused(&format!("{user} to exchange `{exchange}`"), &done);
        }
    }
    let closed = [
        (&publisher, vec!["a.b.unpaid", "a.b.parked", "a.b.delay.30m"]),
        (&worker, vec!["a.b.parked", "a.b.delay.30m", "aXb.unpaid", "a.b.unpaid.x"]),
        (&worker, vec!["a.b.unpaid2", "xa.b.unpaid", "a.b.unpaid.2.3"]),
        (&administrator, vec!["a.b.parked", "aXb.unpaid", "xa.b.unpaid"]),
    ];
    for (user, queues) in closed {
        for queue in queues {
            assert_refused(&format!("{user} from {queue}"), &consume(&world, user, queue).await);
        }
    }
    for name in ["aXb.q", "a.b", "xa.b.q"] {
        let declared = world.management_of(&administrator).apply(&queue(name)).await;
        assert_refused(name, &declared.map_err(|error| error.to_string()));
    }
}
