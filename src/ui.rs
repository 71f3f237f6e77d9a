//! A page for whoever is on call: what `status` says, seen, with the rights of the one who started it.
//!
//! A page is a file here with its handler, and a template beside it. `guard` stands before all of them: no handler is
//! reached without a session, and no action without the token of its form.

mod access;
mod chart;
mod guard;
mod login;
mod look;
mod moment;
mod overview;
mod page;
mod parked;
mod pauses;
mod pipeline;
mod server;

pub(crate) use access::Entry;
pub(crate) use server::{Bound, Ui};
