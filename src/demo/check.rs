//! The invariants of a run: a list of named checks, all of them run, each naming the orders that break it.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{
    evidence::{Evidence, OrderState},
    script::{Expected, Script},
};

/// Orders shown of a broken invariant.
const SHOWN: usize = 5;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// What happened that must not.
    pub invariant: &'static str,
    /// To how many orders (SKUs where it is about stock).
    pub count: usize,
    /// The first five of them.
    pub examples: Vec<String>,
}

/// The invariant about stock.
pub(super) const STOCK: &str = "SKUs whose stock is not conserved";

type Check = fn(&Script, &Evidence) -> Vec<String>;

/// What must never be, also of a run that was interrupted.
const ALWAYS: [(&str, Check); 8] = [
    ("orders paid and closed", paid_and_closed),
    ("orders closed more or less than once", not_closed_once),
    ("orders closed before their deadline", closed_early),
    ("payments taken, and the order is not paid", taken_not_paid),
    ("payments refused, and the order is not closed", refused_not_closed),
    ("orders that are gone", gone),
    (STOCK, stock),
    ("orders in the parking lot", parked),
];

/// What must be when a run has come to its own end.
const AT_THE_END: [(&str, Check); 3] = [
    ("orders unpaid and open after their deadline", unpaid_and_open),
    ("orders paid in time but closed", in_time_but_closed),
    ("orders never paid in time but paid", late_but_paid),
];

/// Every invariant of the run that does not hold.
#[must_use]
pub fn broken(script: &Script, evidence: &Evidence) -> Vec<Broken> {
    let at_the_end = AT_THE_END.iter().filter(|_| !evidence.interrupted);
    let checks = ALWAYS.iter().chain(at_the_end);
    let found = checks.map(|(invariant, check)| (*invariant, check(script, evidence)));
    found
        .filter(|(_, who)| !who.is_empty())
        .map(|(invariant, who)| describe(invariant, who))
        .collect()
}

fn describe(invariant: &'static str, mut who: Vec<String>) -> Broken {
    let count = who.len();
    who.sort_unstable();
    who.truncate(SHOWN);
    Broken { invariant, count, examples: who }
}

fn those(evidence: &Evidence, is_wrong: impl Fn(&OrderState) -> bool) -> Vec<String> {
    evidence.orders.iter().filter(|order| is_wrong(order)).map(|order| order.id.clone()).collect()
}

fn paid_and_closed(_: &Script, evidence: &Evidence) -> Vec<String> {
    those(evidence, |order| {
        (order.paid_at.is_some() && order.closed_at.is_some())
            || (order.status == "paid" && order.closures > 0)
    })
}

fn not_closed_once(_: &Script, evidence: &Evidence) -> Vec<String> {
    those(evidence, |order| order.closures > 1 || (order.status == "closed" && order.closures == 0))
}

fn closed_early(_: &Script, evidence: &Evidence) -> Vec<String> {
    let early = |order: &OrderState| {
        [order.closed_at, order.final_at].into_iter().flatten().any(|at| at < order.due_at)
    };
    those(evidence, early)
}

fn unpaid_and_open(_: &Script, evidence: &Evidence) -> Vec<String> {
    those(evidence, |order| order.status == "unpaid" && order.overdue)
}

fn gone(script: &Script, evidence: &Evidence) -> Vec<String> {
    let there: HashSet<&str> = evidence.orders.iter().map(|order| order.id.as_str()).collect();
    let created = (0..evidence.created).map(|index| script.id(index).as_str());
    created.filter(|id| !there.contains(id)).map(str::to_owned).collect()
}

fn taken_not_paid(script: &Script, evidence: &Evidence) -> Vec<String> {
    paid_for(script, evidence, true, |order| order.status != "paid")
}

fn refused_not_closed(script: &Script, evidence: &Evidence) -> Vec<String> {
    paid_for(script, evidence, false, |order| order.status != "closed")
}

/// Orders whose payment was taken (or refused) and that are in the wrong state for it.
fn paid_for(
    script: &Script,
    evidence: &Evidence,
    taken: bool,
    is_wrong: impl Fn(&OrderState) -> bool,
) -> Vec<String> {
    let payments = evidence.payments.iter().filter(|payment| payment.taken == taken);
    let ids: HashSet<&str> = payments.map(|payment| script.id(payment.order).as_str()).collect();
    those(evidence, |order| ids.contains(order.id.as_str()) && is_wrong(order))
}

fn stock(script: &Script, evidence: &Evidence) -> Vec<String> {
    let mut there: HashMap<&str, _> =
        evidence.shelves.iter().map(|shelf| (shelf.sku.as_str(), shelf)).collect();
    let mut wrong = Vec::new();
    for (index, initial) in script.shelves().into_iter().enumerate() {
        let sku = script.run.sku(index);
        let Some(shelf) = there.remove(sku.as_str()) else {
            wrong.push(format!("{sku} is gone"));
            continue;
        };
        let (available, reserved, sold) = (shelf.available, shelf.reserved, shelf.sold);
        if available + reserved + sold != initial {
            wrong.push(format!("{sku}: {available} + {reserved} + {sold} is not {initial}"));
        } else if reserved != shelf.in_unpaid {
            wrong.push(format!("{sku}: {reserved} reserved, {} in unpaid orders", shelf.in_unpaid));
        } else if sold != shelf.in_paid {
            wrong.push(format!("{sku}: {sold} sold, {} in paid orders", shelf.in_paid));
        }
    }
    wrong
}

