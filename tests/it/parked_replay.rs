//! `overdue parked replay` and `drop`: replaying loses nothing, dropping leaves a record.

use lapin::{
    options::{BasicConsumeOptions, QueueDeclareOptions},
    types::FieldTable,
};

use crate::support::{World, ids, messages::Parked, until};

use super::parked::{LOT, UNKNOWN, all_back, ends, furnished, ready, shown};

const HELD: &str = "messages that another client has unacked were not read: another client reads";

#[apply(world_test)]
async fn a_replay_puts_back_what_can_be_closed_settles_what_is_final_and_leaves_the_rest() {
    let world = furnished().await;
    let wire = world.wire().await;
    let (due, entry) = (wire.listen("orders.dlx", "#").await, wire.listen("orders.in", "#").await);
    let preview = world.overdue(&["parked", "replay"]);
    insta::assert_snapshot!("replay_preview", shown(&world, &preview));
    all_back(&world, 7).await;
    assert_eq!(wire.ready(&due).await, 0);
    let run = world.overdue(&["parked", "replay", "--yes"]);
    insta::assert_snapshot!("replay", shown(&world, &run));
    all_back(&world, 3).await;
    let mut sent = wire.take_many(&due, 2).await;
    sent.extend(wire.take_many(&entry, 1).await);
    for message in &sent {
        // It begins again, and what its publisher wrote stays.
        for gone in ["x-attempt", "x-guarded", "x-park-reason", "x-park-timeout", "x-parked-at"] {
            assert_eq!(message.headers.get(gone), None, "{message:?}");
        }
        assert_eq!(message.header("x-shop").as_deref(), Some("north"));
        assert_eq!(message.delivery_mode, Some(2));
    }
    let bodies: Vec<_> = sent.iter().map(|it| (it.text(), it.key.clone())).collect();
    let expected = [("late-0", "unpaid"), ("late-1", "unpaid"), ("early-0", "30m.unpaid")];
    assert_eq!(bodies, expected.map(|(body, key)| (body.to_owned(), key.to_owned())));
    let worker = world.worker();
    world.until_closed(2).await;
    let counts = worker.stop().await;
    // By their messages, or by the sweep that begins with the worker.
    assert_eq!((counts.closed + counts.swept, counts.parked), (2, 0));
    world.assert_invariants().await;
    // The late order's other copy and what stays: nothing is left to do.
    world.overdue(&["parked", "replay", "--yes"]).prints("stay");
    all_back(&world, 3).await;
}

/// What a real worker parks is replayed when its cause is gone, and has all its retries again.
#[apply(world_test)]
async fn an_order_that_came_too_late_is_closed_after_a_replay() {
    let world = World::new().await;
    let worker = world.worker();
    world.publish("100ms", &ids("o", 3)).await;
    world.wire().await.until_ready(LOT, 3).await;
    let json = world.overdue(&["parked", "list", "-o", "json"]).json();
    for message in json["messages"].as_array().unwrap() {
        assert_eq!(message["reason"], UNKNOWN);
        assert!(message["parked_at"].is_string(), "{message}");
        assert_eq!(
            (message["attempts"].as_i64(), message["timeout"].as_str()),
            (Some(3), Some("unpaid"))
        );
    }
    all_back(&world, 3).await;
    world.orders("o", 3, -1_000).await;
    let run = world.overdue(&["parked", "replay", "--yes", "-o", "json"]);
    assert_eq!((run.code, &run.json()["overdue"]), (Some(0), &3.into()), "{run}");
    world.until_closed(3).await;
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.parked, 3);
    assert_eq!(ready(&world).await, 0);
}

