//! The texts for why an order was closed, is late, or is not closed, and the suggested commands.

use std::{fmt::Write, time::Duration};

use jiff::Timestamp;
use overdue::internals::{
    obstacle::{Holder, Lock},
    order::{FinalState, OrderId, Outcome},
    status::{Known, Pause, State, StatusLevel},
    why::{Action, Answer, Closure, Event, Found, Notice, OrderReading, Parked, Seen},
};

fn now() -> Timestamp {
    "2026-11-26T10:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(now().as_second() - seconds).ok()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds) // data: of an order
}

fn seen(outcome: Outcome, due_at: Option<Timestamp>) -> Seen {
    Seen::new("close", vec!["unpaid".to_owned()], Known::Known(outcome), due_at, None)
}

fn overdue_by(late: u64) -> Seen {
    let outcome = Outcome::Closed { late: seconds(late), state: FinalState::CLOSED };
    seen(outcome, ago(i64::try_from(late).unwrap()))
}

fn reading(effects: Vec<Seen>) -> OrderReading {
    OrderReading {
        order: "4711".to_owned(),
        now: Some(now()),
        late_after_s: 60,
        effects,
        pauses: Known::Known(Vec::new()),
        closures: Known::Known(Found::default()),
        notices: Known::Known(Found::default()),
        parked: Known::Known(Vec::new()),
        events: Known::Known(Found::default()),
        actions: Known::Known(Vec::new()),
        general: None,
    }
}

fn closed(path: &str, late_ms: Option<u64>) -> OrderReading {
    let mut reading = reading(vec![seen(Outcome::AlreadyFinal, ago(300))]);
    let closure = Closure {
        effect: "close".to_owned(),
        path: path.to_owned(),
        outcome: "closed".to_owned(),
        due_at: ago(300),
        closed_at: ago(100),
        late_ms,
    };
    reading.closures = Known::Known(Found { rows: vec![closure], looked_at: None });
    reading
}

fn parked() -> Known<Vec<Parked>> {
    Known::Known(vec![Parked {
        timeout: Some("unpaid".to_owned()),
        reason: "no level takes the routing key `31m.unpaid`".to_owned(),
        since: ago(1_800),
        on_replay: "is published to orders.dlx".to_owned(),
    }])
}

fn notice(since: Option<Timestamp>, refused: Option<&str>) -> Known<Found<Notice>> {
    let notice = Notice {
        timeout: Some("unpaid".to_owned()),
        due_at: ago(180),
        since,
        refused: refused.map(str::to_owned),
    };
    Known::Known(Found { rows: vec![notice], looked_at: None })
}

/// A refused notice and another one, which waits.
fn refused_then(since: Option<Timestamp>) -> Known<Found<Notice>> {
    let both = [notice(ago(2_000), Some("the order id is empty")), notice(since, None)];
    let rows = both.iter().flat_map(|it| it.get().unwrap().rows.clone()).collect();
    Known::Known(Found { rows, looked_at: None })
}

fn replayed(at: Option<Timestamp>) -> Known<Vec<Action>> {
    Known::Known(vec![Action {
        at,
        by: "alice".to_owned(),
        via: "cli".to_owned(),
        action: "parked replay".to_owned(),
        what: "timeout unpaid".to_owned(),
        count: Some(40),
        why: None,
    }])
}

fn locked() -> Seen {
    let holder = Holder {
        pid: 2183,
        user: "shop".to_owned(),
        application: "backoffice".to_owned(),
        doing: Some(("idle in transaction".to_owned(), seconds(26))),
    };
    let lock = Lock { table: Some("orders".to_owned()), is_row: true, holder: Some(holder) };
    let unpaid = vec!["unpaid".to_owned()];
    Seen::new("close", unpaid, Known::Known(Outcome::Busy), ago(180), Some(&lock))
}

