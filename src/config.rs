//! Settings in layers: defaults < `overdue.toml` < environment (`OVERDUE_…`, `__` between parts) < flags.

mod alert;
mod files;
mod layers;
mod secret_url;
mod settings;
pub(crate) mod template;
mod ui;
mod url_file;

pub(crate) use alert::AlertSettings;
pub(crate) use layers::SettingsError;
pub use secret_url::SecretUrl;
pub use settings::{EventsSettings, Settings, WorkerSettings, schema};
pub(crate) use settings::{Flags, Listen, LogFormat, LogSettings};
pub(crate) use settings::{PublishScheduled, ScheduleSettings, TracesSettings};
pub(crate) use ui::UiSettings;
pub(crate) use url_file::{Login, UrlFile};