/// Fewer than a burst. Killed anywhere: what was published and is still parked is found final by the next one.
#[apply(world_test)]
async fn a_replay_that_is_killed_loses_nothing_and_closes_nothing_twice() {
    let world = World::new().await;
    let orders = world.orders("o", 400, -1_000).await;
    world.wire().await.publish_all("orders.park", "30m.unpaid", &orders).await;
    let worker = world.worker();
    let mut replay = world.spawn(world.command(&["parked", "replay", "--yes", "--rate", "20"]));
    let closed = async || world.number("SELECT count(*) FROM closures").await;
    until("it has begun", closed, |closed| *closed >= 40).await;
    replay.kill();
    let closed = closed().await;
    assert!(closed < 400, "it was done before it was killed");
    let again = async || world.overdue(&["parked", "replay", "--yes"]);
    until("the lock is free", again, |run| run.code == Some(0)).await;
    world.until_closed(400).await;
    world.assert_invariants().await;
    assert_eq!(world.number("SELECT count(DISTINCT order_id) FROM closures").await, 400);
    assert_eq!(world.rows_of("closures").await, 400);
    assert_eq!(worker.stop().await.parked, 0);
    world.until_empty(LOT).await;
}

#[apply(world_test)]
async fn a_replay_that_is_asked_to_stop_says_what_it_has_done() {
    let world = World::new().await;
    let orders = world.orders("o", 300, -1_000).await;
    let wire = world.wire().await;
    wire.publish_all("orders.park", "30m.unpaid", &orders).await;
    let due = wire.listen("orders.dlx", "#").await;
    let mut replay = world.spawn(world.command(&["parked", "replay", "--yes", "--rate", "2"]));
    until("it has begun", async || wire.ready(&due).await, |n| *n >= 3).await;
    // It has fetched all of them, and the broker counts late.
    let list = async || world.overdue(&["parked", "list"]);
    let said = "another client reads them now, or has taken them out";
    let run = until("they are missed", list, |run| run.stdout.contains(said)).await;
    assert!(run.stdout.starts_with("0 messages in orders.parked\n"), "{run}");
    replay.signal("INT");
    assert!(replay.ended().await.success());
    assert!(replay.log().contains("stopped: what was not looked at stays"), "{}", replay.log());
    let sent = wire.ready(&due).await;
    all_back(&world, 300 - sent).await;
}

#[apply(world_test)]
async fn two_at_once_and_the_second_says_so() {
    let world = furnished().await;
    let wire = world.wire().await;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let none = FieldTable::default();
    wire.channel.queue_declare("orders.parked.lock".into(), options, none).await.unwrap();
    let run = world.overdue(&["parked", "replay", "--yes"]);
    insta::assert_snapshot!("two_at_once", shown(&world, &run));
    let drop = ["parked", "drop", "--all", "--because", "tests"];
    // What it would do is not known either: the other one has it in hand.
    for command in [&[&drop[..], &["--yes"]].concat()[..], &drop, &["parked", "replay"]] {
        let run = world.overdue(command);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run}");
        assert!(run.stderr.contains("is taking messages out of orders.parked"), "{run}");
    }
    assert_eq!(ready(&world).await, 7);
    assert!(world.overdue(&["parked", "list"]).code == Some(0));
    // Whoever holds that lock, orders are closed.
    let worker = world.worker();
    world.publish_orders("200ms", "due", 20, 200).await;
    // Not the late ones, which the sweep closes that begins with the worker.
    let due = "SELECT count(*) FROM orders WHERE id LIKE 'due-%' AND status = 'closed'";
    until("20 closed", async || world.number(due).await, |closed| *closed == 20).await;
    assert_eq!(worker.stop().await.closed, 20);
}

