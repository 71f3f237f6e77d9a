//! `overdue status` as data: the first line, the screen, and the sums.

use std::time::Duration;

use overdue::internals::{
    obstacle::{Holder, Lock, Obstacle},
    status::{
        BrokerReading, BusinessQueue, Closings, DatabaseReading, Due, Failing, Known, Level,
        MINUTES, Pause, Reading, State, StatusLevel, WaitingEvents, WaitingNotices, Wrong,
    },
};
use proptest::prelude::*;

fn business(ready: u64, in_hand: u64, consumers: u64) -> BusinessQueue {
    BusinessQueue {
        name: "orders.unpaid".to_owned(),
        ready: Some(ready),
        in_hand: Some(in_hand),
        consumers: Some(consumers),
    }
}

fn level(name: &str, retry: bool, waiting: Option<u64>) -> Level {
    Level { name: name.to_owned(), retry, waiting }
}

/// A healthy reading with work to do.
fn well() -> Reading {
    let mut minutes = vec![0; MINUTES];
    for (minute, orders) in minutes.iter_mut().enumerate() {
        *orders = u64::try_from(minute * minute % 37).unwrap();
    }
    let due = Due { minutes, next_s: Some(12), ..Due::default() };
    let closings = Closings {
        window_s: 300.0,
        closed: 3_021,
        closed_per_s: 10.25,
        due_last_minute: 615,
        p50_s: 0.0123,
        p99_s: 0.34,
        max_s: 2.14,
        by_message: 3_021,
        by_burst: 0,
        by_sweep: 0,
        swept_last_minute: 0,
        best_per_s: 310,
        last_s: Some(0.1),
    };
    Reading {
        topology: "orders".to_owned(),
        database: Known::Known(DatabaseReading {
            clock: "2026-11-22 10:30:00 UTC".to_owned(),
            closings,
            due: Known::Known(due),
            obstacle: None,
            outbox: WaitingEvents::default(),
            scheduled: Some(WaitingNotices::default()),
        }),
        broker: Known::Known(BrokerReading {
            levels: vec![
                level("5s", true, Some(0)),
                level("30s", true, Some(3)),
                level("30m", false, Some(18_234)),
                level("30m (2)", false, None),
            ],
            business: vec![business(0, 12, 2)],
            parked: Some(0),
            wrong: None,
            parked_reasons: Vec::new(),
        }),
        pauses: Known::Known(Vec::new()),
        failing: Vec::new(),
        counts_age_s: 10,
        late_after_s: 60,
    }
}

fn database(reading: &mut Reading) -> &mut DatabaseReading {
    match &mut reading.database {
        Known::Known(database) => database,
        Known::Unknown(_) => unreachable!("it is known"),
    }
}

fn broker(reading: &mut Reading) -> &mut BrokerReading {
    match &mut reading.broker {
        Known::Known(broker) => broker,
        Known::Unknown(_) => unreachable!("it is known"),
    }
}

fn changed(change: impl FnOnce(&mut Reading)) -> Reading {
    let mut reading = well();
    change(&mut reading);
    reading
}

fn late(reading: &mut Reading) {
    waits(reading, 312, 250);
}

/// `orders` orders are overdue, and others are closed.
fn waits(reading: &mut Reading, orders: u64, oldest_s: u64) {
    if let Known::Known(due) = &mut database(reading).due {
        (due.overdue, due.oldest_s) = (orders, oldest_s);
    }
}

/// `orders` orders are overdue, and none was closed meanwhile.
fn stuck(reading: &mut Reading, orders: u64, oldest_s: u64) {
    waits(reading, orders, oldest_s);
    database(reading).closings.last_s = Some(f64::from(u32::try_from(oldest_s).unwrap()));
}

fn pause(per_second: Option<u32>) -> Pause {
    Pause {
        timeout: "unpaid".to_owned(),
        why: "the payment provider is down".to_owned(),
        by: "alice".to_owned(),
        since: "2026-11-22T10:10:00Z".parse().unwrap(),
        until: "2026-11-22T11:10:00Z".parse().unwrap(),
        per_second,
        age: Duration::from_mins(20),  // data: a pause
        rest: Duration::from_mins(40), // data: a pause
    }
}

