//! How the notices of a steady load wait.

use std::time::Duration;

use crate::topology::lead::Lead;

/// The only timeout.
pub(super) const TIMEOUT: &str = "unpaid";
/// A level as order services use them, only shorter.
const SHORT_LEVEL: &str = "2s";
pub(super) const SHORT: Duration = Duration::from_secs(2);
/// Of random delays.
pub(super) const LONGEST_MS: u64 = 10_000;
/// Longer than any notice waits: its `expiration` alone says how long.
pub(super) const LONG: Duration = Duration::from_hours(1);

/// How the notices of a steady load wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delays {
    /// In a level that lets go so early.
    Level(Lead),
    /// In a ladder, each for another time of up to 10 s, to the millisecond.
    Random,
}

impl Delays {
    pub(super) fn topology(self, name: &str) -> String {
        let delay = match self {
            Self::Level(Lead::Usual) => format!(
                "delay.levels = [\"{SHORT_LEVEL}\", \"10s\", \"1h\"]\nretry.after = [\"10s\"]\n"
            ),
            // No level may be shorter than twice the lead.
            Self::Level(Lead::Given(lead)) => format!(
                "delay.levels = [\"1h\"]\ndelay.lead = \"{}ms\"\nretry.after = [\"1h\"]\n",
                lead.as_millis()
            ),
            Self::Random => {
                "[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"1h\"\n".to_owned()
            }
        };
        format!("name = \"{name}\"\n{delay}[[timeout]]\nname = \"{TIMEOUT}\"\nafter = \"1h\"\n")
    }

    /// The longest of them.
    pub(crate) const fn longest(self) -> Duration {
        match self {
            Self::Level(_) => SHORT,
            Self::Random => Duration::from_millis(LONGEST_MS),
        }
    }
}
