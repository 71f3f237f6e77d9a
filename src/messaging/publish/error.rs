//! Errors of a message that was not confirmed.

/// The reason why a message was not confirmed.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum PublishError {
    /// No queue is bound for the message; the broker returned it.
    #[error(
        "message {message_id} was returned by exchange `{exchange}`: {reason} (routing key `{routing_key}`)"
    )]
    Returned {
        message_id: String,
        exchange: String,
        routing_key: String,
        /// The broker's reply text, e.g. `NO_ROUTE`.
        reason: String,
    },
    /// The broker rejected the message (a queue is full or not reachable): it may be published again.
    #[error(
        "message {message_id} was refused by the broker (basic.nack): a queue is full or has no leader (routing key \
         `{routing_key}`, exchange `{exchange}`)"
    )]
    Refused { message_id: String, exchange: String, routing_key: String },
    /// The exchange does not exist, so the broker closed the channel.
    #[error(
        "message {message_id} was not confirmed: the broker has no exchange `{exchange}`; declare the topology \
         with `overdue apply`"
    )]
    NoExchange { message_id: String, exchange: String },
    /// The user may not write to the exchange, so the broker closed the channel.
    #[error("message {message_id} was not confirmed: {reason}")]
    NotPermitted {
        message_id: String,
        /// The broker's text, which names the user and the exchange.
        reason: String,
    },
    /// The user may not write with this routing key (a topic permission), so the broker closed the channel.
    #[error("message {message_id} was not confirmed: {reason}")]
    RoutingKeyNotPermitted {
        message_id: String,
        /// The broker's text, which names the user, the exchange and the routing key.
        reason: String,
    },
    /// AMQP cannot encode the message, or RabbitMQ would close the channel for it; it was not sent.
    #[error("message {message_id} cannot be sent: {reason}")]
    Unencodable { message_id: String, reason: String },
    /// The broker has blocked the connection; the message was not sent.
    #[error(
        "the broker has blocked this connection (memory or disk alarm); message {message_id} was not sent"
    )]
    Blocked { message_id: String },
    /// The message was sent, and there was no answer: it may have arrived. Publishing it again is safe.
    #[error(
        "message {message_id} was sent and not confirmed: {reason}; it may or may not have arrived"
    )]
    Unknown {
        message_id: String,
        reason: String,
        /// The broker closed the channel and not the connection; if only one message was on it, that message is the cause.
        channel_ended: bool,
    },
    /// The connection or channel is closed; the message was not sent.
    #[error("the publishing connection is gone: {reason}; message {message_id} was not sent")]
    Disconnected { message_id: String, reason: String },
}

impl PublishError {
    /// Chooses the error with the cause among failures on one connection. The errors of other messages on the channel only report
    /// that the channel is closed.
    pub(crate) fn that_says_why(kept: Option<Self>, other: Self) -> Self {
        match kept {
            Some(kept) if !kept.says_little() || other.says_little() => kept,
            _ => other,
        }
    }

    /// Whether the broker closed the channel; false for a lost connection.
    pub(crate) const fn ended_channel(&self) -> bool {
        matches!(self, Self::Unknown { channel_ended: true, .. })
    }

    /// Whether the error only reports a closed channel, and not which message is the cause.
    pub(crate) const fn says_little(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Disconnected { .. })
    }
}
