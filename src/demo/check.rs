//! What must hold of a run: the invariants of the order service, and what the script expects.

use std::collections::HashSet;

use super::{
    evidence::Evidence,
    script::{Expected, Script},
};
use crate::order_service::invariants::{self, Broken, Done};

/// Every invariant of the run that does not hold.
#[must_use]
pub(crate) fn broken(script: &Script, evidence: &Evidence) -> Vec<Broken> {
    let done = Done {
        run: &script.run,
        created: script.ids().take(evidence.created).collect(),
        initial_stock: script.initial_stock(),
        taken: paid(script, evidence, true),
        refused: paid(script, evidence, false),
        finished: !evidence.interrupted,
    };
    let mut broken = invariants::broken(&done, &evidence.facts);
    broken.extend(Broken::of("orders in the parking lot", evidence.parked.clone()));
    if done.finished {
        // A busy machine can send a payment after the deadline that was to come before: it is refused, and rightly so.
        let in_time = paid_in_time(script, evidence);
        let mut closed = against(script, evidence, Expected::Paid, "closed");
        closed.retain(|id| in_time.contains(id.as_str()));
        broken.extend(Broken::of("orders paid in time but closed", closed));
        let paid = against(script, evidence, Expected::Closed, "paid");
        broken.extend(Broken::of("orders never paid in time but paid", paid));
    }
    broken
}

/// The orders whose payment was taken, or refused.
fn paid<'a>(script: &'a Script, evidence: &Evidence, taken: bool) -> HashSet<&'a str> {
    let payments = evidence.payments.iter().filter(|payment| payment.taken == taken);
    payments.map(|payment| script.id(payment.order)).collect()
}

/// The orders whose payment was answered before their deadline.
fn paid_in_time<'a>(script: &'a Script, evidence: &Evidence) -> HashSet<&'a str> {
    let payments = evidence.payments.iter().filter(|payment| payment.in_time);
    payments.map(|payment| script.id(payment.order)).collect()
}

/// Payments that were to come in time, and did not.
#[must_use]
pub(crate) fn missed(script: &Script, evidence: &Evidence) -> usize {
    let payments = evidence.payments.iter().filter(|payment| !payment.in_time);
    let of = payments.filter_map(|payment| script.orders.get(payment.order));
    of.filter(|order| order.expected == Expected::Paid).count()
}

/// The orders of which one thing is expected, and that are in the state of the other.
fn against(script: &Script, evidence: &Evidence, expected: Expected, status: &str) -> Vec<String> {
    let of = expectations(script, expected);
    invariants::ids(&evidence.facts, |order| {
        order.status == status && of.contains(order.id.as_str())
    })
}

/// The orders of which something is expected, by id.
pub(super) fn expectations(script: &Script, expected: Expected) -> HashSet<&str> {
    let orders = script.orders.iter().filter(|order| order.expected == expected);
    orders.map(|order| order.order.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::{evidence::Payment, script::ScriptedOrder},
        order_service::{
            basket::Order,
            facts::{Facts, OrderState, StockLevel},
            run_id::RunId,
        },
        topology::level::Ttl,
    };

    /// Three orders without items: one to be paid, one to be closed, one that may be either.
    fn script() -> Script {
        let run = RunId::new("drill", 1);
        let expected = [Expected::Paid, Expected::Closed, Expected::Boundary];
        let order = |(name, expected): (usize, Expected)| ScriptedOrder {
            order: Order { id: run.order_id(&name.to_string()).unwrap(), items: Vec::new() },
            pay_after: None,
            expected,
        };
        let orders = expected.into_iter().enumerate().map(order).collect();
        Script::new(run.clone(), Ttl::from_millis(3_000).unwrap(), None, orders).unwrap()
    }

    fn evidence(script: &Script, statuses: [&str; 3]) -> Evidence {
        let due_at = "2026-11-20T10:30:00Z".parse().unwrap();
        let later = Some("2026-11-20T10:30:00.02Z".parse().unwrap());
        let state = |(index, status): (usize, &str)| OrderState {
            id: script.id(index).to_owned(),
            status: status.to_owned(),
            due_at,
            paid_at: later.filter(|_| status == "paid"),
            closed_at: later.filter(|_| status == "closed"),
            overdue: true,
            closures: i64::from(status == "closed"),
            path: Some("message".to_owned()).filter(|_| status == "closed"),
            final_at: later.filter(|_| status == "closed"),
        };
        let level = |(index, available): (usize, i64)| StockLevel {
            sku: script.run.sku(index),
            available,
            reserved: 0,
            sold: 0,
            in_unpaid: 0,
            in_paid: 0,
        };
        let facts = Facts {
            orders: statuses.into_iter().enumerate().map(state).collect(),
            stock: script.initial_stock().into_iter().enumerate().map(level).collect(),
            commit_times: false,
        };
        Evidence { created: 3, facts, ..Evidence::default() }
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
        let ways: [(Spoil, &str); 13] = [
            (|e| e.facts.orders[0].closed_at = e.facts.orders[0].paid_at, "orders paid and closed"),
            (|e| e.facts.orders[1].closures = 2, "orders closed more or less than once"),
            (|e| e.facts.orders[1].closures = 0, "orders closed more or less than once"),
            (
                |e| {
                    let early = e.facts.orders[1].due_at - Duration::from_micros(1);
                    e.facts.orders[1].closed_at = Some(early);
                },
                "orders closed before their deadline",
            ),
            (|e| e.payments.push(payment(1, true)), "payments taken, and the order is not paid"),
            (
                |e| e.payments.push(payment(0, false)),
                "payments refused, and the order is not closed",
            ),
            (|e| drop(e.facts.orders.pop()), "orders that are gone"),
            (|e| e.facts.stock[3].sold = 1, invariants::STOCK),
            (|e| drop(e.facts.stock.pop()), invariants::STOCK),
            (|e| e.parked.push("x".to_owned()), "orders in the parking lot"),
            (
                |e| "unpaid".clone_into(&mut e.facts.orders[2].status),
                "orders unpaid and open after their deadline",
            ),
            (
                |e| {
                    e.facts.orders[0] = become_like(&e.facts.orders[0], &e.facts.orders[1]);
                    e.payments.push(payment(0, false));
                },
                "orders paid in time but closed",
            ),
            (
                |e| e.facts.orders[1] = become_like(&e.facts.orders[1], &e.facts.orders[0]),
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

    /// A payment that was sent after the deadline by a busy machine is not the worker's fault; it is counted.
    #[test]
    fn a_payment_that_missed_its_time_is_not_judged() {
        let script = script();
        let mut evidence = evidence(&script, ["closed", "closed", "paid"]);
        evidence.payments.push(Payment { in_time: false, ..payment(0, false) });
        assert_eq!(broken(&script, &evidence), []);
        assert_eq!(missed(&script, &evidence), 1);
    }

    fn payment(order: usize, taken: bool) -> Payment {
        Payment { order, taken, late: Duration::ZERO, in_time: true }
    }

    /// A run that was stopped is not over: what has not happened yet is not wrong.
    #[test]
    fn an_interrupted_run_may_have_open_orders() {
        let script = script();
        let mut evidence = evidence(&script, ["closed", "paid", "paid"]);
        "unpaid".clone_into(&mut evidence.facts.orders[2].status);
        assert_eq!(broken(&script, &evidence).len(), 2);
        evidence.interrupted = true;
        assert_eq!(broken(&script, &evidence), []);
    }

    /// The order `of`, in the state that `like` is in.
    fn become_like(of: &OrderState, like: &OrderState) -> OrderState {
        OrderState { id: of.id.clone(), ..like.clone() }
    }
}
