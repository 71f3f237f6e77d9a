//! `overdue.toml`: every setting is declared here, with its default and its bounds. An environment variable sets the same
//! key.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value as Json;

use super::{alert::AlertSettings, files::SettingsFiles, secret_url::SecretUrl, ui::UiSettings};
use crate::{
    document::{self, quoted},
    effect::EffectKeys,
    topology::level::Interval,
};

/// Settings of `overdue`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The topology file.
    #[schemars(example = &"topology.toml")]
    pub topology: PathBuf,
    /// Where RabbitMQ is.
    pub broker: BrokerSettings,
    /// Where PostgreSQL is.
    pub database: DatabaseSettings,
    /// How the worker works.
    pub worker: WorkerSettings,
    /// Publishing of events about closed orders.
    pub events: EventsSettings,
    /// Notices that were written with `schedule()`.
    pub schedule: ScheduleSettings,
    /// Where spans of closed orders go.
    pub traces: TracesSettings,
    /// Statements for overdue rows of your tables, by the name of the effect.
    pub effects: BTreeMap<String, EffectKeys>,
    /// The log, on standard error.
    pub log: LogSettings,
    /// The web page for operators on call.
    pub ui: UiSettings,
    /// Messages about faults, to a webhook.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alert: Vec<AlertSettings>,
    /// Paths of the files that were read.
    #[serde(skip)]
    pub files: SettingsFiles,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology: "topology.toml".into(),
            broker: BrokerSettings::default(),
            database: DatabaseSettings::default(),
            worker: WorkerSettings::default(),
            events: EventsSettings::default(),
            schedule: ScheduleSettings::default(),
            traces: TracesSettings::default(),
            effects: BTreeMap::new(),
            log: LogSettings::default(),
            ui: UiSettings::default(),
            alert: Vec::new(),
            files: SettingsFiles::default(),
        }
    }
}

/// Where RabbitMQ is.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// AMQP URI with user, password and virtual host.
    #[schemars(example = &"amqp://user:password@host:5672/%2f")]
    pub url: SecretUrl,
    /// Management API; by default the same host and credentials on port 15672.
    #[schemars(example = &"http://user:password@host:15672")]
    pub management_url: Option<SecretUrl>,
    /// How often the broker takes its statistics: the longer of its `collect_statistics_interval` and
    /// `quorum_tick_interval`.
    pub statistics_interval: Interval,
    /// Dead letters that a quorum queue hands on at once: the broker's `dead_letter_worker_consumer_prefetch`, which the
    /// management API does not show.
    #[schemars(range(min = 1, max = 65_535), example = 32)]
    pub dead_letter_slots: u64,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            url: "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned().into(),
            management_url: None,
            statistics_interval: Interval::from_millis(5_000),
            dead_letter_slots: 32,
        }
    }
}

/// Where PostgreSQL is.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseSettings {
    /// PostgreSQL URL with user, password and database.
    #[schemars(example = &"postgres://user:password@host:5432/database")]
    pub url: SecretUrl,
    /// Schemas, comma-separated: the first contains the objects of `overdue`; the order tables are searched in all of them.
    #[schemars(example = &"overdue,public")]
    pub search_path: String,
    /// Most connections: half of them close orders.
    #[schemars(range(min = 6, max = 1_000), example = 16)]
    pub connections: usize,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: "postgres://postgres@127.0.0.1:5432/postgres".to_owned().into(),
            search_path: "overdue,public".to_owned(),
            connections: 16,
        }
    }
}

