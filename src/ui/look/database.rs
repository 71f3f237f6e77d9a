//! What the database has: what comes due, what waits to be published, and what people have done.

use std::{sync::Arc, time::Duration};

use axum::{Extension, extract::State, response::Response};

use super::{BAD, LOOK, Row, Said, Section, answer};
use crate::{
    oncall::failure::Failure,
    status::{Burst, DueSoon, Known, LastHour, Lateness},
    store::{Store, StoreError, outbox::PassedOver, schedule::ScheduleUse},
    text::{about, counted, one_line},
    ui::{access::Session, chart::Chart, server::Ui},
};

/// How far is looked ahead.
const HOURS: u32 = 12;
/// Actions that are shown.
const ACTIONS: i64 = 200;
/// Reasons of refusals that are shown.
const REASONS: i64 = 50;
/// Where counting ends.
const MOST_WAITING: i64 = 1_000_000;

/// `/soon`
pub(super) async fn soon(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let services = ui.services();
    let hour = match services.store.last_hour().await {
        Ok(hour) => hour,
        Err(error) => {
            let sections = vec![Section::failed("Lateness of the last hour", text(error))];
            return answer(&ui, &session, "/soon", None, sections);
        }
    };
    let soon = services.store.due_soon(services.effects.values(), HOURS, hour.rate).await;
    let mut sections = match soon {
        Ok(Known::Known(soon)) => due(&soon, &hour),
        Ok(Known::Unknown(why)) => vec![Section::failed("Due soon", why)],
        Err(error) => vec![Section::failed("Due soon", text(error))],
    };
    sections.push(lateness(&hour));
    answer(&ui, &session, "/soon", None, sections)
}

fn due(soon: &DueSoon, hour: &LastHour) -> Vec<Section> {
    let rate = format!("{:.0} orders/s", hour.rate.per_s);
    let rate = if hour.rate.measured {
        format!("{rate}, as in the last hour")
    } else {
        format!("{rate}, which is assumed: fewer were due in the last hour")
    };
    let more = if soon.more { "More than were counted: the last hours have too few. " } else { "" };
    let burst = |burst: &Burst| Row {
        tone: if burst.late_s > 60.0 { LOOK } else { "" },
        cells: vec![
            if burst.in_s == 0 { "now".to_owned() } else { format!("in {}", seconds(burst.in_s)) },
            counted(burst.orders, "order"),
            format!("within {}", seconds(burst.lasts_s)),
            format!("up to {}", late(burst.late_s)),
        ],
    };
    let bursts = Section {
        title: "The largest bursts",
        note: format!("{more}Closed at {rate}."),
        head: &["when", "orders", "due", "late"],
        rows: soon.bursts.iter().map(burst).collect(),
        ..Section::default()
    };
    let chart = Chart::due(soon);
    let note = format!("{}; {} overdue now.", chart.says, counted(soon.overdue, "order"));
    let hours =
        Section { title: "Orders that come due", note, chart: Some(chart), ..Section::default() };
    vec![hours, bursts]
}

fn lateness(hour: &LastHour) -> Section {
    let row = |name: &str, it: &Lateness| {
        let Lateness { orders, p50_s, p99_s, max_s } = it;
        Row::plain([name.to_owned(), orders.to_string(), late(*p50_s), late(*p99_s), late(*max_s)])
    };
    let each = hour.by_path.iter().map(|(path, it)| row(path, it));
    let chart = Chart::closed(hour);
    Section {
        title: "Lateness of the last hour",
        note: format!("{}.", chart.says),
        chart: Some(chart),
        head: &["closed by", "orders", "half within", "99 of 100 within", "all within"],
        rows: std::iter::once(row("all", &hour.all)).chain(each).collect(),
        ..Section::default()
    }
}

/// `/outgoing`
pub(super) async fn outgoing(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let store = &ui.services().store;
    let sections = vec![outbox(store).await, notices(store).await, refused(store).await];
    answer(&ui, &session, "/outgoing", None, sections)
}

const WAITING: &[&str] = &["what", "number", "for", "why"];

