//! The HTTP server of a worker's pages, and its client.
//!
//! Each client gets an answer and the end of its connection, within limits: slow clients and many clients cost the worker
//! little.

pub(crate) mod ask;

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::telemetry;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Page {
    /// A page in the text format of Prometheus.
    pub(crate) fn metrics(body: String) -> Self {
        Self { status: 200, content_type: "text/plain; version=0.0.4; charset=utf-8", body }
    }

    /// A text for people; its first line is the summary.
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Interval of attempts to bind a port in use: the previous worker may be stopping.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Pause after a failed accept, e.g. without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a connection, as a multiple of the limit for its request.
const CONNECTION: u32 = 10;
/// Most connections at the same time.
const CONNECTIONS: usize = 64;
/// The smallest buffer that hyper accepts. A scrape of Prometheus has some hundred bytes.
const HEADER_BYTES: usize = 8 * 1024;

/// Serves the pages that `page` returns for a path, until it is dropped; `None`: the path does not exist. A client must send
/// its request within `request`.
pub(crate) async fn serve(
    address: SocketAddr,
    request: Duration,
    page: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
) {
    let listener = bind(address).await;
    let page = Arc::new(page);
    // Answering takes no time, so the oldest client has sent no request: a probe replaces it.
    let begin = |stream, _is_known| {
        let page = Arc::clone(&page);
        async move { answer(stream, request, &*page).await }
    };
    accept(listener, CONNECTIONS, begin).await;
}

/// Answers on at most `most` connections at the same time; dropping it closes them. A further connection replaces the oldest
/// one whose answer has not set its flag, otherwise the oldest.
pub(crate) async fn accept<A: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    answer: impl Fn(TcpStream, Arc<AtomicBool>) -> A,
) {
    let mut open: VecDeque<(AbortOnDropHandle<()>, Arc<AtomicBool>)> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|(answering, _)| !answering.is_finished());
        if open.len() >= most {
            let oldest = open.iter().position(|(_, is_known)| !is_known.load(Ordering::Relaxed));
            open.remove(oldest.unwrap_or(0));
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let answering = tokio::spawn(answer(stream, Arc::clone(&is_known)));
        open.push_back((AbortOnDropHandle::new(answering), is_known));
    }
}

/// Binds the port, and logs only the first failure.
async fn bind(address: SocketAddr) -> TcpListener {
    let mut reported = false;
    loop {
        let bound = TcpListener::bind(address).await;
        match bound.and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((address, listener)) => {
                telemetry::listening(&address.to_string());
                return listener;
            }
            Err(error) if !reported => {
                telemetry::not_listening(&address.to_string(), &reason(&error));
                reported = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
        _ => error.to_string(),
    }
}

/// Ignores errors of the connection: they concern only its client.
async fn answer(
    stream: TcpStream,
    request: Duration,
    page: &(impl Fn(&str) -> Option<Page> + Sync),
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = response(found(&request, page));
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(request)
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let _ended = timeout(CONNECTION * request, connection).await;
}

fn found(request: &Request<Incoming>, page: &impl Fn(&str) -> Option<Page>) -> Page {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Page::text(405, "only GET and HEAD\n");
    }
    page(request.uri().path())
        .unwrap_or_else(|| Page::text(404, "there are /metrics, /livez and /readyz\n"))
}

fn response(page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page.body)));
    *response.status_mut() =
        StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = header::HeaderValue::from_static(page.content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