/// How the worker works.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Most orders in one transaction.
    #[schemars(range(min = 1, max = 2_000), example = 500)]
    pub batch_size: usize,
    /// How long the first order of a batch waits for others while the database is idle.
    pub batch_linger: Interval,
    /// Longest time that the first order of a batch waits for others while earlier batches are being closed.
    pub batch_age: Interval,
    /// Batches being closed at the same time, per timeout.
    #[schemars(range(min = 1, max = 64), example = 4)]
    pub in_flight: usize,
    /// Longest time that a message stays unacked until its deadline, at most 5m: the broker requeues a message that is
    /// unacked for longer than `consumer_timeout` (30 minutes by default).
    #[serde(deserialize_with = "within::<_, 0, 300_000>")]
    pub hold: Interval,
    /// Time after SIGTERM to finish work that has begun.
    pub drain: Interval,
    /// How often the sweep looks for overdue orders without a message.
    #[serde(deserialize_with = "positive")]
    pub sweep_every: Interval,
    /// How long after its deadline an order is left to its message before the sweep closes it.
    pub sweep_grace: Interval,
    /// How long closures and records of dropped messages and of actions are kept; 0s: forever.
    pub keep_history: Interval,
    /// Address and port of `/metrics`, `/livez` and `/readyz`; empty: no server.
    pub listen: Listen,
    /// How often the worker reads the state of database and broker for `/metrics` and `/readyz`.
    #[serde(deserialize_with = "positive")]
    pub watch_every: Interval,
    /// How long an order may be overdue while none is closed before the worker is not ready.
    #[serde(deserialize_with = "positive")]
    pub stuck_after: Interval,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            // Measured: 100 → 21,000 orders/s, 500 → 31,700, 2,000 → 43,600; the broker delivers 20,000/s.
            batch_size: 500,
            batch_linger: Interval::from_millis(0),
            batch_age: Interval::from_millis(50),
            in_flight: 4,
            hold: Interval::from_millis(2_000),
            drain: Interval::from_millis(20_000),
            sweep_every: Interval::from_millis(60_000),
            sweep_grace: Interval::from_millis(60_000),
            keep_history: Interval::from_millis(90 * 86_400_000),
            listen: Listen::default(),
            watch_every: Interval::from_millis(10_000),
            // Longer than the sweep needs for an order whose message was lost.
            stuck_after: Interval::from_millis(300_000),
        }
    }
}

/// Publishing of events about closed orders.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsSettings {
    /// Whether the built-in effects write events and the worker publishes the outbox.
    #[schemars(example = true)]
    pub publish: bool,
    /// How long events are collected before they are published together, at most 10s.
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    pub linger: Interval,
}

impl Default for EventsSettings {
    fn default() -> Self {
        Self { publish: true, linger: Interval::from_millis(50) }
    }
}

/// Notices that were written with `schedule()`.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleSettings {
    /// Whether the worker publishes the notices that order services write with `schedule()`.
    pub publish: PublishScheduled,
}

/// Whether a worker publishes what `schedule()` writes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PublishScheduled {
    /// The worker publishes them if the tables exist and it has the rights.
    #[default]
    Auto,
    /// The worker publishes them as for `auto`, and logs what is missing.
    On,
    /// The worker does not publish them.
    Off,
}

/// Where spans of closed orders go.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracesSettings {
    /// URL of a collector for OTLP over HTTP; empty: no spans.
    #[schemars(example = &"http://127.0.0.1:4318")]
    pub otlp: Option<SecretUrl>,
}

impl TracesSettings {
    /// The URL of the collector, if one is set.
    pub(crate) fn url(&self) -> Option<&str> {
        self.otlp.as_ref().map(SecretUrl::expose).filter(|url| !url.is_empty())
    }
}

/// The log, on standard error.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Filter directives, e.g. `info` or `overdue=debug`.
    #[schemars(example = &"info")]
    pub filter: String,
    /// How log lines look.
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// A JSON object per line.
    Json,
}

/// A duration between two bounds in milliseconds.
pub(super) fn within<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<Interval, D::Error> {
    let interval = Interval::deserialize(from)?;
    let (min, max) = (Interval::from_millis(MIN), Interval::from_millis(MAX));
    match interval {
        short if short < min => Err(D::Error::custom(format!("{short} is less than {min}"))),
        long if long > max => Err(D::Error::custom(format!("{long} is more than {max}"))),
        fits => Ok(fits),
    }
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Interval, D::Error> {
    within::<D, 1, { u64::MAX }>(from)
}

/// Address and port, e.g. `127.0.0.1:9632`; `None` for an empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", example = "127.0.0.1:9632")]
pub struct Listen(Option<SocketAddr>);

impl Listen {
    /// Outside the range of ports for outgoing connections.
    const PORT: u16 = 9632;

    /// The address; `None` if there is no server.
    pub const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

impl Default for Listen {
    /// Reachable from this machine only.
    fn default() -> Self {
        Self(Some((Ipv4Addr::LOCALHOST, Self::PORT).into()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |address| write!(f, "{address}"))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| {
            format!(
                "{} is not an address with a port: write {} or [::1]:{}, with 0.0.0.0 for everybody, or nothing in \
                 order not to listen",
                quoted(text),
                Self::default(),
                Self::PORT
            )
        })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

/// The JSON Schema of the file.
pub fn schema() -> Json {
    document::schema::<Settings>("overdue.toml")
}

/// Settings from flags, which override all other layers.
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
    /// The files that the URLs of broker, management API and database were read from.
    pub files: [Option<PathBuf>; 3],
}
