//! `overdue exit-plugin`: guides from an exchange of the delayed message plugin to `[compat.x-delay]`, step by step.

mod guide;

use std::{fs::File, io::Write as _, path::PathBuf};

use clap::Args;
use guide::{Guide, List, Listed, OldBinding, State, section, way};

use super::{
    exit::Failure,
    output::{Confirm, Output, report},
    setup,
};
use crate::{
    administration::{Management, TopologyLock},
    config::Settings,
    objects::{Binding, Exchange},
    plan::{Change, snapshot::Snapshot},
    text::{counted, one_line},
    topology::{
        Topology, file::RoutingType, strategy::DELAYED_EXCHANGE_TYPE, taken_over_exchange::XDelay,
    },
};

/// Replace an exchange of the delayed message plugin, step by step
#[derive(Clone, Debug, Args)]
pub(super) struct ExitPlugin {
    /// The exchange of the type x-delayed-message; without it the command lists all of them
    exchange: Option<String>,
    /// Write the part for topology.toml into this file, which must not exist
    #[arg(long, value_name = "FILE", requires = "exchange")]
    save: Option<PathBuf>,
    /// Copy its bindings to the exchange that replaces it in topology.toml; shows them, and asks. The plugin's exchange keeps working
    #[arg(long, requires = "exchange")]
    bind: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

impl ExitPlugin {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let mut observed = management.observe().await?;
        let Some(exchange) = self.exchange.clone() else {
            return self.list(&topology, &management, &observed).await;
        };
        let (state, routing) = self.state(&topology, &observed, management.virtual_host())?;
        if let Some(path) = &self.save {
            File::create_new(path)
                .and_then(|mut file| file.write_all(section(&exchange, routing).as_bytes()))
                .map_err(|error| {
                    Failure::failed(format!("cannot write {}: {error}", path.display()))
                })?;
        }
        let compat = XDelay { exchange: exchange.clone(), routing };
        let in_topology = topology.compat.as_ref() == Some(&compat);
        if self.bind {
            if !in_topology || state == State::Missing {
                return Err(self.cannot_bind(state, routing));
            }
            self.bind(&management, &topology, state, &observed).await?;
            observed = management.observe().await?;
        }
        let held = match state {
            State::Plugin => management.delayed_on_each_node(&exchange).await?,
            _ => Vec::new(),
        };
        let mut exchanges = observed.objects.exchanges.values();
        self.output.print(&Guide {
            version: 1,
            virtual_host: management.virtual_host(),
            exchange: &exchange,
            state,
            routing,
            in_topology,
            bindings: self.bindings(&topology, state, &observed),
            held,
            safe_to_upgrade: !exchanges.any(|it| it.kind == DELAYED_EXCHANGE_TYPE),
            topology: &topology,
        })
    }

    /// Lists every exchange of the plugin.
    async fn list(
        &self,
        topology: &Topology,
        management: &Management,
        observed: &Snapshot,
    ) -> Result<(), Failure> {
        let mut exchanges = Vec::new();
        for exchange in observed.objects.exchanges.values() {
            if exchange.kind == DELAYED_EXCHANGE_TYPE {
                let one = Self { exchange: Some(exchange.name.clone()), ..self.clone() };
                exchanges.push(Listed {
                    exchange: exchange.name.clone(),
                    routing: routing(exchange),
                    bindings: one.bindings(topology, State::Plugin, observed).len(),
                    held: management.delayed_on_each_node(&exchange.name).await?,
                });
            }
        }
        self.output.print(&List { version: 1, virtual_host: management.virtual_host(), exchanges })
    }

    /// The name of the exchange; empty if all exchanges are listed.
    fn name(&self) -> &str {
        self.exchange.as_deref().unwrap_or_default()
    }

    fn state(
        &self,
        topology: &Topology,
        observed: &Snapshot,
        vhost: &str,
    ) -> Result<(State, RoutingType), Failure> {
        let name = self.name();
        let wanted = topology.compat.as_ref().filter(|it| it.exchange == name);
        let found = observed.objects.exchanges.get(name);
        match (found, wanted) {
            (Some(exchange), _) if exchange.kind == DELAYED_EXCHANGE_TYPE => {
                Ok((State::Plugin, routing(exchange)))
            }
            (Some(_), Some(wanted))
                if observed.objects.owner_of_exchange(name) == Some(&topology.name) =>
            {
                Ok((State::TakenOver, wanted.routing))
            }
            (Some(exchange), _) => Err(Failure::failed(format!(
                "exchange {name} is of type {}, not {DELAYED_EXCHANGE_TYPE}, so there is nothing to leave",
                exchange.kind
            ))),
            (None, Some(wanted)) => Ok((State::Missing, wanted.routing)),
            (None, None) => {
                let exchanges = observed.objects.exchanges.values();
                let plugins = exchanges.filter(|it| it.kind == DELAYED_EXCHANGE_TYPE);
                let names: Vec<&str> = plugins.map(|it| it.name.as_str()).collect();
                let there = match names.as_slice() {
                    [] => "none".to_owned(),
                    _ => one_line(names.join(", ")),
                };
                Err(Failure::failed(format!(
                    "virtual host {vhost} has no exchange {name}, and the topology file none to take its place; of \
                     type {DELAYED_EXCHANGE_TYPE} there is {there}"
                )))
            }
        }
    }

