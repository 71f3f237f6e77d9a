//! Whether orders that fail are at fault themselves.

use std::collections::BTreeSet;

use crate::order::{OrderId, Outcome};

/// So many different orders that fail in one way, and none closed meanwhile, are not at fault. Fewer are retried and
/// parked, each with its reason.
pub const MANY: usize = 20;

/// The failures since an order was closed, of all batches of one effect.
#[derive(Debug, Default)]
pub struct Blame {
    cause: String,
    orders: BTreeSet<OrderId>,
}

impl Blame {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An order has failed; its batch is still being split, and others ask already.
    pub fn failed(&mut self, id: &OrderId, outcome: &Outcome) {
        if let Outcome::Failed { cause, .. } = outcome {
            self.add(cause, id);
        }
    }

    /// Looks at the outcomes of a whole batch. Failures that have become too many to be the orders' own become
    /// [`Outcome::Postponed`].
    pub fn judge(&mut self, ids: &[OrderId], outcomes: &mut [Outcome]) {
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed { .. })) {
            self.orders.clear();
            return;
        }
        for (id, outcome) in ids.iter().zip(outcomes.iter()) {
            self.failed(id, outcome);
        }
        if self.orders.len() >= MANY {
            for outcome in outcomes {
                self.acquit(outcome);
            }
        }
    }

    fn add(&mut self, cause: &str, id: &OrderId) {
        if self.cause != cause {
            cause.clone_into(&mut self.cause);
            self.orders.clear();
        }
        if self.orders.len() < MANY {
            self.orders.insert(id.clone());
        }
    }

    fn acquit(&self, outcome: &mut Outcome) {
        if let Outcome::Failed { cause, reason } = outcome
            && *cause == self.cause
        {
            *outcome = Outcome::Postponed { reason: std::mem::take(reason) };
        }
    }
}
