//! The real commands, as users with the printed rights.

use overdue::internals::{
    objects::mark,
    plan::{Change, name_of},
    topology::strategy::Strategy,
};

use super::{
    drive::Done,
    login,
    necessary::{Tried, lessened, needless},
    request, role,
    sufficient::import,
};
use crate::support::{
    Proxy, Services, WorkerProcess, World,
    samples::{DOTTED, dotted_compat, dotted_ladder},
    until,
};

async fn run_as(world: &World, user: &str, broker: Option<&str>) -> WorkerProcess {
    let mut command = world.command_as(&["run", "--no-declare"], user);
    command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h").env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
    command.envs(broker.map(|url| ("OVERDUE_BROKER__URL", url)));
    let mut worker = world.spawn(command);
    worker.until_logged("worker ready").await;
    worker
}

/// Asserts that a worker starts, closes published orders and requeues early ones, with the tag and without it.
pub(crate) async fn assert_a_worker_runs(services: Services, text: &str) {
    let (world, wire) = World::with(services, text).await.wired().await;
    // The plugin's exchange routes no message before it is due.
    let along = match world.topology.strategy {
        Strategy::DelayedExchange => None,
        _ => Some(wire.listen(&world.topology.put_back_to(), "#").await),
    };
    let users = import(&world, &world.topology, false).await;
    let (publisher, worker) = (&users[0], &users[1]);
    for (closed, tag) in ["management", ""].into_iter().enumerate() {
        world.user_named(worker, tag).await;
        let process = run_as(&world, worker, None).await;
        let order = &world.orders(&format!("with-{tag}"), 1, 0).await[0];
        let publish = ["publish", order, "--timeout", "un_shipped-2", "--after", "1s"];
        world.overdue_as(&publish, publisher).exits(0);
        world.until_closed(closed + 1).await;
        if let Some(along) = &along {
            let early = world.orders(&format!("early-{tag}"), 1, 3_600_000).await;
            wire.publish_all(&world.topology.due_exchange(), "un_shipped-2", &early).await;
            let taken = async || wire.take(along).await.map(|copy| copy.text());
            until("put back", taken, |it| it.as_ref() == Some(&early[0])).await;
        }
        assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    }
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn a_worker_starts_with_the_rights_that_are_printed() {
    for text in [DOTTED, &dotted_ladder(), &dotted_compat()] {
        assert_a_worker_runs(Services::main(), text).await;
    }
}

#[apply(world_test)]
async fn a_worker_without_its_rights_says_which_one_and_who_prints_them() {
    let world = World::of(DOTTED).await;
    let user = format!("{}-nothing", world.vhost);
    world.user_named(&user, "").await;
    world.permit(&user, ["^$", "^$", "^$"]).await;
    // RabbitMQ 4.0 lists objects for any user: the worker starts there, and the broker refuses the consume.
    let mut worker = world.spawn(world.command_as(&["run", "--no-declare"], &user));
    worker.until_logged("ACCESS_REFUSED").await;
    worker.until_logged("`overdue permissions` prints the rights of each user").await;
}

#[apply(world_test)]
async fn a_worker_without_the_tag_says_so_and_does_not_ask_for_levels() {
    let world = World::of(DOTTED).await;
    let worker = &import(&world, &world.topology, false).await[1];
    world.user_named(worker, "").await;
    let proxy = Proxy::to(&world.services.broker_socket()).await;
    let mut broker = url::Url::parse(&world.urls_of(Some(worker))[0]).unwrap();
    broker.set_port(Some(proxy.port())).unwrap();
    let process = run_as(&world, worker, Some(broker.as_str())).await;
    // The worker checks for the next generation of each queue; there are two.
    let looks = async || proxy.answered("NOT_FOUND");
    let first = looks().await;
    until("eight more looks", looks, |answers| *answers >= first + 16).await;
    // The worker checks each timeout once for another number of shards.
    assert!(proxy.answered("ACCESS_REFUSED") <= 2, "{}", process.log());
    assert_eq!(process.logged("the management API is not asked"), 1, "{}", process.log());
    assert!(process.log().contains("its `management` tag"), "{}", process.log());
}

/// Parks one overdue order and one waiting order: in the parking lot in use and in a replaced one.
async fn park(world: &World, orders: &[String]) {
    let queue = world.topology.parked_queue();
    let second = name_of(&queue, 2);
    let mut replaced = world.topology.objects().queues[&queue].clone();
    replaced.name.clone_from(&second);
    let mark = mark(&world.topology.name, &second).unwrap();
    for change in [Change::CreateQueue(replaced), Change::Bind(mark)] {
        world.management().apply(&change).await.unwrap();
    }
    let park = world.topology.park_exchange();
    let wire = world.wire().await;
    wire.publish_all(&park, "1s.un_shipped-2", orders).await;
    wire.publish_all("", &second, &["not an order".to_owned()]).await;
}

async fn on_call(world: &World, user: &str, orders: &[String]) -> Done {
    park(world, orders).await;
    for arguments in [
        &["status"][..],
        &["doctor"],
        &["parked", "list"],
        &["parked", "replay", "--yes"],
        &["parked", "drop", "--all", "--because", "a test", "--yes"],
    ] {
        let run = world.overdue_as(arguments, user);
        // The second parking lot is not bound yet, and the doctor finds that.
        let finds = arguments == ["doctor"] && run.code == Some(2);
        if run.code != Some(0) && !finds {
            return Err(format!("{arguments:?}: {run}"));
        }
        // A refusal must not be only one line among others.
        if let Some(unknown) = run.stdout.lines().find(|line| line.contains("unknown: ")) {
            return Err(unknown.to_owned());
        }
    }
    Ok(())
}

pub(crate) async fn assert_on_call_needs_all(services: Services, text: &str, tried: Tried) {
    let world = World::with(services, text).await;
    let mut orders = world.orders("due", 1, 0).await;
    orders.extend(world.orders("waits", 1, 3_600_000).await);
    let mut done = Vec::new();
    let role = role(&world.topology, "on-call");
    let entries: Vec<String> =
        world.topology.entries().into_iter().map(|entry| entry.exchange).collect();
    let attempts = lessened(&role, tried).into_iter().filter(|(_, lesser)| {
        // The remaining time decides which place of a ladder a notice takes.
        let taken = role.needs.iter().find(|need| !lesser.needs.contains(need));
        text == DOTTED || taken.is_none_or(|need| !entries.contains(&need.object.name().to_owned()))
    });
    for (taken, lesser) in attempts {
        let user = login(&world, &lesser, &request(&world)).await;
        done.push((taken, on_call(&world, &user, &orders).await));
    }
    assert_eq!(needless(done), Vec::<String>::new());
}