fn parked(_: &Script, evidence: &Evidence) -> Vec<String> {
    evidence.parked.clone()
}

fn in_time_but_closed(script: &Script, evidence: &Evidence) -> Vec<String> {
    let of = expectations(script, Expected::Paid);
    those(evidence, |order| order.status == "closed" && of.contains(order.id.as_str()))
}

fn late_but_paid(script: &Script, evidence: &Evidence) -> Vec<String> {
    let of = expectations(script, Expected::Closed);
    those(evidence, |order| order.status == "paid" && of.contains(order.id.as_str()))
}

/// The orders of which something is expected, by id.
pub(super) fn expectations(script: &Script, expected: Expected) -> HashSet<&str> {
    let orders = script.orders.iter().filter(|order| order.expected == expected);
    orders.map(|order| order.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::{
            evidence::Shelf,
            payments::Payment,
            script::{RunId, ScriptedOrder},
        },
        topology::level::Ttl,
    };

    /// Three orders without items: one to be paid, one to be closed, one that may be either.
    fn script() -> Script {
        let run = RunId::new("drill", 1);
        let expected = [Expected::Paid, Expected::Closed, Expected::Boundary];
        let order = |(name, expected): (usize, Expected)| ScriptedOrder {
            id: run.order_id(&name.to_string()).unwrap(),
            items: Vec::new(),
            pay_after: None,
            expected,
        };
        Script {
            after: Ttl::from_millis(3_000).unwrap(),
            orders: expected.into_iter().enumerate().map(order).collect(),
            last: run.order_id("last").unwrap(),
            run,
        }
    }

    fn evidence(script: &Script, statuses: [&str; 3]) -> Evidence {
        let due_at = "2026-11-20T10:30:00Z".parse().unwrap();
        let later = Some("2026-11-20T10:30:00.02Z".parse().unwrap());
        let state = |(index, status): (usize, &str)| OrderState {
            id: script.id(index).to_string(),
            status: status.to_owned(),
            due_at,
            paid_at: later.filter(|_| status == "paid"),
            closed_at: later.filter(|_| status == "closed"),
            overdue: true,
            closures: i64::from(status == "closed"),
            path: Some("message".to_owned()).filter(|_| status == "closed"),
            final_at: later.filter(|_| status == "closed"),
        };
        let shelf = |(index, available): (usize, i64)| Shelf {
            sku: script.run.sku(index),
            available,
            reserved: 0,
            sold: 0,
            in_unpaid: 0,
            in_paid: 0,
        };
        Evidence {
            created: 3,
            orders: statuses.into_iter().enumerate().map(state).collect(),
            shelves: script.shelves().into_iter().enumerate().map(shelf).collect(),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_run_as_it_should_be_breaks_nothing() {
        let script = script();
        for boundary in ["paid", "closed"] {
            let evidence = evidence(&script, ["paid", "closed", boundary]);
            assert_eq!(broken(&script, &evidence), []);
        }
    }

    #[test]
    fn each_way_to_be_wrong_breaks_its_own_invariant() {
        type Spoil = fn(&mut Evidence);
        let ways: [(Spoil, &str); 11] = [
            (|e| e.orders[0].closed_at = e.orders[0].paid_at, "orders paid and closed"),
            (|e| e.orders[1].closures = 2, "orders closed more or less than once"),
            (
                |e| e.orders[1].closed_at = Some(e.orders[1].due_at - Duration::from_micros(1)),
                "orders closed before their deadline",
            ),
            (
                |e| e.payments.push(Payment { order: 1, taken: true, late: Duration::ZERO }),
                "payments taken, and the order is not paid",
            ),
            (
                |e| e.payments.push(Payment { order: 0, taken: false, late: Duration::ZERO }),
                "payments refused, and the order is not closed",
            ),
            (|e| drop(e.orders.pop()), "orders that are gone"),
            (|e| e.shelves[3].sold = 1, STOCK),
            (|e| e.parked.push("x".to_owned()), "orders in the parking lot"),
            (
                |e| "unpaid".clone_into(&mut e.orders[2].status),
                "orders unpaid and open after their deadline",
            ),
            (
                |e| e.orders[0] = become_like(&e.orders[0], &e.orders[1]),
                "orders paid in time but closed",
            ),
            (
                |e| e.orders[1] = become_like(&e.orders[1], &e.orders[0]),
                "orders never paid in time but paid",
            ),
        ];
        let script = script();
        for (spoil, invariant) in ways {
            let mut evidence = evidence(&script, ["paid", "closed", "paid"]);
            spoil(&mut evidence);
            let found = broken(&script, &evidence);
            assert_eq!(
                found.iter().map(|broken| broken.invariant).collect::<Vec<_>>(),
                [invariant]
            );
            assert_eq!(found[0].count, 1);
        }
    }

    /// The order `of`, in the state that `like` is in.
    fn become_like(of: &OrderState, like: &OrderState) -> OrderState {
        OrderState { id: of.id.clone(), ..like.clone() }
    }
}
