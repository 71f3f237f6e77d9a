//! A timeout whose orders no worker closes for a while.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::text::{about, counted, one_line};

/// A pause that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// The timeout's name in the topology.
    pub timeout: String,
    /// The reason that the person gave.
    pub why: String,
    /// The person's user of the database.
    pub by: String,
    /// Start of the pause.
    pub since: Timestamp,
    /// End of the pause, unless a person ends it before; at a rate, the end if no more orders come due.
    pub until: Timestamp,
    /// Orders that are closed per second while the pause is ended at a rate.
    pub per_second: Option<u32>,
    /// Time since the start.
    #[serde(skip)]
    pub age: Duration,
    /// Remaining time.
    #[serde(skip)]
    pub rest: Duration,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, why, by, until, per_second, age, .. } = self;
        let (by, why) = (one_line(by), one_line(why));
        match per_second {
            None => write!(
                f,
                "{timeout} is paused until {until:.0} by {by}, for {} so far: {why}",
                about(*age)
            ),
            Some(rate) => {
                write!(
                    f,
                    "{timeout} is resumed with {} per second, after a pause by {by}: {why}",
                    counted(u64::from(*rate), "order")
                )
            }
        }
    }
}
