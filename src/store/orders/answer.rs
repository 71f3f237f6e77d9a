//! What an effect answered, read cell by cell: a row that is not as agreed concerns its order only.

use std::collections::HashMap;

use tokio_postgres::Row;

use crate::{
    order::{FinalState, OrderId, Outcome, Spelled},
    store::{
        database_time::DatabaseTime,
        effect::Effect,
        row::{cell, excerpt},
    },
};

/// The cause of every failure of this kind: no SQLSTATE, because the statement itself has worked.
pub(crate) const CONTRACT: &str = "contract";

/// The outcomes of one execution.
struct Answer {
    outcomes: HashMap<String, Outcome>,
    /// Why orders may lack a row: one of the rows says no order id.
    stray: Option<String>,
}

/// What became of each of `ids`, in the same order.
pub(in crate::store) fn outcomes(effect: &Effect, rows: &[Row], ids: &[OrderId]) -> Vec<Outcome> {
    let mut answer = Answer::read(effect, rows);
    let mut spelled = None;
    let of_each = ids.iter().map(|id| {
        answer.take(id.as_str()).unwrap_or_else(|| {
            let spelled = spelled.get_or_insert_with(|| {
                Spelled::new(ids, answer.outcomes.keys().map(String::as_str))
            });
            let other = spelled.of(id).and_then(|id| answer.take(id));
            other.unwrap_or_else(|| answer.missing())
        })
    });
    of_each.collect()
}

impl Answer {
    fn read(effect: &Effect, rows: &[Row]) -> Self {
        let mut answer = Self { outcomes: HashMap::with_capacity(rows.len()), stray: None };
        for row in rows {
            answer.add(effect, row);
        }
        answer
    }

    fn add(&mut self, effect: &Effect, row: &Row) {
        let id = match cell::<&str>(row, 0) {
            Ok(id) => id,
            Err(wrong) => {
                self.stray.get_or_insert_with(|| reason(effect, &wrong, "one of these orders"));
                return;
            }
        };
        let outcome = outcome(row).unwrap_or_else(|wrong| Outcome::Failed {
            cause: CONTRACT.to_owned(),
            reason: reason(effect, &wrong, &format!("order {}", excerpt(id))),
        });
        // Of two rows for one order the one that closed it says what happened.
        if !matches!(self.outcomes.get(id), Some(Outcome::Closed { .. })) {
            self.outcomes.insert(id.to_owned(), outcome);
        }
    }

    /// The outcome of an order, if there is a row. The same order twice in a batch was closed by the first of the two.
    fn take(&mut self, id: &str) -> Option<Outcome> {
        Some(match self.outcomes.get_mut(id)? {
            outcome @ Outcome::Closed { .. } => std::mem::replace(outcome, Outcome::AlreadyFinal),
            outcome => outcome.clone(),
        })
    }

    fn missing(&self) -> Outcome {
        self.stray.as_ref().map_or(Outcome::Unknown, |stray| Outcome::Failed {
            cause: CONTRACT.to_owned(),
            reason: stray.clone(),
        })
    }
}

fn outcome(row: &Row) -> Result<Outcome, String> {
    let name = cell::<&str>(row, 1)?;
    let due_at = cell::<DatabaseTime>(row, 2);
    let decided_at = cell::<DatabaseTime>(row, 3);
    Ok(match name {
        "already_final" => Outcome::AlreadyFinal,
        "busy" => Outcome::Busy,
        "not_due" => Outcome::NotDue { remaining: decided_at?.until(due_at?) },
        other => match FinalState::of_outcome(other) {
            Some(state) => Outcome::Closed { late: due_at?.until(decided_at?), state },
            None => return Err(format!("`{}` as `outcome`", excerpt(other))),
        },
    })
}

fn reason(effect: &Effect, wrong: &str, of: &str) -> String {
    let Effect { name, sql_file, .. } = effect;
    format!(
        "effect `{name}` ({sql_file}) gave {wrong} for {of}: the outcome has to be closed, done:<word>, already_final, \
         not_due or busy, no column NULL (docs/effects.md)"
    )
}
