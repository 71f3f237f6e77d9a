//! When a worker is ready, from what it knows.

use std::time::{Duration, Instant};

use overdue::internals::worker::{
    progress::{Progress, StallCheck},
    readiness::{Answer, Session, WorkerState},
};

const SILENT: Duration = Duration::from_mins(1);

/// A worker for which everything is well at `now`.
fn well(now: Instant) -> WorkerState {
    let (database, session) = (Answer::Given(now), Session::Open);
    WorkerState { database, session, lists_queues: true, ..WorkerState::default() }
}

/// The conditions that do not hold, each with its reason.
fn failed(state: &WorkerState, now: Instant) -> Vec<(&'static str, String)> {
    let conditions = state.conditions(now, SILENT);
    let names: Vec<_> = conditions.iter().map(|condition| condition.name).collect();
    assert_eq!(names, ["database", "broker", "consuming", "closing", "levels"]);
    conditions.into_iter().filter_map(|it| Some((it.name, it.failure?))).collect()
}

#[test]
fn a_worker_is_not_ready_before_it_knows_anything() {
    let names: Vec<_> =
        failed(&WorkerState::default(), Instant::now()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["database", "broker", "consuming"]);
    let now = Instant::now();
    assert_eq!(failed(&well(now), now), []);
}

#[test]
fn each_condition_fails_for_its_own_reason_and_alone() {
    let now = Instant::now();
    let reason = || "the server closed the connection".to_owned();
    let minute = Duration::from_mins(1);
    let cases = [
        (
            WorkerState { database: Answer::Failed { since: now, reason: reason() }, ..well(now) },
            ("database", "it has not answered for 60 s: the server closed the connection"),
        ),
        (
            WorkerState { unconsumed: vec!["unpaid".into(), "paid".into()], ..well(now) },
            ("consuming", "nothing is consumed for timeout unpaid, paid"),
        ),
        (
            WorkerState { unconsumed: vec!["unpaid".into()], lists_queues: false, ..well(now) },
            (
                "consuming",
                "nothing is consumed for timeout unpaid. The management API does not list its queues, so only those that the \
                 topology file names are consumed, and the next generation of each: run `overdue apply`, or give the worker's \
                 user the tag `management`",
            ),
        ),
        (
            WorkerState {
                stuck: [("close".to_owned(), 7 * minute), ("cancel".to_owned(), 6 * minute)].into(),
                ..well(now)
            },
            (
                "closing",
                "effect close: an order has been overdue for 420 s, and since its deadline this worker has closed none",
            ),
        ),
        (
            WorkerState { unrouted: vec!["2s.unpaid".into(), "2s.paid".into()], ..well(now) },
            (
                "levels",
                "the broker has no level for 2s.unpaid, 2s.paid: messages that are published there are parked; run `overdue apply`",
            ),
        ),
        (
            WorkerState { other_levels: vec!["3s".into()], stopping: true, ..well(now) },
            ("broker", "the worker is stopping"),
        ),
    ];
    for (state, (name, text)) in cases {
        assert_eq!(failed(&state, now + minute), [(name, text.to_owned())]);
    }
    let ended =
        WorkerState { session: Session::Ended { since: now, reason: reason() }, ..well(now) };
    let meanwhile = "orders are closed on time from the table; retries, parking and events wait";
    let without = [
        ("broker", format!("not connected (since 60 s); {meanwhile}: {}", reason())),
        ("consuming", "nothing is consumed".to_owned()),
    ];
    assert_eq!(failed(&ended, now + minute), without);
    let silent = [("orders.unpaid", now), ("orders.unshipped", now + minute)];
    let silent = silent.map(|(queue, since)| (queue.to_owned(), ("unpaid".to_owned(), since)));
    let state = WorkerState { silent: silent.into(), ..well(now) };
    let without =
        format!("RabbitMQ does not answer for queue orders.unpaid (since 60 s); {meanwhile}");
    assert_eq!(failed(&state, now + minute), [("broker", without)]);
    assert!(state.is_away(&["unpaid"], false) && !state.is_away(&["unshipped"], true));
}

/// Whoever asks may have stopped asking.
#[test]
fn an_old_answer_does_not_count() {
    let now = Instant::now();
    assert_eq!(failed(&well(now), now + SILENT), []);
    let late = now + SILENT + Duration::from_secs(1);
    assert_eq!(failed(&well(now), late), [("database", "its last answer is 61 s old".to_owned())]);
}

#[test]
fn what_is_overdue_counts_against_a_worker_that_had_time_for_it() {
    let (began, bound) = (Instant::now(), Duration::from_mins(5));
    let after = |s| began + Duration::from_secs(s);
    assert_eq!(Progress::Expected(began).suspect(after(299), bound), StallCheck::None);
    assert_eq!(Progress::Expected(began).suspect(after(300), bound), StallCheck::All);
    let closed = Progress::Closed(after(10)).suspect(after(40), bound);
    assert_eq!(closed, StallCheck::Since(Duration::from_secs(30)));
}
