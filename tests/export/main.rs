//! What `overdue export` prints: snapshots, names, and round trips through a real broker.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]

mod command;
mod formats;
mod names;
#[allow(dead_code, reason = "users are for the tests of the rights")]
#[path = "../rights/place.rs"]
mod place;
mod round_trip;

use overdue::topology::Topology;

/// Two of what there can be many of, one of the others.
fn topology(name: &str, queue_type: &str) -> Topology {
    let text = format!(
        "name = '{name}'\ndelay.levels = ['5s', '30d']\nqueues.type = '{queue_type}'\n\
         [[timeout]]\nname = 'unpaid'\nafter = '30d'\n[[timeout]]\nname = 'un_shipped-2'\nafter = '5s'"
    );
    Topology::parse(&text).unwrap()
}
