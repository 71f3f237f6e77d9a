//! `overdue status` as data: the first line, the screen, and what is added up.

use overdue::internals::status::{
    BrokerReading, BusinessQueue, Closings, DatabaseReading, Due, Known, Level, MINUTES, Reading,
    State, WaitingEvents, WaitingNotices, Word,
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

/// All is well, and there is something to do.
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
        ahead: 0,
        by_sweep: 0,
        best_per_s: 310,
    };
    Reading {
        topology: "orders".to_owned(),
        database: Known::Known(DatabaseReading {
            clock: "2026-11-22 10:30:00 UTC".to_owned(),
            closings,
            due: Known::Known(due),
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
            parked_reasons: Vec::new(),
        }),
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
    if let Known::Known(due) = &mut database(reading).due {
        (due.overdue, due.oldest_s) = (312, 250);
    }
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
        changed(|it| database(it).closings.by_sweep = 4),
        changed(|it| {
            database(it).outbox = WaitingEvents { events: 900, oldest_s: 95, refused: 0 };
        }),
        changed(|it| {
            database(it).outbox = WaitingEvents { events: 0, oldest_s: 0, refused: 2 };
        }),
        changed(|it| it.database = Known::Unknown("cannot connect to PostgreSQL".to_owned())),
        changed(|it| it.broker = Known::Unknown("cannot reach the management API".to_owned())),
        changed(|it| {
            late(it);
            it.broker = Known::Unknown("cannot reach the management API".to_owned());
        }),
        changed(|it| {
            database(it).due = Known::Unknown("effect `x` has no overdue_sql".to_owned());
            it.broker = Known::Unknown("cannot reach the management API".to_owned());
        }),
        changed(|it| {
            database(it).scheduled = Some(WaitingNotices { notices: 7, oldest_s: 61, refused: 0 });
        }),
        changed(|it| {
            database(it).scheduled = Some(WaitingNotices { notices: 0, oldest_s: 0, refused: 1 });
        }),
        changed(|it| database(it).due = Known::Unknown("effect `x` has no overdue_sql".to_owned())),
    ];
    let lines = cases.iter().map(|reading| {
        let State { word, reason, next } = State::of(reading);
        format!("{word:?}: {reason} | {}", next.unwrap_or_default())
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_rest_below_the_grace_is_not_late() {
    let reading = changed(|it| {
        if let Known::Known(due) = &mut database(it).due {
            (due.overdue, due.oldest_s) = (5, 60);
        }
    });
    assert_eq!(State::of(&reading).word, Word::Ok);
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
        database(it).outbox = WaitingEvents { events: 900, oldest_s: 95, refused: 3 };
        database(it).scheduled = Some(WaitingNotices { notices: 40, oldest_s: 61, refused: 2 });
        database(it).closings = Closings { window_s: 300.0, ..Closings::default() };
    });
    insta::assert_snapshot!("status_late", reading.to_string());
    let down =
        Known::Unknown("cannot connect to PostgreSQL at db:5432 database `shop`: ".repeat(3));
    insta::assert_snapshot!("status_down", changed(|it| it.database = down).to_string());
}

/// What was closed is called enough, or not needed, only where nothing says otherwise.
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
        screen
            .lines()
            .find(|line| line.contains("closed at best"))
            .map(|line| line.trim().to_owned())
    };
    assert_eq!(judged(100, 5).as_deref(), Some("closed at best 100/s: which suffices"));
    assert_eq!(judged(99, 5).as_deref(), Some("closed at best 99/s: which does not suffice"));
    assert_eq!(judged(99, 0).as_deref(), Some("closed at best 99/s: more was not needed lately"));
}

proptest! {
    /// Whatever is counted, a line fits into 80 columns; only the reason in the first lines is never cut.
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
