//! Detects other brokers with AMQP 0-9-1, which lack quorum queues or at-least-once dead-lettering.

/// The broker's first frame names another product.
#[derive(Debug, thiserror::Error)]
#[error("the broker is {0}, and not RabbitMQ")]
pub(super) struct OtherProduct(pub(super) String);

/// The bytes before the name in the server's properties: the key with its length, and the type of a long string.
const KEY: &[u8] = b"\x07productS";
/// The longest product name that is read, in bytes.
const NAME_BYTES: usize = 100;

/// The product in the first bytes of a connection, unless it is RabbitMQ. The names of RabbitMQ's distributions contain its name.
pub(super) fn other(first: &[u8]) -> Option<OtherProduct> {
    let at = first.windows(KEY.len()).position(|it| it == KEY)? + KEY.len();
    let (length, rest) = first.get(at..)?.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let name = rest.get(..length.min(NAME_BYTES))?;
    let name = String::from_utf8_lossy(name).into_owned();
    (!is_rabbitmq(&name)).then_some(OtherProduct(name))
}

/// Whether the name of a product contains RabbitMQ.
pub(crate) fn is_rabbitmq(product: &str) -> bool {
    product.to_ascii_lowercase().contains("rabbitmq")
}
