//! Why a message is in the parking lot, also if the broker dead-lettered it there and no worker wrote a reason.

use std::{collections::BTreeMap, fmt};

use crate::{
    topology::Topology,
    wire::{MAX_BODY_BYTES, Parked, Received, Unreadable},
};

/// Why a message is in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The reason that a worker wrote, or the reason why the body cannot be read.
    Written(String),
    /// The worker rejected the message, because its body or its headers are too large to keep.
    TooLarge {
        /// Bytes of the body, or of memory that its headers take.
        bytes: usize,
    },
    /// The worker rejected the message without a copy, because too many copies waited for a confirm.
    Rejected {
        /// Business queue that the message was in.
        queue: String,
    },
    /// The broker delivered the message again and again, and no worker settled it: workers died while they had it.
    DeliveryLimit {
        /// Business queue that the message was in.
        queue: String,
    },
    /// The queue was full and dropped the message.
    Full {
        /// The full queue.
        queue: String,
    },
    /// The message was due, and no queue is bound for its routing key.
    DueUnroutable {
        /// Level that the message comes from.
        queue: String,
        /// Routing key of the message.
        routing_key: String,
    },
    /// No queue is bound for the routing key that the message was published with.
    Unroutable {
        /// Routing key of the message.
        routing_key: String,
    },
    /// The broker gave another reason.
    Other {
        /// The broker's word for the reason.
        reason: String,
        /// Queue that dead-lettered the message.
        queue: String,
    },
}

impl Cause {
    /// Derives the cause from headers and body.
    pub(super) fn of(topology: &Topology, received: &Received, parked: &Parked) -> Self {
        // The headers are left out together with the body.
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

    /// Text that all messages with this cause share: without sizes and routing keys.
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

/// Reasons that are counted separately. The error text of an effect may differ for each order.
const MOST: usize = 200;
/// Characters of a reason that are compared.
const LONGEST: usize = 200;

/// Counts messages by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    counted: BTreeMap<String, u64>,
    others: u64,
}

impl Reasons {
    /// Counts a message.
    pub fn add(&mut self, cause: &Cause) {
        let reason: String = cause.in_general().chars().take(LONGEST).collect();
        if self.counted.len() < MOST || self.counted.contains_key(&reason) {
            *self.counted.entry(reason).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// Number of all messages.
    pub fn total(&self) -> u64 {
        self.counted.values().sum::<u64>() + self.others
    }

    /// The `most` most frequent reasons, most frequent first, and the number of messages with other reasons.
    pub fn most_frequent(&self, most: usize) -> (Vec<(&str, u64)>, u64) {
        let mut sorted: Vec<(&str, u64)> =
            self.counted.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        sorted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        let rest = sorted.iter().skip(most).map(|(_, count)| count).sum::<u64>();
        sorted.truncate(most);
        (sorted, rest + self.others)
    }
}
