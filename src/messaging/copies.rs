//! A queue that gets copies of published messages, in addition to the queues that get the originals.

use lapin::{
    Channel,
    options::{QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};

use super::{Link, consume::ConsumeError};

/// Declares an exclusive queue, and binds it to each exchange by a routing key. The broker deletes the queue with the connection, so
/// that later it takes no message that would otherwise be parked or returned.
///
/// Permission needed: configure and write on the queue, read on the exchanges; and read on the queue for its consumer.
pub(crate) async fn declare<'a>(
    link: &Link,
    queue: &str,
    arguments: FieldTable,
    bindings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Channel, ConsumeError> {
    let failed = |step| move |source| ConsumeError::failed(queue, step, source);
    let channel = link.channel().await.map_err(failed("open a channel"))?;
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare(queue.into(), options, arguments);
    link.answered(declaring).await.map_err(failed("declare"))?;
    for (exchange, key) in bindings {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let binding = channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none);
        link.answered(binding).await.map_err(failed("bind"))?;
    }
    Ok(channel)
}
