//! What the worker uses in the database: tables, effects, the sweep's index, the outbox.

use std::time::Duration;

use super::{
    effect_plan::{EffectPlan, Scan},
    facts::{Asked, Facts, Outbox, RefusedName, Sweep, Table, known},
};
use crate::{
    condition,
    diagnostic::Draft,
    text::{about, counted},
};

/// Are the tables of overdue there, with the rights to use them?
pub(crate) fn ours(facts: &Facts) -> Draft {
    known(&facts.database.tables, |tables| judge_tables(tables))
}

/// All of them, and nothing lacking.
pub fn judge_tables(tables: &[Table]) -> Draft {
    let names = |of: fn(&&Table) -> bool| {
        tables.iter().filter(of).map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let missing = names(|table| !table.exists);
    if !missing.is_empty() {
        return Draft::error(
            format!("not found along database.search_path: {missing}"),
            "overdue database init, or correct database.search_path",
        );
    }
    match tables.iter().find(|table| !table.lacks.is_empty()) {
        Some(Table { name, lacks, .. }) => {
            let lacks = lacks.join(", ");
            Draft::error(
                format!("the user lacks {lacks} on {name}"),
                format!("GRANT {lacks} ON {name} TO the user of database.url"),
            )
        }
        None => Draft::ok(names(|_| true)),
    }
}

/// Does the SQL of each effect fit the tables?
pub(crate) fn effects(facts: &Facts) -> Draft {
    judge_effects(&facts.database.effects)
}

/// The first one that does not fit is reported, otherwise the first that has no index for what it looks up.
pub fn judge_effects(effects: &[(String, Asked<EffectPlan>)]) -> Draft {
    for (_, checked) in effects {
        if let Err(gap) = checked {
            return Draft::error(gap.reason.clone(), gap.fix.clone());
        }
    }
    let plans = effects.iter().filter_map(|(name, plan)| Some((name, plan.as_ref().ok()?)));
    for (name, plan) in plans {
        if let Some(Scan { table, .. }) = plan.scans.iter().find(|scan| scan.is_large()) {
            return Draft::warning(
                format!("effect {name} reads {table} from end to end each time"),
                format!(
                    "CREATE INDEX ON {table} (what it is looked up by), and cast the parameter, not the column; \
                     `overdue effect check {name}` shows the plan"
                ),
            );
        }
    }
    let names: Vec<&str> = effects.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Draft::warning("not known: no topology, or no session", "see the errors above");
    }
    Draft::ok(format!("{} fits", names.join(", ")))
}

/// Does an index serve the sweep?
pub(crate) fn sweep_index(facts: &Facts) -> Draft {
    let effects = &facts.database.effects;
    match effects.iter().find(|(_, fits)| fits.is_err()) {
        Some((name, _)) => {
            Draft::warning(format!("not known: effect {name} does not fit"), "see effects")
        }
        None => judge_sweeps(&facts.database.sweeps),
    }
}

/// A scan that is left although PostgreSQL was asked to avoid scans has no index to go by.
pub fn judge_sweeps(sweeps: &[(String, Asked<Sweep>)]) -> Draft {
    for (effect, sweep) in sweeps {
        match sweep {
            Err(gap) => {
                return Draft::warning(format!("not known: {}", gap.reason), gap.fix.clone());
            }
            Ok(Sweep::None) => {
                return Draft::warning(
                    format!(
                        "effect {effect} has no overdue_sql: an order whose message is lost stays open"
                    ),
                    format!("set effects.{effect}.overdue_sql (docs/effects.md)"),
                );
            }
            Ok(Sweep::Planned { scans }) if !scans.is_empty() => {
                let tables = scans.join(", ");
                return Draft::warning(
                    format!("the sweep of effect {effect} reads {tables} from end to end"),
                    format!(
                        "CREATE INDEX ON {} (its deadline, its key) WHERE the state that is still open, in the words of \
                         overdue_sql, with the state as a literal there",
                        scans[0]
                    ),
                );
            }
            Ok(Sweep::Planned { .. }) => {}
        }
    }
    if sweeps.is_empty() {
        return Draft::warning("not known: no topology, or no session", "see the errors above");
    }
    Draft::ok("the sweep goes by an index")
}

/// Are events published?
pub(crate) fn outbox(facts: &Facts) -> Draft {
    let missing =
        |tables: &Vec<Table>| tables.iter().any(|t| t.name.starts_with("outbox") && !t.exists);
    if facts.database.tables.as_ref().is_ok_and(missing) {
        return Draft::warning("not known: there is no outbox", "see tables");
    }
    known(&facts.database.outbox, judge_outbox)
}

/// An age by the database's clock, which may be behind.
pub(super) fn millis(age_ms: i64) -> Duration {
    Duration::from_millis(age_ms.max(0).unsigned_abs())
}

fn longest_refused(name: &RefusedName) -> String {
    let RefusedName { event, lasts_ms, order_id, reason } = name;
    let lasts = about(millis(*lasts_ms));
    let first = match (order_id, reason) {
        (Some(order_id), Some(reason)) => format!(", the oldest of order {order_id}: {reason}"),
        _ => String::new(),
    };
    format!("; for the longest time {event} ({lasts}){first}")
}

/// A worker empties it within seconds.
pub fn judge_outbox(outbox: &Outbox) -> Draft {
    let Outbox { events, oldest_ms, refused, longest, unpublishable, unpublishable_reason } =
        outbox;
    let (refused, unpublishable) = (*refused, *unpublishable);
    if unpublishable > 0 {
        let (counted, reason) =
            (self::counted(unpublishable, "event"), unpublishable_reason.as_deref());
        return Draft::warning(
            format!("{counted} can never be published: {}", reason.unwrap_or_default()),
            "look at outbox_refused where waits_for is NULL, correct what writes them, and delete the rows",
        );
    }
    if refused > 0 {
        let counted = self::counted(refused, "event");
        return Draft::warning(
            format!(
                "{counted} refused or not confirmed by the broker{}",
                longest.as_ref().map(longest_refused).unwrap_or_default()
            ),
            "make room in the queues bound for it, look whether they have a leader and a majority of their members, or look in \
             a worker's log for `an event is refused`",
        );
    }
    let (counted, seconds) = (counted(*events, "event"), oldest_ms / 1_000);
    match *events {
        0 => Draft::ok("empty"),
        _ if condition::is_old(millis(*oldest_ms)) => Draft::warning(
            format!("{counted} waiting, the oldest for {seconds} s"),
            "start a worker, or look in its log for `relay failed`",
        ),
        _ => Draft::ok(format!("{counted} on the way, the oldest {seconds} s old")),
    }
}
