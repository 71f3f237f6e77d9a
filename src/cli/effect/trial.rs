//! An effect on some orders in a transaction that is rolled back: on orders that are overdue, and on orders that are not due.

use std::collections::BTreeMap;

use crate::{
    cli::exit::Failure,
    order::{OrderId, Outcome},
    store::{
        Store, StoreError, clock::DatabaseTime, effects::Effect, orders::CONTRACT,
        overdue::OverdueKey,
    },
};

/// Orders of each kind that an effect is tried on.
const TRIED: i64 = 20;

/// The result of a trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Orders.
    pub(super) orders: usize,
    /// Open orders among them, where none was named.
    pub(super) open: Vec<OrderId>,
    /// Their outcomes: the word, and the number of orders.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// The fault of the effect, for the first order that shows it.
    pub(super) failure: Option<String>,
    /// The first order that fails although others are closed.
    pub(super) bad_order: Option<String>,
    /// The first that is overdue and would stay open.
    pub(super) guarded: Option<OrderId>,
    /// A part that could not be tried.
    pub(super) untried: Option<String>,
}

/// An order, and its deadline if that is known.
type Candidate = (OrderId, Option<DatabaseTime>);

impl Trial {
    /// On the orders that were named; if none was, on the oldest open ones and on the next that are not due.
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
        // After the trial: what is not due now was not due then.
        let now = store.now().await?;
        let is_early = |(_, due_at): &Candidate, outcome: &Outcome| {
            outcome.final_state().is_some() && due_at.is_some_and(|due_at| due_at > now)
        };
        let early = orders.iter().zip(&outcomes).find(|(order, outcome)| is_early(order, outcome));
        let early = early.map(|((id, due_at), outcome)| early_text(id, *due_at, outcome));
        let waits = |outcome: &Outcome| matches!(outcome, Outcome::NotDue { remaining } if !remaining.is_zero());
        let text = |(id, reason): (&OrderId, &str)| format!("order {id}: {reason}");
        let (misfit, bad) = (failed(&ids, &outcomes, true), failed(&ids, &outcomes, false));
        // An order that was not named, where others are closed, says nothing about the effect.
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

/// The oldest that are open, and the next that are not due.
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

/// The first that fails, with the reason: with an answer that is not as agreed, or with an SQLSTATE.
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
