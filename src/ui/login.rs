//! Login by the printed link or a typed token, and logout.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    body::Bytes,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};

use super::{
    access::Session,
    page::{Fields, Frame, html, see_other},
    server::Ui,
};

/// Asks for the token, or tells where the link is.
#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    frame: Frame,
    is_typed: bool,
    wrong: &'static str,
}

/// The page after login.
///
/// A redirect would still count as a request from the page with the link, e.g. a chat: the browser would not send the new cookie.
#[derive(Template)]
#[template(path = "welcome.html")]
struct Welcome {
    frame: Frame,
}

/// The login page, for any request without a session.
pub(super) fn ask(ui: &Ui, wrong: &'static str) -> Response {
    let frame = Frame::new(ui, None, "/login", "Log in");
    let page = Login { frame, is_typed: ui.access().is_typed(), wrong };
    html(StatusCode::UNAUTHORIZED, &page)
}

/// `GET /login`, `GET /login?token=…`
pub(super) async fn follow(
    State(ui): State<Arc<Ui>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let Some(token) = fields.get("token") else { return ask(&ui, "") };
    match ui.access().follow(token, ui.operator()) {
        Some(session) => welcome(&ui, &session, &headers),
        None => ask(&ui, "This link is not good, or was used already."),
    }
}

/// `POST /login`
pub(super) async fn typed(State(ui): State<Arc<Ui>>, headers: HeaderMap, body: Bytes) -> Response {
    let fields = Fields::parse(&body);
    let operator = fields.get("operator").unwrap_or("unnamed");
    match ui.access().typed(fields.get("token").unwrap_or_default(), operator) {
        Some(session) => welcome(&ui, &session, &headers),
        None => ask(&ui, "This is not the token."),
    }
}

/// `POST /logout`
pub(super) async fn leave(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Response {
    ui.access().leave(&session);
    let mut response = see_other("/login");
    set_cookie(&mut response, &ui.access().taken(is_by_tls(&headers)));
    // Clears the pages that the browser keeps for its back button.
    let cache = HeaderValue::from_static("\"cache\"");
    response.headers_mut().insert("clear-site-data", cache);
    response
}

fn welcome(ui: &Ui, session: &Session, headers: &HeaderMap) -> Response {
    let frame = Frame::new(ui, None, "/login", "Welcome");
    let mut response = html(StatusCode::OK, &Welcome { frame });
    set_cookie(&mut response, &ui.access().given(session, is_by_tls(headers)));
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// Trusts the proxy's header. A forged header only gives its sender a cookie that their browser does not send by plain HTTP.
fn is_by_tls(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}
