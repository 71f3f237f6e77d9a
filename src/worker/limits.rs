//! Limits that follow from the settings: size of a batch, unsettled deliveries of a consumer.

use std::time::{Duration, Instant};

use crate::{
    config::WorkerSettings,
    messaging::large_bodies::MAX_PASSED_BYTES,
    topology::{Timeout, Topology},
    wire::MAX_BODY_BYTES,
};

/// Interval at which a loop checks its channels, writes its log, and records a step.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for the confirms of copies after a requested stop, at most half of `worker.drain`. Then the broker requeues
/// unconfirmed messages.
const LAST_CONFIRMS: Duration = Duration::from_secs(5);
/// The highest prefetch count: RabbitMQ's quorum queues use no more.
const MAX_PREFETCH: u16 = 2_000;

/// At 200 orders per second, four deliveries arrive in this time.
const LONGEST_GATHERING: Duration = Duration::from_millis(20);

/// How long deliveries may wait in the socket for others if all of them are early: too short to make one late. Zero for messages
/// of the old exchange, whose delay in a level begins only after their delivery.
pub(super) fn gathering(topology: &Topology) -> Duration {
    if topology.compat.is_some() {
        return Duration::ZERO;
    }
    LONGEST_GATHERING.min(topology.least_lead() / 10)
}

/// When to stop waiting for the last copies, if a stop is requested now.
pub(super) fn last_confirms(settings: &WorkerSettings) -> Instant {
    Instant::now() + LAST_CONFIRMS.min(settings.drain.as_duration() / 2)
}

/// The most batches of one queue at the database. The shards of a timeout share them; each shard has at least one.
pub(super) fn in_flight(settings: &WorkerSettings, timeout: &Timeout) -> usize {
    settings.in_flight.div_ceil(usize::from(timeout.shards.unwrap_or(1).max(1)))
}

/// The prefetch count of a consumer: the deliveries of the batches that are being closed, and of the next batch. The shards of
/// a timeout share it.
pub(super) fn prefetch(settings: &WorkerSettings, timeout: &Timeout) -> u16 {
    let wanted = settings.batch_size.saturating_mul(settings.in_flight.saturating_add(1));
    let all = u16::try_from(wanted).map_or(MAX_PREFETCH, |wanted| wanted.min(MAX_PREFETCH));
    all.div_ceil(timeout.shards.unwrap_or(1).max(1))
}

/// Prefetch count for large bodies: at most as many bytes as with small ones.
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
