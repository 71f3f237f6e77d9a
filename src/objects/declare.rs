//! Exchanges, queues and bindings as this program declares them: durable, and for everybody.

use super::{Argument, Arguments, Binding, Exchange, Objects, Queue};

impl Exchange {
    /// A topic exchange that loses nothing: what no binding matches goes to `alternate`.
    pub(crate) fn topic_with_alternate(name: String, alternate: &str) -> Self {
        let arguments = [("alternate-exchange".to_owned(), alternate.into())];
        let kind = "topic".to_owned();
        Self { name, kind, durable: true, auto_delete: false, arguments: arguments.into() }
    }
}

impl Queue {
    /// A queue that keeps each message for `ttl_ms` and then sends it to `exchange` with the routing key it came with.
    ///
    /// At-least-once needs all three arguments; without reject-publish the broker silently falls back to
    /// at-most-once (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>). Classic queues have only the first.
    pub(crate) fn delaying(name: String, ttl_ms: i64, exchange: &str, quorum: bool) -> Self {
        let mut arguments = Arguments::from([
            ("x-dead-letter-exchange".to_owned(), exchange.into()),
            ("x-message-ttl".to_owned(), Argument::Integer(ttl_ms)),
        ]);
        if quorum {
            arguments.insert("x-dead-letter-strategy".to_owned(), "at-least-once".into());
            arguments.insert("x-overflow".to_owned(), "reject-publish".into());
        }
        let kind = if quorum { "quorum" } else { "classic" }.to_owned();
        Self { name, kind, durable: true, auto_delete: false, exclusive: false, arguments }
    }
}

impl Objects {
    /// Binds a queue to the exchange `source`.
    pub(crate) fn bind_queue(&mut self, source: &str, queue: &str, pattern: &str) {
        self.bindings.insert(plain(source, queue, pattern, true));
    }

    /// Binds the exchange `destination` to the exchange `source`.
    pub(crate) fn bind_exchange(&mut self, source: &str, destination: &str, pattern: &str) {
        self.bindings.insert(plain(source, destination, pattern, false));
    }
}

fn plain(source: &str, destination: &str, pattern: &str, to_queue: bool) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue,
        routing_key: pattern.to_owned(),
        arguments: Arguments::new(),
    }
}
