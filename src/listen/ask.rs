//! Asks a worker of this machine for one of its pages.

use std::{
    error::Error,
    iter::successors,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use reqwest::{Client, redirect::Policy};
use tokio::time::timeout;

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
        Ok(answer) => answer.map_err(|error| failed(cause(&error))),
        Err(_) => Err(failed(format!("not within {} s", patience.as_secs()))),
    }
}

/// No URL has the scope of an address, as `fe80::1%2`: a name stands for it.
async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), reqwest::Error> {
    let client = Client::builder().no_proxy().redirect(Policy::none()).tls_certs_only([]);
    let client = client.resolve("worker", address).build()?;
    let url = format!("http://worker:{}{path}", address.port());
    let response = client.get(url).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

/// The innermost: those around it are the client's.
fn cause(error: &dyn Error) -> String {
    successors(Some(error), |&error| error.source()).last().unwrap_or(error).to_string()
}

/// Who listens on every address is reached on this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    }
}