    fn cannot_bind(&self, state: State, routing: RoutingType) -> Failure {
        let name = self.name();
        if state == State::Missing {
            return Failure::failed(format!(
                "exchange {name} is not there, so there is nothing to copy; nothing was changed"
            ));
        }
        Failure::configuration(format!(
            "the topology file does not say that {name} is taken over, and the next `overdue apply` would delete what is \
             copied; nothing was changed. Write into it first:\n\n{}",
            section(name, routing)
        ))
    }

    /// The bindings to replace. For the plugin's exchange: bindings from and to it, which are deleted with it. For our exchange:
    /// bindings by which messages come early.
    fn bindings(&self, topology: &Topology, state: State, observed: &Snapshot) -> Vec<OldBinding> {
        let bindings = &observed.objects.bindings;
        let old = bindings.iter().filter(|it| match state {
            State::Plugin => (it.source == self.name()) != self.feeds(it),
            State::TakenOver => topology.is_early(it),
            State::Missing => false,
        });
        let pair = |old: &Binding| {
            let copy = if self.feeds(old) {
                Binding { destination: topology.compat_in_exchange(), ..old.clone() }
            } else {
                Binding { source: topology.compat_due_exchange(), ..old.clone() }
            };
            OldBinding { copied: bindings.contains(&copy), copy, old: old.clone() }
        };
        old.map(pair).collect()
    }

    /// Whether the binding routes messages to the exchange.
    fn feeds(&self, binding: &Binding) -> bool {
        !binding.to_queue && binding.destination == self.name()
    }

    /// Shows the bindings to copy, asks, and copies them. Creates the exchanges first, so that an interruption loses no message.
    async fn bind(
        &self,
        management: &Management,
        topology: &Topology,
        state: State,
        observed: &Snapshot,
    ) -> Result<(), Failure> {
        let moves = state == State::TakenOver;
        let mut to_do = self.bindings(topology, state, observed);
        to_do.retain(|it| moves || !it.copied);
        if to_do.is_empty() {
            return Ok(());
        }
        let what = if moves { "move" } else { "copy" };
        let lines: Vec<String> = to_do
            .iter()
            .map(|OldBinding { old, copy, .. }| {
                let (old, copy) = (way(old), way(copy));
                one_line(format!("{what} {old} to {copy}"))
            })
            .collect();
        self.output.preview(lines.join("\n"))?;
        self.confirm.ask(&format!(
            "{what} {} at {}?",
            counted(to_do.len(), "binding"),
            management.address()
        ))?;
        let waits =
            || report("another overdue is changing this topology: waiting until it is done");
        let lock = TopologyLock::acquire(management.address(), topology, waits).await?;
        let (due, entry) = (topology.compat_due_exchange(), topology.compat_in_exchange());
        let wanted = topology.objects();
        // Until `apply` creates the queues behind the entry, copied messages are dropped there; the originals still take the old
        // way.
        for name in [topology.mark_exchange(), topology.park_exchange(), due, entry] {
            if let Some(exchange) = wanted.exchanges.get(&name) {
                management.apply(&Change::CreateExchange(exchange.clone())).await?;
            }
            if let Some(mark) = topology.exchange_mark(&name) {
                management.apply(&Change::Bind(mark)).await?;
            }
        }
        for OldBinding { old, copy, .. } in to_do {
            if moves {
                management.bind_when_due(topology, &old).await?;
            } else {
                management.apply(&Change::Bind(copy)).await?;
            }
        }
        lock.release().await;
        Ok(())
    }
}

