//! What the worker uses in the database: tables, effects, the sweep's index, the outbox.

use super::{
    Verdict,
    facts::{Asked, Facts, Outbox, Sweep, Table},
};
use crate::text::counted;

/// An event that waits for longer has no worker that publishes it.
const OUTBOX_AGE_MS: i64 = 60_000;

/// Are the tables of overdue there, with the rights to use them?
pub fn ours(facts: &Facts) -> Verdict {
    Verdict::of(&facts.database.tables, |tables| judge_tables(tables))
}

/// All of them, and nothing lacking.
pub fn judge_tables(tables: &[Table]) -> Verdict {
    let names = |of: fn(&&Table) -> bool| {
        tables.iter().filter(of).map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let missing = names(|table| !table.exists);
    if !missing.is_empty() {
        return Verdict::red(
            format!("not found along database.search_path: {missing}"),
            "overdue database init, or correct database.search_path",
        );
    }
    match tables.iter().find(|table| !table.lacks.is_empty()) {
        Some(Table { name, lacks, .. }) => {
            let lacks = lacks.join(", ");
            Verdict::red(
                format!("the user lacks {lacks} on {name}"),
                format!("GRANT {lacks} ON {name} TO the user of database.url"),
            )
        }
        None => Verdict::green(names(|_| true)),
    }
}

/// Does the SQL of each effect fit the tables?
pub fn effects(facts: &Facts) -> Verdict {
    judge_effects(&facts.database.effects)
}

/// The first one that does not fit is told.
pub fn judge_effects(effects: &[(String, Asked<()>)]) -> Verdict {
    for (_, checked) in effects {
        if let Err(gap) = checked {
            return Verdict::red(gap.reason.clone(), gap.fix.clone());
        }
    }
    let names: Vec<&str> = effects.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Verdict::amber("not known: no topology, or no session", "mend what is red above");
    }
    Verdict::green(format!("{} fits", names.join(", ")))
}

/// Does an index serve the sweep?
pub fn sweep_index(facts: &Facts) -> Verdict {
    let effects = &facts.database.effects;
    match effects.iter().find(|(_, fits)| fits.is_err()) {
        Some((name, _)) => {
            Verdict::amber(format!("not known: effect {name} does not fit"), "mend effects")
        }
        None => judge_sweeps(&facts.database.sweeps),
    }
}

/// A scan that is left although PostgreSQL was told to avoid scans has no index to go by.
pub fn judge_sweeps(sweeps: &[(String, Asked<Sweep>)]) -> Verdict {
    for (effect, sweep) in sweeps {
        match sweep {
            Err(gap) => {
                return Verdict::amber(format!("not known: {}", gap.reason), gap.fix.clone());
            }
            Ok(Sweep::None) => {
                return Verdict::amber(
                    format!(
                        "effect {effect} has no overdue_sql: an order whose message is lost stays open"
                    ),
                    format!("set effects.{effect}.overdue_sql (docs/effects.md)"),
                );
            }
            Ok(Sweep::Planned { scans }) if !scans.is_empty() => {
                let scans = scans.join(", ");
                return Verdict::amber(
                    format!("the sweep of effect {effect} reads {scans} from end to end"),
                    "CREATE INDEX ON orders (due_at, id) WHERE status = 'unpaid', with the status as a literal in overdue_sql",
                );
            }
            Ok(Sweep::Planned { .. }) => {}
        }
    }
    if sweeps.is_empty() {
        return Verdict::amber("not known: no topology, or no session", "mend what is red above");
    }
    Verdict::green("the sweep goes by an index")
}

/// Are events published?
pub fn outbox(facts: &Facts) -> Verdict {
    let missing = |tables: &Vec<Table>| tables.iter().any(|t| t.name == "outbox" && !t.exists);
    if facts.database.tables.as_ref().is_ok_and(missing) {
        return Verdict::amber("not known: there is no outbox", "mend tables");
    }
    Verdict::of(&facts.database.outbox, |outbox| judge_outbox(*outbox))
}

/// A worker empties it within seconds.
pub fn judge_outbox(outbox: Outbox) -> Verdict {
    let Outbox { events, oldest_ms } = outbox;
    let (counted, seconds) = (counted(events, "event"), oldest_ms / 1_000);
    match events {
        0 => Verdict::green("empty"),
        _ if oldest_ms > OUTBOX_AGE_MS => Verdict::amber(
            format!("{counted} waiting, the oldest for {seconds} s"),
            "start a worker, or look in its log for `relay failed`",
        ),
        _ => Verdict::green(format!("{counted} on the way, the oldest {seconds} s old")),
    }
}
