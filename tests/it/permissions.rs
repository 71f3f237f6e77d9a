//! The least rights that `overdue permissions` prints, against a real broker: they suffice, none of them can go,
//! and they reach no further.

mod drive;
mod necessary;
pub(crate) mod place;
mod sufficient;
mod tight;

use overdue::{
    permissions::{Request, Role},
    topology::Topology,
};
use place::Place;

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
