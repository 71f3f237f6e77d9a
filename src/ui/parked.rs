//! `/parked`: the messages in the parking lot; `/parked/message`: one message.

mod asked;
pub(super) mod jobs;
pub(super) mod leaving;
pub(super) mod lot;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};

use self::{asked::Asked, jobs::Job, lot::Known};
use super::{
    access::Session,
    overview::number,
    page::{Fields, Frame, html, refused, see_other},
    server::Ui,
};
use crate::{
    oncall::{
        parked::{Entry, Gathered, Kept, Lots},
        services::now,
    },
    parking::Reasons,
    text::about,
    wire::in_a_line,
};

/// Messages of one page.
const PAGE: usize = 100;
/// Reasons that are counted next to the list.
const REASONS: usize = 8;
/// Characters of a body or header value that are shown.
const SHOWN: usize = 8_000;
const HEADERS: usize = 100;

#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage {
    frame: Frame,
    asked: Asked,
    timeouts: Vec<String>,
    job: Option<Shown>,
    /// None while the parking lot is read, or if it cannot be read.
    list: Option<List>,
    /// Why there is no list.
    failed: String,
}

/// The last action, for its banner.
struct Shown {
    said: String,
    operator: String,
    done: String,
    result: Option<Result<String, String>>,
}

/// A page of the matching messages.
struct List {
    total: String,
    matching: usize,
    /// Whether all messages of the parking lot were read.
    is_all: bool,
    read_ago: String,
    reasons: Vec<Reason>,
    rows: Vec<Row>,
    not_looked_up: Option<String>,
    from: usize,
    before: Option<String>,
    after: Option<String>,
}

struct Reason {
    text: String,
    count: String,
    /// Query that shows only these messages.
    query: Option<String>,
}

struct Row {
    id: String,
    label: String,
    timeout: String,
    since: String,
    state: String,
    reason: String,
}

#[derive(Template)]
#[template(path = "parked_message.html")]
struct MessagePage {
    frame: Frame,
    id: String,
    entry: Entry,
    since: String,
    order_now: String,
    on_replay: String,
    headers: Vec<(String, String)>,
    body: String,
    is_cut: bool,
    not_looked_up: Option<String>,
}

/// `GET /parked`
pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let asked = Asked::of(&fields);
    let at: usize = fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    // Get the job before the list: the list of an action that has ended is then newer than its end.
    let job = ui.jobs().newest().map(|job| Shown::of(&job));
    let runs = job.as_ref().is_some_and(Shown::runs);
    // During an action, a reading would find only what the action leaves, and disturb it.
    let known = if runs { ui.lot().shown().await } else { ui.lot().look().await };
    let (list, failed) = match known {
        Known::Read(lots, gathered) => {
            (Some(List::of(&lots, &gathered, &asked, at.max(1)).await), String::new())
        }
        Known::Failed(why) => (None, why),
        Known::Unread | Known::Reading => (None, String::new()),
    };
    let page = ParkedPage {
        frame: Frame::new(&ui, Some(&session), "/parked", "Parking lot"),
        asked,
        timeouts: ui.topology().timeouts.iter().map(|timeout| timeout.name.clone()).collect(),
        job,
        list,
        failed,
    };
    html(StatusCode::OK, &page)
}

/// `POST /parked/again`
pub(super) async fn again(State(ui): State<Arc<Ui>>) -> Response {
    ui.lot().forget();
    see_other("/parked")
}

