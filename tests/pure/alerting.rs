//! Times and texts of alert messages.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use overdue::internals::alerting::{
    Condition, Episodes, Facts, GoneNotices, LastHour, Message, PLACEHOLDERS, Rule, Sender,
    Template, Totals, Unpublished, Why, pause,
};
use serde_json::{Value, json};

const SENDER: Sender<'_> = Sender { alert: "on-call", topology: "orders", host: "shop-1" };

/// An alert on all conditions, and a clock that the test sets.
struct World {
    began: Instant,
    episodes: Episodes,
}

impl World {
    fn new() -> Self {
        let rule = Rule {
            on: Condition::ALL.into(),
            not_ready_for: Duration::from_mins(1),
            over_after: Duration::from_mins(5),
            again_after: Duration::from_hours(1),
        };
        Self { began: Instant::now(), episodes: Episodes::new(rule) }
    }

    fn at(&self, s: u64) -> Instant {
        self.began + Duration::from_secs(s)
    }

    /// Returns the message that is due after a reading, without marking it as sent.
    fn due(&mut self, s: u64, facts: &Facts) -> Option<Message> {
        let now = self.at(s);
        self.episodes.observe(now, facts);
        self.episodes.due(now)
    }

    /// Returns the lines of every message that is due after a reading, and marks them as sent.
    fn sent(&mut self, s: u64, facts: &Facts) -> Vec<String> {
        let (now, mut lines) = (self.at(s), Vec::new());
        self.episodes.observe(now, facts);
        while let Some(message) = self.episodes.due(now) {
            lines.push(message.line(&SENDER));
            self.episodes.sent(now, &message);
        }
        lines
    }
}

fn right() -> Facts {
    Facts {
        parked: Some(0),
        overdue: Some((0, Duration::ZERO)),
        drift: Some(0),
        ..Facts::default()
    }
}

fn parked(messages: u64) -> Facts {
    Facts { parked: Some(messages), ..right() }
}

