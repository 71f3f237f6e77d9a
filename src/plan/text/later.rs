//! What a plan leaves for later, or alone, as a person reads it.

use std::fmt::{self, Write};

use crate::{
    plan::{Draining, Drains, Needed, Note, RetiredExchange, count_of, waiting::Progress},
    text::{OneLine, counted, one_line},
    topology::level::Ttl,
};

impl fmt::Display for Draining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        write!(f, "~ queue     {}  {} {}", self.queue, count_of(self.messages), self.drains)
    }
}

impl fmt::Display for RetiredExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        write!(f, "~ exchange  {}  {}", self.exchange, self.needed)
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Holds { messages: Some(messages) } => write!(
                f,
                "{} in the delayed message plugin, to come out when due; it stays bound until then",
                counted(*messages, "message")
            ),
            Self::Holds { messages: None } => f.write_str(
                "an unknown number of messages in the delayed message plugin: each node of a cluster counts its own, and \
                 deleting the exchange would lose them. Once `rabbitmqctl list_exchanges name messages_delayed` says 0 \
                 on every node, delete it by hand",
            ),
            Self::DeadLetters { queue } => write!(f, "queue {queue} still leads to it"),
            Self::Bound { exchange } => write!(f, "exchange {exchange} is bound to it"),
        }
    }
}

/// Reads on after a count: `3 messages to come out …`.
impl fmt::Display for Drains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::WhenDue { within } => {
                write!(f, "to come out when due, the last within {}", about(*within))
            },
            Self::AlongTheLadder { within } => write!(
                f,
                "to go on along its ladder; the last comes to the next place within {within}, and until then what \
                 waits before it finds its way"
            ),
            Self::Consumed => f.write_str("for the workers to consume"),
            Self::Unconsumed { queue } => write!(
                f,
                "that no worker with this topology consumes: let one with the old topology finish, or lose them \
                 with --discard {queue}"
            ),
            Self::Leaving { in_levels } => write!(
                f,
                "for workers with the old topology to consume; it stays bound until what waits for it in the levels \
                 has come out ({} for all timeouts)",
                count_of(*in_levels)
            ),
            Self::Parked => f.write_str("for a person to look at"),
            Self::Never => f.write_str("with no TTL to come out by"),
            Self::Elsewhere { exchange: Some(exchange) } => {
                write!(f, "to be dead-lettered to exchange {exchange}, as before")
            }
            Self::Elsewhere { exchange: None } => f.write_str(
                "to be DROPPED by the broker when due, as before: the queue has no dead letter exchange",
            ),
            Self::Fed { exchange } => {
                write!(f, "and more to come from exchange {exchange}, which is not ours")
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
            Self::Consumed { queue, consumers } => write!(
                f,
                "? queue     {}\n        it is no longer in use here, and {} of somebody else {} from it",
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

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = |Draining { queue, messages, drains }: &Draining| {
            format!("{queue} has {} {drains}", count_of(*messages))
        };
        let exchange = |it: &RetiredExchange| format!("{}: {}", it.exchange, it.needed);
        let queues = self.queues.iter().map(queue);
        let all: Vec<String> = queues.chain(self.exchanges.iter().map(exchange)).collect();
        f.write_str(&all.join("; "))
    }
}

/// Seconds of lead are of no interest to who waits for minutes.
fn about(within: Ttl) -> Ttl {
    match within.as_millis() {
        ms @ 600_000.. => Ttl::from_millis(ms.next_multiple_of(60_000)).unwrap_or(within),
        ms @ 10_000.. => Ttl::from_millis(ms.next_multiple_of(1_000)).unwrap_or(within),
        _ => within,
    }
}
