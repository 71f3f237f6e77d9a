//! Requests the pages of a worker process, as Prometheus does.

use std::{collections::BTreeMap, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{WorkerProcess, World};

#[derive(Clone, Debug)]
pub struct Page {
    pub status: u16,
    pub body: String,
}

impl Page {
    pub fn first(&self) -> &str {
        self.body.lines().next().unwrap_or_default()
    }
}

/// Sends `bytes`; returns the answer up to the end of the connection.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// `GET path`.
pub async fn get(address: SocketAddr, path: &str) -> Page {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let answer = exchange(address, request.as_bytes()).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Page { status, body: body.to_owned() }
}

/// Every series of `/metrics` by its name with labels.
pub async fn metrics(address: SocketAddr) -> BTreeMap<String, f64> {
    let page = get(address, "/metrics").await;
    assert_eq!(page.status, 200, "{}", page.body);
    let lines = page.body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The sum of all series of `metric` whose labels contain all of `labels`, e.g. `outcome="closed"`.
pub fn sum(metrics: &BTreeMap<String, f64>, metric: &str, labels: &[&str]) -> f64 {
    let fits = |series: &str| {
        series.split('{').next() == Some(metric) && labels.iter().all(|it| series.contains(it))
    };
    metrics.iter().filter(|(series, _)| fits(series)).map(|(_, value)| value).sum()
}

impl World {
    /// A worker process that listens on a free port; `change` may set more of its environment.
    pub async fn listening(
        &self,
        change: impl FnOnce(&mut std::process::Command),
    ) -> (WorkerProcess, SocketAddr) {
        let mut process = self
            .started(|command| {
                command.env("OVERDUE_WORKER__LISTEN", "127.0.0.1:0");
                command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
                change(command);
            })
            .await;
        let address = process.listens_at().await;
        (process, address)
    }
}

impl WorkerProcess {
    /// The address in its log.
    pub async fn listens_at(&mut self) -> SocketAddr {
        self.until_logged("serving /metrics").await;
        let log = self.log();
        let line = log.lines().find(|line| line.contains("serving /metrics")).unwrap();
        let (_, address) = line.split_once("address=").unwrap();
        address.trim_matches('"').split(['"', ' ']).next().unwrap().parse().unwrap()
    }
}
