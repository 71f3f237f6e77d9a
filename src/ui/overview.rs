//! `/`: whether orders are closed on time, and if not why; and the messages in each place.

use std::{convert::Infallible, sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream::{self, Stream};

use super::{
    access::Session,
    moment::{FRESH, Moment},
    page::{Frame, html},
    pipeline::{self, Stage},
    server::Ui,
};
use crate::{
    graph::Count,
    status::{DatabaseReading, Known, StatusLevel, lateness},
    text::{about, printable},
    topology::Topology,
};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    board: Board,
}

/// The live part of the page.
#[derive(Template)]
#[template(path = "board.html")]
struct Board {
    word: &'static str,
    tone: Tone,
    reason: String,
    next: Option<String>,
    /// The database's time; empty if unknown.
    clock: String,
    facts: Vec<Fact>,
    stages: Vec<Stage>,
    /// Greatest age of the broker's counts, in seconds.
    counts_age_s: u64,
    reasons: Vec<(String, String)>,
    /// Services that did not answer, and why.
    unknown: Vec<(&'static str, String)>,
}

/// The colour of a state; a word next to it gives the same information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    Ok,
    Look,
    Bad,
    #[default]
    Calm,
}

impl Tone {
    /// The class in the style sheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Look => "look",
            Self::Bad => "bad",
            Self::Calm => "calm",
        }
    }
}

/// A number with an explanation.
struct Fact {
    name: &'static str,
    value: String,
    note: String,
    tone: Tone,
}

pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let frame = Frame::new(&ui, Some(&session), "/", "Overview");
    let board = Board::now(&ui).await;
    html(StatusCode::OK, &Overview { frame, board })
}

/// `/live/overview`: sends the board repeatedly while the page is open.
pub(super) async fn live(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    Sse::new(events(ui, session)).into_response()
}

/// Boards until the session ends.
fn events(ui: Arc<Ui>, session: Session) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((ui, session, false), async |(ui, session, again)| {
        if again {
            tokio::time::sleep(FRESH).await;
        }
        if !ui.access().knows(&session) {
            return None;
        }
        let board = Board::now(&ui).await;
        let text = board.render().unwrap_or_default();
        // An event must have no carriage return.
        let event = Event::default().data(printable(&text));
        Some((Ok(event), (ui, session, true)))
    })
}

impl Board {
    async fn now(ui: &Ui) -> Self {
        Self::of(ui.topology(), &*ui.moments().now().await)
    }

    fn of(topology: &Topology, moment: &Moment) -> Self {
        let (reading, state) = (&moment.reading, &moment.state);
        let (word, tone) = match state.word {
            StatusLevel::Ok => ("OK", Tone::Ok),
            StatusLevel::Look => ("LOOK", Tone::Look),
            StatusLevel::Late => ("LATE", Tone::Bad),
            StatusLevel::Down => ("DOWN", Tone::Bad),
        };
        let mut unknown = Vec::new();
        if let Known::Unknown(why) = &reading.database {
            unknown.push(("database", why.clone()));
        }
        if let Known::Unknown(why) = &reading.broker {
            unknown.push(("broker", why.clone()));
        }
        let database = reading.database.get();
        let mut facts = database.map(|it| database_facts(it, state.word)).unwrap_or_default();
        let broker = reading.broker.get();
        facts.extend(broker.and_then(|broker| broker.parked).map(parked));
        let reasons = broker.map(|broker| broker.parked_reasons.as_slice()).unwrap_or_default();
        Self {
            word,
            tone,
            reason: state.reason.clone(),
            next: state.next.clone(),
            clock: database.map(|database| database.clock.clone()).unwrap_or_default(),
            facts,
            stages: pipeline::stages(topology, moment),
            counts_age_s: reading.counts_age_s,
            reasons: reasons.iter().map(|(why, count)| (why.clone(), number(*count))).collect(),
            unknown,
        }
    }
}

fn database_facts(database: &DatabaseReading, word: StatusLevel) -> Vec<Fact> {
    let closings = &database.closings;
    let window = about(Duration::try_from_secs_f64(closings.window_s).unwrap_or_default());
    let mut facts = Vec::new();
    if let Known::Known(due) = &database.due {
        let note = if due.overdue == 0 {
            "nothing waits".to_owned()
        } else {
            format!("the oldest by {}", about(Duration::from_secs(due.oldest_s)))
        };
        let tone = if word == StatusLevel::Late { Tone::Bad } else { Tone::Calm };
        facts.push(Fact { name: "Overdue now", value: more(due.more, due.overdue), note, tone });
    }
    let lateness = if closings.closed == 0 {
        Fact {
            name: "Lateness",
            value: "–".to_owned(),
            note: format!("nothing was closed in the last {window}"),
            tone: Tone::Calm,
        }
    } else {
        let [p50, p99, max] = [closings.p50_s, closings.p99_s, closings.max_s].map(lateness);
        Fact {
            name: "Lateness, p99",
            value: p99,
            note: format!("p50 {p50}, max {max}, of the last {window}"),
            tone: Tone::Calm,
        }
    };
    facts.push(lateness);
    let [message, burst, sweep] =
        [closings.by_message, closings.by_burst, closings.by_sweep].map(number);
    facts.push(Fact {
        name: "Closed, last minute",
        value: rate(closings.closed_per_s),
        note: format!("in {window}: message {message}, burst {burst}, sweep {sweep}"),
        tone: Tone::Calm,
    });
    if let Known::Known(due) = &database.due {
        let next = due.next_s.map(|next| about(Duration::from_secs(next)));
        facts.push(Fact {
            name: "Due, next hour",
            value: more(due.more, due.coming()),
            note: next
                .map_or_else(|| "nothing is due".to_owned(), |it| format!("the next in {it}")),
            tone: Tone::Calm,
        });
    }
    let outbox = database.outbox;
    facts.push(waiting("Outbox", (outbox.more, outbox.events), outbox.oldest_s, outbox.refused));
    if let Some(scheduled) = database.scheduled {
        let (notices, oldest_s) = ((scheduled.more, scheduled.notices), scheduled.oldest_s);
        facts.push(waiting("Schedule", notices, oldest_s, scheduled.refused));
    }
    facts
}

fn waiting(name: &'static str, (is_more, count): (bool, u64), oldest_s: u64, refused: u64) -> Fact {
    let oldest = about(Duration::from_secs(oldest_s));
    let note = match (refused, count) {
        (0, 0) => "all is published".to_owned(),
        (0, _) => format!("the oldest for {oldest}"),
        _ => format!("{} refused", number(refused)),
    };
    let tone = if refused > 0 { Tone::Look } else { Tone::Calm };
    Fact { name, value: more(is_more, count), note, tone }
}

fn parked(count: u64) -> Fact {
    let (note, tone) =
        if count == 0 { ("nothing to look at", Tone::Calm) } else { ("to look at", Tone::Look) };
    Fact { name: "Parked", value: number(count), note: note.to_owned(), tone }
}

fn more(is_more: bool, count: u64) -> String {
    if is_more { format!("> {}", number(count)) } else { number(count) }
}

/// Writes commas between thousands.
pub(super) fn number(count: u64) -> String {
    Count::Messages(count).to_string()
}

pub(super) fn rate(per_s: f64) -> String {
    if per_s < 9.95 { format!("{per_s:.1}/s") } else { format!("{per_s:.0}/s") }
}