/// Each case with its answer.
#[test]
fn what_is_said_and_what_to_type() {
    let mut cases: Vec<(&str, OrderReading)> = vec![
        ("closed on time", closed("message", Some(12))),
        ("closed in a burst", closed("burst", Some(1_000))),
        ("closed late by its message", closed("message", Some(1_001))),
        ("closed by the sweep", closed("sweep", Some(185_000))),
        ("closed with an infinite deadline", closed("message", None)),
        ("paid", reading(vec![seen(Outcome::AlreadyFinal, ago(-600))])),
        ("overdue for a moment", reading(vec![overdue_by(1)])),
        ("overdue, and left to its message", reading(vec![overdue_by(40)])),
        ("overdue, and nothing is known", reading(vec![overdue_by(180)])),
        ("locked", reading(vec![locked()])),
        ("unheard of", reading(vec![seen(Outcome::Unknown, None)])),
        ("without an effect", reading(Vec::new())),
    ];
    let mut add = |name, mut reading: OrderReading, change: &dyn Fn(&mut OrderReading)| {
        change(&mut reading);
        cases.push((name, reading));
    };
    let (late, closed_late) =
        (|| reading(vec![overdue_by(180)]), || closed("message", Some(200_000)));
    let not_due = || reading(vec![seen(Outcome::NotDue { remaining: seconds(754) }, ago(-754))]);
    add("replayed, then closed late", closed_late(), &|it| it.actions = replayed(ago(101)));
    add("closed late, then replayed", closed_late(), &|it| it.actions = replayed(ago(99)));
    add("not due", not_due(), &|_| {});
    add("not due, and parked", not_due(), &|it| it.parked = parked());
    add("not due, and just written", not_due(), &|it| it.notices = notice(ago(1), None));
    add("late, and parked", late(), &|it| it.parked = parked());
    add("late, and its notice is refused", late(), &|it| {
        it.notices = notice(ago(180), Some("timeout `unpayed` is not in the topology"));
    });
    add("late, and one waits after a refused one", late(), &|it| {
        it.notices = refused_then(ago(1_980));
    });
    add("not due, and just written after a refused one", not_due(), &|it| {
        it.notices = refused_then(ago(1));
    });
    add("late, and its notice waits", late(), &|it| it.notices = notice(ago(1_980), None));
    add("late, as all are", late(), &|it| {
        it.general = Some(State {
            word: StatusLevel::Late,
            reason: "9 orders are overdue, by up to 3m: no worker consumes orders.unpaid"
                .to_owned(),
            next: Some("start `overdue run`, or look at its log".to_owned()),
        });
    });
    for (name, per_second) in [("paused, and parked", None), ("being resumed", Some(500))] {
        add(name, late(), &|it| {
            it.parked = parked();
            it.pauses = Known::Known(vec![Pause {
                timeout: "unpaid".to_owned(),
                why: "the payment provider is down".to_owned(),
                by: "alice".to_owned(),
                since: ago(1_200).unwrap(),
                until: ago(-2_400).unwrap(),
                per_second,
                age: seconds(1_200),
                rest: seconds(2_400),
            }]);
        });
    }
    let fails = Outcome::Failed {
        cause: "23514".to_owned(),
        reason: "stock_available_check\nx".to_owned(),
    };
    add("late, and its effect fails", reading(vec![seen(fails, ago(180))]), &|it| {
        it.parked = parked();
    });
    let guarded = Outcome::NotDue { remaining: Duration::ZERO };
    add("guarded", reading(vec![seen(guarded, ago(180))]), &|_| {});
    add("locked while it is not due", reading(vec![locked()]), &|it| it.now = ago(200));
    add("closed, and its row is gone", closed("message", Some(3)), &|it| {
        it.effects = vec![seen(Outcome::Unknown, None)];
    });
    add("unheard of, and parked", reading(vec![seen(Outcome::Unknown, None)]), &|it| {
        it.parked = parked();
    });
    let unreachable = || Known::Unknown("cannot connect to PostgreSQL at db:5432".to_owned());
    let untried = Seen::new("close", vec!["unpaid".to_owned()], unreachable(), None, None);
    add("the database does not answer", reading(vec![untried.clone()]), &|it| {
        it.closures = Known::Unknown("cannot connect".to_owned());
    });
    add("closed, and the effect cannot be tried", closed("message", Some(12)), &|it| {
        it.effects = vec![untried.clone()];
    });
    let mut text = String::new();
    for (name, reading) in &cases {
        let Answer { text: said, next } = Answer::of(reading);
        writeln!(text, "{name}\n  {said}").unwrap();
        if let Some(next) = next {
            writeln!(text, "  do: {next}").unwrap();
        }
        assert!(!said.contains('\n'), "{said}");
    }
    insta::assert_snapshot!(text);
}

/// The effect for paid orders reports a final state for an unpaid order.
#[test]
fn the_effect_that_has_something_to_do_says_why() {
    let cancel = Outcome::AlreadyFinal;
    let cancel =
        Seen::new("cancel", vec!["unshipped".to_owned()], Known::Known(cancel), None, None);
    let of_both = reading(vec![cancel, overdue_by(180)]);
    assert_eq!(of_both.leading().unwrap().effect, "close");
    assert!(of_both.asks_for_general());
    let mut parked_too = of_both;
    parked_too.parked = parked();
    assert!(!parked_too.asks_for_general(), "it is known why");
    let done = closed("message", Some(1));
    assert!(!done.asks_for_general() && done.is_known());
    let unheard = reading(vec![seen(Outcome::Unknown, None)]);
    assert!(!unheard.is_known());
}

#[test]
fn everything_that_is_known_is_shown_and_what_is_not_says_why() {
    let mut all = reading(vec![locked()]);
    all.closures = closed("message", Some(12)).closures;
    all.notices = notice(ago(1_980), None);
    all.parked = parked();
    all.actions = replayed(ago(99));
    let event = Event {
        event: Some("order.closed".to_owned()),
        since: ago(5),
        refused: Some("no queue\ntakes it".to_owned()),
    };
    all.events = Known::Known(Found { rows: vec![event], looked_at: Some(100_000) });
    let mut nothing = reading(vec![overdue_by(180)]);
    let why = || "permission denied for table closures".to_owned();
    nothing.closures = Known::Unknown(why());
    nothing.notices = Known::Unknown(why());
    nothing.parked = Known::Unknown("the broker does not answer".to_owned());
    nothing.events = Known::Unknown(why());
    nothing.actions = Known::Unknown(why());
    insta::assert_snapshot!(format!("{all}\n--\n{nothing}"));
}

#[test]
fn an_id_is_looked_for_as_the_database_spells_it() {
    let of = |id: &str| OrderId::parse(id).unwrap().spellings();
    assert_eq!(of("o-1"), ["o-1"]);
    assert_eq!(of("0047"), ["0047", "47"]);
    assert_eq!(of("47"), ["47"]);
    assert_eq!(of("-0"), ["-0", "0"]);
    let uuid = "2f1c0a3b-0000-4000-8000-00000000000b";
    assert_eq!(of("{2F1C0A3B00004000800000000000000B}")[1], uuid);
    assert_eq!(of(uuid), [uuid]);
}
