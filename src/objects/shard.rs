//! Shards: queues that share the messages of one timeout, behind a hash exchange.
//!
//! `orders.unpaid.2` is the second generation of `orders.unpaid`, so shards are called `orders.unpaid.shard-0` and so on. No
//! part of that name between two dots is a number, and `orders.unpaid.shard-0.2` is a usual generation.

/// The exchange type of the plugin `rabbitmq_consistent_hash_exchange`, which comes with RabbitMQ.
pub const CONSISTENT_HASH: &str = "x-consistent-hash";

/// The plugin, and how to enable it.
pub(crate) const CONSISTENT_HASH_PLUGIN: &str = "rabbitmq_consistent_hash_exchange";
pub(crate) const ENABLE_CONSISTENT_HASH: &str = "it comes with RabbitMQ: rabbitmq-plugins enable rabbitmq_consistent_hash_exchange, on every node; or take \
     shards out of the topology file (docs/topology.md#shards)";

/// The most shards of one timeout: each needs a consumer with its own connection in each worker.
pub const MAX_SHARDS: u16 = 64;

const QUEUE: &str = "shard-";
const EXCHANGE: &str = ".shards";

/// `orders.unpaid.shard-0`, a shard of `orders.unpaid`.
pub(crate) fn queue(base: &str, shard: u16) -> String {
    format!("{base}.{QUEUE}{shard}")
}

/// `orders.unpaid.shards`, the exchange in front of the shards.
pub(crate) fn exchange(base: &str) -> String {
    format!("{base}{EXCHANGE}")
}

/// The timeout's queue, e.g. `orders.unpaid`, from the name of its shards' exchange.
pub(crate) fn of_exchange(exchange: &str) -> Option<&str> {
    exchange.strip_suffix(EXCHANGE)
}

/// The number in `shard-0`.
pub(crate) fn number(word: &str) -> Option<u16> {
    let digits = word.strip_prefix(QUEUE)?;
    let number: u16 = digits.parse().ok()?;
    // Each shard has one spelling.
    (number < MAX_SHARDS && number.to_string() == digits).then_some(number)
}