async fn outbox(store: &Store) -> Section {
    let title = "Events of closed orders (outbox)";
    let outbox = match store.outbox(MOST_WAITING, &PassedOver::default()).await {
        Ok(outbox) => outbox,
        Err(error) => return Section::failed(title, text(error)),
    };
    let (refused, lasts, why) = match &outbox.longest {
        None => ("refused by the broker, or not confirmed".to_owned(), None, String::new()),
        Some(longest) => {
            let event = one_line(&longest.event);
            let order = longest.order_id.as_deref().map(one_line);
            let order = order.map_or_else(String::new, |id| format!("order {id}: "));
            let why = longest.reason.clone().unwrap_or_default();
            (
                format!("refused or not confirmed, {event} for longest"),
                Some(longest.lasts_ms),
                format!("{order}{why}"),
            )
        }
    };
    let given_up = outbox.unpublishable_reason.clone().unwrap_or_default();
    let rows = vec![
        waiting("wait".to_owned(), outbox.events, Some(outbox.oldest_ms), String::new(), ""),
        waiting(refused, outbox.refused, lasts, why, BAD),
        waiting("can never be published".to_owned(), outbox.unpublishable, None, given_up, BAD),
    ];
    Section { title, head: WAITING, rows, ..Section::default() }
}

async fn notices(store: &Store) -> Section {
    let title = "Notices of schedule()";
    let scheduled = match store.scheduled(MOST_WAITING, ScheduleUse::Counted).await {
        Ok(scheduled) => scheduled,
        Err(error) => return Section::failed(title, text(error)),
    };
    if let Some(lacks) = scheduled.lacks {
        return Section::failed(title, lacks);
    }
    let of = scheduled
        .timeout
        .map_or_else(String::new, |name| format!(", the oldest for {}", one_line(name)));
    let rows = vec![
        waiting(
            format!("wait{of}"),
            scheduled.notices,
            Some(scheduled.oldest_ms),
            String::new(),
            "",
        ),
        waiting(
            "cannot be published".to_owned(),
            scheduled.refused,
            None,
            scheduled.reason.unwrap_or_default(),
            BAD,
        ),
    ];
    Section { title, head: WAITING, rows, ..Section::default() }
}

/// Nothing where nothing is refused.
async fn refused(store: &Store) -> Section {
    let title = "What is refused, by reason";
    let reasons = match store.refused_by_reason(REASONS).await {
        Ok(reasons) => reasons,
        Err(error) => return Section::failed(title, text(error)),
    };
    let note = if reasons.is_empty() { "Nothing is." } else { "Most frequent first." };
    let rows = reasons.into_iter().map(|it| {
        let what = if it.is_event { "event" } else { "notice" };
        let then = match (it.is_event, it.is_tried) {
            (true, true) => "is tried again and again",
            (true, false) => "can never be published",
            (false, _) => "stays set aside",
        };
        Row {
            tone: BAD,
            cells: vec![
                it.number.to_string(),
                format!("{what} {}", it.name.unwrap_or_default()),
                it.reason,
                it.since.map_or_else(String::new, |since| format!("{since:.0}")),
                then.to_owned(),
            ],
        }
    });
    let head = &["number", "of", "why", "since", "and then"];
    Section { title, note: note.to_owned(), head, rows: rows.collect(), ..Section::default() }
}

fn waiting(
    what: String,
    number: u64,
    lasts_ms: Option<u64>,
    why: String,
    tone: &'static str,
) -> Row {
    let lasts = lasts_ms.filter(|_| number > 0).map(|ms| about(Duration::from_millis(ms)));
    let tone = if number > 0 { tone } else { "" };
    let more = if number >= MOST_WAITING.unsigned_abs() { "more than " } else { "" };
    Row { tone, cells: vec![what, format!("{more}{number}"), lasts.unwrap_or_default(), why] }
}

/// `/actions`
pub(super) async fn actions(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let section = match ui.services().store.actions(ACTIONS).await {
        Err(error) => Section::failed("", text(error)),
        Ok(actions) => Section {
            note: format!(
                "The last {ACTIONS}, newest first, of the command line and of this page."
            ),
            head: &["when", "by", "via", "action", "what", "number", "why"],
            rows: actions
                .into_iter()
                .map(|it| {
                    Row::plain([
                        it.at.map_or_else(String::new, |at| format!("{at:.0}")),
                        it.by,
                        it.via,
                        it.action,
                        it.what,
                        it.count.map_or_else(String::new, |count| count.to_string()),
                        it.why.unwrap_or_default(),
                    ])
                })
                .collect(),
            ..Section::default()
        },
    };
    answer(&ui, &session, "/actions", None::<Said>, vec![section])
}

/// With the advice of a command that fails: a missing right is named.
fn text(error: StoreError) -> String {
    Failure::from(error).text
}

fn seconds(seconds: u64) -> String {
    about(Duration::from_secs(seconds))
}

fn late(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1_000.0);
    }
    about(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
