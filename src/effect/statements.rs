//! The statements of a described effect.

use std::fmt::Write as _;

use super::{
    deadline::deadline,
    description::{Change, Description, Mistake, Release, Since},
    facts::{Facts, Relation},
    release::{Part, assigned},
};
use crate::text::sql::{identifier, literal};

/// The statements of an effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// Locks the rows of a batch before `close`, in the same transaction; `$1 text[]` ids. `None` if `close` locks them itself.
    pub lock: Option<String>,
    /// `$1 text[]` ids, `$2 text` path, and optionally `$3 jsonb` traces → `order_id`, `outcome`, `due_at`, `decided_at`.
    pub close: String,
    /// `close` with SKIP LOCKED, so that it never waits for a lock.
    pub close_contended: Option<String>,
    /// `$1 bigint` limit, `$2 bigint` grace in ms, `$3 timestamptz` and `$4 text` the order before → `order_id`, `due_at`. Without
    /// this statement the effect is not swept.
    pub overdue: Option<String>,
}

/// Whether a statement waits for locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Waits for locks on the rows to release.
    Waits,
    /// Skips rows that another session has locked.
    Passes,
}

/// A description together with the facts about its tables.
pub(super) struct Writer<'a> {
    pub(super) description: &'a Description,
    pub(super) facts: &'a Facts,
    /// The deadline as `timestamptz`, whatever the time zone of the session.
    pub(super) deadline: String,
    /// Whether rows are also closed before their deadline.
    pub(super) is_trial: bool,
    /// Releases in the order of their tables' names, which is the order of their locks.
    pub(super) releases: Vec<(&'a Release, &'a Relation)>,
}

impl Statements {
    /// Writes the statements of a description.
    ///
    /// # Errors
    /// The description does not fit the tables.
    pub fn of(description: &Description, facts: &Facts) -> Result<Self, Mistake> {
        let writer = Writer::new(description, facts)?;
        Ok(Self {
            lock: Some(writer.lock()),
            close: writer.close(Waiting::Waits),
            close_contended: Some(writer.close(Waiting::Passes)),
            overdue: Some(writer.overdue()),
        })
    }
}

/// The privileges that a role needs to run the effect, with their tables.
pub(crate) fn rights(description: &Description, facts: &Facts) -> Vec<(&'static str, String)> {
    let of = |change: &Change| match change {
        // A row lock also needs UPDATE.
        Change::Delete => "SELECT, UPDATE, DELETE",
        Change::Add(_) | Change::Set(_) => "SELECT, UPDATE",
    };
    let own = (of(&description.change), facts.table.name.clone());
    let released = description.releases.iter().zip(&facts.releases);
    let released = released.map(|(release, relation)| (of(&release.change), relation.name.clone()));
    [own].into_iter().chain(released).collect()
}

pub(super) fn mistake(key: &'static str, what: impl Into<String>) -> Mistake {
    Mistake { key, what: what.into() }
}

impl<'a> Writer<'a> {
    pub(super) fn new(description: &'a Description, facts: &'a Facts) -> Result<Self, Mistake> {
        let Facts { table, releases, .. } = facts;
        usable("table", table)?;
        for column in &description.key {
            if table.kind_of(column).is_none() {
                let names: Vec<&str> = table.columns.iter().map(|it| it.name.as_str()).collect();
                let what =
                    format!("{} has no column {column}: it has {}", table.name, names.join(", "));
                return Err(mistake("key", what));
            }
        }
        if !table.is_unique(&description.key) {
            let key = description.key.join(", ");
            let what = format!(
                "nothing says that {key} is unique in {}, so a message could close the row of another one: name the columns of \
                 its primary key, or CREATE UNIQUE INDEX CONCURRENTLY ON {} ({key})",
                table.name, table.name
            );
            return Err(mistake("key", what));
        }
        let mut targets: Vec<_> = description.releases.iter().zip(releases).collect();
        targets.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        for (index, (_, relation)) in targets.iter().enumerate() {
            usable("release", relation)?;
            if relation.row_key().is_none() {
                let what = format!(
                    "{} has no primary key, by which its rows could be locked in an order: add one, or a unique index without NULL",
                    relation.name
                );
                return Err(mistake("release", what));
            }
            let others = targets[..index].iter().map(|it| &it.1.name);
            if relation.name == table.name || others.into_iter().any(|it| *it == relation.name) {
                let what = format!(
                    "{} is changed twice, and PostgreSQL carries out one of two changes of a row: write one block for it",
                    relation.name
                );
                return Err(mistake("release", what));
            }
        }
        let deadline = deadline(description, facts)?;
        Ok(Self { description, facts, deadline, is_trial: false, releases: targets })
    }

