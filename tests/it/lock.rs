//! The lock of a topology: one change at a time, released at any end of a change; its loss is noticed.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use overdue::internals::{
    broker::{
        BrokerAddress, ChangeError, ChangeEvent, Goal, LockError, Management, TopologyChange,
        TopologyLock,
        apply::{ApplyError, StepError},
        lock,
    },
    plan::{Change, Plan, Step},
    topology::Topology,
};
use tokio::{runtime::Handle, sync::oneshot, task::block_in_place};

use crate::support::{World, until, world::CLASSIC};

impl World {
    /// Closes the lock's connection.
    pub(super) async fn close_lock(&self) {
        self.close_connection(lock::PURPOSE).await;
    }

    /// Returns the remaining steps.
    async fn left(&self) -> Vec<Step> {
        TopologyChange::new(&self.management(), &self.topology).plan().await.unwrap().0.steps
    }

    /// Asserts that another client gets the lock; the broker may notice the end of a connection late.
    async fn assert_lock_is_free(&self, after: &str) {
        match TopologyLock::acquire(&self.address(), &self.topology, || {}).await {
            Ok(lock) => lock.release().await,
            Err(error) => panic!("not free after {after}: {error}"),
        }
    }
}

#[apply(world_test)]
async fn a_second_apply_waits_for_the_lock() {
    let world = World::empty().await;
    let lock =
        TopologyLock::acquire(&world.address(), &world.topology, || panic!("nobody holds it"))
            .await
            .unwrap();
    let mut command = world.command(&["apply", "--yes"]);
    let mut second = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    block_in_place(|| stderr.read_line(&mut line)).unwrap();
    assert_eq!(line.trim(), "another overdue is changing this topology: waiting until it is done");
    assert!(world.management().observe().await.unwrap().objects.queues.len() <= 1, "the lock");
    lock.release().await;
    let mut rest = String::new();
    block_in_place(|| stderr.read_to_string(&mut rest)).unwrap();
    assert!(second.wait().unwrap().success(), "{rest}");
    // The queue of the lock may still be listed.
    let has = world.management().observe().await.unwrap().objects;
    let missing = |queue: &&String| !has.queues.contains_key(*queue);
    assert_eq!(world.topology.objects().queues.keys().find(missing), None);
}

/// Two topologies in one virtual host do not wait for each other.
#[apply(world_test)]
async fn a_lock_is_for_one_topology_and_needs_the_right_to_declare_its_queue() {
    let world = World::empty().await;
    let other = Topology::parse(&CLASSIC.replace("orders", "shop")).unwrap();
    let nobody = || panic!("nobody holds it");
    let lock = TopologyLock::acquire(&world.address(), &world.topology, nobody).await.unwrap();
    let beside = TopologyLock::acquire(&world.address(), &other, nobody).await.unwrap();
    lock.release().await;
    beside.release().await;
    let [url, management] = world.broker_user("management", Some(["^shop", ".*", ".*"])).await;
    let address =
        overdue::internals::broker::BrokerAddress::parse(&url, Some(&management)).unwrap();
    let refused =
        TopologyLock::acquire(&address, &world.topology, nobody).await.map(drop).unwrap_err();
    assert!(
        matches!(&refused, LockError::NotPermitted { lock, .. } if lock == "orders.apply.lock")
    );
}

/// A change notices the lost lock before its next step.
#[apply(world_test)]
async fn a_lock_that_is_lost_stops_the_change_before_the_next_step() {
    let world = World::empty().await;
    let (management, all) = (world.management(), world.left().await);
    let mut steps = 0;
    let on_event = |event: ChangeEvent<'_>| {
        if matches!(event, ChangeEvent::Step(..)) {
            steps += 1;
            if steps == 3 {
                block_in_place(|| Handle::current().block_on(world.close_lock()));
            }
        }
    };
    let change = TopologyChange::new(&management, &world.topology);
    let stopped = change.make::<ChangeError>(Ok, on_event).await.unwrap_err();
    let ChangeError::Apply(ApplyError::Partly { done: 3, source, .. }) = &stopped else {
        panic!("{stopped:?}")
    };
    assert!(matches!(**source, StepError::LockLost(_)), "{source:?}");
    assert_eq!(steps, 3);
    assert_eq!(world.left().await, all[3..], "no further step was carried out");
    insta::assert_snapshot!(format!("{stopped}: {source}"));
    world.assert_lock_is_free("it was lost").await;
    change.apply().await.unwrap();
    assert_eq!(world.left().await, []);
}

