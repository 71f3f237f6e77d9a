//! Asks a worker of this machine for one of its pages.

use std::{
    error::Error,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::text::error_chain;

/// How a line of `/readyz` begins that says what fails beside the conditions; then come the topology, the work and why.
pub(crate) const FAILING: &str = "failing   ";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("no worker answers at {address}: {reason}")]
pub(crate) struct AskError {
    address: SocketAddr,
    reason: String,
}

/// Status and text of `path`.
pub(crate) async fn ask(
    address: SocketAddr,
    path: &str,
    patience: Duration,
) -> Result<(u16, String), AskError> {
    let address = reachable(address);
    let failed = |reason: String| AskError { address, reason };
    match timeout(patience, get(address, path)).await {
        Ok(answer) => answer.map_err(|error| failed(error_chain(&*error))),
        Err(_) => Err(failed(format!("not within {} s", patience.as_secs()))),
    }
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), Box<dyn Error>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer: the worker closes it.
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, address.to_string());
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Who listens on every address is reached on this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    }
}
