//! Durations in settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::topology::level::{LevelError, Ttl};

/// A duration written like `20ms` or `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Millis(pub(super) u64);

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
        let ttl: Ttl = text.parse().map_err(|error: LevelError| error.to_string())?;
        Ok(Self(ttl.as_millis()))
    }
}

impl From<Millis> for String {
    fn from(Millis(ms): Millis) -> Self {
        Ttl::from_millis(ms).map_or_else(|| format!("{ms}ms"), |ttl| ttl.to_string())
    }
}
