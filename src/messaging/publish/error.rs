//! What can become of a message that was not confirmed.

/// What can become of a message that was not confirmed.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum PublishError {
    /// No queue is bound for it; the broker gave it back.
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
    /// The broker took no responsibility (a queue is full or cannot be reached): it may be published again.
    #[error(
        "message {message_id} was refused by the broker (basic.nack): a queue is full or has no leader (routing key \
         `{routing_key}`, exchange `{exchange}`)"
    )]
    Refused { message_id: String, exchange: String, routing_key: String },
    /// The exchange is not there, so the broker closed the channel.
    #[error(
        "message {message_id} was not confirmed: the broker has no exchange `{exchange}`; declare the topology \
         with `overdue apply`"
    )]
    NoExchange { message_id: String, exchange: String },
    /// The user may not write to the exchange, so the broker closed the channel.
    #[error("message {message_id} was not confirmed: {reason}")]
    NotPermitted {
        message_id: String,
        /// What the broker said: which user, which exchange.
        reason: String,
    },
    /// The user may not write with this routing key (a topic permission), so the broker closed the channel.
    #[error("message {message_id} was not confirmed: {reason}")]
    RoutingKeyNotPermitted {
        message_id: String,
        /// What the broker said: which user, which exchange, which routing key.
        reason: String,
    },
    /// AMQP has no room for it, or RabbitMQ would end the channel for it; nothing was sent.
    #[error("message {message_id} cannot be sent: {reason}")]
    Unencodable { message_id: String, reason: String },
    /// The broker has blocked the connection; the message was not sent.
    #[error(
        "the broker has blocked this connection (memory or disk alarm); message {message_id} was not sent"
    )]
    Blocked { message_id: String },
    /// It was sent and nothing came back: it may or may not be there. Publishing it again is safe.
    #[error(
        "message {message_id} was sent and not confirmed: {reason}; it may or may not have arrived"
    )]
    Unknown {
        message_id: String,
        reason: String,
        /// The broker has ended the channel, and not the connection: what was alone on it is the cause.
        channel_ended: bool,
    },
    /// The connection or channel is gone; the message was not sent.
    #[error("the publishing connection is gone: {reason}; message {message_id} was not sent")]
    Disconnected { message_id: String, reason: String },
}

impl PublishError {
    /// Of the failures on one connection the one that says why: what shared its channel knows only that it is gone.
    pub(crate) fn that_says_why(kept: Option<Self>, other: Self) -> Self {
        match kept {
            Some(kept) if !kept.says_little() || other.says_little() => kept,
            _ => other,
        }
    }

    /// Whether the broker has ended its channel, which a lost connection does not say.
    pub(crate) const fn ended_channel(&self) -> bool {
        matches!(self, Self::Unknown { channel_ended: true, .. })
    }

    /// Whether it is known only that the channel is gone, and not which message is the cause.
    pub(crate) const fn says_little(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Disconnected { .. })
    }
}
