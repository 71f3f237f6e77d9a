//! What follows from the settings: how large a batch gets, and how many deliveries a consumer holds.

use std::time::Duration;

use crate::{config::WorkerSettings, decisions::batch::BatchLimits};

/// The greatest prefetch count: RabbitMQ's quorum queues use no more.
const MAX_PREFETCH: u16 = 2_000;

/// Size and age of a batch.
pub(super) const fn batch(settings: &WorkerSettings) -> BatchLimits {
    BatchLimits { size: settings.batch_size, age: settings.batch_age.as_duration() }
}

/// How long a batch waits for company while others are being closed: as long as closing one takes of late, and no longer than
/// the settings say. It would wait as long for its locks, and for the disk.
#[derive(Debug)]
pub(super) struct Age {
    longest: Duration,
    /// A mean in which the last batch counts for an eighth.
    took: Duration,
}

/// Shorter, a batch would hardly ever have company.
const SHORTEST_AGE: Duration = Duration::from_millis(2);

impl Age {
    pub(super) const fn new(longest: Duration) -> Self {
        Self { longest, took: longest }
    }

    /// A batch took so long; for how long the next ones wait.
    pub(super) fn took(&mut self, took: Duration) -> Duration {
        self.took = (self.took * 7 + took.min(self.longest)) / 8;
        self.took.max(SHORTEST_AGE).min(self.longest)
    }
}

/// At 200 orders per second there are four in it.
const LONGEST_GATHERING: Duration = Duration::from_millis(20);

/// How long deliveries may wait for others, where all come early by `lead` at least: too short to make any of them late.
pub(super) fn gathering(lead: Duration) -> Duration {
    LONGEST_GATHERING.min(lead / 10)
}

/// Unsettled deliveries per consumer: the batches that are being closed, and the one after them.
pub(super) fn prefetch(settings: &WorkerSettings) -> u16 {
    let wanted = settings.batch_size.saturating_mul(settings.in_flight.saturating_add(1));
    u16::try_from(wanted).map_or(MAX_PREFETCH, |wanted| wanted.min(MAX_PREFETCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_as_long_as_others_take_and_never_longer_than_it_may() {
        let ms = Duration::from_millis;
        let mut age = Age::new(ms(20));
        assert!(age.took(ms(1)) > ms(15), "nothing is known at first");
        let slow = (0..50).map(|_| age.took(ms(9))).last().unwrap();
        assert!(slow > ms(8) && slow < ms(10), "{slow:?}");
        assert!((0..50).all(|_| age.took(Duration::from_secs(30)) <= ms(20)));
        let fast = (0..50).map(|_| age.took(ms(3))).last().unwrap();
        assert!(fast < ms(4), "slow ones are soon forgotten: {fast:?}");
        assert_eq!((0..50).map(|_| age.took(ms(1))).last(), Some(SHORTEST_AGE));
        assert_eq!(Age::new(Duration::ZERO).took(ms(5)), Duration::ZERO);
    }
}