/// `GET /parked/message?id=…`
pub(super) async fn message(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let print = fields.get("id").and_then(|id| u64::from_str_radix(id, 16).ok());
    let gone = || {
        let reason = "This message is not in the parking lot any more, or is being read.";
        refused(&ui, Some(&session), StatusCode::NOT_FOUND, reason, "go back to the parking lot")
    };
    let Known::Read(lots, gathered) = ui.lot().shown().await else { return gone() };
    let kept = gathered.kept.iter().find(|kept| Some(kept.message.print) == print);
    let Some(kept) = kept else { return gone() };
    let (entries, not_looked_up) = lots.entries(&[kept], true).await;
    let Some(mut entry) = entries.into_iter().next() else { return gone() };
    let Some(full) = entry.full.take() else { return gone() };
    let text = full.body.unwrap_or_else(|| "not read, it is too large".to_owned());
    let headers = full.headers.into_iter().take(HEADERS);
    let frame = Frame::new(&ui, Some(&session), "/parked", "Parked message");
    let page = MessagePage {
        frame,
        id: id(kept),
        since: since(kept),
        order_now: full.order_now_text,
        on_replay: full.on_replay,
        headers: headers.map(|(name, value)| (cut(&name), cut(&in_a_line(&value)))).collect(),
        body: cut(&text),
        is_cut: text.chars().count() > SHOWN,
        entry,
        not_looked_up,
    };
    html(StatusCode::OK, &page)
}

impl ParkedPage {
    /// Whether the page reloads itself.
    fn is_waiting(&self) -> bool {
        let is_reading = self.list.is_none() && self.failed.is_empty();
        is_reading || self.job.as_ref().is_some_and(Shown::runs)
    }
}

impl Shown {
    fn of(job: &Job) -> Self {
        Self {
            said: job.said.clone(),
            operator: job.operator.clone(),
            done: number(job.done()),
            result: job.result(),
        }
    }

    const fn runs(&self) -> bool {
        self.result.is_none()
    }
}

impl List {
    async fn of(lots: &Lots, gathered: &Gathered, asked: &Asked, at: usize) -> Self {
        let matching = asked.matching(gathered);
        let from = (at - 1).saturating_mul(PAGE).min(matching.len());
        let shown = &matching[from..matching.len().min(from + PAGE)];
        let (entries, not_looked_up) = lots.entries(shown, false).await;
        let rows = shown.iter().zip(entries).map(|(kept, entry)| Row {
            id: id(kept),
            label: entry.label,
            timeout: entry.timeout.unwrap_or_default(),
            since: since(kept),
            state: entry.state,
            reason: entry.reason,
        });
        let page = |number: usize| asked.query(&[("page", &number.to_string())]);
        Self {
            total: number(u64::try_from(gathered.kept.len()).unwrap_or(u64::MAX)),
            matching: matching.len(),
            is_all: gathered.is_all,
            read_ago: about(gathered.at.elapsed()),
            reasons: reasons(&matching, asked, REASONS),
            rows: rows.collect(),
            not_looked_up,
            from,
            before: (from > 0).then(|| page(at - 1)),
            after: (from + PAGE < matching.len()).then(|| page(at + 1)),
        }
    }

    fn count(&self) -> String {
        number(u64::try_from(self.matching).unwrap_or(u64::MAX))
    }

    fn said(&self) -> String {
        let matching = self.count();
        let more = if self.is_all { "" } else { " that were read; more lie there" };
        format!("{matching} of {} messages{more}", self.total)
    }

    const fn first(&self) -> usize {
        self.from + 1
    }

    const fn last(&self) -> usize {
        self.from + self.rows.len()
    }
}

/// The `most` frequent reasons, and one row for all others.
fn reasons(matching: &[&Kept], asked: &Asked, most: usize) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    for kept in matching {
        reasons.add(&kept.message.cause);
    }
    let (most, others) = reasons.most_frequent(most);
    let mut shown: Vec<Reason> = most
        .into_iter()
        .map(|(text, count)| {
            // Some reasons are general texts, but the filter searches the text of each message.
            let is_found = |kept: &&Kept| kept.message.cause.to_string().contains(text);
            let query = matching.iter().any(is_found).then(|| asked.with_reason(text));
            Reason { text: text.to_owned(), count: number(count), query }
        })
        .collect();
    if others > 0 {
        let text = "for other reasons".to_owned();
        shown.push(Reason { text, count: number(others), query: None });
    }
    shown
}

fn id(kept: &Kept) -> String {
    format!("{:016x}", kept.message.print)
}

fn since(kept: &Kept) -> String {
    let age = kept.message.parked_at.map(|at| now().duration_since(at));
    age.map_or_else(String::new, |age| about(Duration::try_from(age).unwrap_or_default()))
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
