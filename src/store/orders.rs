//! Closes orders: runs the effect's SQL on a batch of order ids in one transaction, and reads the result row by row. A row that
//! breaks the contract fails its order only.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::{
    Row,
    types::{Json, ToSql},
};

use super::{
    Store, StoreError,
    clock::DatabaseTime,
    contract::{Contract, cell, excerpt},
    effects::Effect,
    pauses::{REFUSE, Rule},
    pool::{End, PoolKind, StatementCall, TransactionLimits},
};
use crate::{
    order::{FinalState, OrderId, Outcome, Spelled},
    wire::{Trace, Traces},
};

/// Whether a statement that closes orders waits for locks on the rows to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Waits until the lock time-out.
    Waits,
    /// Skips locked rows, if the effect has such a statement.
    Passes,
}

/// The reason why an order was tried: the value of `closures.path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPath {
    /// A message was delivered.
    Message,
    /// Many orders were due at once: a burst closed the order before its message.
    Burst,
    /// The sweep found the order without a message.
    Sweep,
}

impl ClosingPath {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Burst => "burst",
            Self::Sweep => "sweep",
        }
    }
}

impl Store {
    /// Runs the effect on `ids`, and returns the outcome of each, in the same order. Pauses are ignored.
    ///
    /// Waits 50 ms for each lock. Everything is one transaction: on return it is committed, on failure nothing has happened. A
    /// duplicate id is closed once. An id without a row in the result is [`Outcome::Unknown`]; a row that breaks the contract makes
    /// its order [`Outcome::Failed`].
    ///
    /// # Errors
    /// The statement failed; [`StoreError::kind`] is the class of the failure.
    pub async fn run_effect(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        path: ClosingPath,
    ) -> Result<Vec<Outcome>, StoreError> {
        let traces = Traces::default();
        self.run_statement(effect, (ids, &traces, path), Waiting::Waits, None).await
    }

    /// Like [`Store::run_effect`], with traces, of which only the traces of `ids` are used. With a rule, the limits apply, and a
    /// paused timeout is [`StoreError::Paused`].
    pub(crate) async fn run_statement(
        &self,
        effect: &Effect,
        (ids, traces, path): (&[OrderId], &Traces, ClosingPath),
        waiting: Waiting,
        unpaused: Option<(Rule<'_>, TransactionLimits)>,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.admit(effect).await?;
        let orders = i32::try_from(ids.len()).unwrap_or(i32::MAX);
        let (rule, limits) = unpaused.unzip();
        let limits = limits.unwrap_or(TransactionLimits::NONE);
        let guard =
            rule.map(|Rule { topology, timeout, effect }| (topology, timeout, effect, orders));
        let guard: Option<[&(dyn ToSql + Sync); 4]> =
            guard.as_ref().map(|it| -> [&(dyn ToSql + Sync); 4] { [&it.0, &it.1, &it.2, &it.3] });
        let guard = guard
            .as_ref()
            .map(|parameters| StatementCall::new("pauses_refuse", REFUSE, parameters));
        let batch = (ids, traces, path);
        let rows = self.transact(effect, batch, waiting, guard, (limits, End::Commit)).await?;
        let committed = standings(effect, &rows, ids).into_iter().map(|mut standing| {
            if let Outcome::Failed { reason, .. } = &mut standing.outcome {
                reason.push_str("; what the effect did is committed");
            }
            standing.outcome
        });
        Ok(committed.collect())
    }

    /// Runs the statements of an effect in one transaction, after `guard`.
    pub(super) async fn transact(
        &self,
        effect: &Effect,
        (ids, traces, path): (&[OrderId], &Traces, ClosingPath),
        waiting: Waiting,
        guard: Option<StatementCall<'_>>,
        (limits, end): (TransactionLimits, End),
    ) -> Result<Vec<Row>, StoreError> {
        let statements = self.statements(effect).await?;
        let contended = statements.close_contended.as_ref();
        let sql = contended.filter(|_| waiting == Waiting::Passes).unwrap_or(&statements.close);
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        // Only the traces of `ids`: an id that the database cannot store fails its own order, and no other.
        let traces: BTreeMap<&OrderId, &Trace> =
            ids.iter().filter_map(|id| traces.get_key_value(id)).collect();
        let traces = (!traces.is_empty()).then_some(Json(traces));
        let parameters: [&(dyn ToSql + Sync); 3] = [&texts, &path.as_str(), &traces];
        let of_effect = |sql, parameters, contract| StatementCall {
            contract,
            ..StatementCall::new("effect", sql, parameters)
        };
        let lock = statements.lock.as_ref();
        let lock = lock.map(|sql| of_effect(sql, &parameters[..1], Contract::Lock(effect)));
        let question = of_effect(sql, &parameters, Contract::Effect(effect));
        let before: Vec<StatementCall<'_>> = guard.into_iter().chain(lock).collect();
        if before.is_empty() && end == End::Commit {
            return self.execute(PoolKind::Closing, question).await;
        }
        self.close_behind(&before, limits, question, end).await
    }
}

/// The cause of every broken contract: there is no SQLSTATE, because the statement itself succeeded.
pub(crate) const CONTRACT: &str = "contract";

/// The state of an order at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The outcome of the effect, real or tried.
    pub(crate) outcome: Outcome,
    /// The deadline, if a row has one.
    pub(crate) due_at: Option<DatabaseTime>,
}