/// The lock is lost while the change waits for counts, seconds before a deletion.
#[apply(world_test)]
async fn an_apply_that_loses_its_lock_deletes_nothing_and_says_that_a_part_is_done() {
    let mut world = World::new().await;
    world.until_all_counted().await;
    let shorter = CLASSIC.replace(r#", "30m""#, "");
    std::fs::write(world.topology_file(), &shorter).unwrap();
    world.topology = Topology::parse(&shorter).unwrap();
    let mut command = world.command(&["apply", "--yes"]);
    // Longer than this test takes.
    command.env("OVERDUE_BROKER__STATISTICS_INTERVAL", "60s");
    let apply = tokio::task::spawn_blocking(move || crate::support::process::finish(command, None));
    let unbound = async || {
        let bindings = world.management().observe().await.unwrap().objects.bindings;
        bindings.iter().any(|b| b.source == "orders.in" && b.destination == "orders.delay.30m")
    };
    until("unbound", unbound, |bound| !bound).await;
    world.close_lock().await;
    let stopped = apply.await.unwrap().exits(3).reports("2 of 3 steps are done");
    assert!(stopped.stderr.contains("orders.apply.lock, was lost"), "{stopped}");
    let delete = Change::DeleteQueue { queue: "orders.delay.30m".to_owned(), lost: 0 };
    let left: Vec<Change> = world.left().await.into_iter().map(|step| step.change).collect();
    assert_eq!(left, [delete]);
}

#[derive(Debug, thiserror::Error)]
enum Decided {
    #[error("no")]
    No,
    #[error(transparent)]
    Change(#[from] ChangeError),
}

#[apply(world_test)]
async fn the_lock_is_free_after_each_way_to_fail() {
    let world = World::empty().await;
    let management = world.management();
    let change = TopologyChange::new(&management, &world.topology);

    let refused = change.make(|_| Err(Decided::No), |_| panic!("no step")).await.unwrap_err();
    assert!(matches!(refused, Decided::No));
    world.assert_lock_is_free("a decision not to").await;

    let kept = BTreeSet::from(["orders.apply.lock".to_owned()]);
    let discarding = TopologyChange {
        management: &management,
        topology: &world.topology,
        goal: Goal::Applied { discard: kept },
    };
    let refused = discarding.apply().await.unwrap_err();
    assert!(matches!(refused, ChangeError::Apply(ApplyError::Refused(_))), "{refused:?}");
    world.assert_lock_is_free("a refused plan").await;

    let rights = r"^orders\.(owned|apply\.lock)$";
    let [url, api] = world.broker_user("management", Some([rights, ".*", ".*"])).await;
    let user = Management::new(&BrokerAddress::parse(&url, Some(&api)).unwrap()).unwrap();
    let partly = TopologyChange::new(&user, &world.topology).apply().await.unwrap_err();
    assert!(
        matches!(&partly, ChangeError::Apply(ApplyError::Partly { done: 1, .. })),
        "{partly:?}"
    );
    world.assert_lock_is_free("a step that failed").await;

    let topology = world.topology.clone();
    let panics = tokio::spawn(async move {
        let change = TopologyChange::new(&management, &topology);
        change.make::<ChangeError>(Ok, |_| panic!("as intended")).await
    });
    assert!(panics.await.unwrap_err().is_panic());
    world.assert_lock_is_free("a panic").await;

    let left = world.left().await.len();
    let management = world.management();
    let (sender, mut first) = oneshot::channel();
    let mut sender = Some(sender);
    let on_event = |_: ChangeEvent<'_>| {
        if let Some(sender) = sender.take() {
            sender.send(()).unwrap();
        }
    };
    let change = TopologyChange::new(&management, &world.topology);
    let making = change.make::<ChangeError>(Ok, on_event);
    tokio::select! {
        biased;
        _ = &mut first => {}
        made = making => panic!("not cancelled: {:?}", made.map(|plan: Plan| plan.steps.len())),
    }
    let rest = world.left().await.len();
    assert!(0 < rest && rest < left, "cancelled in between: {rest} of {left}");
    world.assert_lock_is_free("a cancelled future").await;
}
