//! Topologies for tests of several tiers, which need no service.

use std::time::Duration;

use overdue::internals::topology::Topology;

/// The delay of a timeout that does not end within a test.
pub const HALF_HOUR: Duration = Duration::from_mins(30); // data: the delay of a timeout

/// A file without findings.
pub const WITHOUT_FINDINGS: &str = r#"name = "orders"

[delay]
levels = ["5s", "30s", "5m", "30m"]

[queues]
type = "quorum"
delivery_limit = 20

[[timeout]]
name = "unpaid"
after = "30m"
effect = "close"
after_by_category = { virtual = "5m" }

[retry]
after = ["5s", "30s"]
"#;

/// [`WITHOUT_FINDINGS`] with one thing changed.
pub fn edited(old: &str, new: &str) -> String {
    assert_eq!(WITHOUT_FINDINGS.matches(old).count(), 1, "the edit is to hit one place: {old}");
    WITHOUT_FINDINGS.replace(old, new)
}

/// Two timeouts; the short levels end within a test, the long one does not.
pub const TWO_TIMEOUTS: &str = r#"
name = "orders"

[delay]
levels = ["1s", "3s", "30m"]

[queues]
type = "quorum"

[[timeout]]
name = "unpaid"
after = "30m"

[[timeout]]
name = "unshipped"
after = "3s"

[retry]
after = ["1s"]
"#;

/// [`TWO_TIMEOUTS`], parsed.
pub fn two_timeouts() -> Topology {
    Topology::parse(TWO_TIMEOUTS).unwrap()
}

/// The timeouts of [`TWO_TIMEOUTS`] with a ladder; round, up to 30 days.
pub const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"

[delay.ladder]
max = "30d"

[[timeout]]
name = "unpaid"
after = "30m"

[[timeout]]
name = "unshipped"
after = "1s"

[retry]
after = ["1s"]
"#;

/// The timeouts of [`TWO_TIMEOUTS`] with the exchange of the delayed message plugin.
pub const DELAYED: &str = r#"
name = "orders"

[delay]
strategy = "delayed-exchange"

[[timeout]]
name = "unpaid"
after = "30m"

[[timeout]]
name = "unshipped"
after = "1s"

[retry]
after = ["1s"]
"#;

/// A name with a dot, which must be escaped in a regular expression.
pub const DOTTED: &str = r#"
name = "a.b"

[delay]
levels = ["1s", "30m"]

[[timeout]]
name = "unpaid"
after = "30m"

[[timeout]]
name = "un_shipped-2"
after = "1s"

[retry]
after = ["1s"]
"#;

/// [`DOTTED`], parsed.
pub fn dotted() -> Topology {
    Topology::parse(DOTTED).unwrap()
}

const DOTTED_TIMEOUTS: &str = r#"
[[timeout]]
name = "unpaid"
after = "3s"

[[timeout]]
name = "un_shipped-2"
after = "1s"

[retry]
after = ["1s"]
"#;

/// The timeouts of [`DOTTED`], with a ladder of two places.
pub fn dotted_ladder() -> String {
    let delay = "delay.strategy = 'ladder'\ndelay.ladder = { max = '10s' }";
    format!("name = 'a.b'\n{delay}\n{DOTTED_TIMEOUTS}")
}

/// The timeouts of [`DOTTED`] with the exchange of the delayed message plugin.
pub fn dotted_delayed() -> String {
    format!("name = 'a.b'\ndelay.strategy = 'delayed-exchange'\n{DOTTED_TIMEOUTS}")
}

/// The timeouts of [`DOTTED`] with levels, for programs that were written for the plugin.
pub fn dotted_compat() -> String {
    let compat = "compat.x-delay = { exchange = 'old reminders', type = 'topic' }";
    format!("name = 'a.b'\ndelay.levels = ['1s', '3s']\n{compat}\n{DOTTED_TIMEOUTS}")
}

/// `orders` with this `[delay]`, these timeouts (name, delay, effect) and these levels for retries.
pub fn orders(delay: &str, timeouts: &[(&str, &str, &str)], retry: &str) -> String {
    let timeouts = timeouts.iter().map(|(name, after, effect)| {
        format!("[[timeout]]\nname = \"{name}\"\nafter = \"{after}\"\neffect = \"{effect}\"\n\n")
    });
    let timeouts: String = timeouts.collect();
    format!("name = \"orders\"\n\n[delay]\n{delay}\n\n{timeouts}[retry]\nafter = {retry}\n")
}

/// Two levels and two timeouts, no retry.
pub fn named(name: &str, queue_type: &str) -> Topology {
    let text = format!(
        "name = '{name}'\ndelay.levels = ['5s', '30d']\nqueues.type = '{queue_type}'\n\
         [[timeout]]\nname = 'unpaid'\nafter = '30d'\n[[timeout]]\nname = 'un_shipped-2'\nafter = '5s'"
    );
    Topology::parse(&text).unwrap()
}
