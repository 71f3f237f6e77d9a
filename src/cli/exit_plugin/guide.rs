//! The findings about an exchange of the plugin, and the steps that are left.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{
    administration::DelayedOnNode,
    diagnostic::{delete_exchange, list_held},
    objects::Binding,
    text::{counted, one_line, quote},
    topology::{Topology, file::RoutingType, strategy::DELAYED_EXCHANGE_TYPE},
};

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The exchange is the plugin's.
    Plugin,
    /// The exchange is ours already.
    TakenOver,
    /// The broker lacks the exchange, and the topology file has it.
    Missing,
}

/// A binding of the plugin's exchange, and the binding that replaces it.
#[derive(Serialize)]
pub(super) struct OldBinding {
    #[serde(flatten)]
    pub(super) old: Binding,
    #[serde(skip)]
    pub(super) copy: Binding,
    pub(super) copied: bool,
}

/// The findings, and the steps that are left.
#[derive(Serialize)]
pub(super) struct Guide<'a> {
    pub(super) version: u32,
    pub(super) virtual_host: &'a str,
    pub(super) exchange: &'a str,
    pub(super) state: State,
    #[serde(rename = "type")]
    pub(super) routing: RoutingType,
    /// Whether the topology file takes the exchange over.
    pub(super) in_topology: bool,
    pub(super) bindings: Vec<OldBinding>,
    pub(super) held: Vec<DelayedOnNode>,
    pub(super) safe_to_upgrade: bool,
    #[serde(skip)]
    pub(super) topology: &'a Topology,
}

/// Every exchange of the plugin.
#[derive(Serialize)]
pub(super) struct List<'a> {
    pub(super) version: u32,
    pub(super) virtual_host: &'a str,
    pub(super) exchanges: Vec<Listed>,
}

#[derive(Serialize)]
pub(super) struct Listed {
    pub(super) exchange: String,
    #[serde(rename = "type")]
    pub(super) routing: RoutingType,
    pub(super) bindings: usize,
    pub(super) held: Vec<DelayedOnNode>,
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Listed { exchange, routing, bindings, held } in &self.exchanges {
            let on = |node: &DelayedOnNode| {
                let messages = node.messages.map_or("unknown".to_owned(), |it| it.to_string());
                format!("{messages} held on {}", one_line(&node.node))
            };
            let held: Vec<String> = held.iter().map(on).collect();
            let bindings = counted(*bindings, "binding");
            writeln!(
                f,
                "{}  {}, {bindings}, {}",
                quote(&one_line(exchange)),
                routing.as_str(),
                held.join(", ")
            )?;
        }
        let there = counted(self.exchanges.len(), "exchange");
        write!(
            f,
            "{there} of type {DELAYED_EXCHANGE_TYPE}; the steps for one: overdue exit-plugin NAME"
        )
    }
}

/// A binding as text, e.g. `reminders -> mails by "welcome"`.
pub(super) fn way(binding: &Binding) -> String {
    let Binding { source, destination, routing_key, arguments, .. } = binding;
    let arguments: Vec<String> =
        arguments.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
    format!("{source} -> {destination} by {routing_key:?}{}", arguments.concat())
}

impl Guide<'_> {
    fn steps(&self) -> Vec<String> {
        let (shown, topology) = (one_line(self.exchange), self.topology);
        let name = quote(&shown);
        let mut steps = Vec::new();
        if self.state == State::Plugin {
            if !self.in_topology {
                let section = section(self.exchange, self.routing);
                steps.push(format!(
                    "Write into the topology file (and run `overdue check`):\n\n{}",
                    indented(&section)
                ));
            }
            let (due, entry) = (topology.compat_due_exchange(), topology.compat_in_exchange());
            if !self.in_topology || self.bindings.iter().any(|it| !it.copied) {
                steps.push(format!("Copy the bindings of {shown} to {due}, and those that lead to it to {entry}; nothing changes for those who use it now:\n     overdue exit-plugin {name} --bind"));
            }
            steps.push(format!("Stop the publishers of {shown}, and wait until the plugin holds nothing on any node:\n     overdue exit-plugin {name}"));
            steps.push(format!(
                "Delete {shown}; only while it holds nothing, what it holds would be lost:\n     {}",
                delete_exchange(self.virtual_host, self.exchange)
            ));
        }
        steps.push(
            "Declare what takes its place, and start a worker:\n     overdue apply && overdue run"
                .to_owned(),
        );
        steps.push(
            "Start the publishers, and look that all is well:\n     overdue verify".to_owned(),
        );
        steps.push("On every node, once no virtual host has an exchange of that type:\n     rabbitmq-plugins disable rabbitmq_delayed_message_exchange".to_owned());
        steps
    }
}

impl fmt::Display for Guide<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = one_line(self.exchange);
        match self.state {
            State::Plugin => writeln!(
                f,
                "exchange {name}: {DELAYED_EXCHANGE_TYPE}, x-delayed-type {}",
                self.routing.as_str()
            ),
            State::TakenOver => {
                writeln!(
                    f,
                    "exchange {name}: without the plugin, of topology {}",
                    self.topology.name
                )
            }
            State::Missing => writeln!(f, "exchange {name}: not there"),
        }?;
        for OldBinding { old, copied, .. } in &self.bindings {
            let done = match (self.state, copied) {
                (State::TakenOver, _) => {
                    let name = quote(&name);
                    format!("messages come early by it: overdue exit-plugin {name} --bind moves it")
                }
                (_, true) => "copied".to_owned(),
                (_, false) => "not copied yet".to_owned(),
            };
            writeln!(f, "  binding {}: {done}", one_line(way(old)))?;
        }
        for DelayedOnNode { node, messages } in &self.held {
            write!(f, "  held on {node}: ")?;
            match messages {
                Some(messages) => writeln!(f, "{}", counted(*messages, "message")),
                None => writeln!(f, "unknown; there: {}", list_held(self.virtual_host)),
            }?;
        }
        f.write_char('\n')?;
        for (number, step) in self.steps().iter().enumerate() {
            writeln!(f, "{}. {step}", number + 1)?;
        }
        let nothing = !self.held.is_empty() && self.held.iter().all(|it| it.messages == Some(0));
        f.write_str(match (self.safe_to_upgrade, nothing) {
            (true, _) => "\nsafe to upgrade: yes, as far as this virtual host goes",
            (false, true) => {
                "\nsafe to upgrade: no, an exchange of the plugin is there; it holds nothing, so it can be deleted now if its publishers are stopped"
            }
            (false, false) => {
                "\nsafe to upgrade: no, the plugin holds messages, or it is not known whether it does; they would be lost"
            }
        })
    }
}

/// The section for topology.toml.
pub(super) fn section(exchange: &str, routing: RoutingType) -> String {
    let exchange = toml::Value::from(exchange);
    format!("[compat.x-delay]\nexchange = {exchange}\ntype = \"{}\"\n", routing.as_str())
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("     {line}")).collect();
    lines.join("\n")
}
