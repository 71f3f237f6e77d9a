//! Whose fault it is that orders fail. Each is made to fail alone first; the caller asks the database.

use std::{collections::BTreeSet, ops::Range};

use crate::order::{OrderId, Outcome};

/// So many different orders that fail in one way, and none closed meanwhile, are not at fault. Fewer are retried and
/// parked, each with its reason.
pub const MANY: usize = 20;
/// Orders that exceed the statement time-out alone, each for as long as that is, before others are looked for that do not.
const SLOW: usize = 3;

/// What can be at fault when a statement fails for one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// The order, whatever the SQLSTATE.
    Order,
    /// The order or the database: the statement was cancelled, as the statement time-out does.
    Slow,
    /// A server: the database, or one that a trigger needs.
    Server,
    /// Somebody else, who holds a lock.
    Lock,
}

impl Suspect {
    /// So many orders may fail alone like this, and none be closed, before it can be the database that fails: disk, memory, time.
    const fn bearable(self) -> usize {
        match self {
            Self::Slow => SLOW,
            Self::Server => MANY,
            Self::Order | Self::Lock => usize::MAX,
        }
    }
}

/// How an order failed alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Who is to blame.
    pub suspect: Suspect,
    /// What is the same for all orders that fail like this one, e.g. the SQLSTATE.
    pub cause: String,
    /// What PostgreSQL said.
    pub reason: String,
}

impl Failure {
    /// What it says about the order.
    pub fn outcome(self) -> Outcome {
        let Self { suspect, cause, reason } = self;
        match suspect {
            Suspect::Order | Suspect::Slow => Outcome::Failed { cause, reason },
            Suspect::Server => Outcome::Postponed { reason },
            Suspect::Lock => Outcome::Busy,
        }
    }
}

/// The items of a batch: what fails is halved until each item that fails stands alone.
#[derive(Debug)]
pub struct Isolation<T> {
    parts: Vec<Range<usize>>,
    outcomes: Vec<T>,
    works: bool,
    failed: usize,
    elsewhere: usize,
    most_elsewhere: usize,
}

impl<T: Clone> Isolation<T> {
    /// All of `len` items in one part; none where there are none. `unknown` is the outcome of an item that is never asked for.
    ///
    /// Once as many items have failed as can be borne, so many parts are asked for elsewhere: halving down to a single one of
    /// 4,000 takes half of 24.
    pub fn new(len: usize, unknown: T, most_elsewhere: usize) -> Self {
        let mut parts = Vec::new();
        parts.extend((len > 0).then_some(0..len));
        let outcomes = vec![unknown; len];
        Self { parts, outcomes, works: false, failed: 0, elsewhere: 0, most_elsewhere }
    }

    /// The next part to ask for; each has at least one item.
    pub fn next_part(&mut self) -> Option<Range<usize>> {
        self.parts.pop()
    }

    /// A part was answered, in its order; `works` if that shows that what fails elsewhere is the items' own.
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

    /// A part failed: its halves are to be asked for, and a single item has the outcome `alone`. Whether what is left is to be
    /// asked for, if nothing works and `suspect` is to blame.
    ///
    /// Items that fail stay the oldest, and stand in front of the others. So beyond what can be borne other places are asked for
    /// before the batch is given up: in turn the last part, down to the last item, and the largest one.
    pub fn failed(&mut self, part: Range<usize>, suspect: Suspect, alone: T) -> bool {
        if part.len() > 1 {
            self.again(part, 1);
        } else {
            self.failed += 1;
            self.outcomes[part].fill(alone);
        }
        if self.works || self.failed < suspect.bearable() || self.parts.is_empty() {
            return true;
        }
        self.elsewhere += 1;
        let is_for_the_last = self.elsewhere % 2 == 1;
        let order = |part: &Range<usize>| (if is_for_the_last { 0 } else { part.len() }, part.end);
        self.parts.sort_by_key(order);
        self.elsewhere <= self.most_elsewhere
    }

    /// A part is to be asked for again, in halves if it has more than `most` items.
    pub fn again(&mut self, part: Range<usize>, most: usize) {
        if part.len() <= most.max(1) {
            return self.parts.push(part);
        }
        let middle = part.start + part.len() / 2;
        self.parts.push(middle..part.end);
        self.parts.push(part.start..middle);
    }

    /// Neither this part nor any other that is left will be asked for: all of it has this outcome.
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

/// Over all batches of one effect: the orders that failed since one was closed.
#[derive(Debug, Default)]
pub struct Verdict {
    cause: String,
    orders: BTreeSet<OrderId>,
}

impl Verdict {
    /// An order has failed alone; its batch is still being split, and others ask already.
    pub fn failed(&mut self, id: &OrderId, failure: &Failure) {
        if matches!(failure.suspect, Suspect::Order | Suspect::Slow) {
            self.add(&failure.cause, id);
        }
    }

    /// Looks at the outcomes of a whole batch. Failures that have become too many to be the orders' own become
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

/// Whether an order was closed.
pub(crate) fn any_closed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed { .. }))
}

/// Orders that failed with this cause are not at fault.
pub(crate) fn acquit(outcomes: &mut [Outcome], of: &str) {
    for outcome in outcomes {
        if let Outcome::Failed { cause, reason } = outcome
            && cause == of
        {
            *outcome = Outcome::Postponed { reason: std::mem::take(reason) };
        }
    }
}