/// Whoever only reads holds no lock, e.g. a list.
#[apply(world_test)]
async fn what_somebody_else_holds_is_missed_and_that_is_said() {
    let (world, wire) = World::new().await.wired().await;
    wire.publish_all("orders.park", "30m.unpaid", &ids("o", 1_500)).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE dropped_messages").await.unwrap();
    let drop_all = ["parked", "drop", "--all", "--because", "a test", "--yes"];
    let mut dropping = world.spawn(world.command(&drop_all));
    // It has what one channel holds, and none of it is recorded.
    wire.until_ready(LOT, 500).await;
    let reader = world.wire().await;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = reader.channel.basic_consume(LOT.into(), "".into(), options, none);
    let consumer = consumer.await.unwrap();
    all_back(&world, 0).await;
    held.commit().await.unwrap();
    let code = dropping.ended().await.code();
    assert_eq!(code, Some(1), "{}", dropping.log());
    let missed = "500 messages that were there when this began were not read: another client reads";
    assert!(dropping.log().contains(missed), "{}", dropping.log());
    assert_eq!(world.number("SELECT count(*) FROM dropped_messages").await, 1_000);
    // What it held before this begins nobody counts.
    for command in [&drop_all[..], &drop_all[..5], &["parked", "replay"]] {
        let run = world.overdue(command);
        assert!(run.code == Some(0) && run.stderr.contains(HELD), "{run}");
    }
    drop((consumer, reader));
    all_back(&world, 500).await;
    ends(&world, 0, &drop_all);
    assert_eq!(world.number("SELECT count(*) FROM dropped_messages").await, 1_500);
}

/// However many are parked while somebody thinks about the answer, and also where some are equal.
#[apply(world_test)]
async fn an_answer_takes_what_its_question_has_counted() {
    let world = World::new().await;
    world.orders("o", 3, -1_000).await;
    let wire = world.wire().await;
    let due = wire.listen("orders.dlx", "#").await;
    let park = async |orders: &[&str]| {
        let before = ready(&world).await;
        let bodies: Vec<String> = orders.iter().map(|order| (*order).to_owned()).collect();
        wire.publish_all("orders.park", "30m.unpaid", &bodies).await;
        all_back(&world, before + u32::try_from(bodies.len()).unwrap()).await;
    };
    let answered = async |arguments: &[&str], counted: u32, meanwhile: &[&str]| {
        all_back(&world, counted).await;
        let mut command = world.spawn_at_terminal(arguments);
        command.until_logged(&format!(" {counted} messages ")).await;
        command.until_logged("[y/N] ").await;
        all_back(&world, counted).await;
        park(meanwhile).await;
        command.types("y\n");
        assert_eq!(command.ended().await.code(), Some(0), "{}", command.log());
    };
    park(&["o-0", "o-0", "o-1"]).await;
    answered(&["parked", "replay"], 3, &["o-0", "o-2"]).await;
    let sent = wire.take_many(&due, 3).await;
    let mut sent: Vec<_> = sent.iter().map(Parked::text).collect();
    sent.sort();
    assert_eq!(sent, ["o-0", "o-0", "o-1"]);
    let drop_all = ["parked", "drop", "--all", "--because", "a test"];
    answered(&drop_all, 2, &["o-0", "o-1", "o-1"]).await;
    let dropped = world.texts("SELECT order_id FROM dropped_messages ORDER BY 1").await;
    assert_eq!(dropped, ["o-0", "o-2"]);
    all_back(&world, 3).await;
    let recorded = "SELECT count(*) FROM actions WHERE what = '2 selected messages' AND count = 2";
    assert_eq!(world.number(recorded).await, 1);
    // Nobody counts first.
    let run = world.overdue(&[&drop_all[..], &["--yes"]].concat());
    assert!(run.code == Some(0) && run.stdout.contains("3 messages dropped"), "{run}");
}

