//! Checks each request before its page runs, and sets the headers of each answer.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::Response,
};
use tokio::time::timeout;

use super::{
    login,
    page::{Fields, refused},
    server::Ui,
};
use crate::config::UiSettings;

/// Bytes of a form; a page of selected messages needs some KiB.
const BODY_BYTES: usize = 64 * 1024;
/// Time for a form to arrive, and for a page to begin, without the wait for the broker's counts.
const REQUEST: Duration = Duration::from_secs(30);

/// Browsers load nothing from other hosts, run nothing inline, and store no pages; no site frames a page, and forms stay here.
/// `no-referrer` would make browsers send `Origin: null` with our own forms.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// A connection: its local address, and whether a request on it had a session.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) at: SocketAddr,
    pub(super) is_known: Arc<AtomicBool>,
}

/// Why a request is refused.
struct Refusal {
    status: StatusCode,
    reason: String,
    next: String,
}

impl Refusal {
    fn new(status: StatusCode, reason: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), next: next.into() }
    }
}

/// Runs before every page.
pub(super) async fn guard(State(ui): State<Arc<Ui>>, request: Request, next: Next) -> Response {
    // A page may wait for two readings of new queues: `oncall/drift`.
    let counts = 2 * ui.services().management.statistics_interval().counts_settle();
    let bound = REQUEST + counts;
    let mut response = match passed(&ui, request).await {
        Ok(request) => match timeout(bound, next.run(request)).await {
            Ok(response) => response,
            Err(_late) => refused(
                &ui,
                None,
                StatusCode::GATEWAY_TIMEOUT,
                format!(
                    "The answer did not come within {} s; what was asked for may have been done.",
                    bound.as_secs()
                ),
                "look at the page again; overdue doctor",
            ),
        },
        Err(response) => *response,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Checks the request; returns it with its session and its whole body.
async fn passed(ui: &Ui, request: Request) -> Result<Request, Box<Response>> {
    let refuse = |refusal: Refusal| {
        let Refusal { status, reason, next } = refusal;
        Box::new(refused(ui, None, status, reason, next))
    };
    is_meant_for_us(ui, &request).map_err(refuse)?;
    let (mut parts, body) = request.into_parts();
    let is_action = parts.method == Method::POST;
    let body = if is_action { read(body).await.map_err(refuse)? } else { axum::body::Bytes::new() };
    let is_open = parts.uri.path() == "/login" || parts.uri.path().starts_with("/assets/");
    if !is_open {
        let session = ui.access().session(&parts.headers);
        let session = session.ok_or_else(|| Box::new(login::ask(ui, "")))?;
        if let Some(connection) = parts.extensions.get::<Connection>() {
            connection.is_known.store(true, Ordering::Relaxed);
        }
        if is_action {
            let fields = Fields::parse(&body);
            if !fields.get("csrf").is_some_and(|token| session.has_csrf(token)) {
                return Err(refuse(Refusal::new(
                    StatusCode::FORBIDDEN,
                    "This form was not made by this session: nothing was done.",
                    "go back, load the page again, and repeat it",
                )));
            }
        }
        parts.extensions.insert(session);
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}

async fn read(body: Body) -> Result<axum::body::Bytes, Refusal> {
    match timeout(REQUEST, to_bytes(body, BODY_BYTES)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("A form has at most {} KiB.", BODY_BYTES / 1024),
            "select fewer",
        )),
        Err(_late) => {
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "The form did not arrive.", "try again"))
        }
    }
}

/// Checks the method, the `Host`, and the origin of an action.
fn is_meant_for_us(ui: &Ui, request: &Request) -> Result<(), Refusal> {
    if ![Method::GET, Method::HEAD, Method::POST].contains(request.method()) {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        return Err(Refusal::new(status, "There are GET, HEAD and POST.", "use one of them"));
    }
    let at = request.extensions().get::<Connection>().map(|connection| connection.at.ip());
    let hosts = &ui.settings().ui;
    let host = host(request.headers(), request.uri());
    let Some(host) = host.filter(|host| is_known(host, at, hosts)) else {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "This page is not known by the name in the Host header.",
            "use the address that `overdue ui` has printed, or write the name into overdue.toml: [ui] hosts = \"name\"",
        ));
    };
    if request.method() == Method::POST && !comes_from(request.headers(), &host, hosts) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "This action does not come from a page of this program: nothing was done.",
            "open the page itself; behind a proxy write its name into overdue.toml: [ui] hosts = \"name\"",
        ));
    }
    Ok(())
}

/// None unless there is exactly one.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<Authority> {
    let mut all = headers.get_all(header::HOST).into_iter();
    let host = all.next()?.to_str().ok()?.parse::<Authority>().ok()?;
    let agrees = uri.authority().is_none_or(|authority| *authority == host);
    (all.next().is_none() && agrees && !host.as_str().contains('@')).then_some(host)
}

/// Whether the host is an address of this machine, `localhost`, or in the settings; another site could point any other name to
/// this address. The port may differ, as with a tunnel.
fn is_known(host: &Authority, at: Option<IpAddr>, hosts: &UiSettings) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_address = || {
        let ip = name.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        ip.is_some_and(|ip| ip.is_loopback() || at.map(|at| at.to_canonical()) == Some(ip))
    };
    name.eq_ignore_ascii_case("localhost") || is_address() || is_listed(host, hosts)
}

fn is_listed(host: &Authority, hosts: &UiSettings) -> bool {
    hosts.is_listed(host.as_str()) || hosts.is_listed(host.host())
}

/// Whether the origin has the same host and port, or is in the settings. Another port of `localhost` is another program; a proxy
/// may rewrite `Host`.
fn comes_from(headers: &HeaderMap, host: &Authority, hosts: &UiSettings) -> bool {
    let is_other_site = |site: &HeaderValue| site != "same-origin";
    if headers.get("sec-fetch-site").is_some_and(is_other_site) {
        return false;
    }
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let Some(origin) = origin.and_then(|origin| origin.parse::<Uri>().ok()) else { return false };
    let is_web = matches!(origin.scheme_str(), Some("http" | "https"));
    let is_ours = |origin: &Authority| origin == host || is_listed(origin, hosts);
    is_web && origin.authority().is_some_and(is_ours)
}
