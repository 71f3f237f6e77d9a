//! What an effect answered, read cell by cell: a row that is not as agreed concerns its order only.

use std::collections::HashMap;

use tokio_postgres::Row;

use crate::{
    order::{FinalState, Outcome},
    store::{
        database_time::DatabaseTime,
        effect::Effect,
        row::{cell, excerpt},
    },
};

/// The cause of every failure of this kind: no SQLSTATE, because the statement itself has worked.
const CAUSE: &str = "contract";
/// The outcomes of one execution.
pub(in crate::store) struct Answer {
    outcomes: HashMap<String, Outcome>,
    /// Why orders may lack a row: one of the rows says no order id.
    stray: Option<String>,
}

impl Answer {
    pub(in crate::store) fn read(effect: &Effect, rows: &[Row]) -> Self {
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
            cause: CAUSE.to_owned(),
            reason: reason(effect, &wrong, &format!("order {}", excerpt(id))),
        });
        // Of two rows for one order the one that closed it says what happened.
        if !matches!(self.outcomes.get(id), Some(Outcome::Closed { .. })) {
            self.outcomes.insert(id.to_owned(), outcome);
        }
    }

    /// The outcome of an order that was asked for. The same order twice in a batch was closed by the first of the two.
    pub(in crate::store) fn take(&mut self, id: &str) -> Outcome {
        match (self.outcomes.get_mut(id), &self.stray) {
            (Some(outcome @ Outcome::Closed { .. }), _) => {
                std::mem::replace(outcome, Outcome::AlreadyFinal)
            }
            (Some(outcome), _) => outcome.clone(),
            (None, Some(stray)) => {
                Outcome::Failed { cause: CAUSE.to_owned(), reason: stray.clone() }
            }
            (None, None) => Outcome::Unknown,
        }
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
         not_due or busy, no column NULL (docs/effects.md); what the effect did is committed"
    )
}
