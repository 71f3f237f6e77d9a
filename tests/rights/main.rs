//! The least rights that `overdue permissions` prints, against a real broker: they suffice, none of them can go,
//! and they reach no further.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]

mod drive;
mod necessary;
mod place;
mod printed;
mod sufficient;
mod tight;

use overdue::{
    permissions::{Request, Role},
    topology::Topology,
};
use place::Place;

/// Its name has a dot, which an expression has to escape.
const TOPOLOGY: &str = r#"
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

fn topology() -> Topology {
    Topology::parse(TOPOLOGY).unwrap()
}

/// What is asked for in these tests, users included.
fn request(place: &Place) -> Request {
    Request {
        vhost: place.vhost.clone(),
        user_prefix: format!("{}-", place.vhost),
        create_users: true,
        routing_keys: false,
    }
}

fn role(topology: &Topology, name: &str) -> Role {
    Role::all(topology).into_iter().find(|role| role.name == name).unwrap()
}
