//! Why the settings cannot be used.

use std::path::PathBuf;

use crate::text::counted;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file named with `--config` is not there.
    #[error("there is no settings file {}", .0.display())]
    NoFile(PathBuf),
    /// The file is there and cannot be read.
    #[error("cannot read the settings file {}: {error}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// Unknown keys and values that cannot be used: all of them, each with its file and line or its variable.
    #[error("{}", listed(.0))]
    Mistakes(Vec<String>),
    /// The layers together are not settings.
    #[error("the settings cannot be used: {0}")]
    Unusable(String),
}

/// One mistake stands for itself; several are counted first.
fn listed(mistakes: &[String]) -> String {
    match mistakes {
        [one] => one.clone(),
        many => format!("{} in the settings\n{}", counted(many.len(), "mistake"), many.join("\n")),
    }
}
