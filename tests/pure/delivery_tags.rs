//! Acks out of order, against a model of the broker, which settles by frames.

use std::collections::BTreeSet;

use overdue::internals::worker::tags::{Ack, Tags};
use proptest::{collection, prelude::*, sample::Index};

#[derive(Clone, Debug)]
enum Step {
    Receive(u8),
    Finish(Index),
    GiveBack(Index),
    Acks,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1_u8..6).prop_map(Step::Receive),
        6 => any::<Index>().prop_map(Step::Finish),
        1 => any::<Index>().prop_map(Step::GiveBack),
        2 => Just(Step::Acks),
    ];
    collection::vec(step, 0..120)
}

/// The state of one channel at the broker and the worker.
#[derive(Default)]
struct Channel {
    tags: Tags,
    last: u64,
    /// At the broker: neither acked nor requeued.
    unsettled: BTreeSet<u64>,
    /// At the worker: finished, acked or not.
    finished: BTreeSet<u64>,
    open: BTreeSet<u64>,
}

impl Channel {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Receive(count) => {
                for _ in 0..*count {
                    self.last += 1;
                    self.tags.receive(self.last);
                    self.unsettled.insert(self.last);
                    self.open.insert(self.last);
                }
            }
            Step::Finish(index) => {
                if let Some(tag) = self.pick(*index) {
                    self.tags.finish(tag);
                    self.open.remove(&tag);
                    self.finished.insert(tag);
                }
            }
            Step::GiveBack(index) => {
                if let Some(tag) = self.pick(*index) {
                    prop_assert!(self.tags.forget(tag));
                    prop_assert!(!self.tags.forget(tag), "given back twice");
                    self.open.remove(&tag);
                    self.unsettled.remove(&tag);
                }
            }
            Step::Acks => self.ack()?,
        }
        prop_assert_eq!(self.tags.unsettled(), self.unsettled.len());
        prop_assert_eq!(self.tags.done(), self.unsettled.intersection(&self.finished).count());
        Ok(())
    }

    fn pick(&self, index: Index) -> Option<u64> {
        let open: Vec<u64> = self.open.iter().copied().collect();
        (!open.is_empty()).then(|| *index.get(&open))
    }

    /// Applies the frames as the broker does: a tag that is not unacked there closes the channel.
    fn ack(&mut self) -> Result<(), TestCaseError> {
        let pending: Vec<u64> = self.unsettled.intersection(&self.finished).copied().collect();
        let first_open = self.open.first().copied().unwrap_or(u64::MAX);
        let fewest = usize::from(pending.iter().any(|tag| *tag < first_open))
            + pending.iter().filter(|tag| **tag > first_open).count();
        let frames = self.tags.acks();
        prop_assert_eq!(frames.len(), fewest, "{:?} for {:?}", frames, pending);
        for frame in frames {
            let (Ack::Through(tag) | Ack::One(tag)) = frame;
            prop_assert!(self.unsettled.contains(&tag), "{:?} is not unsettled", frame);
            let covered = |other: &u64| match frame {
                Ack::Through(last) => *other <= last,
                Ack::One(one) => *other == one,
            };
            for acked in self.unsettled.extract_if(.., covered) {
                prop_assert!(self.finished.contains(&acked), "{:?} covers open {}", frame, acked);
            }
        }
        let left: Vec<u64> = self.unsettled.intersection(&self.finished).copied().collect();
        prop_assert!(left.is_empty(), "not acked: {:?}", left);
        Ok(())
    }
}

proptest! {
    #[test]
    fn each_finished_tag_is_acked_once_and_no_open_one_is_ever_covered(steps in steps()) {
        let mut channel = Channel::default();
        for step in &steps {
            channel.step(step)?;
        }
        for tag in channel.open.clone() {
            channel.tags.finish(tag);
            channel.open.remove(&tag);
            channel.finished.insert(tag);
        }
        channel.ack()?;
        prop_assert!(channel.unsettled.is_empty());
        prop_assert!(channel.tags.acks().is_empty());
    }
}

#[test]
fn what_is_done_behind_the_first_open_tag_is_acked_alone() {
    let mut tags = Tags::default();
    for tag in 1..=9 {
        tags.receive(tag);
    }
    for tag in [1, 2, 3, 5, 9] {
        tags.finish(tag);
    }
    assert_eq!(tags.acks(), [Ack::Through(3), Ack::One(5), Ack::One(9)]);
    for tag in [4, 6, 7, 8] {
        tags.finish(tag);
    }
    assert_eq!(tags.acks(), [Ack::Through(8)]);
    assert_eq!(tags.unsettled(), 0);
}

/// Tags that were never delivered, or are settled: a defect elsewhere must not send a frame that closes the channel.
#[test]
fn a_tag_that_is_not_open_is_neither_acked_nor_given_back() {
    let mut tags = Tags::default();
    tags.receive(1);
    tags.finish(1);
    assert_eq!(tags.acks(), [Ack::Through(1)]);
    tags.finish(1);
    tags.finish(7);
    assert!(!tags.forget(1) && !tags.forget(7));
    assert!(tags.acks().is_empty());
}
