//! What becomes of a parked message that is put back: that depends on its order now.

use std::fmt;

use serde::Serialize;

use crate::{
    order::Outcome,
    topology::{Topology, level_routes::LevelRoutes, route::Route},
};

use super::message::ParkedMessage;

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is published again: straight to its business queue, or to a level for the rest of the time.
    Replay(Route),
    /// Its order is final: it is taken from the parking lot, and nothing is published.
    Settle,
    /// It stays where it is.
    Stay(Stays),
}

/// Why a message cannot be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stays {
    /// Nobody knows which order it is about.
    Unreadable,
    /// The topology does not have its timeout.
    NoTimeout,
    /// It would be parked again for the same reason.
    UnknownOrder,
    /// The effect fails for this order now.
    EffectFails,
    /// It has to wait, and the broker routes to nothing that delays.
    NoLevel,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "the body cannot be read",
            Self::NoTimeout => "the topology does not have the timeout",
            Self::UnknownOrder => "the database does not know the order",
            Self::EffectFails => "the effect fails for the order, see `overdue parked list --full`",
            Self::NoLevel => "the broker routes to nothing that delays: run `overdue apply`",
        })
    }
}

/// Decides about a message; `now` is what the database says of its order, none where it was not asked.
#[must_use]
pub fn fate(
    topology: &Topology,
    routes: &LevelRoutes,
    message: &ParkedMessage,
    now: Option<&Outcome>,
) -> Fate {
    if message.order.is_none() {
        return Fate::Stay(Stays::Unreadable);
    }
    let Some(rule) = message.rule(topology) else { return Fate::Stay(Stays::NoTimeout) };
    match now {
        None | Some(Outcome::Unknown) => Fate::Stay(Stays::UnknownOrder),
        Some(Outcome::AlreadyFinal) => Fate::Settle,
        Some(Outcome::Failed { .. }) => Fate::Stay(Stays::EffectFails),
        Some(Outcome::NotDue { remaining }) if !remaining.is_zero() => {
            let route = routes.wait(topology, rule, *remaining);
            route.map_or(Fate::Stay(Stays::NoLevel), Fate::Replay)
        }
        // Overdue. What is locked or guarded is for the worker to wait for.
        Some(
            Outcome::Closed { .. }
            | Outcome::NotDue { .. }
            | Outcome::Busy
            | Outcome::Postponed { .. },
        ) => Fate::Replay(topology.due_route(rule)),
    }
}
