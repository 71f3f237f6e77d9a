//! Whether somebody holds rows that many orders need. The caller passes the time in.

use std::time::{Duration, Instant};

/// After a lock that was waited for in vain, nobody waits again for so long: each batch that waits is late by the lock
/// time-out.
pub const LASTS: Duration = Duration::from_secs(5);
/// Then one batch waits, and the others do not for so long: longer than the lock time-out.
const TRIAL: Duration = Duration::from_millis(500);

/// How a batch is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It waits for rows that others hold for an instant.
    Wait,
    /// As [`Manner::Wait`], to see whether the rows are free again.
    Try,
    /// It waits for nothing, and closes what it can.
    PassOver,
}

/// What is known about locks of others.
#[derive(Debug, Default)]
pub struct Contention {
    until: Option<Instant>,
}

impl Contention {
    /// How the next batch is to be closed.
    pub fn manner(&mut self, now: Instant) -> Manner {
        match self.until {
            None => Manner::Wait,
            Some(until) if now < until => Manner::PassOver,
            Some(_) => {
                self.until = Some(now + TRIAL);
                Manner::Try
            }
        }
    }

    /// A batch has waited in vain.
    pub fn waited_in_vain(&mut self, now: Instant) {
        self.until = Some(now + LASTS);
    }

    /// A batch got everything it waited for. One that began before the rows were held says nothing.
    pub fn got_through(&mut self, manner: Manner) {
        if manner == Manner::Try {
            self.until = None;
        }
    }
}
