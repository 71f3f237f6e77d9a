//! Waits on state: polls until the state is reached, or the test gives up.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

/// Limit of every wait; only a failing test uses it up. It is below the time-out of nextest, which reports
/// no reason.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Poll interval: a tenth of the time waited so far, so that long waits use little CPU of other tests.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(10), Duration::from_millis(500))
}

/// Polls until `enough` is true; returns the last value.
///
/// # Panics
/// The wait exceeds [`PATIENCE`]; the message has the last value.
pub async fn until<T: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    let began = Instant::now();
    let mut last = None;
    let looking = async {
        loop {
            let seen = look().await;
            if enough(&seen) {
                return seen;
            }
            last = Some(seen);
            sleep(pause(began.elapsed())).await;
        }
    };
    let seen = timeout(PATIENCE, looking).await;
    seen.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}; last seen: {last:?}"))
}

/// Waits for a future.
///
/// # Panics
/// The wait exceeds [`PATIENCE`].
pub async fn awaited<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let come = timeout(PATIENCE, coming).await;
    come.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
