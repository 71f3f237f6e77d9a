//! Which broker answers: others speak AMQP 0-9-1, too, and have no quorum queues, or no dead letters at least once.

/// The broker says in its first frame that it is another product.
#[derive(Debug, thiserror::Error)]
#[error("the broker is {0}, and not RabbitMQ")]
pub(super) struct OtherProduct(pub(super) String);

/// What precedes the name in the properties of the server: the key with its length, and the type of a long string.
const KEY: &[u8] = b"\x07productS";
/// A name is not longer.
const NAME_BYTES: usize = 100;

/// The product that the first bytes of a connection name, if it is another one. RabbitMQ's distributions have its name in theirs.
pub(super) fn other(first: &[u8]) -> Option<OtherProduct> {
    let at = first.windows(KEY.len()).position(|it| it == KEY)? + KEY.len();
    let (length, rest) = first.get(at..)?.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let name = rest.get(..length.min(NAME_BYTES))?;
    let name = String::from_utf8_lossy(name).into_owned();
    (!is_rabbitmq(&name)).then_some(OtherProduct(name))
}

/// Whether a product is RabbitMQ, by its name.
pub(crate) fn is_rabbitmq(product: &str) -> bool {
    product.to_ascii_lowercase().contains("rabbitmq")
}
