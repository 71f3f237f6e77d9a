//! A batch that fails is halved until what fails stands alone. The caller asks the database.

use std::ops::Range;

use crate::order::Outcome;

/// Parts that are asked for elsewhere once as many orders have failed as can be borne. Halving down to a single order of 4,000
/// takes half of them.
pub const ELSEWHERE: usize = 24;

/// The parts of a batch that are still to be asked for, and the outcomes so far.
#[derive(Debug)]
pub struct Splitting {
    parts: Vec<Range<usize>>,
    outcomes: Vec<Outcome>,
    has_closed: bool,
    failed: usize,
    elsewhere: usize,
}

impl Splitting {
    /// All of `len` orders in one part; none where there are no orders.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let mut parts = Vec::new();
        parts.extend((len > 0).then_some(0..len));
        let outcomes = vec![Outcome::Unknown; len];
        Self { parts, outcomes, has_closed: false, failed: 0, elsewhere: 0 }
    }

    /// The next part to ask for; each has at least one order.
    #[must_use]
    pub fn next_part(&mut self) -> Option<Range<usize>> {
        self.parts.pop()
    }

    /// A part was answered, in its order.
    pub fn answered(&mut self, part: Range<usize>, outcomes: Vec<Outcome>) {
        self.has_closed |= outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed { .. }));
        for (place, outcome) in self.outcomes[part].iter_mut().zip(outcomes) {
            *place = outcome;
        }
    }

    /// A part failed: its halves are to be asked for, and a single order has this outcome.
    pub fn failed(&mut self, part: Range<usize>, alone: Outcome) {
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            self.parts.push(middle..part.end);
            self.parts.push(part.start..middle);
        } else {
            self.failed += 1;
            self.outcomes[part].fill(alone);
        }
    }

    /// Whether what is left is to be asked for, after a failure that `bearable` single orders may have while none is closed.
    ///
    /// Orders that cannot be closed stay the oldest, and stand in front of the others. So beyond `bearable` other places are
    /// asked for before the batch is given up: in turn the last part, down to the last order, and the largest one.
    #[must_use]
    pub fn goes_on(&mut self, bearable: usize) -> bool {
        if self.has_closed || self.failed < bearable || self.parts.is_empty() {
            return true;
        }
        self.elsewhere += 1;
        let is_for_the_last = self.elsewhere % 2 == 1;
        let order = |part: &Range<usize>| (if is_for_the_last { 0 } else { part.len() }, part.end);
        self.parts.sort_by_key(order);
        self.elsewhere <= ELSEWHERE
    }

    /// Neither this part nor any other that is left will be asked for: all of it has this outcome.
    pub fn give_up(&mut self, part: Range<usize>, outcome: &Outcome) {
        self.parts.push(part);
        for part in std::mem::take(&mut self.parts) {
            self.outcomes[part].fill(outcome.clone());
        }
    }

    /// Whether an order was closed.
    #[must_use]
    pub const fn has_closed(&self) -> bool {
        self.has_closed
    }

    /// Single orders that failed.
    #[must_use]
    pub const fn failures(&self) -> usize {
        self.failed
    }

    /// The outcome of each order, in the order of the batch.
    #[must_use]
    pub fn into_outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }
}
