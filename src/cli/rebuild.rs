//! `overdue rebuild`: a notice for every order that is still open, from the database. That a notice is there twice does no
//! harm: the database decides.

mod notices;
mod part;
mod place;
mod preview;

use std::{collections::BTreeMap, num::NonZeroU32};

use clap::Args;

use super::{
    confirm::Confirm,
    exit::Failure,
    output::{print, report},
    pace::Pace,
    publish::routes,
    setup,
};
use crate::{
    broker::command_lock::CommandLock,
    config::Settings,
    plan::generation::number_of,
    store::{orders::Effect, overdue::OverdueKey},
    text::{counted, shell::option},
    topology::{Timeout, Topology, level_routes::LevelRoutes},
};
use notices::Notices;
use part::Part;
use place::Place;
use preview::Preview;

/// The name of the connection in the management UI.
const LOCK_PURPOSE: &str = "overdue rebuild: holds its lock";

/// Publish a notice for every open order
#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// Only this timeout [default: all]
    #[arg(long, value_name = "NAME")]
    timeout: Option<String>,
    /// Go on behind this order, as a rebuild that was stopped has printed it
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
    from: Option<Place>,
    #[command(flatten)]
    confirm: Confirm,
    /// Notices per second, at the most
    #[arg(long, default_value = "5000", value_name = "N")]
    rate: NonZeroU32,
}

impl Rebuild {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let effects = setup::effects(settings, &topology)?;
        let parts = self.parts(&topology, &effects)?;
        let store = setup::store(settings)?;
        let preview = Preview::read(&store, &parts).await?;
        let address = setup::address(settings)?;
        let routes = routes::look(settings, &topology).await?;
        complete(&routes)?;
        print(preview.text(self.rate))?;
        if preview.orders() == 0 {
            return Ok(());
        }
        warn_of_waiting(settings, &topology).await?;
        let question = format!("publish {} to {address}?", counted(preview.orders(), "notice"));
        self.confirm.ask(&question)?;
        let queue = topology.rebuild_lock_queue();
        let lock = CommandLock::acquire(&address, &queue, LOCK_PURPOSE).await?;
        let lock = lock.ok_or_else(|| taken(&queue))?;
        let notices =
            Notices::new(&store, &topology, &routes, Pace::new(self.rate), self.options());
        let done = notices.publish(&address, &parts, preview.orders()).await;
        lock.release().await;
        done
    }

    /// One per effect, in the order of the file; without those that an earlier rebuild has finished.
    fn parts<'a>(
        &self,
        topology: &'a Topology,
        effects: &'a BTreeMap<String, Effect>,
    ) -> Result<Vec<Part<'a>>, Failure> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        for timeout in self.timeouts(topology)? {
            let Some(effect) = effects.get(&timeout.effect) else { continue };
            if parts.iter().any(|part| part.effect.name == effect.name) {
                continue;
            }
            let overdue_sql = effect.overdue_sql.as_deref().ok_or_else(|| without(effect))?;
            parts.push(Part { timeout, effect, overdue_sql, after: OverdueKey::first() });
        }
        let Some(Place { timeout, key }) = &self.from else { return Ok(parts) };
        let begun =
            parts.iter().position(|part| part.timeout.name == *timeout).ok_or_else(|| {
                Failure::usage(format!(
                    "--from names the timeout `{timeout}`, which is not rebuilt here"
                ))
            })?;
        parts.drain(..begun);
        parts[0].after = key.clone();
        Ok(parts)
    }

    /// As they are written behind the place where a rebuild goes on.
    fn options(&self) -> String {
        let timeout = self.timeout.as_deref().map(|name| option(" --timeout", name));
        format!("{} --rate {}", timeout.unwrap_or_default(), self.rate)
    }

    fn timeouts<'a>(&self, topology: &'a Topology) -> Result<Vec<&'a Timeout>, Failure> {
        let Some(name) = &self.timeout else { return Ok(topology.timeouts.iter().collect()) };
        let named = topology.timeouts.iter().find(|timeout| timeout.name == *name);
        let known = || topology.timeouts.iter().map(|timeout| timeout.name.as_str());
        let unknown = || {
            Failure::usage(format!(
                "there is no timeout `{name}` in the topology; it has {}",
                known().collect::<Vec<_>>().join(", ")
            ))
        };
        named.map(|timeout| vec![timeout]).ok_or_else(unknown)
    }
}

fn without(Effect { name, .. }: &Effect) -> Failure {
    Failure::configuration(format!(
        "effect `{name}` has no overdue_sql, so nobody can say which of its orders are open; write into overdue.toml \
         [effects.{name}] overdue_sql = \"{name}_overdue.sql\" (docs/effects.md), or name another timeout with --timeout"
    ))
}

/// A notice for a level that the broker does not have would be confirmed, and parked.
fn complete(routes: &LevelRoutes) -> Result<(), Failure> {
    let absent = routes.absent().map(|exchange| format!("the broker has no exchange `{exchange}`"));
    let missing = routes
        .missing()
        .map(|key| format!("the broker has nothing that takes `{key}`, a notice would be parked"));
    let Some(lacks) = absent.chain(missing).next() else { return Ok(()) };
    Err(Failure::configuration(format!(
        "{lacks}: run `overdue apply` first; nothing was published"
    )))
}

/// Messages that the broker has, up to ten seconds ago.
async fn warn_of_waiting(settings: &Settings, topology: &Topology) -> Result<(), Failure> {
    // Who may not ask does without.
    let Ok(stats) = setup::management(settings)?.queue_stats().await else { return Ok(()) };
    let parked = topology.parked_queue();
    let prefix = format!("{}.", topology.name);
    let ours = stats.values().filter(|it| it.name.starts_with(&prefix));
    let waiting = ours.filter(|it| number_of(&parked, &it.name).is_none());
    let waiting: u64 = waiting.filter_map(|it| it.messages).sum();
    if waiting > 0 {
        report(format!(
            "note: {} of this topology on the broker already. A second notice for an order does no harm: its message is \
             acked when it comes",
            if waiting == 1 {
                "1 message is".to_owned()
            } else {
                format!("{waiting} messages are")
            }
        ));
    }
    Ok(())
}

fn taken(queue: &str) -> Failure {
    Failure::failed(format!(
        "another `overdue rebuild` is publishing: it holds the exclusive queue {queue}. Nothing was published; run this again \
         when it has finished"
    ))
}
