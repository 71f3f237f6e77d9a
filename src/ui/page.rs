//! What all pages have in common: the fields they are asked with, the frame around them, how they become an answer, and what they
//! need beside their text.

use askama::Template;
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use url::form_urlencoded;

use super::{access::Session, look, server::Ui};
use crate::text::printable;

/// A page in the navigation: its path and its name there.
pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) name: &'static str,
}

/// In the order in which somebody on call wants them.
const PAGES: [Entry; 3] = [
    Entry { path: "/", name: "Overview" },
    Entry { path: "/parked", name: "Parking lot" },
    Entry { path: "/pauses", name: "Pauses" },
];

/// Names and values of a form or a query, as they came; a name may stand several times.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Of `application/x-www-form-urlencoded`.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The value, without spaces around it; none if it is empty or not there.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Every value of a name.
    pub(super) fn all<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim())
    }
}

/// What stands around every page.
pub(super) struct Frame {
    /// Of the page, for the window.
    pub(super) title: &'static str,
    /// Its path, to mark it in the navigation.
    pub(super) path: &'static str,
    /// `[ui] name`; the topology's name if there is none.
    pub(super) environment: String,
    /// Class of the colour that tells one environment from another.
    pub(super) color: &'static str,
    pub(super) topology: String,
    /// None for somebody who is not logged in.
    pub(super) visitor: Option<Visitor>,
}

/// Who looks.
pub(super) struct Visitor {
    pub(super) operator: String,
    /// For forms.
    pub(super) csrf: String,
}

impl Frame {
    pub(super) fn new(
        ui: &Ui,
        session: Option<&Session>,
        path: &'static str,
        title: &'static str,
    ) -> Self {
        let settings = &ui.settings().ui;
        let topology = ui.topology().name.clone();
        Self {
            title,
            path,
            environment: settings.name.clone().unwrap_or_else(|| topology.clone()),
            color: settings.color.class(),
            topology,
            visitor: session.map(|session| Visitor {
                operator: session.operator.clone(),
                csrf: session.csrf.expose().clone(),
            }),
        }
    }

    /// Of the forms of this page.
    pub(super) fn csrf(&self) -> &str {
        self.visitor.as_ref().map_or("", |visitor| visitor.csrf.as_str())
    }

    pub(super) fn pages() -> impl Iterator<Item = &'static Entry> {
        PAGES.iter().chain(&look::PAGES)
    }
}

/// A page that says that something was not done, why, and what to do.
#[derive(Template)]
#[template(path = "refused.html")]
struct Refused {
    frame: Frame,
    heading: &'static str,
    reason: String,
    next: String,
}

/// The answer to something that was not done.
pub(super) fn refused(
    ui: &Ui,
    session: Option<&Session>,
    status: StatusCode,
    reason: impl Into<String>,
    next: impl Into<String>,
) -> Response {
    let frame = Frame::new(ui, session, "", "Refused");
    // A part may have been done: the reason says so.
    let heading = if status.is_server_error() { "Not finished" } else { "Not done" };
    html(status, &Refused { frame, heading, reason: reason.into(), next: next.into() })
}

/// A page as an answer.
pub(super) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        // A direction that is turned round, in a name of others, would turn round what stands behind it.
        Ok(text) => answer(status, "text/html; charset=utf-8", printable(&text).into_owned()),
        Err(error) => answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            format!("the page cannot be written: {error}\n"),
        ),
    }
}

pub(super) fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// To a page of this program, after an action; `to` begins with one slash.
pub(super) fn see_other(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

pub(super) async fn style() -> Response {
    answer(StatusCode::OK, "text/css; charset=utf-8", include_str!("assets/ui.css"))
}

pub(super) async fn script() -> Response {
    answer(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("assets/ui.js"))
}

pub(super) async fn icon() -> Response {
    answer(StatusCode::OK, "image/svg+xml", include_str!("assets/icon.svg"))
}
