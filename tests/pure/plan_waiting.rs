//! `apply --wait`: every way it ends.

use std::time::Duration;

use overdue::internals::{
    objects::Binding,
    plan::{
        Change, DrainWait, Draining, Drains, GaveUp, Next, Plan, Reason, Refusal, Snapshot,
        StatisticsInterval, Step,
    },
    timing::Timing,
    topology::Topology,
};

use crate::broker_model::{applied, plan};

const SECOND: Duration = Duration::from_secs(1);

fn statistics() -> StatisticsInterval {
    StatisticsInterval::default()
}

fn waiting_for(within: Option<Duration>) -> DrainWait {
    DrainWait::new(within, statistics())
}

fn draining(queue: &str, messages: Option<u64>, drains: Drains) -> Draining {
    Draining { queue: queue.to_owned(), messages, drains }
}

fn when_due(messages: Option<u64>) -> Draining {
    draining("shop.delay.30m", messages, Drains::WhenDue { within: "30m".parse().expect("a TTL") })
}

fn plan_of(draining: impl IntoIterator<Item = Draining>) -> Plan {
    Plan { draining: draining.into_iter().collect(), ..Plan::default() }
}

#[test]
fn it_ends_when_nothing_drains() {
    assert_eq!(waiting_for(None).next(&Plan::default(), SECOND), Next::Done);
}

/// A parking lot is for a person, an unconsumed queue for another worker: waiting for them would never end.
#[test]
fn it_does_not_wait_for_what_does_not_end_by_itself() {
    let stays = [
        Drains::Parked,
        Drains::Never,
        Drains::Unconsumed { queue: "shop.old".to_owned() },
        Drains::Fed { exchange: "other".to_owned() },
        Drains::Leaving { in_levels: Some(3), within: None, blocked: None },
    ];
    for drains in stays {
        let plan = plan_of([draining("shop.old", Some(3), drains)]);
        assert_eq!(waiting_for(None).next(&plan, SECOND), Next::Done, "{plan}");
    }
}

/// The exchange of former shards stays as long as one of them, which may be for ever.
#[test]
fn it_waits_for_a_former_shard_only_if_that_drains() {
    let text = |shards: &str| {
        format!(
            "name = \"shop\"\ndelay.levels = [\"1s\"]\n\
             timeout = [{{ name = \"unpaid\", after = \"1s\"{shards} }}]\n"
        )
    };
    let sharded = Topology::parse(&text(", shards = 2")).expect("a good file");
    let single = Topology::parse(&text("")).expect("a good file");
    let next = |messages: u64, change: &dyn Fn(&mut Snapshot)| {
        let mut broker = Snapshot::of(&sharded);
        broker.messages.insert("shop.unpaid.shard-1".to_owned(), messages);
        change(&mut broker);
        let mut planned = plan(&single, &broker);
        while !planned.steps.is_empty() {
            broker = applied(&broker, &planned);
            planned = plan(&single, &broker);
        }
        (planned.retired_exchanges.len(), waiting_for(None).next(&planned, SECOND))
    };
    let (left, waits) = next(3, &|_| {});
    assert_eq!(left, 1);
    assert!(matches!(&waits, Next::Look(left) if left.exchanges.len() == 1), "{waits:?}");
    let somebody = |broker: &mut Snapshot| {
        broker.foreign_consumers.insert("shop.unpaid.shard-1".to_owned(), 1);
    };
    assert_eq!(next(3, &somebody), (1, Next::Done));
    let fed = |broker: &mut Snapshot| {
        broker.objects.bindings.insert(Binding {
            source: "legacy".to_owned(),
            destination: "shop.unpaid.shard-1".to_owned(),
            to_queue: true,
            ..Binding::default()
        });
    };
    assert_eq!(next(3, &fed), (1, Next::Done));
}

