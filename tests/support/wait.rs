//! Waiting on state: look again and again, until it is there or the deadline has passed.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Generous, because it is only ever used up by a test that fails.
pub const DEADLINE: Duration = Duration::from_mins(2);
/// Between two looks: a tenth of what was waited already, so that long waits do not take the time of the other tests.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(10), Duration::from_millis(500))
}

/// Looks until `enough` says yes, and returns what was seen then.
///
/// # Panics
/// After [`DEADLINE`], with what was seen last.
pub async fn until<T: Debug>(
    what: &str,
    look: impl AsyncFnMut() -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    within(DEADLINE, what, look, enough).await
}

/// Like [`until`], with a deadline of its own.
pub async fn within<T: Debug>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    let began = Instant::now();
    loop {
        let seen = look().await;
        if enough(&seen) {
            return seen;
        }
        let waited = began.elapsed();
        assert!(waited < deadline, "{what}: not within {deadline:?}; last seen: {seen:?}");
        tokio::time::sleep(pause(waited)).await;
    }
}
