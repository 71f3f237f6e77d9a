//! What follows from the settings: how large a batch gets, and how many deliveries a consumer holds.

use std::time::{Duration, Instant};

use crate::{
    config::WorkerSettings,
    messaging::large_bodies::MAX_PASSED_BYTES,
    topology::{Timeout, Topology},
    wire::MAX_BODY_BYTES,
};

/// Interval of the look at channels and log, which also says that a loop goes on.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Copies are waited for this long after a stop was asked for, or half of the drain time where that is shorter; what is not
/// confirmed by then is given back.
const LAST_CONFIRMS: Duration = Duration::from_secs(5);
/// The greatest prefetch count: RabbitMQ's quorum queues use no more.
const MAX_PREFETCH: u16 = 2_000;

/// At 200 orders per second there are four in it.
const LONGEST_GATHERING: Duration = Duration::from_millis(20);

/// How long deliveries may wait for others, where all come early: too short to make any of them late. What the old exchange's
/// publishers send is on its way to its level only when it is delivered.
pub(super) fn gathering(topology: &Topology) -> Duration {
    if topology.compat.is_some() {
        return Duration::ZERO;
    }
    LONGEST_GATHERING.min(topology.least_lead() / 10)
}

/// Until when the last copies are waited for, if a stop was asked for now.
pub(super) fn last_confirms(settings: &WorkerSettings) -> Instant {
    Instant::now() + LAST_CONFIRMS.min(settings.drain.as_duration() / 2)
}

/// Batches of one queue at the database: those of a timeout's shards are so many together, if there are not more shards.
pub(super) fn in_flight(settings: &WorkerSettings, timeout: &Timeout) -> usize {
    settings.in_flight.div_ceil(usize::from(timeout.shards.unwrap_or(1).max(1)))
}

/// Unsettled deliveries per consumer: the batches that are being closed, and the one after them. The shards of a timeout hold no
/// more together than one queue would.
pub(super) fn prefetch(settings: &WorkerSettings, timeout: &Timeout) -> u16 {
    let wanted = settings.batch_size.saturating_mul(settings.in_flight.saturating_add(1));
    let all = u16::try_from(wanted).map_or(MAX_PREFETCH, |wanted| wanted.min(MAX_PREFETCH));
    all.div_ceil(timeout.shards.unwrap_or(1).max(1))
}

/// The same where bodies may be large: no more bytes than of small ones.
pub(super) fn large_prefetch(prefetch: u16) -> u16 {
    let ratio = u16::try_from(MAX_PASSED_BYTES / MAX_BODY_BYTES).unwrap_or(u16::MAX);
    (prefetch / ratio).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_the_batches_of_their_timeout_together() {
        let text = "name = \"a\"\n[delay]\nlevels = [\"5s\"]\n[[timeout]]\nname = \"b\"\nafter = \"5s\"\n[retry]\nafter = [\"5s\"]\n";
        let mut timeout = Topology::parse(text).unwrap().timeouts.remove(0);
        let settings = WorkerSettings { in_flight: 4, ..WorkerSettings::default() };
        for (shards, each) in [(None, 4), (Some(1), 4), (Some(2), 2), (Some(3), 2), (Some(16), 1)] {
            timeout.shards = shards;
            assert_eq!(in_flight(&settings, &timeout), each, "{shards:?}");
        }
    }
}
