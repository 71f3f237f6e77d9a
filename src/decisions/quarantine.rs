//! Messages with which workers have died before are taken one at a time.
//!
//! Each connection that is lost counts as a delivery of everything unsettled on it, and over its delivery limit a message
//! is parked. A message that kills the worker would take along everything that was prefetched with it. So a consumer
//! begins with a prefetch count of 1 (what was given back comes first) and has a larger one only while it receives
//! messages that were delivered rarely: then hardly anything but the culprit reaches the limit.

/// Deliveries that everything may have behind it at the most: restarts and lost connections happen, and often several after each
/// other, to everything in hand. One at a time some thousand of them take a minute.
const FEW: u32 = 10;
/// Of those that the queue allows these are left for what follows: other workers end meanwhile, and each that takes many at once
/// gives a suspect back, which before RabbitMQ 4.3 counts as well.
const LEFT: i64 = 10;

/// What follows from a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take it, and go on like this.
    Take,
    /// Take it, and take many at once from now on.
    Widen,
    /// Give it back, and take one at a time from now on.
    Narrow,
}

/// Whether the messages of one queue are taken one at a time.
#[derive(Debug)]
pub struct Quarantine {
    few: u32,
    alone: bool,
    /// Messages in a row that were delivered rarely.
    rare: u32,
    /// How many of them end it.
    wanted: u32,
    wanted_again: u32,
}

impl Quarantine {
    /// For a queue with this delivery limit. After messages had to be given back, `wanted_again` others in a row have to
    /// be received one at a time before many are taken at once: before RabbitMQ 4.3 giving back counts as well.
    pub fn new(delivery_limit: i64, wanted_again: u32) -> Self {
        let few = u32::try_from(delivery_limit - LEFT).unwrap_or(1).clamp(1, FEW);
        Self { few, alone: true, rare: 0, wanted: 1, wanted_again }
    }

    /// Whether at most one message may be unsettled.
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether a message has often been delivered without being settled.
    pub const fn is_suspect(&self, deliveries: u32) -> bool {
        deliveries >= self.few
    }

    /// A message came that was delivered so often before. `may_widen` is whether many can be taken at once at present.
    #[must_use = "a message that is to be given back is not to be taken"]
    pub fn receive(&mut self, deliveries: u32, may_widen: bool) -> Step {
        match (self.is_suspect(deliveries), self.alone) {
            (false, false) => Step::Take,
            (false, true) => {
                self.rare = self.rare.saturating_add(1);
                if self.rare < self.wanted || !may_widen {
                    return Step::Take;
                }
                self.alone = false;
                Step::Widen
            }
            (true, true) => {
                self.rare = 0;
                Step::Take
            }
            (true, false) => {
                (self.alone, self.rare, self.wanted) = (true, 0, self.wanted_again);
                Step::Narrow
            }
        }
    }
}
