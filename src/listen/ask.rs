//! Requests a page of a worker on this machine.

use std::{
    error::Error,
    iter::successors,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use reqwest::{Client, redirect::Policy};
use tokio::time::timeout;

/// Prefix of a `/readyz` line about a failure that is not a condition; topology, work and reason follow.
pub(crate) const FAILING: &str = "failing   ";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("no worker answers at {address}: {reason}")]
pub(crate) struct AskError {
    address: SocketAddr,
    reason: String,
}

/// Requests `path` and returns status and text.
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

/// A URL cannot contain an address with a scope, such as `fe80::1%2`, so a name replaces it.
async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), reqwest::Error> {
    let client = Client::builder().no_proxy().redirect(Policy::none()).tls_certs_only([]);
    let client = client.resolve("worker", address).build()?;
    let url = format!("http://worker:{}{path}", address.port());
    let response = client.get(url).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

/// The innermost cause; the outer errors belong to the client.
fn cause(error: &dyn Error) -> String {
    successors(Some(error), |&error| error.source()).last().unwrap_or(error).to_string()
}

/// Replaces the address of all interfaces by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    }
}