/// Facts with these conditions of `/readyz`.
fn unready(names: &[&'static str]) -> Facts {
    let not_ready = names.iter().map(|name| (*name, "not connected: refused".to_owned()));
    Facts { not_ready: not_ready.collect(), ..right() }
}

#[test]
fn a_condition_is_told_once_then_again_after_a_while_and_then_its_end() {
    let mut world = World::new();
    let nothing: Vec<String> = Vec::new();
    assert_eq!(world.sent(0, &right()), nothing);
    let line = |text: &str| format!("[overdue orders] {text}");
    let wrong = "parked on shop-1: 3 messages are parked; since 0s; docs/runbooks.md#overdueparked";
    assert_eq!(world.sent(5, &parked(3)), [line(wrong)]);
    assert_eq!(world.sent(3_604, &parked(4)), nothing);
    let again =
        "parked on shop-1: 4 messages are parked; since 60m; docs/runbooks.md#overdueparked";
    assert_eq!(world.sent(3_605, &parked(4)), [line(again)]);
    // An unknown value neither begins nor ends an alert.
    assert_eq!(world.sent(4_000, &Facts { parked: None, ..right() }), nothing);
    let over = "parked is over on shop-1; it was: 4 messages are parked; it began 66m ago";
    assert_eq!(world.sent(4_001, &right()), [line(over)]);
    assert_eq!(world.sent(90_000, &right()), nothing);
}

#[test]
fn a_condition_that_comes_and_goes_is_one_condition() {
    let mut world = World::new();
    assert_eq!(world.sent(0, &parked(1)).len(), 1);
    assert_eq!(world.sent(299, &right()).len(), 0);
    assert_eq!(world.sent(400, &parked(1)).len(), 0);
    assert_eq!(world.sent(699, &right()).len(), 0);
    assert_eq!(world.sent(700, &right()).len(), 1);
}

#[test]
fn a_message_that_is_not_taken_is_made_again_from_what_is_known_then() {
    let mut world = World::new();
    assert_eq!(world.due(0, &parked(1)).unwrap().text, "1 message is parked");
    let later = world.due(60, &parked(2)).unwrap();
    assert_eq!(later.text, "2 messages are parked");
    // The condition ends before any message was sent: no message about it follows.
    assert!(world.due(65, &right()).unwrap().is_over);
    assert!(!world.due(70, &parked(2)).unwrap().is_over);
    let over = world.due(360, &right()).unwrap();
    assert!(over.is_over);
    // The condition begins again while the message about its end is sent: this is a new alert.
    world.episodes.observe(world.at(361), &parked(3));
    world.episodes.sent(world.at(362), &over);
    assert!(!world.due(363, &parked(3)).unwrap().is_over);
}

#[test]
fn not_ready_is_told_after_a_while_and_not_of_a_moment() {
    let mut world = World::new();
    let not_ready = unready(&["broker"]);
    assert_eq!(world.due(0, &not_ready), None);
    assert_eq!(world.due(59, &not_ready), None);
    assert_eq!(world.due(61, &right()), None);
    assert_eq!(world.due(70, &not_ready), None);
    assert_eq!(world.due(1_000, &right()), None, "it was over before it was worth a message");
    assert_eq!(world.due(2_000, &not_ready), None);
    assert_eq!(world.due(2_060, &not_ready).unwrap().condition, Some(Condition::NotReady));
}

/// A long-lasting bad order or condition does not suppress later alerts.
#[test]
fn something_else_and_much_more_are_news() {
    let minute = Duration::from_mins(1);
    let open =
        |orders| Facts { overdue: Some((orders, 2 * minute)), late_after: minute, ..right() };
    let mut world = World::new();
    assert_eq!(world.sent(0, &open(1)).len(), 1);
    assert_eq!(world.sent(5, &open(9)).len(), 0);
    assert_eq!(world.sent(10, &open(10)).len(), 1);
    for orders in [10, 99, 1, 10, 99] {
        assert_eq!(world.sent(15, &open(orders)).len(), 0, "{orders}");
    }
    let late = Facts { closed_late: 2 * minute, ..open(10) };
    let lines = world.sent(20, &late);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("10 orders are overdue, by up to 2m; orders were closed up to 2m after"));
    assert_eq!(world.sent(25, &late).len() + world.sent(30, &open(10)).len(), 0);
    assert_eq!(world.sent(35, &late).len(), 0, "it was told");
    assert_eq!(world.sent(40, &Facts { parked: Some(1), ..late.clone() }).len(), 1);
    assert_eq!(world.sent(45, &Facts { parked: Some(12), ..late }).len(), 1);

    let mut world = World::new();
    assert_eq!(world.sent(0, &unready(&["closing"])).len(), 0);
    assert_eq!(world.sent(60, &unready(&["closing"])).len(), 1);
    assert_eq!(world.sent(65, &unready(&["broker", "closing"])).len(), 1);
    assert_eq!(world.sent(70, &unready(&["broker"])).len(), 0);
    assert_eq!(world.sent(75, &unready(&["database", "broker"])).len(), 1);
}

/// The cause is the worker's own failure.
#[test]
fn the_reason_is_in_the_message() {
    let minute = Duration::from_mins(2);
    let unpublished = Some(Unpublished { waiting: 3, oldest: minute, refused: 0 });
    let why = Why {
        late: Some("effect `close` failed: column \"x\" does not exist".to_owned()),
        outbox: Some("permission denied for table outbox".to_owned()),
        scheduled: Some("no confirm for `30m`".to_owned()),
        parked: Some("this worker parked the last one 5s ago, o-7: SQLSTATE P0001: no".to_owned()),
    };
    // Open orders are named before orders that were closed late.
    let facts = Facts {
        overdue: Some((2, minute)),
        closed_late: minute,
        outbox: unpublished,
        scheduled: unpublished,
        parked: Some(3),
        why,
        ..right()
    };
    let mut world = World::new();
    world.episodes.observe(world.began, &facts);
    let lines = world.sent(0, &facts);
    insta::assert_snapshot!(lines.join("\n"));
}