fn routing(exchange: &Exchange) -> RoutingType {
    let routing = exchange.arguments.get("x-delayed-type").and_then(|it| it.text());
    let known =
        [RoutingType::Direct, RoutingType::Topic, RoutingType::Fanout, RoutingType::Headers];
    known.into_iter().find(|known| Some(known.as_str()) == routing).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::administration::DelayedOnNode;

    const FILE: &str =
        "name = 'shop'\ndelay.levels = ['1s']\n[[timeout]]\nname = 'unpaid'\nafter = '1s'\n";

    fn binding(source: &str, destination: &str, to_queue: bool) -> Binding {
        let (source, destination) = (source.to_owned(), destination.to_owned());
        let routing_key = "welcome".to_owned();
        Binding { source, destination, to_queue, routing_key, arguments: BTreeMap::new() }
    }

    /// A broker with the plugin's exchange `it's old`: `events` feeds it, and a queue and an exchange are bound to it.
    fn broker() -> Snapshot {
        let mut broker = Snapshot::default();
        let name = "it's old".to_owned();
        let kind = DELAYED_EXCHANGE_TYPE.to_owned();
        let arguments = [("x-delayed-type".to_owned(), "fanout".into())].into();
        let old =
            Exchange { name, kind, durable: true, auto_delete: false, internal: false, arguments };
        broker.objects.exchanges.insert(old.name.clone(), old);
        broker.objects.bindings = [
            binding("events", "it's old", false),
            binding("it's old", "audit", false),
            binding("it's old", "it's old", false),
            binding("it's old", "it's old", true),
            binding("events", "other", true),
        ]
        .into();
        broker
    }

    fn command(exchange: &str) -> ExitPlugin {
        ExitPlugin {
            exchange: Some(exchange.to_owned()),
            save: None,
            bind: false,
            confirm: Confirm { yes: false },
            output: Output::default(),
        }
    }

    #[test]
    fn bindings_of_both_directions_are_shown_and_the_commands_are_complete() {
        let (topology, mut broker, it) =
            (Topology::parse(FILE).unwrap(), broker(), command("it's old"));
        let shown = |broker: &Snapshot| {
            it.bindings(&topology, State::Plugin, broker)
                .into_iter()
                .map(|it| (way(&it.copy), it.copied))
                .collect::<Vec<_>>()
        };
        let copies = [
            "events -> shop.compat.in by \"welcome\"",
            "shop.compat.due -> audit by \"welcome\"",
            "shop.compat.due -> it's old by \"welcome\"",
        ];
        assert_eq!(shown(&broker), copies.map(|copy| (copy.to_owned(), false)));
        broker.objects.bindings.insert(binding("events", "shop.compat.in", false));
        assert_eq!(shown(&broker)[0], (copies[0].to_owned(), true));

        let (state, routing) = it.state(&topology, &broker, "a b").unwrap();
        let guide = Guide {
            version: 1,
            virtual_host: "a b",
            exchange: it.name(),
            state,
            routing,
            in_topology: false,
            bindings: it.bindings(&topology, state, &broker),
            held: vec![DelayedOnNode { node: "rabbit@a".to_owned(), messages: None }],
            safe_to_upgrade: false,
            topology: &topology,
        };
        insta::assert_snapshot!(guide, @r#"
        exchange it's old: x-delayed-message, x-delayed-type fanout
          binding events -> it's old by "welcome": copied
          binding it's old -> audit by "welcome": not copied yet
          binding it's old -> it's old by "welcome": not copied yet
          held on rabbit@a: unknown; there: rabbitmqctl list_exchanges -p 'a b' name messages_delayed

        1. Write into the topology file (and run `overdue check`):

             [compat.x-delay]
             exchange = "it's old"
             type = "fanout"
        2. Copy the bindings of it's old to shop.compat.due, and those that lead to it to shop.compat.in; nothing changes for those who use it now:
             overdue exit-plugin 'it'\''s old' --bind
        3. Stop the publishers of it's old, and wait until the plugin holds nothing on any node:
             overdue exit-plugin 'it'\''s old'
        4. Delete it's old; only while it holds nothing, what it holds would be lost:
             rabbitmqadmin --vhost 'a b' exchanges delete --name 'it'\''s old'
        5. Declare what takes its place, and start a worker:
             overdue apply && overdue run
        6. Start the publishers, and look that all is well:
             overdue verify
        7. On every node, once no virtual host has an exchange of that type:
             rabbitmq-plugins disable rabbitmq_delayed_message_exchange

        safe to upgrade: no, the plugin holds messages, or it is not known whether it does; they would be lost
        "#);
    }

    #[test]
    fn without_a_name_all_are_listed() {
        let held = |messages| DelayedOnNode { node: "rabbit@a".to_owned(), messages };
        let one = |exchange: &str, messages| Listed {
            exchange: exchange.to_owned(),
            routing: RoutingType::Topic,
            bindings: 2,
            held: vec![held(messages)],
        };
        let exchanges = vec![one("it's old", Some(7)), one("reminders", None)];
        insta::assert_snapshot!(List { version: 1, virtual_host: "/", exchanges }, @r#"
        'it'\''s old'  topic, 2 bindings, 7 held on rabbit@a
        reminders  topic, 2 bindings, unknown held on rabbit@a
        2 exchanges of type x-delayed-message; the steps for one: overdue exit-plugin NAME
        "#);
    }

    #[test]
    fn what_is_not_there_is_nothing_to_leave() {
        let topology = Topology::parse(FILE).unwrap();
        let refused =
            |name: &str| command(name).state(&topology, &broker(), "/").err().unwrap().text;
        insta::assert_snapshot!(refused("its old"), @"virtual host / has no exchange its old, and the topology file none to take its place; of type x-delayed-message there is it's old");
        let of_file =
            Topology::parse(&format!("{FILE}{}", section("its old", RoutingType::Topic))).unwrap();
        let there = command("its old").state(&of_file, &Snapshot::default(), "/").ok();
        assert!(there == Some((State::Missing, RoutingType::Topic)));
    }
}
