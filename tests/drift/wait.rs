//! Waiting on state: look again and again, until it is there or the deadline has passed.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Generous, because it is only ever used up by a test that fails.
const DEADLINE: Duration = Duration::from_mins(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `enough` says yes, and returns what was seen then.
pub(crate) async fn until<T: Debug>(
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
        assert!(began.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}; last seen: {seen:?}");
        tokio::time::sleep(PAUSE).await;
    }
}
