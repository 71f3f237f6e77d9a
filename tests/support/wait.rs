//! Waiting on state: look again and again, until it is there or the test gives up.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

/// After this long a test that waits gives up, with what it waited for: only one that fails uses it up. It is less than what
/// nextest ends a test after, which says nothing.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Between two looks: a tenth of what was waited already, so that long waits do not take the time of the other tests.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(10), Duration::from_millis(500))
}

/// Looks until `enough` says yes, and returns what was seen then.
///
/// # Panics
/// After [`PATIENCE`], with what was seen last.
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

/// Waits for what comes by itself.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn awaited<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let come = timeout(PATIENCE, coming).await;
    come.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
