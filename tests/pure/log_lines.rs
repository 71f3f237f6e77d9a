//! Many events of a kind share a log line.

use std::time::Instant;

use overdue::internals::worker::log_lines::{LINE_EVERY, RateLimitedLog};

#[test]
fn the_first_is_said_at_once_and_the_others_together() {
    let (mut seldom, began) = (RateLimitedLog::default(), Instant::now());
    assert_eq!(seldom.due(began), None);
    seldom.add(3, "a");
    assert_eq!(seldom.due(began), Some((3, "a")));
    seldom.add(1, "b");
    seldom.add(2, "c");
    assert_eq!(seldom.due(began + LINE_EVERY / 2), None);
    assert_eq!(seldom.due(began + LINE_EVERY), Some((3, "b")));
    assert_eq!(seldom.due(began + 3 * LINE_EVERY), None, "nothing happened since");
}