fn lock() -> Obstacle {
    let doing = Some(("idle in transaction".to_owned(), Duration::from_secs(14)));
    let (user, application) = ("shop".to_owned(), "backoffice".to_owned());
    let holder = Some(Holder { pid: 2183, user, application, doing });
    Obstacle::lock(Some("o-1"), &Lock { table: Some("events".to_owned()), is_row: true, holder })
}

fn column() -> Obstacle {
    Obstacle::of_all(
        "expire",
        "effect `expire` (expire.sql, line 23) failed: column \"seats_free\" does not exist",
    )
}

fn events(events: u64, oldest_s: u64, refused: u64) -> WaitingEvents {
    WaitingEvents { events, more: false, oldest_s, refused }
}

const fn notices(notices: u64, oldest_s: u64, refused: u64) -> WaitingNotices {
    WaitingNotices { notices, more: false, oldest_s, refused }
}

fn no_broker(reading: &mut Reading) {
    reading.broker = Known::Unknown("cannot reach the management API".to_owned());
}

fn wrong(is_error: bool) -> Wrong {
    let (reason, next) = ("policy short: it has max-length 10", "clear it");
    Wrong { is_error, reason: reason.to_owned(), next: next.to_owned() }
}

fn line(reading: &Reading) -> String {
    let State { word, reason, next } = State::of(reading);
    format!("{word:?}: {reason} | {}", next.unwrap_or_default())
}

