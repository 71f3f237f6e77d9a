//! What must hold of a run: a list of named checks, each naming the orders that break it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::Serialize;

use super::{
    facts::{Facts, OrderState},
    run_id::RunId,
};

/// Orders shown of a broken invariant.
const SHOWN: usize = 5;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Broken {
    /// What happened that must not.
    pub invariant: &'static str,
    /// To how many orders (SKUs where it is about stock).
    pub count: usize,
    /// The first five of them.
    pub examples: Vec<String>,
}

/// What was done in a run, to be compared with what the database holds.
#[derive(Clone, Debug)]
pub(crate) struct Done<'a> {
    /// The beginning of every id and SKU.
    pub run: &'a RunId,
    /// The ids of all orders that were created.
    pub created: Vec<&'a str>,
    /// The stock before the first order; the index is the SKU.
    pub initial_stock: Vec<i64>,
    /// The orders whose payment was taken.
    pub taken: HashSet<&'a str>,
    /// The orders whose payment was refused.
    pub refused: HashSet<&'a str>,
    /// Whether every order had the time to come to its end.
    pub finished: bool,
}

/// The invariant about stock.
pub(crate) const STOCK: &str = "SKUs whose stock is not conserved";

type Check = fn(&Done<'_>, &Facts) -> Vec<String>;

const INVARIANTS: [(&str, Check); 8] = [
    ("orders paid and closed", paid_and_closed),
    ("orders closed more or less than once", not_closed_once),
    ("orders closed before their deadline", closed_early),
    ("payments taken, and the order is not paid", taken_not_paid),
    ("payments refused, and the order is not closed", refused_not_closed),
    ("orders that are gone", gone),
    (STOCK, stock),
    ("orders unpaid and open after their deadline", unpaid_and_open),
];

/// Every invariant that does not hold.
#[must_use]
pub(crate) fn broken(done: &Done<'_>, facts: &Facts) -> Vec<Broken> {
    let checks = INVARIANTS.iter();
    checks.filter_map(|(invariant, check)| Broken::of(invariant, check(done, facts))).collect()
}

impl Broken {
    /// `None` where no order breaks the invariant.
    pub(crate) fn of(invariant: &'static str, mut orders: Vec<String>) -> Option<Self> {
        let count = orders.len();
        orders.sort_unstable();
        orders.truncate(SHOWN);
        (count > 0).then_some(Self { invariant, count, examples: orders })
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, count, examples } = self;
        let more = if examples.len() < *count { ", …" } else { "" };
        write!(f, "{count} {invariant}: {}{more}", examples.join(", "))
    }
}

/// The ids of the orders that are wrong.
pub(crate) fn ids(facts: &Facts, is_wrong: impl Fn(&OrderState) -> bool) -> Vec<String> {
    facts.orders.iter().filter(|order| is_wrong(order)).map(|order| order.id.clone()).collect()
}

fn paid_and_closed(_: &Done<'_>, facts: &Facts) -> Vec<String> {
    ids(facts, |order| {
        (order.paid_at.is_some() && order.closed_at.is_some())
            || (order.status == "paid" && order.closures > 0)
    })
}

fn not_closed_once(_: &Done<'_>, facts: &Facts) -> Vec<String> {
    ids(facts, |order| order.closures > 1 || (order.status == "closed" && order.closures == 0))
}

fn closed_early(_: &Done<'_>, facts: &Facts) -> Vec<String> {
    let early = |order: &OrderState| {
        [order.closed_at, order.final_at].into_iter().flatten().any(|at| at < order.due_at)
    };
    ids(facts, early)
}

fn taken_not_paid(done: &Done<'_>, facts: &Facts) -> Vec<String> {
    ids(facts, |order| done.taken.contains(order.id.as_str()) && order.status != "paid")
}

fn refused_not_closed(done: &Done<'_>, facts: &Facts) -> Vec<String> {
    ids(facts, |order| done.refused.contains(order.id.as_str()) && order.status != "closed")
}

fn gone(done: &Done<'_>, facts: &Facts) -> Vec<String> {
    let there: HashSet<&str> = facts.orders.iter().map(|order| order.id.as_str()).collect();
    let gone = done.created.iter().filter(|id| !there.contains(*id));
    gone.map(|id| (*id).to_owned()).collect()
}

fn unpaid_and_open(done: &Done<'_>, facts: &Facts) -> Vec<String> {
    ids(facts, |order| done.finished && order.status == "unpaid" && order.overdue)
}

fn stock(done: &Done<'_>, facts: &Facts) -> Vec<String> {
    let mut there: HashMap<&str, _> =
        facts.stock.iter().map(|level| (level.sku.as_str(), level)).collect();
    let mut wrong = Vec::new();
    for (index, initial) in done.initial_stock.iter().enumerate() {
        let sku = done.run.sku(index);
        let Some(level) = there.remove(sku.as_str()) else {
            wrong.push(format!("{sku} is gone"));
            continue;
        };
        let (available, reserved, sold) = (level.available, level.reserved, level.sold);
        if available + reserved + sold != *initial {
            wrong.push(format!("{sku}: {available} + {reserved} + {sold} is not {initial}"));
        } else if reserved != level.in_unpaid {
            wrong.push(format!("{sku}: {reserved} reserved, {} in unpaid orders", level.in_unpaid));
        } else if sold != level.in_paid {
            wrong.push(format!("{sku}: {sold} sold, {} in paid orders", level.in_paid));
        }
    }
    wrong
}
