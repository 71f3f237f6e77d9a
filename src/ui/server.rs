//! The server: its routes and limits.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::Response,
    routing::{get, post},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};

use super::{
    access::{Access, Entry},
    guard,
    guard::Connection,
    login, look,
    moment::Moments,
    overview,
    page::{self, refused},
    parked::{self, jobs::Jobs, leaving, lot::Lot},
    pauses,
};
use crate::{
    config::Settings, listen::accept, oncall::services::Services, shutdown::Stop,
    topology::Topology,
};

/// Connections at the same time. A browser opens up to six, and one more for each live window.
const CONNECTIONS: usize = 128;
/// Time for the headers of a request, from the beginning of the connection or the last answer.
const HEADERS: Duration = Duration::from_secs(20);
/// Cookies of other programs on this host are sent, too.
const HEADER_BYTES: usize = 32 * 1024;

/// State that all pages share.
pub(crate) struct Ui {
    settings: Settings,
    services: Arc<Services>,
    access: Access,
    operator: String,
    moments: Moments,
    lot: Arc<Lot>,
    jobs: Jobs,
}

impl Ui {
    /// Makes pages about `services`. A session begins by `entry`; if that is a link, its user acts as `operator`.
    pub(crate) fn new(
        settings: Settings,
        services: Arc<Services>,
        entry: Entry,
        operator: String,
    ) -> Self {
        let moments = Moments::new(&settings, Arc::clone(&services));
        let lot = Lot::new(Arc::clone(&services));
        let jobs = Jobs::new(Arc::clone(&services), Arc::clone(&lot));
        Self { settings, services, access: Access::new(entry), operator, moments, lot, jobs }
    }

    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.services.topology
    }

    pub(super) const fn access(&self) -> &Access {
        &self.access
    }

    pub(super) const fn moments(&self) -> &Moments {
        &self.moments
    }

    pub(super) const fn lot(&self) -> &Arc<Lot> {
        &self.lot
    }

    pub(super) const fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(super) fn operator(&self) -> &str {
        &self.operator
    }
}

/// A page has a route here, an entry in the navigation of `page`, a file and a template.
fn routes(ui: &Arc<Ui>) -> Router {
    Router::new()
        .route("/", get(overview::show))
        .route("/parked", get(parked::show))
        .route("/parked/again", post(parked::again))
        .route("/parked/message", get(parked::message))
        .route("/parked/ask", post(leaving::ask))
        .route("/parked/do", post(leaving::carry_out))
        .route("/parked/stop", post(leaving::stop))
        .route("/pauses", get(pauses::show))
        .route("/pauses/ask", post(pauses::ask))
        .route("/pauses/do", post(pauses::carry_out))
        .route("/live/overview", get(overview::live))
        .merge(look::routes())
        .route("/login", get(login::follow).post(login::typed))
        .route("/logout", post(login::leave))
        .route("/assets/ui.css", get(page::style))
        .route("/assets/ui.js", get(page::script))
        .route("/assets/icon.svg", get(page::icon))
        .fallback(nothing)
        .method_not_allowed_fallback(another_method)
        .layer(middleware::from_fn_with_state(Arc::clone(ui), guard::guard))
        .with_state(Arc::clone(ui))
}

async fn nothing(State(ui): State<Arc<Ui>>) -> Response {
    refused(&ui, None, StatusCode::NOT_FOUND, "There is no such page.", "go to the overview")
}

async fn another_method(State(ui): State<Arc<Ui>>) -> Response {
    let reason = "This page is not asked for in this way.";
    refused(&ui, None, StatusCode::METHOD_NOT_ALLOWED, reason, "go to the overview")
}

/// A bound port.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Binds the address.
    pub(crate) async fn to(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// The bound address, with the real port if port 0 was asked for.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn serve(self, ui: Arc<Ui>, stop: &Stop) {
        let routes = routes(&ui);
        // If there are too many connections, those without a session are closed for new ones.
        let begin = |stream, is_known| answer(stream, routes.clone(), is_known);
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = accept(self.listener, CONNECTIONS, begin) => {}
        }
        ui.jobs.finish().await;
    }
}

/// Serves a connection; errors concern only its client.
async fn answer(stream: TcpStream, routes: Router, is_known: Arc<AtomicBool>) {
    let Ok(at) = stream.local_addr() else { return };
    let routes = routes.layer(axum::Extension(Connection { at, is_known }));
    let service = TowerToHyperService::new(routes);
    // Send each event at once.
    let _slower = stream.set_nodelay(true);
    let _ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
