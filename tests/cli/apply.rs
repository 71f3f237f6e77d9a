//! `overdue apply`: what it prints, and that it changes nothing it should not.

use futures_util::future::join_all;
use lapin::types::AMQPValue;
use overdue::internals::objects::Objects;
use serde_json::json;

use crate::support::{World, until};

async fn observed(world: &World) -> Objects {
    world.objects().await
}

async fn queues(world: &World) -> Vec<String> {
    observed(world).await.queues.into_keys().collect()
}

#[apply(world_test)]
async fn applying_prints_the_plan_and_the_second_time_that_there_is_nothing_to_do() {
    let world = World::empty().await;
    insta::assert_snapshot!("apply_first", world.shown(&world.overdue(&["apply", "--yes"])));
    let declared = observed(&world).await;
    insta::assert_snapshot!("apply_second", world.shown(&world.overdue(&["apply", "--yes"])));
    assert_eq!(observed(&world).await, declared);
    for (name, queue) in world.topology.objects().queues {
        assert_eq!(declared.queues.get(&name), Some(&queue));
    }
}

/// A worker adds nothing where queues have another shape, and ends where its exchanges are missing; `apply` makes the second generation.
#[apply(world_test)]
async fn a_queue_with_other_arguments_is_replaced_by_apply_and_stops_run() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    let wire = world.wire().await;
    wire.queue("orders.delay.1s", &[("x-message-ttl", AMQPValue::LongInt(5_000))]).await;
    wire.queue("orders.unpaid", &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    // Ours, as an older topology file made them.
    world.exchange("orders.owned", "direct", json!({})).await;
    world.bind("orders.owned", "orders.delay.1s", "delay/1s").await;
    world.bind("orders.owned", "orders.unpaid", "business/unpaid").await;
    let counted = async || {
        let seen = world.management().observe().await.unwrap();
        ["orders.delay.1s", "orders.unpaid"].map(|queue| seen.messages_in(queue))
    };
    until("counted", counted, |counts| *counts == [Some(0); 2]).await;
    let before = queues(&world).await;
    let planned = world.overdue(&["plan"]);
    insta::assert_snapshot!("replaced_plan", world.shown(&planned));
    let detailed = world.overdue(&["plan", "--check"]);
    assert_eq!((detailed.code, detailed.stdout), (Some(2), planned.stdout.clone()));
    world.overdue(&["run"]).exits(78).reports("there is no exchange orders.");
    let shown = world.overdue(&["apply"]).exits(64);
    assert!(planned.stdout.starts_with(&shown.stdout), "{shown}");
    assert_eq!(queues(&world).await, before);

    let applied = world.overdue(&["apply", "--yes"]).exits(0);
    assert!(applied.stdout.starts_with(shown.stdout.trim_end()), "{applied}");
    let after = queues(&world).await;
    for base in ["orders.delay.1s", "orders.unpaid"] {
        assert!(after.contains(&format!("{base}.2")), "{after:?}");
        assert!(!after.contains(&base.to_owned()), "{after:?}");
    }
    world.overdue(&["plan", "--check"]).exits(0);
    let _worker = world.started(|_| {}).await;
}

#[apply(world_test)]
async fn two_applies_at_once_both_succeed() {
    let world = World::empty().await;
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| world.overdue(&["apply", "--yes"]));
        let two = scope.spawn(|| world.overdue(&["apply", "--yes"]));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{one}\n{two}");
    let third = world.overdue(&["apply"]);
    assert!(third.stdout.trim().ends_with("\nno change: the broker has this topology"), "{third}");
}

#[apply(world_test)]
async fn a_user_who_may_not_declare_is_told_so_and_nothing_is_created() {
    let world = World::empty().await;
    let user = world.user_with("management", ["^$", ".*", ".*"]).await;
    let applied = world.overdue_as(&["apply", "--yes"], &user).exits(77);
    insta::assert_snapshot!(world.shown(&applied));
    assert!(queues(&world).await.is_empty());
    world.store.init(&world.schema, true).await.unwrap();
    let started = world.overdue_as(&["run"], &user);
    assert_eq!((started.code, started.stderr), (Some(77), applied.stderr));
}

