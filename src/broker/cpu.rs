//! How much CPU a broker has used, from its Prometheus endpoint.

use std::time::{Duration, Instant};

/// Counters of the Erlang virtual machine. Both have the same unit, whatever they are called: it differs between versions.
const BUSY: &str = "erlang_vm_statistics_runtime_";
const CLOCK: &str = "erlang_vm_statistics_wallclock_time_";

/// The Prometheus endpoint of a broker of one node.
#[derive(Debug)]
pub(crate) struct BrokerCpu {
    url: url::Url,
    http: reqwest::Client,
    began: Instant,
    clock: f64,
}

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the CPU of the broker from {url}: {reason}; is the plugin rabbitmq_prometheus enabled?"
)]
pub(crate) struct CpuError {
    url: String,
    reason: String,
}

impl BrokerCpu {
    /// Asks once, so that a wrong URL is known at once.
    ///
    /// # Errors
    /// See [`CpuError`].
    pub(crate) async fn at(url: &str) -> Result<Self, CpuError> {
        let url = url.parse().map_err(|error: url::ParseError| CpuError {
            url: url.to_owned(),
            reason: error.to_string(),
        })?;
        let http = reqwest::Client::new();
        let began = Instant::now();
        let mut cpu = Self { url, http, began, clock: 0.0 };
        (_, cpu.clock) = cpu.read().await?;
        Ok(cpu)
    }

    /// CPU time of all threads since the broker was started.
    ///
    /// # Errors
    /// See [`CpuError`].
    pub(crate) async fn so_far(&self) -> Result<Duration, CpuError> {
        let (busy, clock) = self.read().await?;
        let unit = self.began.elapsed().as_secs_f64() / (clock - self.clock).max(f64::MIN_POSITIVE);
        // Milliseconds or seconds: what the clock of the same endpoint has gone on by says which.
        let unit = if unit < 0.1 { 0.001 } else { 1.0 };
        Ok(Duration::from_secs_f64((busy * unit).max(0.0)))
    }

    async fn read(&self) -> Result<(f64, f64), CpuError> {
        let failed = |reason: String| CpuError { url: self.url.to_string(), reason };
        let sent = self.http.get(self.url.clone()).send().await;
        let answer = sent.and_then(reqwest::Response::error_for_status);
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let text = answer.text().await.map_err(|error| failed(error.to_string()))?;
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            value.ok_or_else(|| failed(format!("it has no {name}…")))
        };
        Ok((value(BUSY)?, value(CLOCK)?))
    }
}
