//! Why a message is in the parking lot, also where the broker has put it there by itself and written nothing.

use std::{collections::BTreeMap, fmt};

use crate::{
    topology::Topology,
    wire::{MAX_BODY_BYTES, Parked, Received, Unreadable},
};

/// Why a message is in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A worker has written it.
    Written(String),
    /// The worker gave it to the broker, because its body is too large to be kept, or its headers are.
    TooLarge {
        /// Bytes of the body, or of memory that its headers take.
        bytes: usize,
    },
    /// The worker gave it up and made no copy: too many copies were on their way.
    Rejected {
        /// Its business queue.
        queue: String,
    },
    /// It was delivered again and again, and never settled: workers have died with it in hand.
    DeliveryLimit {
        /// Its business queue.
        queue: String,
    },
    /// A queue was full and let it go.
    Full {
        /// Which one.
        queue: String,
    },
    /// It was due, and no queue is bound for its routing key.
    DueUnroutable {
        /// The level it comes from.
        queue: String,
        /// Its routing key.
        routing_key: String,
    },
    /// Nothing took it where it was published.
    Unroutable {
        /// Its routing key.
        routing_key: String,
    },
    /// The broker has another reason.
    Other {
        /// As the broker calls it.
        reason: String,
        /// Where.
        queue: String,
    },
}

impl Cause {
    /// Out of what the headers and the body say.
    pub(super) fn of(topology: &Topology, received: &Received, parked: &Parked) -> Self {
        // Its headers are left out with it.
        if let Some(bytes) = received.body_left_out() {
            return Self::TooLarge { bytes };
        }
        let Some(death) = &parked.death else {
            let unroutable = || Self::Unroutable { routing_key: received.routing_key.to_string() };
            return parked.reason.clone().map_or_else(unroutable, Self::Written);
        };
        let queue = death.queue.clone();
        match death.reason.as_str() {
            "rejected" => match received.notice(topology) {
                Err(Unreadable::TooLarge(bytes)) => Self::TooLarge { bytes },
                Err(unreadable) => Self::Written(unreadable.to_string()),
                Ok(_) => Self::Rejected { queue },
            },
            "delivery_limit" => Self::DeliveryLimit { queue },
            "maxlen" => Self::Full { queue },
            "expired" if !is_parked_in(topology, &queue) => {
                Self::DueUnroutable { queue, routing_key: received.routing_key.to_string() }
            }
            reason => Self::Other { reason: reason.to_owned(), queue },
        }
    }

    /// One text for all messages with the same cause: without what only one of them has.
    pub fn in_general(&self) -> String {
        match self {
            Self::TooLarge { .. } => {
                format!("body or headers have more than {MAX_BODY_BYTES} bytes")
            }
            Self::Unroutable { .. } => "no level takes the routing key".to_owned(),
            Self::DueUnroutable { .. } => "due, and no queue takes the routing key".to_owned(),
            other => other.to_string(),
        }
    }
}

fn is_parked_in(topology: &Topology, queue: &str) -> bool {
    queue.strip_prefix(&topology.parked_queue()).is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('.').is_some_and(|rest| rest.parse::<u32>().is_ok())
    })
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(reason) => f.write_str(reason),
            Self::TooLarge { bytes } => {
                write!(f, "body or headers have {bytes} bytes, more than {MAX_BODY_BYTES}")
            }
            Self::Rejected { queue } => write!(
                f,
                "a worker rejected it in {queue}: it could not publish a copy with the reason"
            ),
            Self::DeliveryLimit { queue } => {
                write!(
                    f,
                    "workers ended while they processed it, up to the delivery limit of {queue}"
                )
            }
            Self::Full { queue } => write!(f, "{queue} was full"),
            Self::DueUnroutable { queue, routing_key } => {
                write!(f, "due ({queue}), and no queue takes the routing key `{routing_key}`")
            }
            Self::Unroutable { routing_key } => {
                write!(f, "no level takes the routing key `{routing_key}`")
            }
            Self::Other { reason, queue } => write!(f, "{queue} gave it up: {reason}"),
        }
    }
}

/// Reasons that are counted one by one. What an effect says may be another text for each order.
const MOST: usize = 200;
/// Characters of a reason.
const LONGEST: usize = 200;

/// Messages by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    counted: BTreeMap<String, u64>,
    others: u64,
}

impl Reasons {
    /// One more message.
    pub fn add(&mut self, cause: &Cause) {
        let reason: String = cause.in_general().chars().take(LONGEST).collect();
        if self.counted.len() < MOST || self.counted.contains_key(&reason) {
            *self.counted.entry(reason).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// Messages in all.
    pub fn total(&self) -> u64 {
        self.counted.values().sum::<u64>() + self.others
    }

    /// The `most` frequent reasons, most frequent first, and how many messages have none of them.
    pub fn most_frequent(&self, most: usize) -> (Vec<(&str, u64)>, u64) {
        let mut sorted: Vec<(&str, u64)> =
            self.counted.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        sorted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        let rest = sorted.iter().skip(most).map(|(_, count)| count).sum::<u64>();
        sorted.truncate(most);
        (sorted, rest + self.others)
    }
}
