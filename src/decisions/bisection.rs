//! Whether an order or the database is at fault when orders fail. Each order is made to fail alone first; the caller runs the
//! statements.

use std::{collections::BTreeSet, ops::Range};

use crate::order::{OrderId, Outcome};

/// If this many different orders fail in one way while none is closed, the orders are not at fault. Fewer failed orders are
/// retried and parked, each with its reason.
pub const MANY: usize = 20;
/// Orders that may exceed the statement time-out alone, one after the other, before other parts are tried.
const SLOW: usize = 3;

/// Possible causes when a statement fails for one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureScope {
    /// The order, for any SQLSTATE.
    Order,
    /// The order or the database: the statement was cancelled, for example by the statement time-out.
    Slow,
    /// A server: the database, or a server that a trigger needs.
    Server,
    /// Another session, which has locked a row.
    Lock,
}

impl FailureScope {
    /// If this many orders fail alone and none is closed, the database may be at fault: its disk, memory or time.
    const fn most_individual_failures(self) -> usize {
        match self {
            Self::Slow => SLOW,
            Self::Server => MANY,
            Self::Order | Self::Lock => usize::MAX,
        }
    }
}

/// Failure of a single order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The possible cause.
    pub suspect: FailureScope,
    /// Part of the error that is equal for all orders that fail in this way, e.g. the SQLSTATE.
    pub cause: String,
    /// Error text of PostgreSQL.
    pub reason: String,
}

impl Failure {
    /// The outcome of the order.
    pub fn outcome(self) -> Outcome {
        let Self { suspect, cause, reason } = self;
        match suspect {
            FailureScope::Order | FailureScope::Slow => Outcome::Failed { cause, reason },
            FailureScope::Server => Outcome::Postponed { reason },
            FailureScope::Lock => Outcome::Busy,
        }
    }
}

/// The items of a batch: a part that fails is halved until each failing item is alone.
#[derive(Debug)]
pub struct BatchBisector<T> {
    parts: Vec<Range<usize>>,
    outcomes: Vec<T>,
    works: bool,
    failed: usize,
    elsewhere: usize,
    most_elsewhere: usize,
}

impl<T: Clone> BatchBisector<T> {
    /// Starts with all of `len` items in one part; with no part if there are none. `unknown` is the outcome of an item that
    /// was never tried.
    ///
    /// After as many failures as `FailureScope` allows, at most `most_elsewhere` other parts are tried: to halve 4,000 items down
    /// to a single one takes half of 24.
    pub fn new(len: usize, unknown: T, most_elsewhere: usize) -> Self {
        let mut parts = Vec::new();
        parts.extend((len > 0).then_some(0..len));
        let outcomes = vec![unknown; len];
        Self { parts, outcomes, works: false, failed: 0, elsewhere: 0, most_elsewhere }
    }

    /// The next part to try; it has at least one item.
    pub fn next_part(&mut self) -> Option<Range<usize>> {
        self.parts.pop()
    }

    /// Records the outcomes of a part, in its order. `works`: they show that the database works, so failing items are at fault.
    pub fn answered(
        &mut self,
        part: Range<usize>,
        outcomes: impl IntoIterator<Item = T>,
        works: bool,
    ) {
        self.works |= works;
        for (place, outcome) in self.outcomes[part].iter_mut().zip(outcomes) {
            *place = outcome;
        }
    }

    /// Records that a part failed: its halves are tried next, and a single item gets the outcome `alone`. Returns whether to
    /// try the remaining parts, although nothing works and `suspect` may be the cause.
    ///
    /// Items that fail again and again are the oldest, and come first in a batch. Beyond the limit of `suspect`, other parts are
    /// therefore tried before the batch is given up: alternately the last part, down to its last item, and the largest part.
    pub fn failed(&mut self, part: Range<usize>, suspect: FailureScope, alone: T) -> bool {
        if part.len() > 1 {
            self.again(part, 1);
        } else {
            self.failed += 1;
            self.outcomes[part].fill(alone);
        }
        if self.works || self.failed < suspect.most_individual_failures() || self.parts.is_empty() {
            return true;
        }
        self.elsewhere += 1;
        let is_for_the_last = self.elsewhere % 2 == 1;
        let order = |part: &Range<usize>| (if is_for_the_last { 0 } else { part.len() }, part.end);
        self.parts.sort_by_key(order);
        self.elsewhere <= self.most_elsewhere
    }

    /// Queues a part to be tried again, in halves if it has more than `most` items.
    pub fn again(&mut self, part: Range<usize>, most: usize) {
        if part.len() <= most.max(1) {
            return self.parts.push(part);
        }
        let middle = part.start + part.len() / 2;
        self.parts.push(middle..part.end);
        self.parts.push(part.start..middle);
    }

    /// Gives up this part and all remaining parts: their items get this outcome.
    pub fn give_up(&mut self, part: Range<usize>, outcome: &T) {
        self.parts.push(part);
        for part in std::mem::take(&mut self.parts) {
            self.outcomes[part].fill(outcome.clone());
        }
    }

    /// Single items that failed.
    pub const fn failures(&self) -> usize {
        self.failed
    }

    /// The outcome of each item, in the order of the batch.
    pub fn into_outcomes(self) -> Vec<T> {
        self.outcomes
    }
}

/// The orders of one effect that failed since one was closed, over all batches.
#[derive(Debug, Default)]
pub struct Verdict {
    cause: String,
    orders: BTreeSet<OrderId>,
}

impl Verdict {
    /// Records an order that failed alone. Its batch is still being split, and other batches are judged meanwhile.
    pub fn failed(&mut self, id: &OrderId, failure: &Failure) {
        if matches!(failure.suspect, FailureScope::Order | FailureScope::Slow) {
            self.add(&failure.cause, id);
        }
    }

    /// Judges the outcomes of a whole batch. If too many orders fail, they are not at fault: their failures become
    /// [`Outcome::Postponed`].
    pub fn judge(&mut self, ids: &[OrderId], outcomes: &mut [Outcome]) {
        if any_closed(outcomes) {
            self.orders.clear();
            return;
        }
        for (id, outcome) in ids.iter().zip(outcomes.iter()) {
            if let Outcome::Failed { cause, .. } = outcome {
                self.add(cause, id);
            }
        }
        if self.orders.len() >= MANY {
            acquit(outcomes, &self.cause);
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
}

pub(crate) fn any_closed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed { .. }))
}

/// Postpones orders that failed with this cause: they are not at fault.
pub(crate) fn acquit(outcomes: &mut [Outcome], of: &str) {
    for outcome in outcomes {
        if let Outcome::Failed { cause, reason } = outcome
            && cause == of
        {
            *outcome = Outcome::Postponed { reason: std::mem::take(reason) };
        }
    }
}
