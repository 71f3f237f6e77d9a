//! The broker objects that a topology becomes.

use std::collections::BTreeMap;

use super::{Timeout, Topology, file::QueueType, level::Level};
use crate::objects::{
    Argument, Binding, Exchange, Objects, Queue,
    mark::{exchange_mark, mark, mark_exchange, taken_over_mark},
    shard::{self, CONSISTENT_HASH},
};

impl Topology {
    /// `orders.in`, where order services publish.
    pub fn entry_exchange(&self) -> String {
        format!("{}.in", self.name)
    }

    /// `orders.again`, to which workers republish notices; the broker returns a message that no level takes.
    pub fn again_exchange(&self) -> String {
        format!("{}.again", self.name)
    }

    /// `orders.dlx`, which routes due messages.
    pub fn due_exchange(&self) -> String {
        format!("{}.dlx", self.name)
    }

    /// `orders.park`, the exchange in front of the parking lot.
    pub fn park_exchange(&self) -> String {
        format!("{}.park", self.name)
    }

    /// `orders.parked`, the parking lot.
    pub fn parked_queue(&self) -> String {
        format!("{}.parked", self.name)
    }

    /// `orders.events`, to which events are published.
    pub fn events_exchange(&self) -> String {
        format!("{}.events", self.name)
    }

    /// `orders.delayed`, the exchange that delays with the strategy `delayed-exchange`.
    pub fn delayed_exchange(&self) -> String {
        format!("{}.delayed", self.name)
    }

    /// `orders.owned`, to which every queue of the topology is bound as a mark. No message is published to it.
    pub fn mark_exchange(&self) -> String {
        mark_exchange(&self.name)
    }

    /// `orders.delay.30m`, the queue of a level.
    pub fn delay_queue(&self, level: &Level) -> String {
        format!("{}.delay.{}", self.name, level.name())
    }

    /// Whether a queue is a delay queue, of any level and generation. `orders.ladder.2` is none: it is the second generation
    /// of the queue of a timeout `ladder`.
    pub(super) fn is_delay_queue(&self, queue: &str) -> bool {
        let Some(rest) = queue.strip_prefix(&self.name) else { return false };
        let digit = || Some(rest.strip_prefix(".ladder.")?.split_once("delay.")?.1);
        let hold = rest.strip_prefix(".delay.").or_else(digit);
        let word = |hold: &str| hold.split('.').next().and_then(shard::number);
        hold.is_some_and(|hold| hold.parse::<u32>().is_err() && word(hold).is_none())
    }

    /// The delay queues, each with its level.
    pub fn delay_queues(&self) -> impl Iterator<Item = (&Level, String)> {
        self.levels.iter().map(|level| (level, self.delay_queue(level)))
    }

    /// `orders.unpaid`, the business queue of a timeout; the names of its shards begin with it.
    pub fn business_queue(&self, timeout: &Timeout) -> String {
        format!("{}.{}", self.name, timeout.name)
    }

    /// The business queues of a timeout: `orders.unpaid`, or its shards `orders.unpaid.shard-0` and so on.
    pub fn business_queues(&self, timeout: &Timeout) -> Vec<String> {
        let base = self.business_queue(timeout);
        match timeout.shards {
            None => vec![base],
            Some(shards) => (0..shards).map(|number| shard::queue(&base, number)).collect(),
        }
    }

    /// The business queues of all timeouts.
    pub(crate) fn all_business_queues(&self) -> impl Iterator<Item = String> {
        self.timeouts.iter().flat_map(|timeout| self.business_queues(timeout))
    }

    /// `orders.unpaid.shards`, the exchange that distributes the messages to the shards.
    pub(crate) fn shards_exchange(&self, timeout: &Timeout) -> String {
        shard::exchange(&self.business_queue(timeout))
    }

    /// The timeout in front of whose shards an exchange is.
    pub(crate) fn sharded_by(&self, exchange: &str) -> Option<&Timeout> {
        let base = shard::of_exchange(exchange)?;
        self.timeouts.iter().find(|timeout| self.business_queue(timeout) == base)
    }

    /// `30m.unpaid`, the routing key that sends a notice for a timeout through a level.
    pub fn routing_key(level: &Level, timeout: &Timeout) -> String {
        format!("{}.{}", level.name(), timeout.name)
    }

    /// `orders.apply.lock`, which exists while a program changes the topology; it is not part of the topology.
    pub fn lock_queue(&self) -> String {
        format!("{}.apply.lock", self.name)
    }

    /// `orders.parked.lock`, which exists while a program takes messages out of the parking lot; it is not part of the
    /// topology.
    pub(crate) fn parking_lock_queue(&self) -> String {
        format!("{}.lock", self.parked_queue())
    }

    /// `orders.rebuild.lock`, which exists while a program publishes the notices again; it is not part of the topology.
    pub(crate) fn rebuild_lock_queue(&self) -> String {
        format!("{}.rebuild.lock", self.name)
    }

