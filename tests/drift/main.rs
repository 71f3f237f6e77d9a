//! `overdue verify`, `overdue unblock` and `overdue doctor`: what they find, pure and on the real services.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]

mod diagnosis;
mod doctor;
mod facts;
mod findings;
mod judges;
mod links;
mod place;
mod policies;
mod probe;
mod probes;
mod run;
mod shapes;
mod stuck;
mod unblock;
#[allow(unreachable_pub, dead_code, reason = "shared with the other tiers, which use more of it")]
#[path = "../support/wait.rs"]
mod wait;

use overdue::topology::Topology;

/// Short levels for what waits, a long one for what must not come out.
pub(crate) const TOPOLOGY: &str = r#"
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

pub(crate) fn topology() -> Topology {
    Topology::parse(TOPOLOGY).unwrap()
}
