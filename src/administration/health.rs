//! Facts about the broker for `overdue doctor`. Makes every request that it can; changes nothing.

mod api;

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use super::Management;
use crate::{
    doctor::facts::{AmqpConnection, BrokerFacts, Encryption, is_loopback},
    messaging::{BrokerAddress, ConnectError, PublishError, Publisher},
    wire::Message,
};

/// A publish without an answer within this time counts as blocked.
const ANSWER: Duration = Duration::from_secs(5);

/// Facts by AMQP and by the management API; `now` is this machine's clock.
pub(crate) async fn facts(address: &BrokerAddress, now: fn() -> Timestamp) -> BrokerFacts {
    let management = Management::new(address);
    let (connection, api) = tokio::join!(connection(address), api::facts(&management, now));
    BrokerFacts {
        address: address.to_string(),
        user: address.user().to_owned(),
        virtual_host: address.virtual_host().to_owned(),
        tls: address.tls.as_ref().map_or(Encryption::None, |tls| tls.verification.into()),
        loopback: address.hosts().all(is_loopback),
        connection,
        api,
    }
}

/// Connects, and publishes an unroutable message: only a publish shows that the broker blocks.
async fn connection(address: &BrokerAddress) -> AmqpConnection {
    let publisher = match Publisher::connect(address, "overdue doctor").await {
        Ok(publisher) => publisher,
        Err(error) => return refusal(&error),
    };
    AmqpConnection::Open { answers: answers(&publisher).await }
}

/// Whether the broker answers a publish. The default exchange returns the message: no queue has the name of its routing key.
/// If the user may not write to the exchange, the broker refuses the message and closes the channel, which is an answer.
async fn answers(publisher: &Publisher) -> bool {
    // Even under an alarm the broker takes the first message of a connection, and blocks the connection after it.
    for message_id in ["overdue.doctor.1", "overdue.doctor.2"] {
        let message = Message {
            routing_key: "overdue.doctor.nowhere".to_owned(),
            message_id: message_id.to_owned(),
            ..Message::default()
        };
        match timeout(ANSWER, publisher.publish(message)).await {
            Ok(Ok(()) | Err(PublishError::Returned { .. } | PublishError::Refused { .. })) => {}
            Ok(Err(
                PublishError::NotPermitted { .. }
                | PublishError::RoutingKeyNotPermitted { .. }
                | PublishError::Unknown { channel_ended: true, .. },
            )) => return true,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    true
}

fn refusal(error: &ConnectError) -> AmqpConnection {
    let text = error.to_string();
    match error {
        ConnectError::Unreachable { source, .. } => {
            AmqpConnection::Unreachable(format!("{text} ({source})"))
        }
        ConnectError::Full { .. } => AmqpConnection::Full(text),
        ConnectError::Silent { .. }
        | ConnectError::NotAmqp { .. }
        | ConnectError::OtherProduct { .. }
        | ConnectError::Tls { .. } => AmqpConnection::Unreachable(text),
        ConnectError::Login { .. } => AmqpConnection::LoginRefused(text),
        ConnectError::NoVirtualHost { .. } | ConnectError::NotAllowed { .. } => {
            AmqpConnection::NoVirtualHost(text)
        }
    }
}
