//! What forbids a plan, and what it leaves alone.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    draining::{RetiredExchange, count_of},
    step::Difference,
};
use crate::{
    diagnostic::exit_plugin,
    text::{counted, one_line},
};

/// Why a plan is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "because")]
pub enum Refusal {
    /// An exchange exists with other properties; it cannot be changed, and replacing it would lose what is
    /// published meanwhile.
    #[serde(rename = "exchange_differs")]
    Exchange {
        /// The exchange.
        exchange: String,
        /// Everything that differs.
        differences: Vec<Difference>,
        /// Whether it is of the delayed message plugin, which may hold messages in it.
        may_hold: bool,
    },
    /// A queue was named with `--discard` that is not the queue of a removed timeout.
    #[serde(rename = "queue_may_not_be_discarded")]
    Kept {
        /// The queue.
        queue: String,
    },
    /// A queue was named with `--discard`, and its messages cannot be counted now.
    #[serde(rename = "queue_cannot_be_discarded_yet")]
    NotCounted {
        /// The queue.
        queue: String,
        /// The exchange of the delayed message plugin that leads to the queue, if there is one; its messages have no counts by queue.
        exchange: Option<String>,
    },
    /// The virtual host takes fewer queues than the plan creates.
    #[serde(rename = "queue_limit")]
    QueueLimit {
        /// The virtual host's limit `max-queues`.
        limit: u64,
        /// Queues that it has, of everybody.
        existing: u64,
        /// Queues that the plan creates.
        created: u64,
    },
    /// The topology is to be removed, and messages wait in one of its queues.
    #[serde(rename = "messages_wait")]
    Waiting {
        /// The queue.
        queue: String,
        /// Messages in it; `null` where the broker has not counted them.
        messages: Option<u64>,
    },
    /// The topology is to be removed, and one of its queues has consumers.
    #[serde(rename = "queue_is_consumed")]
    Consumed {
        /// The queue.
        queue: String,
    },
    /// The topology is to be removed, and messages come from elsewhere to one of its queues.
    #[serde(rename = "queue_is_fed")]
    Fed {
        /// The queue.
        queue: String,
        /// An exchange of somebody else that it is bound to.
        exchange: String,
    },
    /// The topology is to be removed, and somebody else's messages go to one of its exchanges.
    #[serde(rename = "exchange_is_needed")]
    BlockedBy(RetiredExchange),
}

/// Something on the broker that a person should know of; the plan does nothing about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Note {
    /// A queue has the name and the dead letter exchange of one of ours, and no mark.
    Unmarked {
        /// The queue.
        queue: String,
        /// The exchange of our marks.
        exchange: String,
        /// The mark that would make it ours: the routing key of its binding.
        mark: String,
    },
    /// A policy changes what queues or exchanges do, also those that are to be created.
    Policy {
        /// Which one, e.g. `operator policy lim`.
        policy: String,
        /// What it sets, and where.
        message: String,
        /// What comes of it.
        reason: String,
        /// What to do.
        fix: String,
    },
    /// A queue would be retired, and somebody else consumes from it.
    Consumed {
        /// The queue.
        queue: String,
        /// How many consumers are not workers of ours.
        consumers: u64,
    },
    /// Another topology has queues here that nobody consumes: perhaps this one under its former name.
    Unused {
        /// The other topology.
        topology: String,
        /// Queues with its mark.
        queues: u64,
        /// Messages in them, as far as they are counted.
        messages: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange { exchange, differences, may_hold } => {
                write!(f, "! exchange  {exchange} exists with other properties")?;
                for difference in differences {
                    write!(f, "\n        {difference}")?;
                }
                if *may_hold {
                    return write!(
                        f,
                        "\n        it is of the delayed message plugin: what that holds would be lost, and bindings of others \
                         go with it.\n        Delete it only once it holds nothing. The steps, and what it holds: {}",
                        exit_plugin(exchange)
                    );
                }
                write!(
                    f,
                    "\n        RabbitMQ cannot change an exchange, and what is published while it is replaced would be \
                     lost:\n        stop the publishers, delete it (`overdue verify` prints the command), and apply \
                     again. Bindings of others\n        go with it, and apply does not restore them"
                )
            }
            Self::Kept { queue } => write!(
                f,
                "! queue     {queue} was named with --discard\n        only the queue of a timeout that is no longer in \
                 the topology can be discarded, and this queue is not one"
            ),
            Self::NotCounted { queue, exchange: Some(exchange) } => write!(
                f,
                "! queue     {queue} cannot be discarded yet: exchange {} may still delay messages for it, and the plugin would \
                 drop them uncounted\n        apply without --discard: the queue goes after that exchange",
                one_line(exchange)
            ),
            Self::NotCounted { queue, exchange: None } => write!(
                f,
                "! queue     {queue} cannot be discarded yet: the broker has not counted its messages\n        apply again in a \
                 minute"
            ),
            Self::QueueLimit { limit, existing, created } => write!(
                f,
                "! limit     the virtual host takes at most {limit} queues: it has {existing}, {created} are to be \
                 created, and the lock of apply is one more\n        raise it with `rabbitmqctl set_vhost_limits`, key max-queues, or choose fewer levels"
            ),
            Self::Waiting { queue, messages } => {
                write!(f, "! queue     {} holds {}", one_line(queue), count_of(*messages))
            }
            Self::Consumed { queue } => write!(
                f,
                "! queue     {} is consumed: stop the workers, which would make all of it again, or whoever else it is",
                one_line(queue)
            ),
            Self::Fed { queue, exchange } => write!(
                f,
                "! queue     {} is bound to exchange {}, which is not of this topology: unbind it",
                one_line(queue),
                one_line(exchange)
            ),
            Self::BlockedBy(RetiredExchange { exchange, needed }) => {
                write!(f, "! exchange  {}  {needed}", one_line(exchange))
            }
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmarked { queue, exchange, mark } => write!(
                f,
                "? queue     {}\n        it has the name of one of ours, and nothing says that overdue made it. If it is \
                 yours, nothing has to\n        be done; if it is a leftover, delete it, or bind it to {} by {} and \
                 apply again",
                one_line(queue),
                one_line(exchange),
                one_line(mark)
            ),
            Self::Policy { policy, message, reason, fix } => write!(
                f,
                "? {}  {}\n        {reason}\n        {}",
                one_line(policy),
                one_line(message),
                one_line(fix)
            ),
            Self::Consumed { queue, consumers } => write!(
                f,
                "? queue     {}\n        it is to be retired, and {} of another client {} from it: until they stop, it stays as it is, and bound",
                one_line(queue),
                counted(*consumers, "consumer"),
                if *consumers == 1 { "reads" } else { "read" }
            ),
            Self::Unused { topology, queues, messages } => write!(
                f,
                "? topology  {}\n        it has {} here with {}, and nobody consumes them: is it this one under its \
                 former name?",
                one_line(topology),
                counted(*queues, "queue"),
                counted(*messages, "message")
            ),
        }
    }
}