/// In no queue, and counted by one node alone: where that does not say, waiting may never end.
#[test]
fn it_waits_for_what_the_delayed_message_plugin_holds_if_that_is_known() {
    let text = |delay: &str| {
        let timeout = "timeout = [{ name = \"unpaid\", after = \"1s\" }]\n";
        Topology::parse(&format!("name = \"shop\"\ndelay.{delay}\n{timeout}")).expect("a good file")
    };
    let plugin = text("strategy = \"delayed-exchange\"");
    let levels = text("levels = [\"1s\"]");
    let mut broker = Snapshot::of(&plugin);
    let exchange = broker.delayed.first_key_value().expect("an exchange").0.clone();
    broker.delayed.insert(exchange.clone(), 5);
    broker = applied(&broker, &plan(&levels, &broker));
    let mut waiting = waiting_for(None);
    for (held, drained) in [(5, 0), (2, 3)] {
        broker.delayed.insert(exchange.clone(), held);
        let next = waiting.next(&plan(&levels, &broker), SECOND);
        let Next::Look(left) = next else { panic!("{next:?}") };
        assert_eq!((left.exchanges.len(), left.drained, left.most), (1, drained, 5));
    }
    broker.delayed.remove(&exchange);
    assert_eq!(waiting.next(&plan(&levels, &broker), SECOND), Next::Done);
    broker.delayed.insert(exchange, 0);
    assert_eq!(waiting.next(&plan(&levels, &broker), SECOND), Next::CarryOut);
}

#[test]
fn it_waits_for_what_ends_by_itself_and_says_how_far_it_is() {
    let mut waiting = waiting_for(None);
    let consumed = draining("shop.unpaid", Some(10), Drains::Consumed);
    let Next::Look(progress) = waiting.next(&plan_of([when_due(Some(30)), consumed]), SECOND)
    else {
        panic!("it looks again");
    };
    assert_eq!((progress.drained, progress.most), (0, 40));
    insta::assert_snapshot!(progress, @"shop.delay.30m has 30 messages to come out when due, the last within 30m; shop.unpaid has 10 messages for the workers to consume");
    // More came in before the unbinding than was known: never less than nothing has drained.
    let Next::Look(progress) = waiting.next(&plan_of([when_due(Some(50))]), 2 * SECOND) else {
        panic!("it looks again");
    };
    assert_eq!((progress.drained, progress.most), (0, 50));
    let Next::Look(progress) = waiting.next(&plan_of([when_due(Some(1))]), 3 * SECOND) else {
        panic!("it looks again");
    };
    assert_eq!((progress.drained, progress.most), (49, 50));
    assert_eq!(waiting.next(&Plan::default(), 4 * SECOND), Next::Done);
}

/// What has drained is deleted at once, not when the slowest level is done.
#[test]
fn steps_come_before_waiting() {
    let step = Step {
        change: Change::DeleteQueue { queue: "shop.delay.1s".to_owned(), lost: 0 },
        reason: Reason::Missing,
    };
    let plan = Plan { steps: vec![step], ..plan_of([when_due(Some(1))]) };
    assert_eq!(waiting_for(None).next(&plan, SECOND), Next::CarryOut);
}

