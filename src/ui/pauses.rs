//! `/pauses`: the paused timeouts, until when and why; makes and ends pauses.

use std::{num::NonZeroU32, sync::Arc};

use askama::Template;
use axum::{Extension, body::Bytes, extract::State, http::StatusCode, response::Response};

use super::{
    access::Session,
    overview::number,
    page::{Fields, Frame, html, refused, see_other},
    server::Ui,
};
use crate::{
    condition::pause::Pause,
    oncall::{actions::Via, failure::Failure, pauses},
    text::about,
    timing::Timing,
    topology::level::Interval,
};

#[derive(Template)]
#[template(path = "pauses.html")]
struct PausesPage {
    frame: Frame,
    timeouts: Vec<String>,
    pauses: Vec<Shown>,
    /// Why the pauses are unknown.
    failed: String,
}

struct Shown {
    timeout: String,
    why: String,
    by: String,
    age: String,
    rest: String,
    per_second: Option<u32>,
}

impl From<Pause> for Shown {
    fn from(pause: Pause) -> Self {
        Self {
            age: about(pause.age),
            rest: about(pause.rest),
            timeout: pause.timeout,
            why: pause.why,
            by: pause.by,
            per_second: pause.per_second,
        }
    }
}

enum Wanted {
    Pause { lasts: Interval, why: String },
    Resume { rate: Option<NonZeroU32> },
}

#[derive(Template)]
#[template(path = "pauses_ask.html")]
struct Question {
    frame: Frame,
    timeout: String,
    /// Values as typed: duration and reason, or rate.
    lasts: String,
    why: String,
    rate: String,
    is_pause: bool,
    /// Orders past their deadline, of all timeouts; none if unknown.
    overdue: Option<String>,
}

/// `GET /pauses`
pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let pauses = ui.services().store.pauses(&ui.topology().name).await;
    let (pauses, failed) = match pauses {
        Ok(pauses) => (pauses.into_iter().map(Shown::from).collect(), String::new()),
        Err(error) => (Vec::new(), Failure::from(error).text),
    };
    let timeouts = ui.topology().timeouts.iter().map(|timeout| timeout.name.clone()).collect();
    let frame = Frame::new(&ui, Some(&session), "/pauses", "Pauses");
    html(StatusCode::OK, &PausesPage { frame, timeouts, pauses, failed })
}

/// `POST /pauses/ask`
pub(super) async fn ask(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    body: Bytes,
) -> Response {
    let fields = Fields::parse(&body);
    let wanted = match wanted(&fields) {
        Ok((_, wanted)) => wanted,
        Err(wrong) => return back(&ui, &session, StatusCode::BAD_REQUEST, wrong),
    };
    let text = |name: &str| fields.get(name).unwrap_or_default().to_owned();
    let moment = ui.moments().now().await;
    let due = moment.reading.database.get().and_then(|database| database.due.get());
    let question = Question {
        frame: Frame::new(&ui, Some(&session), "/pauses", "Pauses"),
        timeout: text("timeout"),
        lasts: text("lasts"),
        why: text("why"),
        rate: text("rate"),
        is_pause: matches!(wanted, Wanted::Pause { .. }),
        overdue: due.map(|due| number(due.overdue)),
    };
    html(StatusCode::OK, &question)
}

/// `POST /pauses/do`
pub(super) async fn carry_out(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    body: Bytes,
) -> Response {
    let fields = Fields::parse(&body);
    let (timeout, wanted) = match wanted(&fields) {
        Ok(wanted) => wanted,
        Err(wrong) => return back(&ui, &session, StatusCode::BAD_REQUEST, wrong),
    };
    let (store, topology) = (&ui.services().store, ui.topology());
    let via = Via::Page(&session.operator);
    let done = match wanted {
        Wanted::Pause { lasts, why } => {
            let timing = store.timing();
            let timing = Timing { closings: timing.closings_on_page, ..*timing };
            let store = store.clone().with_timing(Arc::new(timing));
            let pause = (lasts.as_duration(), why.as_str());
            pauses::pause((&store, topology), &timeout, pause, via, drop).await.map(drop)
        }
        Wanted::Resume { rate } => {
            pauses::resume((store, topology), &timeout, rate, via).await.map(drop)
        }
    };
    match done {
        Ok(()) => see_other("/pauses"),
        Err(failure) => back(&ui, &session, StatusCode::BAD_GATEWAY, failure.text),
    }
}

/// The timeout of the form, and its action.
fn wanted(fields: &Fields) -> Result<(String, Wanted), String> {
    let text = |name: &str, missing: &str| {
        fields.get(name).map(str::to_owned).ok_or_else(|| missing.to_owned())
    };
    let timeout = text("timeout", "Say which timeout.")?;
    let wanted = match fields.get("do") {
        Some("pause") => {
            let lasts = text("lasts", "Say how long it lasts at the most, e.g. 1h.")?;
            let lasts = lasts.parse().map_err(|error| format!("{error}"))?;
            Wanted::Pause { lasts, why: text("why", "Say why, for those who see the pause.")? }
        }
        Some("resume") => {
            let rate = fields.get("rate").map(str::parse).transpose();
            let rate = rate.map_err(|_| "The rate has to be a number of orders per second.")?;
            Wanted::Resume { rate }
        }
        _ => return Err("This form does not say what is to be done.".to_owned()),
    };
    Ok((timeout, wanted))
}

fn back(ui: &Ui, session: &Session, status: StatusCode, why: impl Into<String>) -> Response {
    refused(ui, Some(session), status, why, "go back to the pauses")
}
