//! Runs an effect in a transaction that is rolled back, on overdue orders and on orders that are not due.

use std::collections::BTreeMap;

use crate::{
    cli::exit::Failure,
    order::{OrderId, Outcome},
    store::{
        Store, StoreError, clock::DatabaseTime, effects::Effect, orders::CONTRACT,
        overdue::OverdueKey,
    },
};

/// Orders that are tried of each kind: overdue, and not due.
const TRIED: i64 = 20;

#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Number of orders.
    pub(super) orders: usize,
    /// Open orders that were tried; empty if the user named orders.
    pub(super) open: Vec<OrderId>,
    /// Number of orders by outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// The first failure that is the fault of the effect, and its order.
    pub(super) failure: Option<String>,
    /// The first order that fails while other orders are closed, with its reason.
    pub(super) bad_order: Option<String>,
    /// The first overdue order that would stay open.
    pub(super) guarded: Option<OrderId>,
    /// A part of the effect that the trial could not try.
    pub(super) untried: Option<String>,
}

/// An order, and its deadline if known.
type Candidate = (OrderId, Option<DatabaseTime>);

impl Trial {
    /// Tries the effect on the named orders. Without names, it takes the oldest open orders and the next orders that are not due.
    pub(super) async fn of(
        store: &Store,
        effect: &Effect,
        named: &[OrderId],
    ) -> Result<Self, Failure> {
        let mut orders: Vec<Candidate> = match (named, effect.finds_overdue()) {
            ([], true) => open(store, effect).await?,
            (named, _) => named.iter().map(|id| (id.clone(), None)).collect(),
        };
        let ids: Vec<OrderId> = orders.iter().map(|(id, _)| id.clone()).collect();
        let standings = store.rehearse(effect, &ids).await?;
        for ((_, due_at), standing) in orders.iter_mut().zip(&standings) {
            *due_at = due_at.or(standing.due_at);
        }
        let outcomes: Vec<Outcome> =
            standings.into_iter().map(|standing| standing.outcome).collect();
        // An order that is not due after the trial was not due in it.
        let now = store.now().await?;
        let is_early = |(_, due_at): &Candidate, outcome: &Outcome| {
            outcome.final_state().is_some() && due_at.is_some_and(|due_at| due_at > now)
        };
        let early = orders.iter().zip(&outcomes).find(|(order, outcome)| is_early(order, outcome));
        let early = early.map(|((id, due_at), outcome)| early_text(id, *due_at, outcome));
        let waits = |outcome: &Outcome| matches!(outcome, Outcome::NotDue { remaining } if !remaining.is_zero());
        let text = |(id, reason): (&OrderId, &str)| format!("order {id}: {reason}");
        let (misfit, bad) = (failed(&ids, &outcomes, true), failed(&ids, &outcomes, false));
        // If other orders are closed, one failing order does not show a fault of the effect, unless the user named it.
        let is_usable =
            named.is_empty() && outcomes.iter().any(|outcome| outcome.final_state().is_some());
        let (failure, bad_order) = if is_usable { (misfit, bad) } else { (misfit.or(bad), None) };
        let guarded = ids.iter().zip(&outcomes).find(|(_, outcome)| outcome.is_guarded());
        let has_tried = outcomes.iter().any(waits) || early.is_some();
        let untried = !has_tried && named.is_empty() && effect.description().is_none();
        Ok(Self {
            orders: ids.len(),
            open: ids.clone(),
            failure: failure.map(text).or(early),
            bad_order: bad_order.map(text),
            guarded: guarded.map(|(id, _)| id.clone()),
            outcomes: counts(&outcomes),
            untried: untried.then(|| untried_text(ids.is_empty())),
        })
    }
}

/// The oldest open orders, and the next orders that are not due.
async fn open(store: &Store, effect: &Effect) -> Result<Vec<Candidate>, StoreError> {
    let now = store.now().await?;
    let mut orders: Vec<Candidate> = Vec::new();
    for after in [OverdueKey::first(), OverdueKey::at(now)] {
        let page = store.open_page(effect, &after, TRIED).await?;
        let new = page.orders.into_iter().map(|(id, due_at)| (id, Some(due_at)));
        for order in new {
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
    }
    Ok(orders)
}

/// The first order that fails, with the reason: `is_misfit` selects outcomes outside the contract, otherwise those with an
/// SQLSTATE.
fn failed<'a>(
    ids: &'a [OrderId],
    outcomes: &'a [Outcome],
    is_misfit: bool,
) -> Option<(&'a OrderId, &'a str)> {
    ids.iter().zip(outcomes).find_map(|(id, outcome)| match outcome {
        Outcome::Failed { cause, reason } if (cause == CONTRACT) == is_misfit => {
            Some((id, reason.as_str()))
        }
        _ => None,
    })
}

fn early_text(id: &OrderId, due_at: Option<DatabaseTime>, outcome: &Outcome) -> String {
    let due_at = due_at.map(DatabaseTime::to_second).unwrap_or_default();
    format!(
        "order {id} is due at {due_at}, and it would be {} now: nothing in the SQL keeps an order open until its deadline. \
         Write `AND due_at <= now()`, with your column, where the order is changed",
        word(outcome)
    )
}

fn untried_text(is_empty: bool) -> String {
    let none =
        if is_empty { "there is no open order" } else { "none is open whose deadline is to come" };
    format!(
        "{none}, so it is not known whether it closes orders before their deadline: write an order that is due in an hour, \
         and check again, or name one with --order"
    )
}

fn counts(outcomes: &[Outcome]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for outcome in outcomes {
        *counts.entry(word(outcome).to_owned()).or_default() += 1;
    }
    counts
}

fn word(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Closed { state, .. } => state.as_str(),
        Outcome::AlreadyFinal => "already_final",
        Outcome::NotDue { .. } => "not_due",
        Outcome::Unknown => "without a row",
        Outcome::Busy => "busy",
        Outcome::Failed { .. } | Outcome::Postponed { .. } => "failed",
    }
}
