//! Everything that can be set, and the defaults.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{millis::Millis, secret_url::SecretUrl};

/// Everything that can be set.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The topology file.
    pub topology: PathBuf,
    /// Where RabbitMQ is.
    pub broker: BrokerSettings,
    /// Where PostgreSQL is.
    pub database: DatabaseSettings,
    /// How the worker works.
    pub worker: WorkerSettings,
    /// SQL of effects other than the built-in `close`, by name.
    pub effects: BTreeMap<String, EffectSettings>,
    /// What is logged, to standard error.
    pub log: LogSettings,
}

/// `[broker]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSettings {
    /// AMQP URI with user, password and virtual host.
    pub url: SecretUrl,
    /// Management API; by default the same host and credentials on port 15672.
    pub management_url: Option<SecretUrl>,
    /// How often the broker takes its statistics: the longer of its `collect_statistics_interval` and
    /// `quorum_tick_interval`.
    pub statistics_interval: Millis,
}

/// `[database]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// PostgreSQL URL with user, password and database.
    pub url: SecretUrl,
    /// Schemas, comma-separated: the first holds what is ours, the order tables are found along it.
    pub search_path: String,
    /// Most connections.
    pub connections: usize,
}

/// `[worker]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Most orders in one transaction.
    pub batch_size: usize,
    /// How long the first order of a batch waits for others while earlier batches are being closed.
    pub batch_age: Millis,
    /// Batches being closed at the same time, per timeout.
    pub in_flight: usize,
    /// The longest rest of a deadline that is waited for with the message in hand.
    pub hold: Millis,
    /// Time to finish what is in hand after SIGTERM.
    pub drain: Millis,
    /// How often the sweep looks for orders that no message came for.
    pub sweep_every: Millis,
    /// How long past its deadline the sweep leaves an order to the messages.
    pub sweep_grace: Millis,
}

/// One entry of `[effects]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EffectSettings {
    /// File with the statement that carries the effect out.
    pub sql: PathBuf,
    /// File with the statement that finds overdue orders, for the sweep.
    pub overdue_sql: Option<PathBuf>,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Filter directives, e.g. `info` or `overdue=debug`.
    pub filter: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology: "topology.toml".into(),
            broker: BrokerSettings {
                url: "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned().into(),
                management_url: None,
                statistics_interval: Millis(5_000),
            },
            database: DatabaseSettings {
                url: "postgres://postgres@127.0.0.1:5432/postgres".to_owned().into(),
                search_path: "overdue,public".to_owned(),
                connections: 16,
            },
            worker: WorkerSettings {
                // Measured: 100 → 21,000 orders/s, 500 → 31,700, 2,000 → 43,600; the broker hands out 20,000/s.
                batch_size: 500,
                batch_age: Millis(20),
                in_flight: 4,
                hold: Millis(2_000),
                drain: Millis(20_000),
                sweep_every: Millis(60_000),
                sweep_grace: Millis(60_000),
            },
            effects: BTreeMap::new(),
            log: LogSettings { filter: "info".to_owned(), format: LogFormat::Text },
        }
    }
}

/// Settings given as flags; they beat everything else.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--topology`
    pub topology: Option<PathBuf>,
    /// `--broker-url`
    pub broker_url: Option<SecretUrl>,
    /// `--management-url`
    pub management_url: Option<SecretUrl>,
    /// `--database-url`
    pub database_url: Option<SecretUrl>,
}
