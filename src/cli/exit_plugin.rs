//! `overdue exit-plugin`: from an exchange of the delayed message plugin to `[compat.x-delay]`, step by step.

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;

use super::{exit::Failure, output::print, setup};
use crate::{
    broker::{DelayedOnNode, Management},
    config::Settings,
    objects::{Binding, Exchange},
    plan::{Change, snapshot::Snapshot},
    text::{counted, quote},
    topology::{
        Topology, file::RoutingType, strategy::DELAYED_EXCHANGE_TYPE, taken_over_exchange::XDelay,
    },
};

/// Guide the way from an exchange of the delayed message plugin to one that needs no plugin
#[derive(Debug, Args)]
pub(super) struct ExitPlugin {
    /// The exchange of the type x-delayed-message
    exchange: String,
    /// Write the part for topology.toml into this file, which must not exist
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Copy its bindings to where messages come out without the plugin; changes nothing for those who use it now
    #[arg(long)]
    bind: bool,
}

/// What was found of the exchange.
enum Found<'a> {
    /// It is the plugin's, and routes like this.
    Plugin(RoutingType),
    /// It is ours already.
    TakenOver,
    /// It is something else.
    Other(&'a Exchange),
    /// It is not there.
    Missing,
}

impl ExitPlugin {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let observed = management.observe().await?;
        let found = self.found(&topology, &observed);
        if let Found::Other(exchange) = found {
            return Err(Failure::failed(format!(
                "exchange {} is of type {}, not {DELAYED_EXCHANGE_TYPE}, so there is nothing to leave",
                exchange.name, exchange.kind
            )));
        }
        let routing = match found {
            Found::Plugin(routing) => routing,
            _ => topology.compat.as_ref().map(|it| it.routing).unwrap_or_default(),
        };
        let section = section(&self.exchange, routing);
        if let Some(path) = &self.save {
            std::fs::File::create_new(path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, section.as_bytes()))
                .map_err(|error| {
                    Failure::failed(format!("cannot write {}: {error}", path.display()))
                })?;
        }
        if self.bind {
            let compat = XDelay { exchange: self.exchange.clone(), routing };
            let topology = Topology { compat: Some(compat), ..topology.clone() };
            self.copy(&management, &topology, &observed, matches!(found, Found::TakenOver)).await?;
        }
        let nodes = match found {
            Found::Plugin(_) => management.delayed_on_each_node(&self.exchange).await?,
            _ => Vec::new(),
        };
        print(self.guide(&topology, &observed, &found, &section, &nodes))
    }

    fn found<'a>(&self, topology: &Topology, observed: &'a Snapshot) -> Found<'a> {
        let Some(exchange) = observed.objects.exchanges.get(&self.exchange) else {
            return Found::Missing;
        };
        if exchange.kind == DELAYED_EXCHANGE_TYPE {
            return Found::Plugin(routing(exchange));
        }
        if observed.objects.owner_of_exchange(&self.exchange) == Some(&topology.name) {
            return Found::TakenOver;
        }
        Found::Other(exchange)
    }

    /// First where they lead, so that nothing is lost wherever this stops. At an exchange that is ours already they are
    /// moved: there they bring messages early.
    async fn copy(
        &self,
        management: &Management,
        topology: &Topology,
        observed: &Snapshot,
        moves: bool,
    ) -> Result<(), Failure> {
        let due = topology.compat_due_exchange();
        let wanted = topology.objects();
        for name in [topology.mark_exchange(), topology.park_exchange(), due.clone()] {
            if let Some(exchange) = wanted.exchanges.get(&name) {
                management.apply(&Change::CreateExchange(exchange.clone())).await?;
            }
        }
        if let Some(mark) = topology.exchange_mark(&due) {
            management.apply(&Change::Bind(mark)).await?;
        }
        for binding in self.bindings(topology, observed) {
            if moves {
                management.bind_when_due(topology, binding).await?;
            } else {
                let copy = Binding { source: due.clone(), ..binding.clone() };
                management.apply(&Change::Bind(copy)).await?;
            }
        }
        Ok(())
    }

    /// Those of its consumers.
    fn bindings<'a>(
        &'a self,
        topology: &'a Topology,
        observed: &'a Snapshot,
    ) -> impl Iterator<Item = &'a Binding> {
        let behind = topology.compat_in_exchange();
        observed.objects.bindings.iter().filter(move |it| {
            it.source == self.exchange && (it.to_queue || it.destination != behind)
        })
    }

    fn guide(
        &self,
        topology: &Topology,
        observed: &Snapshot,
        found: &Found<'_>,
        section: &str,
        nodes: &[DelayedOnNode],
    ) -> String {
        let mut out = self.state(topology, observed, found, nodes);
        let name = quote(&self.exchange);
        let due = topology.compat_due_exchange();
        let holds_nothing = !nodes.is_empty() && nodes.iter().all(|it| it.messages == Some(0));
        let safe = !observed.objects.exchanges.values().any(|it| it.kind == DELAYED_EXCHANGE_TYPE);
        let mut steps: Vec<String> = Vec::new();
        if matches!(found, Found::Plugin(_)) {
            steps.push(format!(
                "Write into topology.toml (and run `overdue check`):\n\n{}",
                indented(section)
            ));
            steps.push(format!("Copy the bindings to {due}; nothing changes for those who use {name} now:\n     overdue exit-plugin {name} --bind"));
            steps.push(format!("Stop the publishers of {name}, and wait until the plugin holds nothing on any node:\n     overdue exit-plugin {name}"));
            steps.push(format!("Delete {name}; only while it holds nothing, what it holds would be lost:\n     rabbitmqadmin delete exchange --name {name}"));
        }
        steps.push(
            "Declare what takes its place, and start a worker:\n     overdue apply && overdue run"
                .to_owned(),
        );
        steps.push(
            "Start the publishers, and look that all is well:\n     overdue verify".to_owned(),
        );
        steps.push("On every node, once no virtual host has an exchange of that type:\n     rabbitmq-plugins disable rabbitmq_delayed_message_exchange".to_owned());
        out.push('\n');
        for (number, step) in steps.iter().enumerate() {
            // Writing to a string cannot fail.
            let _written = writeln!(out, "{}. {step}", number + 1);
        }
        let verdict = match (safe, holds_nothing) {
            (true, _) => "safe to upgrade: yes, as far as this virtual host goes",
            (false, true) => {
                "safe to upgrade: no, an exchange of the plugin is there; it holds nothing, so it can be deleted now if its publishers are stopped"
            }
            (false, false) => {
                "safe to upgrade: no, the plugin holds messages, or it is not known whether it does; they would be lost"
            }
        };
        let _written = write!(out, "\n{verdict}");
        out
    }

    fn state(
        &self,
        topology: &Topology,
        observed: &Snapshot,
        found: &Found<'_>,
        nodes: &[DelayedOnNode],
    ) -> String {
        let name = &self.exchange;
        let mut out = match found {
            Found::Plugin(routing) => {
                format!(
                    "exchange {name}: {DELAYED_EXCHANGE_TYPE}, x-delayed-type {}\n",
                    routing.as_str()
                )
            }
            Found::TakenOver => {
                format!("exchange {name}: without the plugin, of topology {}\n", topology.name)
            }
            Found::Missing | Found::Other(_) => format!("exchange {name}: not there\n"),
        };
        let due = topology.compat_due_exchange();
        for binding in self.bindings(topology, observed) {
            let copied = Binding { source: due.clone(), ..binding.clone() };
            let copied = if observed.objects.bindings.contains(&copied) {
                "copied"
            } else {
                "not copied yet"
            };
            let _written = writeln!(
                out,
                "  binding to {} by {:?}: {copied}",
                binding.destination, binding.routing_key
            );
        }
        for DelayedOnNode { node, messages } in nodes {
            let held = match messages {
                Some(messages) => counted(*messages, "message"),
                None => {
                    "unknown; there: rabbitmqctl list_exchanges name messages_delayed".to_owned()
                }
            };
            let _written = writeln!(out, "  held on {node}: {held}");
        }
        out
    }
}

fn routing(exchange: &Exchange) -> RoutingType {
    let routing = exchange.arguments.get("x-delayed-type").and_then(|it| it.text());
    let known =
        [RoutingType::Direct, RoutingType::Topic, RoutingType::Fanout, RoutingType::Headers];
    known.into_iter().find(|known| Some(known.as_str()) == routing).unwrap_or_default()
}

/// As it is written in topology.toml.
fn section(exchange: &str, routing: RoutingType) -> String {
    let exchange = toml::Value::from(exchange);
    format!("[compat.x-delay]\nexchange = {exchange}\ntype = \"{}\"\n", routing.as_str())
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("     {line}")).collect();
    lines.join("\n")
}
