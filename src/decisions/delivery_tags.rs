//! Delivery tags of one channel: which deliveries are unsettled, and the fewest acks for the completed ones.

use std::collections::BTreeSet;

/// A `basic.ack` frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Acks every unsettled delivery up to and including this tag (`multiple`).
    Through(u64),
    /// Acks only the delivery with this tag.
    One(u64),
}

/// Unsettled deliveries of a channel: at most its prefetch count.
#[derive(Debug, Default)]
pub struct Tags {
    /// Deliveries that are being closed, or that wait.
    open: BTreeSet<u64>,
    /// Deliveries that need only the ack.
    done: BTreeSet<u64>,
}

impl Tags {
    /// Adds a delivery.
    pub fn receive(&mut self, tag: u64) {
        self.open.insert(tag);
    }

    /// Marks a delivery as completed. Ignores a tag that is not open.
    pub fn finish(&mut self, tag: u64) {
        if self.open.remove(&tag) {
            self.done.insert(tag);
        }
    }

    /// Removes a delivery that the broker gets back; false for a tag that is not open.
    #[must_use = "a tag that is not open is not to be given back"]
    pub fn forget(&mut self, tag: u64) -> bool {
        self.open.remove(&tag)
    }

    /// The fewest frames that ack all completed deliveries and no open one; each tag is acked once.
    ///
    /// A frame with `multiple` acks everything before the first open tag. Behind that tag, such a frame would ack the open
    /// delivery as well: each tag needs its own frame there.
    #[must_use = "they are acked only when these frames are sent"]
    pub fn acks(&mut self) -> Vec<Ack> {
        let behind = match self.open.first() {
            Some(first) => self.done.split_off(first),
            None => BTreeSet::new(),
        };
        let before = std::mem::take(&mut self.done).pop_last().map(Ack::Through);
        before.into_iter().chain(behind.into_iter().map(Ack::One)).collect()
    }

    /// Completed deliveries without an ack.
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// Deliveries that are neither acked nor returned to the broker.
    pub fn unsettled(&self) -> usize {
        self.open.len() + self.done.len()
    }
}
