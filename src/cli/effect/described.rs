//! A trial of a described effect on open rows, with findings.

use std::fmt;

use serde::Serialize;

use crate::{
    effect::{
        Description, Facts,
        changes::TableImages,
        description::{Change, Since},
        look, statements,
    },
    order::OrderId,
    store::{Store, StoreError, clock::DatabaseTime, effects::Effect, overdue::OpenOrders},
    text::{counted, sql::identifier},
};

use super::MOST_COUNTED;

/// Names of version columns (optimistic locks): a program compares the version before it writes the row.
const VERSIONS: [&str; 4] = ["lock_version", "version", "row_version", "lock_no"];
/// Rows above which a table is too large to be read from end to end.
const LARGE: f32 = 1_000_000.0;
/// Rows that a look for overdue rows may read without being due.
const MOST_READ: i64 = 10_000;

/// Changes that a described effect would make.
#[derive(Debug, Default, Serialize)]
pub(super) struct WouldDo {
    /// The reason why the changes are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// Open rows that the effect was tried on, due or not.
    pub(super) rows: usize,
    /// Examples by table: `shop.purchase 4711: state 10 → 90`.
    pub(super) examples: Vec<String>,
    /// Each kind of change with its sum.
    pub(super) sums: Vec<String>,
    /// Changes that triggers make in other tables.
    pub(super) triggers: Vec<String>,
    /// Mistakes, each with the line that corrects it.
    pub(super) findings: Vec<String>,
}

impl WouldDo {
    /// Tries the effect on open rows, due or not.
    pub(super) async fn of(
        store: &Store,
        effect: &Effect,
        ids: &[OrderId],
        open: Option<&OpenOrders>,
    ) -> Result<Option<Self>, StoreError> {
        let Some(description) = effect.description() else { return Ok(None) };
        let facts = store.table_facts(effect, description).await?;
        let changes = store.changes(effect, description, &facts, ids).await?;
        let tables = || std::iter::once(&changes.own).chain(&changes.released);
        let examples = tables().flat_map(|images| {
            images.examples().into_iter().map(|it| format!("{} {it}", images.table))
        });
        let triggers = changes.others.iter().map(|other| {
            let what = ["inserted", "updated", "deleted"].into_iter().zip(other.rows);
            let what = what
                .filter(|(_, rows)| *rows > 0)
                .map(|(verb, rows)| format!("{} {verb}", counted(rows, "row")));
            format!("{}: {}", other.table, what.collect::<Vec<_>>().join(", "))
        });
        let mut would = Self {
            failure: None,
            rows: ids.len(),
            examples: examples.collect(),
            sums: tables().flat_map(TableImages::sums).collect(),
            triggers: triggers.collect(),
            findings: Vec::new(),
        };
        for table in &changes.hidden {
            would.finding(format!(
                "row level security hides rows of {table} from this login: a hidden row stays open, and its message finds nothing. \
                 Give the role of the worker BYPASSRLS, or a policy for all rows"
            ));
        }
        if changes.own.count() > 0 {
            for images in changes.released.iter().filter(|images| images.count() == 0) {
                would.finding(format!(
                    "nothing is given back to {}: its `where` finds no row for {} of {}. Compare the columns that it joins",
                    images.table,
                    counted(changes.own.count(), "open row"),
                    changes.own.table
                ));
            }
        }
        for images in &changes.released {
            for wrong in images.wrong_counters() {
                would.finding(format!(
                    "{wrong}: look at the sign of the amount in `add`; a counter of what is reserved goes down, one of what is free goes up"
                ));
            }
        }
        would.findings.extend(raised(description, &facts));
        if ids.is_empty() {
            let there = store.values_there_are(description, &facts).await?;
            let there = if there.is_empty() {
                String::new()
            } else {
                format!(": there are {}", there.join("; "))
            };
            would.finding(format!("no row is open by `{}`{there}", description.open));
        }
        // Skip the reference tables: the meaning of their deadlines is known.
        if let Some(open) = open.filter(|_| !effect.is_built_in()) {
            would.findings.extend(every_row_is_late(description, open, store.now().await?));
        }
        would.look(store, effect, description, &facts).await?;
        Ok(Some(would))
    }

