//! The version of a broker, as far as rules ask for it.

use std::{fmt, str::FromStr};

/// A RabbitMQ version: `4.0`, or `4.3.2`. Without a patch the newest of its series is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerVersion {
    major: u16,
    minor: u16,
    patch: Option<u16>,
}

impl BrokerVersion {
    /// A series; it is before all of its patches.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: None }
    }

    /// Major and minor number.
    #[must_use]
    pub const fn series(self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// The last number, where it was given.
    #[must_use]
    pub const fn patch(self) -> Option<u16> {
        self.patch
    }
}

impl fmt::Display for BrokerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// The text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a RabbitMQ version: write it like `4.3` or `4.3.2`")]
pub struct BrokerVersionError(String);

impl FromStr for BrokerVersion {
    type Err = BrokerVersionError;

    fn from_str(text: &str) -> Result<Self, BrokerVersionError> {
        let numbers: Option<Vec<u16>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[major, minor]) => Ok(Self::new(major, minor)),
            Some(&[major, minor, patch]) => Ok(Self { major, minor, patch: Some(patch) }),
            _ => Err(BrokerVersionError(text.to_owned())),
        }
    }
}
