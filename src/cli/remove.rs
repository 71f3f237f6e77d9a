//! `overdue remove`: shows the objects of a topology, asks, and deletes them, with the planner and the executor of `apply`.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::{
    apply,
    exit::Failure,
    output::{Confirm, Output, print, print_json},
    setup,
};
use crate::{
    administration::{Goal, TopologyChange},
    config::Settings,
    plan::{Plan, Refusal},
    store::{
        Store,
        own_tables::{OwnTable, OwnTables},
    },
    text::{counted, one_line},
};

/// Remove the topology from the broker; asks first
///
/// The command shows what it would delete, and asks. It refuses while messages wait, unless --discard-waiting is set.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Delete waiting messages in queues and unpublished rows in tables as well, which are lost
    #[arg(long)]
    discard_waiting: bool,
    /// Drop the tables and functions of `overdue database init` as well, with the history; no others
    #[arg(long)]
    tables: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Removed<'a> {
    version: u32,
    /// Steps that were carried out.
    applied: usize,
    /// Steps that were not carried out, and the reason.
    left: Vec<String>,
    /// Tables that were dropped, with their functions.
    tables: Vec<&'a str>,
}

/// The worker's own tables of a database.
struct Tables<'a> {
    store: Store,
    search_path: &'a str,
    there: OwnTables,
}

impl Remove {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let goal = Goal::Removed { discard: self.discard_waiting };
        let change = TopologyChange { management: &management, topology: &topology, goal };
        let tables = self.tables(settings, &topology.name).await?;
        let (shown, _) = change.plan().await?;
        let heading = management.identity().await?.heading(&topology);
        self.output.preview(format!("{heading}\n{}{}", what(&shown), rows(tables.as_ref())))?;
        self.refuse(&shown, tables.as_ref())?;
        let tables = tables.filter(|it| !it.there.tables.is_empty());
        if shown.steps.is_empty() && tables.is_none() {
            return self.answer(&apply::Applied::default(), None);
        }
        let whose = tables.as_ref().map(|it| format!(", and the tables at {}", it.store.address()));
        let name = &topology.name;
        let at = management.address();
        let question = format!("remove topology `{name}` at {at}{}?", whose.unwrap_or_default());
        self.confirm.ask(&question)?;
        let mut done = apply::Applied::default();
        if !shown.steps.is_empty() {
            let decide = |plan: Plan| {
                if plan.changes().ne(shown.changes()) {
                    let text = "the broker has changed meanwhile, to be removed is now";
                    self.output.preview(format!("{text}:\n{}", what(&plan)))?;
                    self.refuse(&plan, None)?;
                    self.confirm.ask(&question)?;
                }
                Ok(plan)
            };
            let made = apply::make(&change, decide, &mut done).await;
            // A record in `actions` would be a row that the preview of the tables has not counted.
            if tables.is_none() {
                apply::record(settings, "remove", &change, &done).await;
            }
            if made.is_err() || !done.left.is_empty() {
                self.answer(&done, None)?;
            }
            made?;
            if !done.left.is_empty() {
                return Err(Failure::failed(
                    "not everything is removed: see above. What is left is marked as before; run this again",
                ));
            }
        }
        if let Some(Tables { store, search_path, there }) = &tables {
            let dropped = store.drop_own(search_path, name, there).await;
            if dropped.is_err() {
                self.answer(&done, None)?;
            }
            dropped?;
        }
        self.answer(&done, tables.as_ref())
    }

    async fn tables<'a>(
        &self,
        settings: &'a Settings,
        topology: &str,
    ) -> Result<Option<Tables<'a>>, Failure> {
        if !self.tables {
            return Ok(None);
        }
        let (store, search_path) = (setup::store(settings)?, &settings.database.search_path);
        let there = store.own_tables(search_path, topology).await?;
        Ok(Some(Tables { store, search_path, there }))
    }

    /// Refuses to drop tables of others, and without `--discard-waiting` waiting messages and rows.
    fn refuse(&self, plan: &Plan, tables: Option<&Tables<'_>>) -> Result<(), Failure> {
        tables.map_or(Ok(()), |it| refuse_what_is_of_others(&it.there))?;
        let rows_wait = tables.is_some_and(|it| it.there.tables.iter().any(OwnTable::waits));
        if plan.refusals.is_empty() && (self.discard_waiting || !rows_wait) {
            return Ok(());
        }
        let mut text = "nothing was removed: see above".to_owned();
        if rows_wait || plan.refusals.iter().any(|it| matches!(it, Refusal::Waiting { .. })) {
            text += ". Stop the order services, leave the workers running until `overdue status` shows that nothing \
                     waits, and look at `overdue parked list`; then stop the workers and run this again. Or lose what \
                     waits with --discard-waiting";
        }
        Err(Failure::failed(text))
    }

    fn answer(&self, done: &apply::Applied, dropped: Option<&Tables<'_>>) -> Result<(), Failure> {
        let tables = dropped.iter().flat_map(|it| &it.there.tables).map(|it| it.name.as_str());
        let (applied, left) = (done.applied, done.left.clone());
        let removed = Removed { version: 1, applied, left, tables: tables.collect() };
        if self.output.is_json() {
            return print_json(&removed);
        }
        let mut text = String::new();
        for left in &removed.left {
            let _written = writeln!(text, "left, {left}");
        }
        let steps = applied + removed.left.len();
        if steps > 0 {
            let _written = writeln!(text, "carried out {applied} of {steps} steps");
        }
        if !removed.tables.is_empty() {
            let _written = writeln!(text, "dropped {}", counted(removed.tables.len(), "table"));
        }
        if text.is_empty() { Ok(()) } else { print(text) }
    }
}

fn refuse_what_is_of_others(there: &OwnTables) -> Result<(), Failure> {
    let OwnTables { schema, foreign, other_topologies, .. } = there;
    let list = |names: &[String]| {
        names.iter().map(|it| format!("`{}`", one_line(it))).collect::<Vec<_>>().join(", ")
    };
    if !foreign.is_empty() {
        return Err(Failure::failed(format!(
            "nothing was removed: schema {schema} has {} with other columns than `overdue database init` makes. Move what is \
             yours to another schema, or run this without --tables",
            list(foreign)
        )));
    }
    if !other_topologies.is_empty() {
        return Err(Failure::failed(format!(
            "nothing was removed: the tables in schema {schema} are also for topology {}: schedule() takes its timeouts. Run this \
             without --tables; or, if it is removed, delete its rows from {schema}.schedule_timeouts first",
            list(other_topologies)
        )));
    }
    Ok(())
}

fn what(plan: &Plan) -> String {
    if plan.is_empty() && plan.notes.is_empty() {
        return "nothing of it is on the broker".to_owned();
    }
    plan.to_string()
}

fn rows(tables: Option<&Tables<'_>>) -> String {
    let Some(tables) = tables else { return String::new() };
    let mut text = format!("\nTables at {}", tables.store.address());
    for table in &tables.there.tables {
        let _written = write!(text, "\n  - table     {table}");
    }
    if tables.there.tables.is_empty() {
        text += ": none of them is there";
    }
    text
}
