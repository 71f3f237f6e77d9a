//! Everything that can be set, and the defaults.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{alert::AlertSettings, listen::Listen, millis::Millis, secret_url::SecretUrl};

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
    /// What is published of closed orders.
    pub events: EventsSettings,
    /// What becomes of notices that were written with `schedule()`.
    pub schedule: ScheduleSettings,
    /// SQL of effects that are not built in, or of other tables, by name.
    pub effects: BTreeMap<String, EffectSettings>,
    /// What is logged, to standard error.
    pub log: LogSettings,
    /// Messages about what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alert: Vec<AlertSettings>,
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
    /// Dead letters that a quorum queue hands on at once: the broker's `dead_letter_worker_consumer_prefetch`, which the
    /// management API does not show.
    pub dead_letter_slots: u64,
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
    /// How long the first order of a batch waits for others while earlier batches are being closed, at the most.
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
    /// How long closures and records of dropped messages are kept; zero: for ever.
    pub keep_history: Millis,
    /// Where `overdue run` serves `/metrics`, `/livez` and `/readyz`.
    pub listen: Listen,
    /// How often database and broker are asked for what these say of them.
    pub watch_every: Millis,
    /// How long an order may be overdue while none is closed before the worker is not ready.
    pub stuck_after: Millis,
}

/// `[events]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSettings {
    /// Whether the built-in effect writes events, and the worker publishes what is in the outbox.
    pub publish: bool,
    /// How long events are gathered before they are published together.
    pub linger: Millis,
}

/// `[schedule]`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSettings {
    /// Whether the worker publishes the notices that order services write with `schedule()`.
    pub publish: PublishScheduled,
}

/// Whether a worker publishes what `schedule()` writes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PublishScheduled {
    /// Where the tables are there, and the rights on them.
    #[default]
    Auto,
    /// The same; a line in the log says what is missing.
    On,
    /// It does not.
    Off,
}

/// One entry of `[effects]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EffectSettings {
    /// File with the statement that carries the effect out.
    pub sql: PathBuf,
    /// File with the statement that finds overdue orders, for the sweep.
    pub overdue_sql: Option<PathBuf>,
    /// File with the statement that says when orders are due, for notices that come early and do not say it.
    pub due_sql: Option<PathBuf>,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
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
                dead_letter_slots: 32,
            },
            database: DatabaseSettings {
                url: "postgres://postgres@127.0.0.1:5432/postgres".to_owned().into(),
                search_path: "overdue,public".to_owned(),
                connections: 16,
            },
            worker: WorkerSettings {
                // Measured: 100 → 21,000 orders/s, 500 → 31,700, 2,000 → 43,600; the broker hands out 20,000/s.
                batch_size: 500,
                batch_age: Millis(50),
                in_flight: 4,
                hold: Millis(2_000),
                drain: Millis(20_000),
                sweep_every: Millis(60_000),
                sweep_grace: Millis(60_000),
                keep_history: Millis(90 * 86_400_000),
                listen: Listen::default(),
                watch_every: Millis(10_000),
                // Above what the sweep needs for an order whose message was lost.
                stuck_after: Millis(300_000),
            },
            events: EventsSettings::default(),
            schedule: ScheduleSettings::default(),
            effects: BTreeMap::new(),
            log: LogSettings { filter: "info".to_owned(), format: LogFormat::Text },
            alert: Vec::new(),
        }
    }
}

impl Default for EventsSettings {
    fn default() -> Self {
        Self { publish: true, linger: Millis(50) }
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
