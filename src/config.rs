//! Settings in layers: defaults < `overdue.toml` < environment (`OVERDUE_…`, `__` between parts) < flags.

mod environment;
mod error;
mod keys;
mod layers;
mod millis;
mod settings;

use std::path::Path;

pub use error::SettingsError;
pub use millis::Millis;
pub use settings::{
    BrokerSettings, DatabaseSettings, EffectSettings, Flags, LogFormat, LogSettings, Settings,
    WorkerSettings,
};

impl Settings {
    /// Reads all layers.
    ///
    /// # Errors
    /// A file that was named is not there, a key is unknown, or a value cannot be used: all mistakes at once.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        layers::read(file, flags)
    }
}