    /// All exchanges, queues and bindings of this topology.
    pub fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        self.parking_lot(&mut objects);
        self.due_side(&mut objects);
        self.delay_side(&mut objects);
        self.compat_side(&mut objects);
        self.marks(&mut objects);
        objects
    }

    /// The parking lot has no TTL, no dead letter exchange and no delivery limit, so that reading a message never drops it.
    fn parking_lot(&self, objects: &mut Objects) {
        objects.exchange(&self.park_exchange(), "fanout", None);
        let arguments = match self.queue_type {
            QueueType::Quorum => vec![("x-delivery-limit", Argument::Integer(-1))],
            QueueType::Classic => Vec::new(),
        };
        objects.queue(self, &self.parked_queue(), arguments);
        objects.bind(&self.park_exchange(), &self.parked_queue(), "");
    }

    /// The exchange for due messages and the business queues. The alternate exchange parks an unroutable message, which would
    /// otherwise stop its level.
    fn due_side(&self, objects: &mut Objects) {
        let park = self.park_exchange();
        objects.exchange(&self.due_exchange(), "topic", Some(&park));
        objects.exchange(&self.events_exchange(), "topic", None);
        for timeout in &self.timeouts {
            let mut arguments = self.dead_lettering(&park);
            if self.queue_type == QueueType::Quorum {
                arguments.push(("x-delivery-limit", Argument::Integer(self.delivery_limit)));
            }
            for queue in self.business_queues(timeout) {
                objects.queue(self, &queue, arguments.clone());
            }
            let (due, pattern) = (self.due_exchange(), format!("#.{}", timeout.name));
            if timeout.shards.is_some() {
                self.shards(timeout, objects);
                objects.bind_exchange(&due, &self.shards_exchange(timeout), &pattern);
            } else {
                objects.bind(&due, &self.business_queue(timeout), &pattern);
            }
        }
    }

    /// The exchange in front of the shards of a timeout. It also routes a message without a `message-id` to one of them.
    fn shards(&self, timeout: &Timeout, objects: &mut Objects) {
        let exchange = self.shards_exchange(timeout);
        let arguments = vec![
            ("alternate-exchange", self.park_exchange().as_str().into()),
            ("hash-property", "message_id".into()),
        ];
        objects.exchange_with(&exchange, CONSISTENT_HASH, arguments);
        for queue in self.business_queues(timeout) {
            // The weight of the queue: all shards get equal parts.
            objects.bind(&exchange, &queue, "1");
        }
    }

    /// Marks the queues of the topology, and the exchanges that exist only with some strategies.
    fn marks(&self, objects: &mut Objects) {
        objects.exchange(&self.mark_exchange(), "direct", None);
        let queues = objects.queues.keys().filter_map(|queue| mark(&self.name, queue));
        let exchanges = objects.exchanges.keys().filter_map(|name| self.exchange_mark(name));
        let marks: Vec<Binding> = queues.chain(exchanges).collect();
        objects.bindings.extend(marks);
    }

    /// The mark of an exchange that exists only with some strategies; `None` for other exchanges.
    pub fn exchange_mark(&self, exchange: &str) -> Option<Binding> {
        if self.compat.as_ref().is_some_and(|compat| compat.exchange == exchange) {
            return Some(taken_over_mark(&self.name, exchange));
        }
        exchange_mark(&self.name, exchange)
    }

    /// Both exchanges exist with every strategy. The broker parks messages that publishers of another topology still send to
    /// the first, and returns those messages from the second.
    fn delay_side(&self, objects: &mut Objects) {
        objects.exchange(&self.entry_exchange(), "topic", Some(&self.park_exchange()));
        objects.exchange(&self.again_exchange(), "topic", None);
        self.declare_delays(objects);
    }

    /// At-least-once dead-lettering needs all three arguments. Without reject-publish the broker silently falls back to
    /// at-most-once (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>). Classic queues have only the first
    /// argument.
    pub(super) fn dead_lettering(&self, exchange: &str) -> Vec<(&'static str, Argument)> {
        let mut arguments = vec![("x-dead-letter-exchange", Argument::from(exchange))];
        if self.queue_type == QueueType::Quorum {
            arguments.push(("x-dead-letter-strategy", "at-least-once".into()));
            arguments.push(("x-overflow", "reject-publish".into()));
        }
        arguments
    }
}

impl Objects {
    pub(super) fn exchange(&mut self, name: &str, kind: &str, alternate: Option<&str>) {
        let alternate = alternate.map(|exchange| ("alternate-exchange", exchange.into()));
        self.exchange_with(name, kind, alternate.into_iter().collect());
    }

    pub(super) fn exchange_with(
        &mut self,
        name: &str,
        kind: &str,
        arguments: Vec<(&str, Argument)>,
    ) {
        let exchange = Exchange {
            name: name.to_owned(),
            kind: kind.to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        };
        self.exchanges.insert(name.to_owned(), exchange);
    }

    pub(super) fn queue(
        &mut self,
        topology: &Topology,
        name: &str,
        arguments: Vec<(&str, Argument)>,
    ) {
        let queue = Queue {
            name: name.to_owned(),
            kind: topology.queue_type.as_str().to_owned(),
            durable: true,
            auto_delete: false,
            exclusive: false,
            arguments: arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        };
        self.queues.insert(name.to_owned(), queue);
    }

    pub(super) fn bind(&mut self, source: &str, destination: &str, routing_key: &str) {
        self.bindings.insert(Binding {
            source: source.to_owned(),
            destination: destination.to_owned(),
            to_queue: true,
            routing_key: routing_key.to_owned(),
            arguments: BTreeMap::new(),
        });
    }
}
