//! `overdue database`: creates the worker's own tables, and the reference order tables.

use std::path::Path;

use clap::Subcommand;

use super::{
    exit::Failure,
    output::{Confirm, print},
    setup,
};
use crate::{
    config::Settings,
    effect::Statements,
    store::{
        Store,
        own_tables::{ScheduledState, created},
        schedule::ScheduleTrigger,
    },
    topology::{Timeout, Topology},
};

/// States of the reference tables that have a deadline: effect, status, column.
const STATES: [(&str, &str, &str); 3] = [
    ("close", "unpaid", "due_at"),
    ("cancel", "paid", "ship_by"),
    ("complete", "shipped", "confirm_by"),
];

/// Create the worker's own tables and functions; asks first
#[derive(Debug, Subcommand)]
pub(super) enum Database {
    /// Create the worker's own tables and functions; asks first
    ///
    /// These are the schema, closures, outbox, schedule() and others. The command shows the missing ones, and asks before it creates
    /// them. A repeated command changes nothing.
    Init {
        /// Create the reference order tables as well (orders, order_items, stock), for demo and tests
        #[arg(long)]
        reference_tables: bool,
        /// Create triggers on the reference order tables as well, which schedule a notice for each order
        #[arg(long)]
        trigger: bool,
        #[command(flatten)]
        confirm: Confirm,
    },
}

impl Database {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self::Init { reference_tables, trigger, confirm } = self;
        let store = setup::store(settings)?;
        let search_path = &settings.database.search_path;
        // Without a topology file, no timeouts are written here: workers write theirs.
        let topology = (trigger || settings.topology.is_file()).then(|| setup::topology(settings));
        let topology = topology.transpose()?;
        if let Some(topology) = &topology {
            refuse_without_zone(&store, settings, topology).await?;
        }
        let removed = match &topology {
            Some(topology) => store.timeouts_to_remove(&topology.name, &names(topology)).await?,
            None => Vec::new(),
        };
        let states = topology.as_ref().map(states).unwrap_or_default();
        let callers = match &topology {
            Some(topology) => store.schedule_triggers(&topology.name, &names(topology)).await?,
            None => Vec::new(),
        };
        let (mut dropped, others): (Vec<_>, Vec<_>) =
            callers.into_iter().partition(|caller| caller.is_ours);
        // A trigger that fails already makes no further statement fail.
        let (refused, failing): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|caller| removed.contains(&caller.timeout));
        refuse(&refused, &settings.topology)?;
        let state_of =
            |it: &ScheduleTrigger| states.iter().find(|state| state.is_scheduled_by(&it.name));
        if trigger {
            // Triggers of a state are created again, with the timeout that the state has now.
            dropped.retain(|it| state_of(it).is_none());
        }
        let triggers =
            if trigger { "\nand triggers on the table orders, which schedule notices" } else { "" };
        let created = created(search_path, reference_tables)?;
        let file = settings.topology.display();
        let gone = removed.iter().map(|timeout| {
            format!("\nremoves the timeout `{timeout}`, which {file} does not have: schedule() refuses it then")
        });
        let drops = |it: &ScheduleTrigger| {
            let instead = state_of(it).map_or_else(String::new, |state| {
                format!("; with --trigger it gets the timeout `{}`", state.timeout)
            });
            format!("\ndrops the trigger {} on {}, which would fail{instead}", it.name, it.table)
        };
        let leaves = |it: &ScheduleTrigger| {
            format!(
                "\nleaves a trigger that fails, as there is no timeout `{}` any more: {}",
                it.timeout,
                it.drop_statement()
            )
        };
        let gone = gone.chain(dropped.iter().map(drops)).chain(failing.iter().map(leaves));
        let zoneless = store.zoneless_triggers().await?;
        let keeps = zoneless.iter().map(|it| {
            let write = &it.write;
            format!("\nleaves a trigger without a time zone: {it}. Write the zone as the last argument; for UTC: {write}")
        });
        let gone: String = gone.chain(keeps).collect();
        print(format!("creates what is missing of these\n{created}{triggers}{gone}"))?;
        confirm.ask(&format!("do this at {}?", store.address()))?;
        store.init(search_path, reference_tables).await?;
        if let Some(topology) = &topology {
            let timeouts: Vec<_> = topology.timeouts.iter().map(Timeout::name_and_delay).collect();
            store.set_timeouts(&topology.name, &timeouts, &[]).await?;
            if trigger {
                install(&store, &states).await?;
            }
            // Drop triggers before their timeouts, and last: a trigger without its timeout fails the transaction of an order.
            store.drop_triggers(&dropped).await?;
            store.set_timeouts(&topology.name, &[], &removed).await?;
        }
        print(format!("{} is ready (search path {})", store.address(), search_path))
    }
}

fn names(topology: &Topology) -> Vec<&str> {
    topology.timeouts.iter().map(|timeout| timeout.name.as_str()).collect()
}

/// Refuses a deadline without a time zone. Other mistakes, and missing tables, are left to `overdue effect check`.
async fn refuse_without_zone(
    store: &Store,
    settings: &Settings,
    topology: &Topology,
) -> Result<(), Failure> {
    let Ok(effects) = setup::effects(settings, topology) else { return Ok(()) };
    for effect in effects.values() {
        if let Some(description) = effect.description()
            && let Ok(facts) = store.table_facts(effect, description).await
            && Statements::of(description, &facts).is_err_and(|it| it.key == "zone")
        {
            store.statements(effect).await?;
        }
    }
    Ok(())
}

/// Refuses triggers of other teams: each statement that fires one would fail.
fn refuse(others: &[ScheduleTrigger], file: &Path) -> Result<(), Failure> {
    if others.is_empty() {
        return Ok(());
    }
    let drop = |it: &ScheduleTrigger| format!("\n  {}  -- `{}`", it.drop_statement(), it.timeout);
    let drops: String = others.iter().map(drop).collect();
    Err(Failure::configuration(format!(
        "triggers call schedule_row() with a timeout that {} does not have, and the statements that fire them would fail; \
         nothing was changed. Drop them first, as the owner of the table, or make them again with another timeout:{drops}",
        file.display()
    )))
}

fn states(topology: &Topology) -> Vec<ScheduledState<'_>> {
    STATES
        .iter()
        .filter_map(|(effect, status, deadline)| {
            let timeout = topology.timeouts.iter().find(|timeout| timeout.effect == *effect)?;
            Some(ScheduledState { timeout: &timeout.name, status, deadline })
        })
        .collect()
}

async fn install(store: &Store, states: &[ScheduledState<'_>]) -> Result<(), Failure> {
    if states.is_empty() {
        return Err(Failure::configuration(
            "no timeout of the topology file has the effect close, cancel or complete, and --trigger is for the reference \
             tables; a trigger on your own tables is three lines of SQL: see docs/publishing-from-sql.md",
        ));
    }
    Ok(store.schedule_by_triggers(states).await?)
}
