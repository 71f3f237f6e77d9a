//! The fate of a parked message that is replayed: it depends on the state of its order now.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::message::ParkedMessage;
use crate::{
    order::Outcome,
    text::{about, noun},
    topology::{Topology, level_routes::LevelRoutes, route::Route},
};

/// The fate of a parked message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The message is published again: to its business queue, or to a level for the remaining time.
    Replay(Route),
    /// The order is final: the message is removed from the parking lot, and nothing is published.
    Settle,
    /// The message stays in the parking lot.
    Stay(Stays),
}

/// Why a message cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stays {
    /// The order id cannot be read.
    Unreadable,
    /// The topology does not have the timeout of the message.
    NoTimeout,
    /// The database does not know the order: the message would be parked again.
    UnknownOrder,
    /// The effect fails for this order now.
    EffectFails,
    /// The order is not due, and the broker has no level that delays the message.
    NoLevel,
    /// The broker has no queue for due messages of the timeout: the message would be parked again.
    NoQueue,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "the body cannot be read",
            Self::NoTimeout => "the topology does not have the timeout",
            Self::UnknownOrder => "the database does not know the order",
            Self::EffectFails => "the effect fails for the order, see `overdue parked list --full`",
            Self::NoLevel => "the broker routes to nothing that delays: run `overdue apply`",
            Self::NoQueue => {
                "on the broker no queue of the timeout gets what is due: run `overdue apply`"
            }
        })
    }
}

/// Decides about a message; `now` is the database's answer about its order, none if the database was not asked.
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
        Some(_) if !routes.has_queue(&rule.name) => Fate::Stay(Stays::NoQueue),
        Some(Outcome::NotDue { remaining }) if !remaining.is_zero() => {
            let route = routes.wait(topology, rule, *remaining);
            route.map_or(Fate::Stay(Stays::NoLevel), Fate::Replay)
        }
        // The order is overdue. If it is locked or guarded, the worker waits.
        Some(
            Outcome::Closed { .. }
            | Outcome::NotDue { .. }
            | Outcome::Busy
            | Outcome::Postponed { .. },
        ) => Fate::Replay(topology.due_route(rule)),
    }
}

/// Messages by what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Messages that go straight to the business queue.
    pub overdue: u64,
    /// Messages that go to a level for the remaining time.
    pub waiting: u64,
    /// Messages that are removed, because their orders are final.
    pub settled: u64,
    /// Messages that stay in the parking lot.
    pub stays: BTreeMap<Stays, u64>,
    /// Messages that were published and not confirmed: they stay in the parking lot.
    pub unconfirmed: u64,
}

impl Totals {
    /// Counts a message.
    pub fn add(&mut self, fate: &Fate) {
        match fate {
            Fate::Replay(route) if route.holds.is_zero() && route.x_delay.is_none() => {
                self.overdue += 1;
            }
            Fate::Replay(_) => self.waiting += 1,
            Fate::Settle => self.settled += 1,
            Fate::Stay(why) => *self.stays.entry(*why).or_default() += 1,
        }
    }

    /// Number of messages that leave the parking lot.
    pub fn leaving(&self) -> u64 {
        self.overdue + self.waiting + self.settled
    }

    /// Number of messages that stay until the missing objects of the topology are applied.
    pub fn not_applied(&self) -> u64 {
        [Stays::NoLevel, Stays::NoQueue].iter().filter_map(|why| self.stays.get(why)).sum()
    }

    /// Number of all messages.
    pub fn total(&self) -> u64 {
        self.leaving() + self.stays.values().sum::<u64>() + self.unconfirmed
    }
}

impl fmt::Display for Totals {
    /// A line for each fate that occurs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            (self.overdue, "overdue: straight to the worker"),
            (self.waiting, "not due yet: wait in a level for the rest"),
            (self.settled, "final: taken out, nothing is published"),
            (self.unconfirmed, "not confirmed by the broker: stay"),
        ];
        for (count, text) in lines.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count:>8}  {text}")?;
        }
        for (why, count) in &self.stays {
            let stay = if *count == 1 { "stays" } else { "stay" };
            writeln!(f, "{count:>8}  {stay}: {why}")?;
        }
        let total = self.total();
        write!(f, "{total:>8}  {}", noun(total, "message"))
    }
}

/// State of a message's order as text for a line; `now` is none if the database was not asked.
pub fn state(now: Option<&Outcome>) -> String {
    match now {
        None => "not asked".to_owned(),
        Some(Outcome::Closed { late, .. }) => format!("overdue by {}", about(*late)),
        Some(Outcome::AlreadyFinal) => "final".to_owned(),
        Some(Outcome::NotDue { remaining }) if remaining.is_zero() => "guarded".to_owned(),
        Some(Outcome::NotDue { remaining }) => format!("due in {}", about(*remaining)),
        Some(Outcome::Unknown) => "not in the database".to_owned(),
        Some(Outcome::Busy) => "locked".to_owned(),
        Some(Outcome::Failed { .. } | Outcome::Postponed { .. }) => "its effect fails".to_owned(),
    }
}

/// State of a message's order as one word, for programs.
pub const fn state_word(now: &Outcome) -> &'static str {
    match now {
        Outcome::Closed { .. } => "overdue",
        Outcome::AlreadyFinal => "final",
        Outcome::NotDue { remaining } if remaining.is_zero() => "guarded",
        Outcome::NotDue { .. } => "not_due",
        Outcome::Unknown => "unknown",
        Outcome::Busy => "locked",
        Outcome::Failed { .. } | Outcome::Postponed { .. } => "effect_fails",
    }
}
