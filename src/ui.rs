//! A web page for people on call: shows what `overdue status` prints, and acts with the rights of the user who started it.
//!
//! A page is a file here with its handler, and a template. `guard` runs before every handler: a handler needs a session, and an
//! action also the token of its form.

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
