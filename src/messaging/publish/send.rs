//! Hands a message to the connection.

use std::{pin::pin, time::Duration};

use lapin::{BasicProperties, Channel, ConnectionStatus, options::BasicPublishOptions};
use tokio::time::timeout;

use super::{error::PublishError, sent::Sent};
use crate::{
    text::length,
    wire::{Message, PERSISTENT, Properties},
};

/// Publishes persistent, and mandatory if possible; the confirm comes later. With `waits`, waits while the broker blocks the
/// connection.
pub(super) async fn send(
    channel: &Channel,
    status: &ConnectionStatus,
    message: Box<Message>,
    sent: &Sent,
    (waits, within): (bool, Duration),
) -> Result<lapin::PublisherConfirm, PublishError> {
    let Message {
        exchange,
        routing_key,
        message_id,
        content_type,
        headers,
        properties,
        body,
        needs_no_route,
    } = *message;
    let mut properties = encoded(properties).with_headers(headers);
    if !message_id.is_empty() {
        properties = properties.with_message_id(message_id.as_str().into());
    }
    if let Some(content_type) = content_type {
        properties = properties.with_content_type(content_type.into());
    }
    // Without `mandatory`, the broker confirms and drops an unroutable message.
    let mandatory = !needs_no_route;
    let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
    let mut publishing = pin!(channel.basic_publish(
        exchange.into(),
        routing_key.into(),
        options,
        &body,
        properties
    ));
    let handed = loop {
        let handed = timeout(within, &mut publishing).await;
        if handed.is_ok() || !(waits && status.blocked() && status.connected()) {
            break handed;
        }
    };
    match handed {
        Ok(Ok(confirm)) => Ok(confirm),
        Ok(Err(error)) => Err(match sent.lost(&error) {
            PublishError::Unknown { message_id, reason, .. } => {
                PublishError::Disconnected { message_id, reason }
            }
            named => named,
        }),
        Err(_elapsed) if status.blocked() => Err(PublishError::Blocked { message_id }),
        Err(_elapsed) => {
            let reason = format!("the connection took no frame for {}", length(within));
            Err(sent.unknown(reason))
        }
    }
}

/// A persistent message with the properties that are passed on.
fn encoded(properties: Properties) -> BasicProperties {
    let mut encoded = BasicProperties::default().with_delivery_mode(PERSISTENT);
    if let Some(encoding) = properties.content_encoding {
        encoded = encoded.with_content_encoding(encoding.into());
    }
    if let Some(priority) = properties.priority {
        encoded = encoded.with_priority(priority);
    }
    if let Some(id) = properties.correlation_id {
        encoded = encoded.with_correlation_id(id.into());
    }
    if let Some(reply_to) = properties.reply_to {
        encoded = encoded.with_reply_to(reply_to.into());
    }
    if let Some(expiration) = properties.expiration {
        encoded = encoded.with_expiration(expiration.into());
    }
    if let Some(seconds) = properties.timestamp_s {
        encoded = encoded.with_timestamp(seconds);
    }
    if let Some(kind) = properties.kind {
        encoded = encoded.with_type(kind.into());
    }
    if let Some(app) = properties.app_id {
        encoded = encoded.with_app_id(app.into());
    }
    encoded
}
