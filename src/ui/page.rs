//! Common parts of all pages: form fields, the frame, answers and their headers.

use askama::Template;
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use url::form_urlencoded;

use super::{access::Session, look, server::Ui};
use crate::text::printable;

pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) name: &'static str,
}

/// Pages that act, in the order of their use on call.
const PAGES: [Entry; 3] = [
    Entry { path: "/", name: "Overview" },
    Entry { path: "/parked", name: "Parking lot" },
    Entry { path: "/pauses", name: "Pauses" },
];

/// Names and values of a form or a query, not trimmed; a name may occur several times.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded`.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The first non-empty value of a name, trimmed.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    pub(super) fn all<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim())
    }
}

/// The frame around every page.
pub(super) struct Frame {
    /// Title of the window.
    pub(super) title: &'static str,
    /// Marks the page in the navigation.
    pub(super) path: &'static str,
    /// `[ui] name`, or the topology's name.
    pub(super) environment: String,
    /// Class of the colour that marks the environment.
    pub(super) color: &'static str,
    pub(super) topology: String,
    /// None without a session.
    pub(super) visitor: Option<Visitor>,
}

/// A logged-in user.
pub(super) struct Visitor {
    pub(super) operator: String,
    /// Token for forms.
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

    /// The token for this page's forms.
    pub(super) fn csrf(&self) -> &str {
        self.visitor.as_ref().map_or("", |visitor| visitor.csrf.as_str())
    }

    pub(super) fn pages() -> impl Iterator<Item = &'static Entry> {
        PAGES.iter().chain(&look::PAGES)
    }
}

/// Reports that an action was not done, why, and what to do.
#[derive(Template)]
#[template(path = "refused.html")]
struct Refused {
    frame: Frame,
    heading: &'static str,
    reason: String,
    next: String,
}

pub(super) fn refused(
    ui: &Ui,
    session: Option<&Session>,
    status: StatusCode,
    reason: impl Into<String>,
    next: impl Into<String>,
) -> Response {
    let frame = Frame::new(ui, session, "", "Refused");
    // The reason tells whether a part was done.
    let heading = if status.is_server_error() { "Not finished" } else { "Not done" };
    html(status, &Refused { frame, heading, reason: reason.into(), next: next.into() })
}

/// Renders a page.
pub(super) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        // `printable` escapes characters for the text direction: such a character in a name would also reverse the text after it.
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

/// Redirects to a page of this program after an action; `to` begins with one slash.
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