#[apply(world_test)]
async fn what_is_dropped_needs_a_reason_and_leaves_a_record() {
    let world = furnished().await;
    let run = world.overdue(&["parked", "drop", "--yes", "--because", "test data"]);
    insta::assert_snapshot!("drop_without_a_filter", shown(&world, &run));
    ends(&world, 64, &["parked", "drop", "--all", "--yes", "--because", " "]);
    // As a variable that is not set leaves it.
    let by_reason = ["parked", "drop", "--yes", "--because", "test data"];
    for filter in [["--reason", ""], ["--reason", " "], ["--timeout", ""], ["--order", ""]] {
        ends(&world, 64, &[&by_reason[..], &filter].concat());
        ends(&world, 64, &[&["parked", "replay", "--yes"][..], &filter].concat());
    }
    assert_eq!(ready(&world).await, 7);
    let select = ["parked", "drop", "--reason", "does not know", "--because", "test data"];
    let preview = world.overdue(&select);
    insta::assert_snapshot!("drop_preview", shown(&world, &preview));
    all_back(&world, 7).await;
    let run = world.overdue(&[&select[..], &["--yes"]].concat());
    insta::assert_snapshot!("drop", shown(&world, &run));
    all_back(&world, 2).await;
    let orders = world.texts("SELECT order_id FROM dropped_messages ORDER BY id").await;
    assert_eq!(orders, ["late-0", "late-1", "early-0", "paid-0", "nobody"]);
    let record =
        "SELECT concat_ws('|', timeout, parked_because, because, convert_from(body, 'UTF8'))
                  FROM dropped_messages ORDER BY id LIMIT 1";
    assert_eq!(world.texts(record).await, [format!("unpaid|{UNKNOWN}|test data|late-0")]);
    // Where nothing can be recorded nothing is dropped.
    world.sql("DROP TABLE dropped_messages").await;
    let run = ends(&world, 78, &["parked", "drop", "--all", "--because", "test data", "--yes"]);
    assert!(run.stderr.contains("overdue database init"), "{run}");
    all_back(&world, 2).await;
}

#[apply(world_test)]
async fn an_order_whose_effect_still_fails_stays_and_the_others_go() {
    let world = World::new().await;
    let orders = world.orders("o", 60, -1_000).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.id IN ('o-7', 'o-41') THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    world.wire().await.publish_all("orders.park", "30m.unpaid", &orders).await;
    let worker = world.worker();
    let run = world.overdue(&["parked", "replay", "--yes"]);
    // A line every five seconds, on a slow machine.
    let text = shown(&world, &run);
    let text: Vec<&str> = text.lines().filter(|line| !line.ends_with(" messages done")).collect();
    insta::assert_snapshot!("effect_fails", text.join("\n"));
    world.until_closed(58).await;
    assert_eq!(worker.stop().await.parked, 0);
    all_back(&world, 2).await;
    let run = world.overdue(&["parked", "list", "--full", "--order", "o-7"]);
    let why = "its effect fails: SQLSTATE P0001: db error: ERROR: not this one";
    assert!(run.stdout.contains(why), "{run}");
}

/// The broker would confirm it, and park it at once; or somebody who listens there would have it.
#[apply(world_test)]
async fn what_no_queue_gets_when_it_is_due_stays_until_the_topology_is_applied() {
    let world = World::new().await;
    let mut orders = world.orders("o", 2, -1_000).await;
    orders.extend(world.orders("early", 1, 2_430_000).await);
    let wire = world.wire().await;
    wire.publish_all("orders.park", "30m.unpaid", &orders).await;
    let (queue, due) = ("orders.unpaid".into(), "orders.dlx".into());
    let unbind = wire.channel.queue_unbind(queue, due, "#.unpaid".into(), FieldTable::default());
    unbind.await.unwrap();
    let refused = || {
        // Without --yes nothing is asked: nothing can leave.
        for command in [&["parked", "replay", "--yes"][..], &["parked", "replay"]] {
            let run = ends(&world, 78, command);
            let why = "3  stay: on the broker no queue of the timeout gets what is due: run `overdue apply`\n";
            assert!(run.stdout.contains(why), "{run}");
            assert!(run.stderr.contains("3 messages not put back: "), "{run}");
        }
    };
    refused();
    all_back(&world, 3).await;
    let heard = wire.listen("orders.dlx", "#").await;
    refused();
    all_back(&world, 3).await;
    assert_eq!(wire.ready(&heard).await, 0);
    ends(&world, 0, &["apply", "--yes"]);
    ends(&world, 0, &["parked", "replay", "--yes"]);
    world.until_empty(LOT).await;
    assert_eq!(wire.take_many("orders.unpaid", 2).await.len(), 2);
}