    fn parts(&self) -> Vec<Part<'a>> {
        let parts = (1..).zip(&self.releases);
        parts.map(|(number, &(release, relation))| Part { number, release, relation }).collect()
    }

    pub(super) fn table(&self) -> &str {
        &self.facts.table.name
    }

    /// The columns of the key, qualified.
    pub(super) fn key(&self, alias: &str) -> Vec<String> {
        self.description.key.iter().map(|it| format!("{alias}.{}", identifier(it))).collect()
    }

    pub(super) fn key_kinds(&self) -> Vec<&str> {
        let kind = |column: &String| self.facts.table.kind_of(column).unwrap_or("text");
        self.description.key.iter().map(kind).collect()
    }

    /// SQL of the key of `row`, as messages spell it.
    pub(super) fn key_text(&self) -> String {
        match &self.key("row")[..] {
            [column] => format!("{column}::text"),
            columns => {
                let part = |column: &String| {
                    format!(
                        "replace(replace(replace({column}::text, '%', '%25'), '/', '%2F'), ' ', '%20')"
                    )
                };
                columns.iter().map(part).collect::<Vec<_>>().join(" || '/' || ")
            }
        }
    }

    /// `FROM` and `WHERE` for the rows whose keys are in an array of texts.
    pub(super) fn rows(&self, keys: &str) -> (String, String) {
        match (&self.key("row")[..], &self.key_kinds()[..]) {
            ([column], [kind]) => {
                let cast = if *kind == "text" { String::new() } else { format!("::{kind}[]") };
                (
                    format!("{} AS row", self.table()),
                    format!("{column} = ANY ({keys}::text[]{cast})"),
                )
            }
            (columns, kinds) => {
                let parts = kinds.iter().enumerate().map(|(index, kind)| {
                    format!("{}::{kind} AS overdue_{}", part("id", index + 1), index + 1)
                });
                let asked = format!(
                    "(SELECT DISTINCT {} FROM pg_catalog.unnest({keys}::text[]) AS id) AS asked",
                    parts.collect::<Vec<_>>().join(", ")
                );
                let equal = columns.iter().enumerate();
                let equal = equal.map(|(index, column)| {
                    format!("{column} = ANY (ARRAY[asked.overdue_{}])", index + 1)
                });
                (
                    format!("{asked}, {} AS row", self.table()),
                    equal.collect::<Vec<_>>().join(" AND "),
                )
            }
        }
    }

    pub(super) fn first_deadline(&self) -> Option<String> {
        match self.description.since {
            Since::At(at) if !self.is_trial => {
                Some(format!("timestamptz {}", literal(&at.to_string())))
            }
            Since::At(_) | Since::All | Since::Unsaid => None,
        }
    }

    /// The lock is stronger if the row is deleted, or if `unless` reads other tables: a payment that refers to the row by a foreign
    /// key must then wait.
    fn row_lock(&self) -> &'static str {
        if self.description.unless.is_some() || self.description.change == Change::Delete {
            "FOR UPDATE"
        } else {
            "FOR NO KEY UPDATE"
        }
    }

    pub(super) fn lock(&self) -> String {
        let Self { description: Description { name, .. }, .. } = self;
        let (from, condition) = self.rows("$1");
        let (word, found) = if self.has_place() {
            ("places", "row.ctid".to_owned())
        } else {
            ("keys", self.key_text())
        };
        format!(
            "\
-- {name}, first statement of the transaction: locks rows of {table}, in the order of the key. Rows that
-- another session has locked are left out. The second statement begins when these locks are held, so
-- it reads what was committed before.
-- $1 text[] keys
-- -> locked text: the {word} of the locked rows, which the second statement reads from this setting
SELECT set_config('overdue.locked', coalesce(pg_catalog.array_agg(found)::text, '{{}}'), true) AS locked
FROM (
    SELECT {found} AS found FROM {from}
    WHERE {condition}
    ORDER BY {order} {lock} OF row SKIP LOCKED
) AS locked
",
            table = self.table(),
            order = self.key("row").join(", "),
            lock = self.row_lock(),
        )
    }

    #[expect(clippy::too_many_lines, reason = "the statement from its beginning to its end")]
    pub(super) fn close(&self, waiting: Waiting) -> String {
        let Description { name, open, unless, change, event, .. } = self.description;
        let (own, outcome) = (&self.facts.own_schema, self.description.outcome());
        // After the transaction the setting is empty, but no longer missing.
        let locked = "nullif(current_setting('overdue.locked', true), '')";
        let (locked_from, locked_where) = if self.has_place() {
            (format!("{} AS row", self.table()), format!("row.ctid = ANY ({locked}::tid[])"))
        } else {
            self.rows(locked)
        };
        let key_text = self.key_text();
        let deadline = &self.deadline;
        let since = self.first_deadline();
        let waits = match waiting {
            Waiting::Waits => "",
            Waiting::Passes => ", and it waits for no lock",
        };
        let mut sql = format!(
            "\
-- {name}, second statement of the transaction: closes the rows of {table} that the first one has
-- locked and that are open after their deadline{waits}.
-- $1 text[] keys, $2 text what made them due: message, burst or sweep, $3 jsonb traces of their notices
-- -> order_id text, outcome text ({word} | already_final | not_due | busy), due_at timestamptz,
--    decided_at timestamptz
WITH locked AS MATERIALIZED (
    SELECT row.*, {place}{key_text} AS overdue_key, {deadline} AS overdue_due_at, ({open}) IS TRUE AS overdue_open
    FROM {locked_from}
    WHERE {locked_where}
), due AS MATERIALIZED (
    SELECT * FROM locked AS row
    WHERE overdue_open{guard}",
            place = if self.has_place() { "row.ctid AS overdue_place, " } else { "" },
            guard = if self.is_trial { "" } else { " AND overdue_due_at <= now()" },
            table = self.table(),
            word = outcome_literal(outcome),
        );
        if let Some(since) = &since {
            add(&mut sql, &format!(" AND overdue_due_at >= {since}"));
        }
        if let Some(unless) = unless {
            add(&mut sql, &format!("\n      AND ({unless}) IS NOT TRUE"));
        }
        add(&mut sql, "\n)");
        let parts = self.parts();
        // If a single table's rows are found by their key, sums are enough: rows are changed in the order of the key.
        let is_direct = waiting == Waiting::Waits && parts.len() == 1 && parts[0].is_direct();
        let mut missing = Vec::new();
        for part in parts.iter().filter(|_| !is_direct) {
            add(&mut sql, &part.needed());
            add(&mut sql, &part.held(waiting));
            missing.push(part.missing());
        }
        if !missing.is_empty() {
            add(
                &mut sql,
                &format!(
                    ", missing AS MATERIALIZED (
    -- Rows that need what is not locked, or was changed since the statement began: they are busy. The
    -- tables are locked one after the other in this order.
    {}
)",
                    missing.join("\n    UNION ALL\n    ")
                ),
            );
        }
        let (columns, found, how) = self.found_again();
        let (verb, using, kept) = match change {
            Change::Set(assignments) | Change::Add(assignments) => (
                format!("UPDATE {} AS row SET {}", self.table(), assigned(assignments)),
                "FROM",
                format!("({open}) IS TRUE"),
            ),
            Change::Delete => {
                (format!("DELETE FROM {} AS row", self.table()), "USING", "false".to_owned())
            }
        };
        let free = if missing.is_empty() {
            ""
        } else {
            "\n        WHERE overdue_key NOT IN (SELECT overdue_key FROM missing)"
        };
        add(
            &mut sql,
            &format!(
                ", changed AS (
    -- {how}
    {verb}
    {using} (
        SELECT {columns}, overdue_key, overdue_due_at FROM due{free}
    ) AS due
    WHERE {found}
    RETURNING due.overdue_key, due.overdue_due_at, {kept} AS overdue_open
), closed AS (
    -- Nothing has become of a row that a BEFORE trigger has kept open.
    SELECT overdue_key, overdue_due_at FROM changed WHERE NOT overdue_open
), recorded AS (
    INSERT INTO {own}.closures (order_id, effect, path, due_at, outcome)
    SELECT overdue_key, {effect}, $2, overdue_due_at, {word} FROM closed
)",
                effect = literal(name),
                word = literal(outcome),
            ),
        );
        if let Some(event) = event {
            add(&mut sql, &format!(
                ", announced AS (
    -- Off in the sessions of a worker that publishes no events.
    INSERT INTO {own}.outbox (event, order_id, traceparent, tracestate)
    SELECT {event}, overdue_key, $3::jsonb -> overdue_key ->> 'traceparent', $3::jsonb -> overdue_key ->> 'tracestate'
    FROM closed WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
)",
                event = literal(event),
            ));
        }
        if is_direct {
            add(
                &mut sql,
                ", closed_rows AS MATERIALIZED (
    SELECT * FROM due WHERE (overdue_key IN (SELECT overdue_key FROM closed)) IS TRUE
)",
            );
        }
        for part in &parts {
            add(&mut sql, &if is_direct { part.summed() } else { part.released() });
        }
        let early = since.map_or_else(String::new, |since| format!(" OR overdue_due_at < {since}"));
        let busy = if missing.is_empty() {
            ""
        } else {
            "\n            WHEN (overdue_key IN (SELECT overdue_key FROM missing)) IS TRUE THEN 'busy'"
        };
        let (from, condition) = self.rows("$1");
        add(
            &mut sql,
            &format!(
                "
-- IS TRUE and NOT IN look into a hash table, however few rows PostgreSQL expects.
SELECT overdue_key AS order_id,
       CASE WHEN (overdue_key IN (SELECT overdue_key FROM closed)) IS TRUE THEN {word}
            WHEN NOT overdue_open OR overdue_due_at IS NULL{early} THEN 'already_final'{busy}
            ELSE 'not_due' END AS outcome,
       overdue_due_at AS due_at,
       now() AS decided_at
FROM locked
UNION ALL
-- Locked by another session: the worker asks again until the row is free.
SELECT {key_text}, 'busy', {deadline}, now() FROM {from}
WHERE (SELECT count(*) FROM locked) < pg_catalog.cardinality($1::text[])
  AND {condition}
  AND {key_text} NOT IN (SELECT overdue_key FROM locked)
",
                word = outcome_literal(outcome),
            ),
        );
        sql
    }

    /// Whether `ctid` identifies a row; it does not across partitions.
    fn has_place(&self) -> bool {
        self.facts.table.partitions.is_empty() && self.facts.table.kind == "r"
    }

    /// How the change finds a locked row again: columns, condition, and the reason as a comment of the statement.
    fn found_again(&self) -> (String, String, &'static str) {
        if self.has_place() {
            let how = "The rows are locked, so each is at the place where it was read.";
            return ("overdue_place".to_owned(), "row.ctid = due.overdue_place".to_owned(), how);
        }
        let names = self.description.key.iter().map(|it| identifier(it));
        let columns = (1..).zip(names).map(|(number, it)| format!("{it} AS overdue_{number}"));
        let equal = (1..).zip(self.key("row"));
        let equal = equal.map(|(number, it)| format!("{it} = ANY (ARRAY[due.overdue_{number}])"));
        (
            columns.collect::<Vec<_>>().join(", "),
            equal.collect::<Vec<_>>().join(" AND "),
            "`= ANY (ARRAY[x])` is `= x`; it leaves PostgreSQL one way to find the rows: by the index, one by one.",
        )
    }
}

fn usable(key: &'static str, relation: &Relation) -> Result<(), Mistake> {
    match relation.kind.as_str() {
        "r" | "p" => Ok(()),
        _ => Err(mistake(
            key,
            format!(
                "{} is no table, so its rows cannot be locked: name the table behind it",
                relation.name
            ),
        )),
    }
}

/// SQL that decodes a part of a key with several columns.
pub(super) fn part(key: &str, number: usize) -> String {
    format!(
        "replace(replace(replace(split_part({key}, '/', {number}), '%20', ' '), '%2F', '/'), '%25', '%')"
    )
}

fn outcome_literal(outcome: &str) -> String {
    if outcome == "closed" { literal(outcome) } else { literal(&format!("done:{outcome}")) }
}

fn add(sql: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _written = sql.write_str(text);
}
