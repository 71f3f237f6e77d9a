//! Replay and drop of messages: the preview, the question, the action.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    num::NonZeroU32,
    sync::Arc,
};

use askama::Template;
use axum::{Extension, body::Bytes, extract::State, http::StatusCode, response::Response};

use super::{
    super::{
        access::Session,
        overview::number,
        page::{Fields, Frame, html, refused, see_other},
        server::Ui,
    },
    asked::{Asked, taken},
    jobs::Deed,
    lot::Known,
    reasons,
};
use crate::{
    oncall::parked::{Gathered, Kept, Lots},
    parking::{Filter, Selection},
    text::noun,
};

/// Orders that a preview looks up: each is closed as by a worker, and rolled back.
const LOOKED_UP: usize = 1_000;
/// Reasons that the preview of a drop names.
const REASONS: usize = 20;
/// Default rate, in messages per second.
const RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The preview of an action, and its question.
#[derive(Template)]
#[template(path = "parked_ask.html")]
struct Question {
    frame: Frame,
    asked: Asked,
    is_drop: bool,
    is_selected: bool,
    /// `37 messages`
    messages: String,
    /// The messages, in words.
    which: String,
    /// The messages, for the action.
    seen: String,
    /// Whether the parking lot has more messages than were read.
    more: bool,
    /// A line for each result.
    preview: Vec<(String, String)>,
    /// Messages looked up, if not all.
    looked_up: Option<String>,
    rate: NonZeroU32,
}

impl Question {
    fn ids(&self) -> Vec<String> {
        let selected = self.is_selected.then_some(&self.asked.selected);
        let prints = selected.into_iter().flat_map(Selection::prints);
        prints.map(|print| format!("{print:016x}")).collect()
    }
}

struct Wanted {
    asked: Asked,
    filter: Filter,
    is_drop: bool,
    is_selected: bool,
}

impl Wanted {
    fn of(fields: &Fields) -> Result<Self, String> {
        let asked = Asked::of(fields);
        let (is_drop, is_selected) = match fields.get("do") {
            Some("replay-selected") => (false, true),
            Some("replay-all") => (false, false),
            Some("drop-selected") => (true, true),
            Some("drop-all") => (true, false),
            _ => return Err("This form does not say what is to be done.".to_owned()),
        };
        if let Some(wrong) = asked.wrong {
            return Err(wrong);
        }
        if is_selected && asked.selected.is_empty() {
            return Err("No message is selected.".to_owned());
        }
        let filter = if is_selected { asked.only_selected() } else { asked.filter.clone() };
        Ok(Self { asked, filter, is_drop, is_selected })
    }

    /// Limits the filter to its messages in `gathered`, without those parked later. Returns the messages, and a hash that
    /// identifies them.
    fn bind<'a>(&mut self, gathered: &'a Gathered) -> Result<(Vec<&'a Kept>, String), String> {
        let kept = taken(gathered, &self.filter);
        if kept.is_empty() {
            return Err("None of these messages is in the parking lot any more.".to_owned());
        }
        self.filter.selected = kept.iter().map(|kept| kept.message.print).collect();
        let mut seen = DefaultHasher::new();
        self.filter.selected.hash(&mut seen);
        Ok((kept, format!("{:016x}", seen.finish())))
    }

    const fn verb(&self) -> &'static str {
        if self.is_drop { "drop" } else { "replay" }
    }
}

/// `POST /parked/ask`
pub(in crate::ui) async fn ask(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    body: Bytes,
) -> Response {
    let wanted = match Wanted::of(&Fields::parse(&body)) {
        Ok(wanted) => wanted,
        Err(wrong) => return back(&ui, &session, StatusCode::BAD_REQUEST, wrong),
    };
    let (lots, gathered) = match shown(&ui).await {
        Ok(shown) => shown,
        Err((status, why)) => return back(&ui, &session, status, why),
    };
    match question(&ui, &session, wanted, &lots, &gathered).await {
        Ok(question) => html(StatusCode::OK, &question),
        Err(why) => back(&ui, &session, StatusCode::BAD_GATEWAY, why),
    }
}

