//! Shards: several queues that share the messages of one timeout, behind an exchange that hashes.
//!
//! `orders.unpaid.2` is the second generation of `orders.unpaid`, so shards are called `orders.unpaid.shard-0` and so on: no
//! part of that name between two dots is a number, and `orders.unpaid.shard-0.2` is a generation like every other.

/// The exchange type of the plugin `rabbitmq_consistent_hash_exchange`, which comes with RabbitMQ.
pub const CONSISTENT_HASH: &str = "x-consistent-hash";

/// The plugin, and what to do where it is off.
pub(crate) const CONSISTENT_HASH_PLUGIN: &str = "rabbitmq_consistent_hash_exchange";
pub(crate) const ENABLE_CONSISTENT_HASH: &str = "it comes with RabbitMQ: rabbitmq-plugins enable rabbitmq_consistent_hash_exchange, on every node; or take \
     shards out of the topology file (docs/topology.md#shards)";

/// The most shards of one timeout: a consumer each, in each worker, on a connection of its own.
pub const MAX_SHARDS: u16 = 64;

const QUEUE: &str = "shard-";
const EXCHANGE: &str = ".shards";

/// `orders.unpaid.shard-0`, a shard of `orders.unpaid`.
pub(crate) fn queue(base: &str, shard: u16) -> String {
    format!("{base}.{QUEUE}{shard}")
}

/// `orders.unpaid.shards`, the exchange in front of them.
pub(crate) fn exchange(base: &str) -> String {
    format!("{base}{EXCHANGE}")
}

/// The timeout's queue, e.g. `orders.unpaid`, that the exchange of its shards is called after.
pub(crate) fn of_exchange(exchange: &str) -> Option<&str> {
    exchange.strip_suffix(EXCHANGE)
}

/// The number in `shard-0`.
pub(crate) fn number(word: &str) -> Option<u16> {
    let digits = word.strip_prefix(QUEUE)?;
    let number: u16 = digits.parse().ok()?;
    // One spelling per shard.
    (number < MAX_SHARDS && number.to_string() == digits).then_some(number)
}
