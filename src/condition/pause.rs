//! A timeout whose orders no worker closes for a while.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::text::{about, counted, one_line};

/// A pause that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Of the topology.
    pub timeout: String,
    /// As its maker has written it.
    pub why: String,
    /// The maker's user of the database.
    pub by: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends, if nobody ends it before; at a rate, if no more orders come.
    pub until: Timestamp,
    /// It is being ended: so many orders are closed per second.
    pub per_second: Option<u32>,
    /// How long it has lasted.
    #[serde(skip)]
    pub age: Duration,
    /// How long it lasts.
    #[serde(skip)]
    pub rest: Duration,
}

/// In one line.
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
