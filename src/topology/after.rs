//! A delay as people write it, of any length.

use std::{str::FromStr, time::Duration};

use super::level::{LevelError, Ttl};

/// A delay from 0 to ten years: a whole number and one unit (ms, s, m, h, d), e.g. `37m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After(Duration);

/// Why a text is not a delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AfterError {
    /// In the past.
    #[error("a delay of `{0}` is below zero: write 0s for what is due now")]
    BelowZero(String),
    /// Unreadable, or longer than ten years.
    #[error(transparent)]
    Text(#[from] LevelError),
}

impl After {
    /// How long.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl FromStr for After {
    type Err = AfterError;

    fn from_str(text: &str) -> Result<Self, AfterError> {
        match text.parse::<Ttl>() {
            Ok(ttl) => Ok(Self(ttl.as_duration())),
            Err(LevelError::Zero(_)) => Ok(Self(Duration::ZERO)),
            Err(_) if text.strip_prefix('-').is_some_and(|rest| rest.parse::<Ttl>().is_ok()) => {
                Err(AfterError::BelowZero(text.to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