/// What the refusal leaves behind is the beginning of the plan, which loses nothing; with the permission it goes on.
#[apply(world_test)]
async fn a_user_who_may_declare_only_a_part_is_told_where_it_stopped_and_can_go_on_later() {
    let world = World::empty().await;
    let exchanges = r"^orders\.(in|dlx|park|owned|events|apply\.lock)$";
    let user = world.user_with("management", [exchanges, ".*", ".*"]).await;
    let applied = world.overdue_as(&["apply", "--yes", "-o", "json"], &user);
    assert_eq!((applied.code, &applied.json()["applied"]), (Some(3), &2.into()), "{applied}");
    assert!(
        applied.stderr.contains("2 of 31 steps are done; run `overdue apply` again"),
        "{applied}"
    );
    assert!(applied.stderr.contains("may not create queue orders.parked"), "{applied}");
    let observed = observed(&world).await;
    assert!(!observed.exchanges.contains_key("orders.in"), "nothing can be published yet");
    world.overdue(&["apply", "--yes"]).exits(0);
    assert_eq!(queues(&world).await.len(), world.topology.objects().queues.len());
}

/// Another worker may have declared everything: then the same user needs no permission to configure.
#[apply(world_test)]
async fn a_worker_that_may_not_declare_runs_where_operations_have_applied() {
    let world = World::new().await;
    let write = r"^orders\.(again|park|events)$";
    let read = r"^orders\.(unpaid|parked)$";
    let user = world.user_with("management", ["^$", write, read]).await;
    let mut process = world.started_as(&user).await;
    world.publish_orders("100ms", "o", 5, 0).await;
    world.publish("100ms", &["nobody".to_owned()]).await;
    world.until_closed(5).await;
    assert_eq!(world.parked(1).await[0].text(), r#"{"order_id":"nobody"}"#);
    assert!(process.is_running());
}

/// The users of docs/services.md: one who applies, and a worker that declares what is not there.
#[apply(world_test)]
async fn the_documented_users_can_apply_and_run() {
    let runs = [true, false].map(async |applies| {
        let world = World::empty().await;
        world.store.init(&world.schema, true).await.unwrap();
        let user = world.user_with("management", [r"^orders\."; 3]).await;
        if applies {
            world.overdue_as(&["apply", "--yes"], &user).exits(0);
            assert!(world.topology.objects().bindings.is_subset(&observed(&world).await.bindings));
        }
        let _process = world.started_as(&user).await;
        world.publish_orders("100ms", "o", 5, 0).await;
        world.until_closed(5).await;
    });
    join_all(runs).await;
}

/// A pipeline gives it a time; what it said until then tells how far it was.
#[apply(world_test)]
async fn waiting_ends_after_the_time_that_was_given_and_nothing_is_lost() {
    let (world, wire) = World::new().await.wired().await;
    wire.publish_all("orders.in", "30m.unpaid", &["one".to_owned()]).await;
    let text = std::fs::read_to_string(world.topology_file()).unwrap().replace("30m", "40m");
    std::fs::write(world.topology_file(), text).unwrap();
    let counted =
        async || world.management().observe().await.unwrap().messages_in("orders.delay.30m");
    until("counted", counted, |messages| *messages == Some(1)).await;
    let applied = world.overdue(&["apply", "--yes", "--wait", "--within", "15s"]).exits(1);
    insta::assert_snapshot!(world.shown(&applied));
    assert_eq!(wire.ready("orders.delay.30m").await, 1);
    world
        .overdue(&["apply", "--yes"])
        .exits(0)
        .prints("~ queue     orders.delay.30m  1 message to come out");
}

/// Also what only adds, and what was looked at.
#[apply(world_test)]
async fn without_a_terminal_nothing_is_applied_unless_yes_is_said() {
    let world = World::empty().await;
    let planned = world.overdue(&["plan", "-o", "json"]).json();
    let asked = planned["fingerprint"].as_str().unwrap();
    for arguments in [&["apply"][..], &["apply", "--plan", asked]] {
        let refused = world.overdue_with_input(arguments, "y\n").exits(64);
        assert!(refused.stderr.contains("nothing was changed: without a terminal"), "{refused}");
        assert!(queues(&world).await.is_empty());
    }
    let applied = world.overdue(&["apply", "--plan", asked, "--yes", "-o", "json"]);
    assert_eq!((applied.code, &applied.json()["applied"]), (Some(0), &31.into()), "{applied}");
}

#[apply(world_test)]
async fn a_name_to_discard_that_is_nowhere_is_noted() {
    let world = World::new().await;
    for command in ["plan", "apply"] {
        let run = world.overdue(&[command, "--discard", "orders.nope"]).exits(0);
        let said = "note: --discard orders.nope does nothing: there is no queue of this name";
        assert_eq!(run.stderr.trim(), said);
        let run = world.overdue(&[command, "--discard", "orders.unpaid"]).exits(1);
        assert!(run.stdout.contains("orders.unpaid was named with --discard"), "{run}");
    }
}