/// The reading that question and answer are about.
async fn shown(ui: &Ui) -> Result<(Arc<Lots>, Arc<Gathered>), (StatusCode, String)> {
    match ui.lot().shown().await {
        Known::Read(lots, gathered) => Ok((lots, gathered)),
        Known::Failed(why) => Err((StatusCode::BAD_GATEWAY, why)),
        Known::Unread | Known::Reading => {
            Err((StatusCode::SERVICE_UNAVAILABLE, "The parking lot is being read.".to_owned()))
        }
    }
}

async fn question(
    ui: &Ui,
    session: &Session,
    mut wanted: Wanted,
    lots: &Lots,
    gathered: &Gathered,
) -> Result<Question, String> {
    let which = wanted.filter.to_string();
    let (kept, seen) = wanted.bind(gathered)?;
    ui.lot().ask(&seen, &wanted.filter.selected);
    let some = &kept[..kept.len().min(LOOKED_UP)];
    let preview = if wanted.is_drop {
        let reasons = reasons(&kept, &wanted.asked, REASONS).into_iter();
        reasons.map(|reason| (reason.count, reason.text)).collect()
    } else {
        let totals = lots.totals_of(some).await.map_err(|failure| failure.text)?;
        let text = totals.to_string();
        let lines = text.lines().filter_map(|line| line.trim().split_once("  "));
        lines.map(|(count, text)| (count.to_owned(), text.to_owned())).collect()
    };
    let is_some = !wanted.is_drop && some.len() < kept.len();
    Ok(Question {
        frame: Frame::new(ui, Some(session), "/parked", "Parking lot"),
        is_drop: wanted.is_drop,
        is_selected: wanted.is_selected,
        messages: messages(kept.len()),
        which,
        seen,
        more: !wanted.is_selected && !gathered.is_all,
        preview,
        looked_up: is_some.then(|| messages(some.len())),
        rate: RATE,
        asked: wanted.asked,
    })
}

/// `POST /parked/do`
pub(in crate::ui) async fn carry_out(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    body: Bytes,
) -> Response {
    let fields = Fields::parse(&body);
    let bad = |why: String| back(&ui, &session, StatusCode::BAD_REQUEST, why);
    let mut wanted = match Wanted::of(&fields) {
        Ok(wanted) => wanted,
        Err(wrong) => return bad(wrong),
    };
    let deed = if wanted.is_drop {
        match fields.get("because") {
            Some(because) => Deed::Drop { because: because.to_owned() },
            None => return bad("Say why these messages are dropped.".to_owned()),
        }
    } else {
        match fields.get("rate").unwrap_or_default().parse() {
            Ok(rate) => Deed::Replay { rate },
            Err(_) => return bad("The rate has to be a number of messages per second.".to_owned()),
        }
    };
    if !wanted.is_selected {
        let Some(selected) = fields.get("seen").and_then(|seen| ui.lot().asked(seen)) else {
            let why = "This question is not known any more: nothing was done, ask again.";
            return back(&ui, &session, StatusCode::CONFLICT, why);
        };
        wanted.filter.selected = selected;
    }
    let said = format!("{} {}", wanted.verb(), wanted.filter);
    let job = ui.jobs().begin(said, &session.operator, wanted.filter, deed);
    let Some(job) = job else {
        let why = "Another action on the parking lot has not ended: nothing was done.";
        return back(&ui, &session, StatusCode::CONFLICT, why);
    };
    job.soon().await;
    see_other("/parked")
}

/// `POST /parked/stop`
pub(in crate::ui) async fn stop(State(ui): State<Arc<Ui>>) -> Response {
    if let Some(job) = ui.jobs().newest() {
        job.stop.request();
        job.soon().await;
    }
    see_other("/parked")
}

fn back(ui: &Ui, session: &Session, status: StatusCode, why: impl Into<String>) -> Response {
    refused(ui, Some(session), status, why, "go back to the parking lot")
}

fn messages(count: usize) -> String {
    format!("{} {}", number(u64::try_from(count).unwrap_or(u64::MAX)), noun(count, "message"))
}
