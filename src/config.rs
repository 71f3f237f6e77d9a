//! Settings in layers: defaults < `overdue.toml` < environment (`OVERDUE_…`, `__` between parts) < flags.

mod alert;
#[allow(dead_code, unused_imports, reason = "replaced with the settings")]
mod document;
mod environment;
mod error;
mod keys;
mod layers;
mod listen;
mod millis;
mod secret_text;
mod secret_url;
mod settings;
mod texts;

use std::path::Path;

pub(crate) use alert::AlertSettings;
pub(crate) use error::SettingsError;
pub(crate) use listen::Listen;
pub use millis::Millis;
pub use secret_url::SecretUrl;
pub(crate) use settings::{EffectSettings, Flags, LogFormat, LogSettings};
pub use settings::{EventsSettings, PublishScheduled, ScheduleSettings, Settings, WorkerSettings};

impl Settings {
    /// Reads all layers.
    ///
    /// # Errors
    /// A file that was named is not there, a key is unknown, or a value cannot be used: all mistakes at once.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        layers::read(file, flags)
    }
}