/// Each condition at its limit and above it.
#[test]
fn every_condition_has_its_limit_and_its_words() {
    let minute = Duration::from_mins(1);
    let more = minute + Duration::from_secs(1);
    let unpublished = |waiting, oldest, refused| Some(Unpublished { waiting, oldest, refused });
    let overdue = |oldest| Facts { overdue: Some((2, oldest)), late_after: minute, ..right() };
    let closed = |closed_late| Facts { closed_late, late_after: minute, ..right() };
    let outbox = |outbox| Facts { outbox, ..right() };
    let scheduled = |scheduled| Facts { scheduled, ..right() };
    let at_limit = [
        overdue(minute),
        closed(minute),
        outbox(unpublished(9, minute, 0)),
        scheduled(unpublished(9, minute, 0)),
        Facts { swept: (0, 7), ..right() },
    ];
    for facts in at_limit {
        assert_eq!(World::new().due(0, &facts), None, "{facts:?}");
    }
    let above = [
        overdue(more),
        closed(more),
        outbox(unpublished(1, more, 0)),
        outbox(unpublished(0, Duration::ZERO, 2)),
        scheduled(unpublished(3, more, 0)),
        scheduled(unpublished(0, Duration::ZERO, 1)),
        Facts { swept: (20, 27), ..right() },
        Facts { gone: Some(notices(15, 20)), ..right() },
        Facts { drift: Some(1), ..right() },
        Facts { clock_leap: 10 * minute, ..right() },
    ];
    let texts = above.map(|facts| {
        let message = World::new().due(0, &facts).unwrap_or_else(|| panic!("{facts:?}"));
        format!("{}: {}", message.about(), message.text)
    });
    insta::assert_snapshot!(texts.join("\n"), @r"
    late: 2 orders are overdue, by up to 61s
    late: orders were closed up to 61s after their deadline
    outbox: 1 event not published, for up to 61s
    outbox: the broker refuses or does not confirm 2 events
    scheduled: 3 scheduled notices not published, for up to 61s
    scheduled: 1 scheduled notice cannot be published
    sweep: the sweep closed 27 orders before a message came, since the worker started
    gone: 15 of 20 notices of unpaid in the last hour found no row
    drift: the broker differs from the topology file: 1 finding of `overdue verify`
    clock: the database's clock has leapt forward by 10m: sweep and bursts wait for an hour
    ");
}

fn notices(gone: u64, all: u64) -> GoneNotices {
    GoneNotices { timeout: "unpaid".to_owned(), gone, all }
}

/// More than half of at least twenty notices in the last hour.
#[test]
fn most_notices_of_an_hour_find_no_row() {
    let (began, minute) = (Instant::now(), Duration::from_mins(1));
    let totals = |of: &[(&str, u64, u64)]| -> Totals {
        of.iter().map(|(name, gone, all)| ((*name).to_owned(), (*gone, *all))).collect()
    };
    let mut hour = LastHour::new();
    let mut read =
        |minutes: u32, of: &[(&str, u64, u64)]| hour.read(began + minutes * minute, totals(of));
    assert_eq!(read(0, &[("unpaid", 0, 0)]), None);
    assert_eq!(read(1, &[("unpaid", 19, 19)]), None, "too few say nothing");
    assert_eq!(read(2, &[("unpaid", 20, 40)]), None, "half");
    assert_eq!(read(3, &[("unpaid", 21, 41), ("held", 9, 99)]), Some(notices(21, 41)));
    for minutes in 4..=62 {
        read(minutes, &[("unpaid", 21, 41)]);
    }
    // Notices before the last hour are not counted.
    assert_eq!(read(63, &[("unpaid", 41, 61)]), Some(notices(20, 20)));
    assert_eq!(read(64, &[("unpaid", 41, 101)]), None);
}

/// The tables of docs/alerts.md, and the runbooks that messages name.
#[test]
fn the_documented_conditions_and_placeholders_are_those_of_the_program() {
    let read =
        |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (page, runbooks) = (read("docs/alerts.md"), read("docs/runbooks.md"));
    for condition in Condition::ALL {
        let runbook = condition.runbook();
        let (_, heading) = runbook.split_once('#').unwrap();
        let heading = runbooks
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .find(|it| it.to_lowercase() == heading)
            .unwrap_or_else(|| panic!("{runbook}"));
        let link = runbook.trim_start_matches("docs/");
        let row =
            format!("| `{}` | {} | [{heading}]({link}) |", condition.name(), condition.limit());
        assert!(page.contains(&row), "{row}");
    }
    for (name, about) in PLACEHOLDERS {
        let row = format!("| `{{{name}}}` | {about} |");
        assert!(page.contains(&row), "{row}");
    }
}

fn message() -> Message {
    let text = "3 messages: \"a\\b\"\n<!channel> <at user_id=\"all\">".to_owned();
    let condition = Some(Condition::Parked);
    Message { condition, is_over: false, text, lasted: Duration::from_mins(125) }
}

/// The examples of docs/alerts.md, as sent. Text from a message stays in its string, so it cannot mention anyone.
#[test]
fn the_documented_bodies_are_filled_in() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.md");
    let page = fs::read_to_string(page).unwrap();
    let parts: Vec<&str> = page.split("'''").collect();
    let bodies: Vec<&str> = parts.into_iter().skip(1).step_by(2).collect();
    assert_eq!(bodies.len(), 5, "Slack, DingTalk, Feishu, Teams, PagerDuty");
    let over = Message { is_over: true, ..message() };
    let shown = bodies.into_iter().map(|body| {
        let template = Template::parse(body).unwrap();
        assert!(template.is_json());
        let rendered = message().body(&template, &SENDER);
        assert!(!rendered.contains(['<', '>']), "{rendered}");
        let value: Value = serde_json::from_str(&rendered).unwrap();
        assert!(serde_json::from_str::<Value>(&over.body(&template, &SENDER)).is_ok());
        serde_json::to_string_pretty(&value).unwrap()
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_template_is_text_or_json() {
    let rendered =
        |text: &str, message: &Message| message.body(&Template::parse(text).unwrap(), &SENDER);
    let all = "{topology} {host} {alert} {condition} {state} {action} {title} {runbook} { } {{x";
    let test = Message::test();
    assert_eq!(
        rendered(all, &test),
        "orders shop-1 on-call test firing trigger [overdue orders] test on shop-1  { } {{x"
    );
    let over = Message { is_over: true, ..message() };
    assert_eq!(rendered("{state} {action}", &over), "resolved resolve");
    let json: Value = serde_json::from_str(&rendered("{\"text\": \"{text}\"}", &test)).unwrap();
    let line = test.line(&SENDER);
    assert_eq!(json, json!({ "text": line }));
    let list = rendered("[{\"summary\": \"{text}\"}]", &message());
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[0]["summary"].as_str().unwrap().matches("\"a\\b\"").count(), 1, "{list}");
    for text in ["[overdue] {state}", "[{topology}] {state}", "[]", "[1] {text}"] {
        assert!(!Template::parse(text).unwrap().is_json(), "{text}");
    }
    assert_eq!(rendered("[{topology}] {state}", &test), "[orders] firing");
    let long = Message { text: "ü".repeat(100_000), ..message() };
    assert!(rendered("{text}", &long).len() < 2_000);
    let mistakes = [
        "{\n  \"text\": \"{tekst} {text}\", \"x\": \"{TEXT}\"\n}",
        "{\"text\": \"{text}\",}",
        "{\"text\": {text}}",
        "[{\"text\": \"{text}\"},]",
        "{\"text\": \"{text}\", \"limit\": 1e999}",
        "in words: {everything}",
    ];
    let mistakes = mistakes.map(|text| Template::parse(text).unwrap_err());
    insta::assert_snapshot!(mistakes.join("\n"), @r"
    body has the unknown placeholder {tekst} at line 2, column 12; did you mean {text}?; body has the unknown placeholder {TEXT} at line 2, column 35; there are text, title, condition, state, action, topology, host, alert, runbook
    body begins like JSON and is not JSON at line 1, column 19
    body begins like JSON and is not JSON at line 1, column 11
    body begins like JSON and is not JSON at line 1, column 21
    body begins like JSON and is not JSON at line 1, column 33
    body has the unknown placeholder {everything} at line 1, column 11; there are text, title, condition, state, action, topology, host, alert, runbook
    ");
}

#[test]
fn pauses_grow_and_the_other_side_may_ask_for_a_longer_one() {
    let s = Duration::from_secs;
    let pauses: Vec<Duration> = (1..9).map(|failures| pause(failures, None)).collect();
    assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 120, 120].map(s));
    assert_eq!(pause(u32::MAX, Some(s(1))), s(120));
    assert_eq!(pause(1, Some(s(300))), s(300));
    assert_eq!(pause(1, Some(s(1_000_000))), s(3_600));
}