#[test]
fn the_first_line_says_why_and_what_to_do() {
    let cases = [
        well(),
        changed(late),
        changed(|it| {
            late(it);
            broker(it).business[0] = business(0, 0, 2);
            broker(it).levels[1].waiting = Some(1);
        }),
        changed(|it| {
            late(it);
            broker(it).business[0] = business(0, 0, 2);
            broker(it).levels[1].waiting = Some(0);
        }),
        changed(|it| {
            late(it);
            broker(it).business[0] = business(312, 0, 0);
        }),
        changed(|it| {
            late(it);
            broker(it).business[0] = business(300, 12, 2);
        }),
        changed(|it| {
            late(it);
            broker(it).parked = Some(312);
        }),
        changed(|it| broker(it).business[0].consumers = Some(0)),
        changed(|it| broker(it).parked = Some(1)),
        changed(|it| database(it).closings.swept_last_minute = 4),
        changed(|it| {
            database(it).outbox =
                WaitingEvents { events: 900, more: false, oldest_s: 95, refused: 0 };
        }),
        changed(|it| database(it).outbox = events(0, 0, 2)),
        changed(|it| it.database = Known::Unknown("cannot connect to PostgreSQL".to_owned())),
        changed(no_broker),
        changed(|it| {
            late(it);
            no_broker(it);
        }),
        changed(|it| {
            database(it).due = Known::Unknown("effect `x` has no overdue_sql".to_owned());
            no_broker(it);
        }),
        changed(|it| database(it).scheduled = Some(notices(7, 61, 0))),
        changed(|it| database(it).scheduled = Some(notices(0, 0, 1))),
        changed(|it| database(it).due = Known::Unknown("effect `x` has no overdue_sql".to_owned())),
        changed(|it| it.pauses = Known::Known(vec![pause(None)])),
        changed(|it| {
            stuck(it, 312, 250);
            database(it).obstacle = Some(column());
            it.pauses = Known::Known(vec![pause(None)]);
        }),
        changed(|it| {
            late(it);
            it.pauses = Known::Known(vec![pause(Some(500))]);
        }),
    ];
    let lines = cases.iter().map(line);
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

/// An order with a lost message waits for the sweep while others are closed: it is not late, but it is reported.
#[test]
fn a_rest_below_the_grace_is_not_late() {
    assert_eq!(line(&changed(|it| waits(it, 5, 2))), "Ok: orders are closed on time | ");
    let rest = changed(|it| waits(it, 5, 60));
    assert_eq!(line(&rest), "Ok: orders are being closed; 5 orders overdue, by up to 60s | ");
    assert_eq!(State::of(&changed(|it| waits(it, 5, 61))).word, StatusLevel::Late);
}

/// The state and the known cause are reported within seconds.
#[test]
fn it_is_never_ok_while_nothing_is_closed() {
    let cases = [
        changed(|it| stuck(it, 29, 10)),
        changed(|it| {
            stuck(it, 29, 10);
            database(it).closings.last_s = None;
            broker(it).business[0] = business(0, 0, 2);
            broker(it).levels[1].waiting = Some(0);
        }),
        // Before the first order is overdue.
        changed(|it| database(it).obstacle = Some(column())),
        changed(|it| {
            stuck(it, 29, 10);
            database(it).obstacle = Some(column());
            // Earlier results do not describe the present.
            database(it).closings.by_sweep = 276;
            database(it).closings.swept_last_minute = 3;
            broker(it).parked = Some(41);
        }),
        // An order is locked, and the others are closed.
        changed(|it| {
            waits(it, 12, 26);
            database(it).obstacle = Some(lock());
        }),
        changed(|it| {
            stuck(it, 29, 10);
            let denied = "permission denied for table events";
            database(it).obstacle = Some(Obstacle::right("on_call", denied));
        }),
        // The user of `status` may have fewer rights than a worker.
        changed(|it| database(it).obstacle = Some(Obstacle::right("on_call", "permission denied"))),
        changed(|it| {
            stuck(it, 29, 10);
            let reason = "effect expire: permission denied for table events".to_owned();
            it.failing = vec![Failing { work: "closing".to_owned(), reason }];
        }),
        changed(|it| {
            stuck(it, 50, 9);
            database(it).scheduled = Some(notices(50, 9, 0));
        }),
        changed(|it| {
            stuck(it, 5, 9);
            broker(it).wrong = Some(wrong(true));
        }),
        changed(|it| broker(it).wrong = Some(wrong(true))),
        changed(|it| broker(it).wrong = Some(wrong(false))),
        changed(|it| {
            broker(it).wrong = Some(wrong(false));
            broker(it).parked = Some(2);
        }),
        changed(|it| {
            stuck(it, 207, 60);
            broker(it).business[0] = business(207, 0, 0);
        }),
        changed(|it| {
            stuck(it, 3, 5);
            no_broker(it);
        }),
        changed(|it| {
            let reason = "permission denied for table outbox".to_owned();
            it.failing = vec![Failing { work: "relay".to_owned(), reason }];
            database(it).outbox = events(153, 11, 0);
        }),
        changed(|it| {
            let reason = "not connected (since 40 s); orders are closed on time from the table; retries, parking and events wait: refused".to_owned();
            it.failing = vec![Failing { work: "broker".to_owned(), reason }];
            no_broker(it);
        }),
        changed(|it| {
            let reason =
                "not connected (since 40 s); orders are closed on time from the table".to_owned();
            it.failing = vec![Failing { work: "broker".to_owned(), reason }];
            broker(it).business[0].consumers = Some(0);
        }),
        changed(|it| {
            it.pauses = Known::Known(vec![pause(None)]);
            broker(it).business[0].consumers = Some(0);
        }),
    ];
    let lines = cases.iter().map(line);
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

/// The screen shows what is visible without `pg_read_all_stats`, and names the missing right.
#[test]
fn a_lock_says_who_holds_it() {
    let hidden =
        Holder { pid: 7, user: "shop".to_owned(), application: String::new(), doing: None };
    let lock = |table: Option<&str>, is_row, holder| {
        Lock { table: table.map(str::to_owned), is_row, holder }.to_string()
    };
    let grant = "pid 7 (user shop); what it does shows with GRANT pg_read_all_stats";
    assert_eq!(
        lock(Some("events"), true, Some(hidden.clone())),
        format!("a row of events is locked by {grant}")
    );
    assert_eq!(lock(Some("orders"), false, Some(hidden)), format!("orders is locked by {grant}"));
    let unseen = "a row that it needs is locked by a transaction that was not seen";
    assert_eq!(lock(None, true, None), unseen);
}

#[test]
fn the_screen() {
    insta::assert_snapshot!("status_well", well().to_string());
    let reading = changed(|it| {
        late(it);
        let reasons =
            ["the database does not know this order; given up after 3 retries", "\u{1b}[2J"];
        let broker = broker(it);
        broker.parked = Some(43);
        broker.parked_reasons = reasons.map(|reason| (reason.to_owned(), 21)).to_vec();
        database(it).outbox = WaitingEvents { more: true, ..events(100_000, 95, 3) };
        database(it).scheduled = Some(notices(40, 61, 2));
        database(it).closings = Closings { window_s: 300.0, ..Closings::default() };
    });
    insta::assert_snapshot!("status_late", reading.to_string());
    let down =
        Known::Unknown("cannot connect to PostgreSQL at db:5432 database `shop`: ".repeat(3));
    insta::assert_snapshot!("status_down", changed(|it| it.database = down).to_string());
}

/// The screen judges the rate only if no other reading contradicts it.
#[test]
fn the_rate_is_judged_by_what_is_so() {
    let judged = |best_per_s: u64, overdue: u64| {
        let reading = changed(|it| {
            database(it).closings.best_per_s = best_per_s;
            if let Known::Known(due) = &mut database(it).due {
                (due.overdue, due.minutes[0]) = (overdue, 6_000);
            }
        });
        let screen = reading.to_string();
        screen.lines().find(|line| line.contains("closed at best")).unwrap().trim().to_owned()
    };
    assert_eq!(judged(100, 5), "closed at best 100/s: which suffices");
    assert_eq!(judged(99, 5), "closed at best 99/s: which does not suffice");
    assert_eq!(judged(99, 0), "closed at best 99/s: more was not needed lately");
    let stopped = changed(|it| {
        stuck(it, 207, 60);
        if let Known::Known(due) = &mut database(it).due {
            due.minutes[0] = 6_000;
        }
    });
    let screen = stopped.to_string();
    assert!(screen.contains("closed at best 310/s, and nothing for 60s\n"), "{screen}");
}

proptest! {
    /// A line fits into 80 columns for any counts; only the reason in the first lines is never cut.
    #[test]
    fn every_line_fits(
        counts in prop::collection::vec(any::<u64>().prop_map(|n| n / 100_000), 66),
        names in prop::collection::vec(".{0,100}", 3),
    ) {
        let reading = changed(|it| {
            let reading = broker(it);
            reading.levels = names.iter().map(|name| level(name, true, Some(counts[0]))).collect();
            reading.business[0].name.clone_from(&names[1]);
            reading.parked = Some(counts[1]);
            reading.parked_reasons = vec![(names[2].clone(), counts[2])];
            let due = Due { minutes: counts[6..].to_vec(), overdue: 0, ..Due::default() };
            database(it).due = Known::Known(Due { minutes: due.minutes.iter().map(|n| n % 1_000_000).collect(), ..due });
        });
        let screen = reading.to_string();
        for line in screen.lines().skip(3) {
            prop_assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
            prop_assert!(!line.contains(char::from(27)));
        }
    }

    #[test]
    fn what_comes_due_adds_up(one in prop::collection::vec(0_u64..1_000, MINUTES), other in prop::collection::vec(0_u64..1_000, MINUTES)) {
        let due = |minutes: &[u64]| Due { minutes: minutes.to_vec(), ..Due::default() };
        let both = due(&one).and(&due(&other));
        prop_assert_eq!(both.coming(), one.iter().sum::<u64>() + other.iter().sum::<u64>());
        let most = one.iter().zip(&other).map(|(one, other)| one + other).max().unwrap();
        prop_assert_eq!(both.busiest().map_or(0, |it| it.1), most);
    }
}
