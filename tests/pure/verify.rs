//! `overdue verify` on made-up readings: a healthy broker with one edit, and the findings.

mod objects;
mod probe;
mod readings;
mod strategies;

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write},
};

use overdue::internals::{
    diagnostic::{Diagnostic, Target},
    objects::{Argument, Binding, Exchange, Objects},
    plan::{QueueStats, Snapshot},
    topology::Topology,
    verify::{check, findings},
};

/// The time of the readings.
pub(crate) const NOW: jiff::Timestamp = jiff::Timestamp::constant(1_795_600_000, 0);

/// Edits of a healthy broker, each with its findings.
struct Table<'a>(&'a Topology, String);

impl<'a> Table<'a> {
    fn new(topology: &'a Topology) -> Self {
        Self(topology, String::new())
    }

    /// Adds the findings after the edit.
    fn row(&mut self, name: impl Display, edit: impl FnOnce(&mut Snapshot)) {
        self.with_stats(name, &BTreeMap::new(), edit);
    }

    /// Adds the findings after the edit, with numbers of queues.
    fn with_stats(
        &mut self,
        name: impl Display,
        stats: &BTreeMap<String, QueueStats>,
        edit: impl FnOnce(&mut Snapshot),
    ) {
        let mut observed = Snapshot::of(self.0);
        edit(&mut observed);
        self.found(name, &findings(self.0, &observed, stats, NOW));
    }

    /// Adds the findings of the rules about objects, without findings that a plan would fix.
    fn objects(&mut self, name: impl Display, edit: impl FnOnce(&mut Objects)) {
        let mut objects = self.0.objects();
        edit(&mut objects);
        self.found(name, &check(self.0, &objects));
    }

    fn found(&mut self, name: impl Display, found: &[Diagnostic]) {
        writeln!(self.1, "# {name}").unwrap();
        let target = Target { topology: &self.0.name, virtual_host: "shop" };
        for found in found.iter().map(|found| found.rendered(&target)) {
            let (severity, rule, subject) = (found.severity, found.rule, found.subject);
            writeln!(self.1, "{severity} {rule} {subject}: {}", found.message).unwrap();
            for text in [found.reason, found.fix].iter().flatten() {
                writeln!(self.1, "    {text}").unwrap();
            }
        }
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

fn binding(objects: &Objects, source: &str, destination: &str, routing_key: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: !objects.exchanges.contains_key(destination),
        routing_key: routing_key.to_owned(),
        arguments: BTreeMap::new(),
    }
}

fn bind(objects: &mut Objects, source: &str, destination: &str, routing_key: &str) {
    objects.bindings.insert(binding(objects, source, destination, routing_key));
}

/// Removes every binding of a queue but its mark.
fn unbind(objects: &mut Objects, queue: &str) {
    objects.bindings.retain(|it| it.destination != queue || it.mark_of().is_some());
}

fn argument(objects: &mut Objects, queue: &str, key: &str, value: impl Into<Argument>) {
    objects.queues.get_mut(queue).unwrap().arguments.insert(key.to_owned(), value.into());
}

fn alternate(objects: &mut Objects, exchange: &str, alternate: Option<&str>) {
    let arguments = &mut objects.exchanges.get_mut(exchange).unwrap().arguments;
    arguments.remove("alternate-exchange");
    arguments.extend(alternate.map(|it| ("alternate-exchange".to_owned(), it.into())));
}

/// Adds an exchange of another program.
fn foreign(objects: &mut Objects, name: &str, kind: &str) {
    let exchange = Exchange {
        name: name.to_owned(),
        kind: kind.to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: BTreeMap::new(),
    };
    objects.exchanges.insert(name.to_owned(), exchange);
}