/// Somebody binds the queue again each time, or puts something in.
#[test]
fn a_plan_that_never_becomes_empty_ends_it_in_time() {
    let mut waiting = waiting_for(Some(10 * SECOND));
    let step = |change| Step { change, reason: Reason::RetiredAndEmpty };
    let delete = Change::DeleteQueue { queue: "shop.delay.1s".to_owned(), lost: 0 };
    let unbind = Change::Unbind(Binding {
        source: "shop.in".to_owned(),
        destination: "shop.delay.1s".to_owned(),
        to_queue: true,
        routing_key: "1s.*".to_owned(),
        arguments: [].into(),
    });
    let fed = Drains::Fed { exchange: "legacy".to_owned() };
    let plans = [vec![step(unbind.clone()), step(delete.clone())], vec![step(delete)]];
    let plans = plans.map(|steps| Plan {
        steps,
        ..plan_of([when_due(Some(1)), draining("shop.delay.2s", Some(3), fed.clone())])
    });
    for (seconds, plan) in (0..10).zip(plans.iter().cycle()) {
        assert_eq!(waiting.next(plan, seconds * SECOND), Next::CarryOut);
    }
    let Next::GiveUp(gave_up) = waiting.next(&plans[0], 10 * SECOND) else {
        panic!("time is over");
    };
    insta::assert_snapshot!(gave_up, @r"
    not at rest within 10s: these steps are still to be done. Where they come back each time, somebody else changes the same topology, or fills what is to be deleted. Nothing is lost; run `overdue apply` again to go on
      - binding   shop.in -> shop.delay.1s  (1s.*)
      - queue     shop.delay.1s
      ~ queue     shop.delay.2s  3 messages and more to come from exchange legacy, which is not ours
    ");
}

#[test]
fn a_refusal_ends_it() {
    let refusal = Refusal::Occupied { queue: "shop.old".to_owned(), messages: Some(1) };
    let plan = Plan { refusals: vec![refusal], ..plan_of([when_due(Some(1))]) };
    let next = waiting_for(None).next(&plan, SECOND);
    assert_eq!(next, Next::GiveUp(GaveUp::Refused(Box::new(plan))));
}

#[test]
fn the_time_that_was_given_ends_it() {
    let mut waiting = waiting_for(Some(10 * SECOND));
    assert!(matches!(waiting.next(&plan_of([when_due(Some(2))]), 9 * SECOND), Next::Look(_)));
    let Next::GiveUp(gave_up) = waiting.next(&plan_of([when_due(Some(1))]), 10 * SECOND) else {
        panic!("time is over");
    };
    insta::assert_snapshot!(gave_up, @"not drained within 10s: shop.delay.30m has 1 message to come out when due, the last within 30m. Nothing is lost; a later `overdue apply` deletes what is empty");
}

/// A queue is not counted for a while after it was declared; one that stays so is never deleted.
#[test]
fn a_count_that_stays_unknown_ends_it() {
    let mut waiting = waiting_for(None);
    let unknown = plan_of([when_due(None)]);
    assert!(matches!(waiting.next(&unknown, SECOND), Next::Look(_)));
    assert!(matches!(waiting.next(&unknown, statistics().uncounted_at_most()), Next::Look(_)));
    // Counted in between: it starts again.
    assert!(matches!(
        waiting.next(&plan_of([when_due(Some(1))]), 2 * statistics().uncounted_at_most()),
        Next::Look(_)
    ));
    assert!(matches!(waiting.next(&unknown, 3 * statistics().uncounted_at_most()), Next::Look(_)));
    let Next::GiveUp(gave_up) = waiting.next(&unknown, 4 * statistics().uncounted_at_most()) else {
        panic!("nobody counts");
    };
    insta::assert_snapshot!(gave_up, @"the broker has not counted the messages in shop.delay.30m for 60 s: are its statistics on, does every queue have a leader (`overdue doctor`), and is `broker.statistics_interval` as long as the broker's own interval? Nothing is lost; a later `overdue apply` deletes what is empty");
}

/// Where the setting is shorter than the broker's interval, each deletion waits for newer counts, and is left. Where a node is down, it
/// is left at once.
#[test]
fn counts_that_do_not_become_newer_end_it() {
    let step = Step {
        change: Change::DeleteQueue { queue: "shop.delay.1s".to_owned(), lost: 0 },
        reason: Reason::RetiredAndEmpty,
    };
    let plan = |left| Plan { steps: vec![step.clone()], ..plan_of([when_due(Some(left))]) };
    let uncounted = ["shop.delay.1s".to_owned()];
    let at_most = statistics().uncounted_at_most();
    let mut waiting = waiting_for(None);
    assert_eq!(waiting.carried_out(&plan(9), SECOND, 0, &uncounted), Ok(false));
    let almost = at_most + SECOND / 2;
    assert_eq!(waiting.carried_out(&plan(9), almost, 0, &uncounted), Ok(true), "not so long");
    let since = SECOND + at_most;
    assert_eq!(waiting.carried_out(&plan(8), since, 1, &uncounted), Ok(true), "some is done");
    assert_eq!(waiting.carried_out(&plan(7), since, 0, &[]), Ok(true), "it was counted");
    assert_eq!(waiting.carried_out(&plan(6), since, 0, &uncounted), Ok(true), "from now on");
    assert!(matches!(waiting.next(&plan_of([when_due(Some(5))]), since), Next::Look(_)));
    let again = since + at_most;
    assert_eq!(waiting.carried_out(&plan(4), again, 0, &uncounted), Ok(true), "it was not planned");
    let gave_up = waiting.carried_out(&plan(3), again + at_most, 0, &uncounted).unwrap_err();
    insta::assert_snapshot!(gave_up, @"the broker has not counted the messages in shop.delay.1s for 60 s: are its statistics on, does every queue have a leader (`overdue doctor`), and is `broker.statistics_interval` as long as the broker's own interval? Nothing is lost; a later `overdue apply` deletes what is empty");
}

/// One look may see a short burst of dead letters.
#[test]
fn a_level_that_may_be_blocked_at_each_look_ends_it() {
    let leaving = Drains::Leaving {
        in_levels: Some(3),
        within: Some("11s".parse().expect("a TTL")),
        blocked: Some("shop.delay.30m".to_owned()),
    };
    let blocked = plan_of([draining("shop.old", Some(0), leaving)]);
    let after = statistics().stuck_after();
    let mut waiting = waiting_for(None);
    let Next::Look(progress) = waiting.next(&blocked, SECOND) else { panic!("it looks again") };
    insta::assert_snapshot!(progress, @"shop.old has 0 messages for workers with the old topology to consume; it stays bound until what waits for it in the levels has come out (3 messages for all timeouts); dead letters are in all slots of shop.delay.30m, so it may be blocked: `overdue verify` says by what; once that is fixed, the broker tries them again within three minutes");
    // Not so in between: it starts again.
    assert!(matches!(waiting.next(&plan_of([when_due(Some(0))]), after), Next::Look(_)));
    assert!(matches!(waiting.next(&blocked, after + SECOND), Next::Look(_)));
    let almost = 2 * after + SECOND / 2;
    assert!(matches!(waiting.next(&blocked, almost), Next::Look(_)));
    let Next::GiveUp(gave_up) = waiting.next(&blocked, 2 * after + SECOND) else {
        panic!("it may be blocked");
    };
    insta::assert_snapshot!(gave_up, @"queue shop.old stays bound: for 30 s each look has found dead letters in all slots of a level, now of shop.delay.30m, so it may be blocked. `overdue verify` says by what; once that is fixed, the broker tries them again within three minutes. Nothing is lost; a later `overdue apply` goes on");
}

/// What comes out of another level meanwhile is waited for.
#[test]
fn a_level_that_may_be_blocked_ends_no_wait_for_others() {
    let leaving = Drains::Leaving {
        in_levels: Some(3),
        within: Some("11s".parse().expect("a TTL")),
        blocked: Some("shop.delay.10m".to_owned()),
    };
    let plan = plan_of([draining("shop.old", Some(0), leaving), when_due(Some(9))]);
    let mut waiting = waiting_for(None);
    assert!(matches!(waiting.next(&plan, SECOND), Next::Look(_)));
    assert!(matches!(waiting.next(&plan, 3 * statistics().stuck_after()), Next::Look(_)));
}

/// Nothing comes in any more, so all of it is due after the TTL: what is left then no queue takes.
#[test]
fn what_does_not_come_out_when_it_is_due_ends_it() {
    let ttl = Duration::from_mins(30);
    let mut waiting = waiting_for(None);
    let plan = plan_of([when_due(Some(59))]);
    assert!(matches!(waiting.next(&plan, Duration::ZERO), Next::Look(_)));
    assert!(matches!(
        waiting.next(&plan, ttl + statistics().stuck_after().saturating_sub(SECOND)),
        Next::Look(_)
    ));
    let Next::GiveUp(gave_up) = waiting.next(&plan, ttl + statistics().stuck_after() + SECOND / 2)
    else {
        panic!("it is stuck");
    };
    insta::assert_snapshot!(gave_up, @"queue shop.delay.30m still holds 59 messages, although the last of them was due 30s ago: no queue takes them. `overdue verify` says which one blocks them; once that is fixed, the broker tries them again within three minutes. Nothing is lost");
}

/// `37m` waits in the queue of 30 minutes, then in that of 7: each has its own time, and an empty queue is not stuck.
#[test]
fn what_moves_on_along_a_ladder_is_not_stuck() {
    let along = |messages: [u64; 2], within: [&str; 2]| {
        let queues = ["shop.ladder.delay.7m", "shop.ladder.delay.30m"].into_iter();
        plan_of(queues.zip(messages).zip(within).map(|((queue, messages), within)| {
            let within = within.parse().expect("a TTL");
            draining(queue, Some(messages), Drains::AlongTheLadder { within })
        }))
    };
    let minute = Duration::from_mins(1);
    let mut waiting = waiting_for(None);
    for at in [0, 15, 29, 30] {
        let next = waiting.next(&along([0, 1], ["37m", "30m"]), at * minute);
        assert!(matches!(next, Next::Look(_)), "{at}: {next:?}");
    }
    for at in [31, 34, 37] {
        let next = waiting.next(&along([1, 0], ["7m", "30m"]), at * minute);
        assert!(matches!(next, Next::Look(_)), "{at}: {next:?}");
    }
    // Ten minutes after it came into the queue of seven.
    let next = waiting.next(&along([1, 0], ["7m", "30m"]), 41 * minute);
    let Next::GiveUp(GaveUp::Stuck { queue, late, .. }) = next else { panic!("{next:?}") };
    assert_eq!((queue.as_str(), late), ("shop.ladder.delay.7m", 3 * minute));
}

/// A million due at once take a while to come out.
#[test]
fn what_still_comes_out_is_not_stuck() {
    let after = Duration::from_mins(30) + statistics().stuck_after();
    let mut waiting = waiting_for(None);
    assert!(matches!(waiting.next(&plan_of([when_due(Some(2_000_000))]), SECOND), Next::Look(_)));
    for seconds in 0_u32..40 {
        let plan = plan_of([when_due(Some(1_000_000 - u64::from(seconds)))]);
        assert!(
            matches!(waiting.next(&plan, after + seconds * SECOND), Next::Look(_)),
            "{seconds}"
        );
    }
    let left = plan_of([when_due(Some(999_961))]);
    let since = after + 39 * SECOND;
    assert!(matches!(
        waiting.next(&left, since + statistics().stuck_after().saturating_sub(SECOND)),
        Next::Look(_)
    ));
    let next = waiting.next(&left, since + statistics().stuck_after());
    assert!(matches!(next, Next::GiveUp(GaveUp::Stuck { .. })), "{next:?}");
}

/// What is waited follows from the setting; the default is what every broker has that nobody has changed.
#[test]
fn the_waits_follow_from_the_interval_of_the_statistics() {
    let waits = |interval: StatisticsInterval| {
        let seconds = [interval.oldest_count(), interval.counts_settle(), interval.stuck_after()];
        seconds.map(|wait| wait.as_secs())
    };
    assert_eq!(waits(StatisticsInterval::default()), [10, 11, 30]);
    assert_eq!(waits(StatisticsInterval::new(SECOND)), [2, 3, 6]);
    assert_eq!(waits(StatisticsInterval::new(60 * SECOND)), [120, 121, 360]);
    // What cannot be taken back does not believe an interval that is shorter than the default.
    let least = Timing::default().least_statistics_interval;
    let surely = |interval: u32| StatisticsInterval::new(interval * SECOND).surely_settle(least);
    assert_eq!([1, 5, 60].map(surely), [11, 11, 121].map(|seconds| seconds * SECOND));
    // A queue may be without a leader for a while, however often the statistics are taken.
    for (interval, at_most) in [(1, 60), (5, 60), (60, 720)] {
        let statistics = StatisticsInterval::new(interval * SECOND);
        assert_eq!(statistics.uncounted_at_most(), at_most * SECOND, "{interval}");
    }
}
