//! Delivery tags of one channel: which are unsettled, and the fewest acks for those that are done.

use std::collections::BTreeSet;

/// One frame `basic.ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// With `multiple`: every unsettled delivery up to and including this tag.
    Through(u64),
    /// This delivery alone.
    One(u64),
}

/// What a channel has delivered and the broker still counts as unsettled. Never more than the prefetch count.
#[derive(Debug, Default)]
pub struct Tags {
    /// Somebody works on it, or it waits.
    open: BTreeSet<u64>,
    /// Nothing is left to be done but the ack.
    done: BTreeSet<u64>,
}

impl Tags {
    /// A delivery came.
    pub fn receive(&mut self, tag: u64) {
        self.open.insert(tag);
    }

    /// Nothing is left to be done with a delivery. Says nothing of a tag that is not open.
    pub fn finish(&mut self, tag: u64) {
        if self.open.remove(&tag) {
            self.done.insert(tag);
        }
    }

    /// The broker has this delivery again; false for a tag that is not open.
    #[must_use = "a tag that is not open is not to be given back"]
    pub fn forget(&mut self, tag: u64) -> bool {
        self.open.remove(&tag)
    }

    /// The fewest frames that ack everything done and nothing that is open; each tag is acked once.
    ///
    /// One with `multiple` for what lies before the first open tag. It would cover that one as well behind it, so
    /// there each tag has a frame of its own.
    #[must_use = "they are acked only when these frames are sent"]
    pub fn acks(&mut self) -> Vec<Ack> {
        let behind = match self.open.first() {
            Some(first) => self.done.split_off(first),
            None => BTreeSet::new(),
        };
        let before = std::mem::take(&mut self.done).pop_last().map(Ack::Through);
        before.into_iter().chain(behind.into_iter().map(Ack::One)).collect()
    }

    /// Deliveries that are to be acked.
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// Deliveries that are neither acked nor given back.
    pub fn unsettled(&self) -> usize {
        self.open.len() + self.done.len()
    }
}