impl From<Outcome> for Standing {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, due_at: None }
    }
}

/// The rows of one execution.
struct EffectRows {
    by_id: HashMap<String, Standing>,
    /// The outcome of an order without a row, if one of the rows has no order id.
    stray: Option<Outcome>,
}

/// The outcome of each of `ids`, in the same order.
pub(super) fn standings(effect: &Effect, rows: &[Row], ids: &[OrderId]) -> Vec<Standing> {
    let mut answer = EffectRows::read(effect, rows);
    let mut spelled = None;
    let of_each = ids.iter().map(|id| {
        answer.take(id.as_str()).unwrap_or_else(|| {
            let spelled = spelled
                .get_or_insert_with(|| Spelled::new(ids, answer.by_id.keys().map(String::as_str)));
            let other = spelled.of(id).and_then(|id| answer.take(id));
            other.unwrap_or_else(|| answer.stray.clone().unwrap_or(Outcome::Unknown).into())
        })
    });
    of_each.collect()
}

impl EffectRows {
    fn read(effect: &Effect, rows: &[Row]) -> Self {
        let mut answer = Self { by_id: HashMap::with_capacity(rows.len()), stray: None };
        for row in rows {
            answer.add(effect, row);
        }
        answer
    }

    fn add(&mut self, effect: &Effect, row: &Row) {
        let id = match cell::<&str>(row, 0) {
            Ok(id) => id,
            Err(wrong) => {
                self.stray.get_or_insert_with(|| failed(effect, &wrong, "one of these orders"));
                return;
            }
        };
        let failed = |wrong: String| failed(effect, &wrong, &format!("order {}", excerpt(id)));
        let outcome = outcome(row).unwrap_or_else(failed);
        // If an order has two rows, the row that closed it wins.
        let known = self.by_id.get(id).map(|it| &it.outcome);
        if !matches!(known, Some(Outcome::Closed { .. })) {
            let due_at = row.try_get::<_, Option<DatabaseTime>>(2).ok().flatten();
            self.by_id.insert(id.to_owned(), Standing { outcome, due_at });
        }
    }

    /// The outcome of an order, if there is a row. The second copy of an order in a batch is already final after the first.
    fn take(&mut self, id: &str) -> Option<Standing> {
        let standing = self.by_id.get_mut(id)?;
        let taken = standing.clone();
        if matches!(taken.outcome, Outcome::Closed { .. }) {
            standing.outcome = Outcome::AlreadyFinal;
        }
        Some(taken)
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

fn failed(effect: &Effect, wrong: &str, of: &str) -> Outcome {
    let (name, [place, _]) = (&effect.name, effect.places());
    let reason = format!(
        "effect `{name}` ({place}) gave {wrong} for {of}: the outcome has to be closed, done:<word>, already_final, \
         not_due or busy, no column NULL (docs/effects.md)"
    );
    Outcome::Failed { cause: CONTRACT.to_owned(), reason }
}
