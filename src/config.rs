//! Settings in layers: defaults < `overdue.toml` < environment (`OVERDUE_…`, `__` between parts) < flags.

mod unreadable;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use figment::{
    Figment,
    providers::{Env, Format, Serialized, Toml},
};
use serde::{Deserialize, Serialize};

use crate::topology::level::Ttl;

/// Read when it is there; another one is named with `--config`.
const SETTINGS_FILE: &str = "overdue.toml";
/// What `OVERDUE_…` variables without `__` may be; others belong to scripts and are left alone.
const TOP_LEVEL: [&str; 1] = ["topology"];

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
    pub url: String,
    /// Management API; by default the same host and credentials on port 15672.
    pub management_url: Option<String>,
    /// How often the broker takes its statistics: the longer of its `collect_statistics_interval` and
    /// `quorum_tick_interval`.
    pub statistics_interval: Millis,
}

/// `[database]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// PostgreSQL URL with user, password and database.
    pub url: String,
    /// Schemas, comma-separated: the first holds what is ours, the order tables are found along it.
    pub search_path: String,
    /// Connections at the most.
    pub connections: usize,
}

/// `[worker]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Orders closed in one transaction at the most.
    pub batch_size: usize,
    /// How long the first order of a batch waits for others while earlier batches are being closed.
    pub batch_age: Millis,
    /// Batches being closed at the same time, per timeout.
    pub in_flight: usize,
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

/// A duration written like `20ms` or `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Millis(u64);

impl Millis {
    /// The same time as a [`Duration`].
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<String> for Millis {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "0s" || text == "0ms" {
            return Ok(Self(0));
        }
        let ttl: Ttl =
            text.parse().map_err(|error: crate::topology::level::LevelError| error.to_string())?;
        Ok(Self(ttl.as_millis()))
    }
}

impl From<Millis> for String {
    fn from(Millis(ms): Millis) -> Self {
        Ttl::from_millis(ms).map_or_else(|| format!("{ms}ms"), |ttl| ttl.to_string())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology: "topology.toml".into(),
            broker: BrokerSettings {
                url: "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned(),
                management_url: None,
                statistics_interval: Millis(5_000),
            },
            database: DatabaseSettings {
                url: "postgres://postgres@127.0.0.1:5432/postgres".to_owned(),
                search_path: "overdue,public".to_owned(),
                connections: 16,
            },
            worker: WorkerSettings {
                // Measured: 100 → 21,000 orders/s, 500 → 31,700, 2,000 → 43,600; the broker hands out 20,000/s.
                batch_size: 500,
                batch_age: Millis(20),
                in_flight: 4,
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
#[derive(Clone, Debug, Default, Serialize)]
pub struct Flags {
    /// `--topology`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<PathBuf>,
    /// `--broker-url`, `--management-url`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub broker: BTreeMap<&'static str, String>,
    /// `--database-url`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub database: BTreeMap<&'static str, String>,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file named with `--config` is not there.
    #[error("there is no settings file {}", .0.display())]
    NoFile(PathBuf),
    /// A value has the wrong type, or a key is unknown: which, and where it came from.
    #[error("{0}")]
    Unreadable(String),
    /// A variable that looks like a setting and is none: it would be ignored, and another broker be used.
    #[error("{found} is not read: two underscores stand between the parts, write {meant}")]
    Underscore {
        /// The variable that is set.
        found: String,
        /// What was meant.
        meant: String,
    },
    /// A value is out of its range.
    #[error("{key} is {value}: it has to be {range}")]
    OutOfRange {
        /// Which setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        range: &'static str,
    },
}

impl Settings {
    /// Reads all layers.
    ///
    /// # Errors
    /// A file that was named is not there, a key is unknown, or a value does not fit.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        if let Some(path) = file.filter(|path| !path.is_file()) {
            return Err(SettingsError::NoFile(path.to_owned()));
        }
        underscores(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
        let known = |key: &figment::value::UncasedStr| {
            key.as_str().contains("__") || TOP_LEVEL.iter().any(|name| key == *name)
        };
        let settings: Self = Figment::from(Serialized::defaults(Self::default()))
            .merge(Toml::file(file.unwrap_or_else(|| Path::new(SETTINGS_FILE))))
            .merge(Env::prefixed("OVERDUE_").filter(known).split("__"))
            .merge(Serialized::defaults(flags))
            .extract()
            .map_err(|error| SettingsError::Unreadable(unreadable::explain(&error)))?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let worker = &self.worker;
        between("worker.batch_size", worker.batch_size, 1..=2_000, "between 1 and 2000")?;
        between("worker.in_flight", worker.in_flight, 1..=64, "between 1 and 64")?;
        above_zero("broker.statistics_interval", self.broker.statistics_interval)?;
        above_zero("worker.sweep_every", worker.sweep_every)?;
        between("database.connections", self.database.connections, 2..=1_000, "between 2 and 1000")
    }
}

/// Looks for variables with one underscore where two belong.
fn underscores(mut names: impl Iterator<Item = String>) -> Result<(), SettingsError> {
    let settings = serde_json::to_value(Settings::default()).unwrap_or_default();
    let sections = settings.as_object().into_iter().flatten();
    let variables = |section: &String, keys: &serde_json::Value| -> Vec<[String; 2]> {
        let keys = keys.as_object().into_iter().flatten().map(|(key, _)| key);
        let variable =
            |between, key: &String| format!("OVERDUE_{section}{between}{key}").to_uppercase();
        keys.map(|key| ["_", "__"].map(|between| variable(between, key))).collect()
    };
    let variables: Vec<[String; 2]> =
        sections.flat_map(|(section, keys)| variables(section, keys)).collect();
    let mistake = names.find_map(|name| variables.iter().find(|[wrong, _]| *wrong == name));
    mistake.map_or(Ok(()), |[found, meant]| {
        Err(SettingsError::Underscore { found: found.clone(), meant: meant.clone() })
    })
}

fn between(
    key: &'static str,
    value: usize,
    bounds: std::ops::RangeInclusive<usize>,
    range: &'static str,
) -> Result<(), SettingsError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    Err(SettingsError::OutOfRange { key, value: value.to_string(), range })
}

fn above_zero(key: &'static str, value: Millis) -> Result<(), SettingsError> {
    if value == Millis(0) {
        return Err(SettingsError::OutOfRange {
            key,
            value: "0s".to_owned(),
            range: "1ms or more",
        });
    }
    Ok(())
}
