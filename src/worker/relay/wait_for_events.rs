//! How long a relay waits before it looks into the outbox, so that one look is for the events of many commits.

use std::time::{Duration, Instant};

use crate::{shutdown::Stop, worker::context::Worker};

/// Closing more orders per second than this is a burst: the database and the machine are for those that are due.
const BURST_PER_S: u64 = 8_000;
/// Events of a burst wait no longer than this for its end: what they cost would make the closing of 100,000 orders last
/// twice as long.
const LONGEST: Duration = Duration::from_secs(5);

/// Waits for `events.linger`, and in a burst for its end.
pub(super) async fn gather(worker: &Worker, stop: &Stop) {
    let linger = worker.events_settings.linger.as_duration();
    let began = Instant::now();
    loop {
        let before = closed(worker);
        tokio::select! {
            () = stop.requested() => return,
            () = tokio::time::sleep(linger) => {}
        }
        let burst = in_young_burst(worker) || is_burst(closed(worker) - before, linger);
        if !burst || began.elapsed() >= LONGEST {
            return;
        }
    }
}

fn in_young_burst(worker: &Worker) -> bool {
    let now = Instant::now();
    worker.bursts.values().any(|burst| burst.is_young(LONGEST, now))
}

fn closed(worker: &Worker) -> u64 {
    let counts = worker.counters.read();
    counts.closed + counts.swept
}

fn is_burst(closed: u64, within: Duration) -> bool {
    let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    ms > 0 && closed.saturating_mul(1_000) > BURST_PER_S.saturating_mul(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_more_orders_than_a_steady_load_has_and_nothing_is_one_without_a_linger() {
        let within = Duration::from_millis(50);
        assert!(!is_burst(250, within), "5,000/s");
        assert!(is_burst(500, within), "10,000/s");
        assert!(!is_burst(0, within));
        assert!(!is_burst(u64::MAX, Duration::ZERO));
    }
}