    /// The result if one of the rows cannot be closed, so that the changes are unknown.
    pub(super) fn unknown(error: &StoreError) -> Self {
        Self { failure: Some(error.answer()), ..Self::default() }
    }

    fn finding(&mut self, what: String) {
        self.findings.push(what);
    }

    /// Checks the index for the look for overdue rows.
    async fn look(
        &mut self,
        store: &Store,
        effect: &Effect,
        description: &Description,
        facts: &Facts,
    ) -> Result<(), StoreError> {
        let invalid = store.invalid_indexes(&facts.table.name).await?;
        for index in invalid {
            self.finding(format!(
                "the index {index} is invalid, so no look uses it: DROP INDEX CONCURRENTLY {index}, and create it again"
            ));
        }
        self.findings.extend(reads_too_much(store, effect, description, facts).await?);
        Ok(())
    }
}

impl fmt::Display for WouldDo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            return writeln!(
                f,
                "  would do     is not known, because closing these rows together fails: {failure}"
            );
        }
        let rows = counted(self.rows, "open row");
        writeln!(f, "  would do     to {rows}, due or not, rolled back: {}", listed(&self.sums))?;
        self.examples.iter().try_for_each(|it| writeln!(f, "               {it}"))?;
        self.triggers.iter().try_for_each(|it| writeln!(f, "  triggers     {it}"))?;
        self.findings.iter().try_for_each(|it| writeln!(f, "  finding      {it}"))
    }
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "nothing".to_owned() } else { items.join("; ") }
}

/// Finding that a large table needs an index before anything can be tried.
pub(super) async fn needs_index_first(
    store: &Store,
    effect: &Effect,
) -> Result<Option<String>, StoreError> {
    let Some(description) = effect.description() else { return Ok(None) };
    let facts = store.table_facts(effect, description).await?;
    if store.rows_by_statistics(&facts.table.name).await? <= LARGE {
        return Ok(None);
    }
    reads_too_much(store, effect, description, &facts).await
}

/// Finding that a look for overdue rows reads more than the rows that are due, with the correction.
async fn reads_too_much(
    store: &Store,
    effect: &Effect,
    description: &Description,
    facts: &Facts,
) -> Result<Option<String>, StoreError> {
    let Some(plan) = store.look_plan(effect).await? else { return Ok(None) };
    let table = &facts.table.name;
    if !plan.scans.is_empty() {
        return Ok(Some(without_index(description, facts, &format!("all of {table}"))));
    }
    // An index on `not_before`, or on a column of `open`, finds rows that PostgreSQL must sort by their deadline.
    if !plan.sorts || store.open_before(description, facts, MOST_READ + 1).await? <= MOST_READ {
        return Ok(None);
    }
    Ok(Some(if description.not_before.is_some() {
        format!(
            "a look for overdue rows reads more than {MOST_READ} rows that are open and not yet due, because `not_before` is long before \
             their deadline: choose an expression that is closer to it"
        )
    } else {
        let reads = format!("all open rows of {table}, more than {MOST_READ}");
        without_index(description, facts, &reads)
    }))
}

fn without_index(description: &Description, facts: &Facts, reads: &str) -> String {
    let reads = format!("a look for overdue rows reads {reads}");
    let has_query = description.deadline.to_ascii_lowercase().contains("select ");
    if has_query && description.not_before.is_none() {
        return format!(
            "{reads}, because no index can have the query in `deadline`: write not_before with an expression that is never later, such \
             as not_before = \"created_at\""
        );
    }
    let index = look::index(description, facts).unwrap_or_default();
    format!(
        "{reads}: {} If PostgreSQL refuses the expression, write not_before with a column that is never later than the deadline",
        index.join(" ")
    )
}

