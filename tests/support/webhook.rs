//! A webhook: a real HTTP server that records requests and sends configured answers.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http_body_util::{BodyExt, Either, Full};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use super::until;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Status(u16, &'static str),
    /// This status, with the path and the body of the request.
    Echo(u16),
    /// Status 200, and no body until the client gives up.
    Beginning,
    /// 429, with the time of the next attempt.
    Later(&'static str),
    /// No answer until the client gives up.
    Never,
    /// The server closes the connection without an answer.
    Closed,
}

#[derive(Clone, Debug)]
pub struct Posted {
    pub path_and_query: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Posted {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Listens on this machine until drop.
pub struct Webhook {
    pub address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    posted: Arc<Mutex<Vec<Posted>>>,
    serving: JoinHandle<()>,
}

impl Webhook {
    pub async fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, posted) = (Arc::new(Mutex::new(answer)), Arc::<Mutex<Vec<Posted>>>::default());
        let (answers, kept) = (Arc::clone(&answer), Arc::clone(&posted));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, kept) = (Arc::clone(&answers), Arc::clone(&kept));
                let service = service_fn(move |request| {
                    let (answers, kept) = (Arc::clone(&answers), Arc::clone(&kept));
                    async move { respond(request, &answers, &kept).await }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // Some tests have a client that gives up.
                tokio::spawn(async move { connection.await.ok() });
            }
        });
        Self { address, answer, posted, serving }
    }

    pub fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook/s3cret-path", self.address)
    }

    /// All requests so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    pub async fn until(&self, what: &str, is_it: impl Fn(&Posted) -> bool) -> Posted {
        let look = async || self.posted().into_iter().find(|posted| is_it(posted));
        until(what, look, Option::is_some).await.unwrap()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: &Mutex<Answer>,
    posted: &Mutex<Vec<Posted>>,
) -> io::Result<Response<Either<Full<Bytes>, NoEnd>>> {
    assert_eq!(request.method(), "POST");
    let path_and_query = request.uri().to_string();
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let (bytes, body) = (body.to_vec(), String::from_utf8_lossy(&body).into_owned());
    let request =
        Posted { path_and_query: path_and_query.clone(), headers, body: body.clone(), bytes };
    posted.lock().unwrap().push(request);
    let answer = *answer.lock().unwrap();
    Ok(match answer {
        Answer::Closed => return Err(io::ErrorKind::ConnectionReset.into()),
        Answer::Never => std::future::pending().await,
        Answer::Status(status, body) => {
            let response = Response::builder().status(status).header("location", "/elsewhere");
            response.body(Either::Left(Full::new(Bytes::from(body)))).unwrap()
        }
        Answer::Echo(status) => {
            let body = format!("<pre>Cannot POST {path_and_query}</pre> {body}");
            Response::builder().status(status).body(Either::Left(Full::new(body.into()))).unwrap()
        }
        Answer::Later(when) => {
            let response = Response::builder().status(429).header("retry-after", when);
            response.body(Either::Left(Full::default())).unwrap()
        }
        Answer::Beginning => Response::new(Either::Right(NoEnd)),
    })
}

/// A body that never yields data.
struct NoEnd;

impl Body for NoEnd {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}
