//! What follows from the settings: how large a batch gets, and how many deliveries a consumer holds.

use super::batch::BatchLimits;
use crate::config::WorkerSettings;

/// The greatest prefetch count: RabbitMQ's quorum queues use no more.
const MAX_PREFETCH: u16 = 2_000;

/// Size and age of a batch.
pub(super) const fn batch(settings: &WorkerSettings) -> BatchLimits {
    BatchLimits { size: settings.batch_size, age: settings.batch_age.as_duration() }
}

/// Unsettled deliveries per consumer: the batches that are being closed, and the one after them.
pub(super) fn prefetch(settings: &WorkerSettings) -> u16 {
    let wanted = settings.batch_size.saturating_mul(settings.in_flight.saturating_add(1));
    u16::try_from(wanted).map_or(MAX_PREFETCH, |wanted| wanted.min(MAX_PREFETCH))
}