/// Findings about version columns that the effect does not increment.
fn raised(description: &Description, facts: &Facts) -> Vec<String> {
    let Change::Set(set) = &description.change else { return Vec::new() };
    let is_version = |name: &str, kind: &str| {
        VERSIONS.contains(&name) && ["integer", "bigint", "smallint"].contains(&kind)
    };
    let columns = facts.table.columns.iter().filter(|it| is_version(&it.name, &it.kind));
    let missing = columns.filter(|it| !set.iter().any(|(column, _)| *column == it.name));
    missing
        .map(|column| {
            let name = identifier(&column.name);
            format!(
                "{name} is not raised: a program that read the row before can write over the closed one (optimistic lock). Add \
                 {name} = \"{name} + 1\" to `set`"
            )
        })
        .collect()
}

/// Finding that the deadline has passed in every open row: the column is probably the time of creation.
fn every_row_is_late(
    Description { deadline: column, .. }: &Description,
    open: &OpenOrders,
    now: DatabaseTime,
) -> Option<String> {
    let is_column = !column.contains(['+', '(', ' ']) && !open.is_more(MOST_COUNTED);
    let (_, last) = open.due.filter(|_| open.overdue == open.orders && is_column)?;
    Some(format!(
        "every open row is overdue, the newest by {} s: if {column} is when a row was made, write deadline = \"{column} + interval '30 minutes'\"",
        last.until(now).as_secs()
    ))
}

/// Statements of a described effect, for a DBA.
pub(super) async fn show(store: &Store, effect: &Effect) -> Result<String, StoreError> {
    let statements = store.statements(effect).await?;
    let parts = [&statements.lock, &Some(statements.close.clone()), &statements.overdue];
    let parts = parts.into_iter().flatten().map(|part| part.trim_end().trim_end_matches(';'));
    let mut text = parts.fold(String::new(), |text, part| text + part + ";\n\n");
    let Some(description) = effect.description() else { return Ok(text.trim_end().to_owned()) };
    let facts = store.table_facts(effect, description).await?;
    text += "-- Where a lock is not free within 50 ms, the worker runs the second statement with SKIP LOCKED behind each FOR … OF.\n\n";
    text += "-- the index that the look for overdue rows needs\n";
    for line in look::index(description, &facts).unwrap_or_default() {
        text = text + &line + "\n";
    }
    text += "\n-- what the role of the worker needs; also USAGE on the schemas, and what `unless`, `from` and triggers read\n";
    for (privileges, table) in statements::rights(description, &facts) {
        text = text + "GRANT " + privileges + " ON " + &table + " TO overdue_worker;\n";
    }
    Ok(text.trim_end().to_owned())
}

/// The overdue rows that a person is asked to accept, and the line of the description that excludes them.
pub(super) async fn backlog(
    store: &Store,
    effect: &Effect,
) -> Result<Option<(String, Vec<String>)>, StoreError> {
    let Some(description) = effect.description() else { return Ok(None) };
    let Some(backlog) = store.whole_backlog(effect).await? else { return Ok(None) };
    let oldest = backlog
        .oldest
        .map_or_else(String::new, |oldest| format!(", the oldest since {}", oldest.to_second()));
    let more = if backlog.is_more() { " or more" } else { "" };
    let rows = format!("{}{more} overdue{oldest}", counted(backlog.rows, "row"));
    let page = store.oldest_overdue(effect, 500).await?;
    let facts = store.table_facts(effect, description).await?;
    let changes = store.changes(effect, description, &facts, &page).await?;
    let mut lines = vec![rows];
    let of = if page.len() < backlog.rows {
        format!("the first {} of them: ", page.len())
    } else {
        String::new()
    };
    let sums = std::iter::once(&changes.own).chain(&changes.released).flat_map(TableImages::sums);
    lines.push(format!("{of}{}", sums.collect::<Vec<_>>().join("; ")));
    let now = store.now().await?.to_second();
    let since = match description.since {
        Since::All => "since = \"all\"".to_owned(),
        _ => format!("since = \"{now}\""),
    };
    Ok(Some((since, lines)))
}
