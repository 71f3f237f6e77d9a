//! The statements of a described effect.

use std::fmt::Write as _;

use super::{
    description::{Change, Description, Mistake, Release, Since},
    facts::{Facts, Relation},
    release::{Part, assigned},
};
use crate::text::sql::{identifier, literal};

/// The statements of an effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// Locks the rows of a batch, in the same transaction before `close`; `$1 text[]` ids. None where `close` does it itself.
    pub lock: Option<String>,
    /// `$1 text[]` ids, `$2 text` path, and `$3 jsonb` traces if it takes them → `order_id`, `outcome`, `due_at`, `decided_at`.
    pub close: String,
    /// The same, and it waits for no lock.
    pub close_contended: Option<String>,
    /// `$1 bigint` limit, `$2 bigint` grace in ms, `$3 timestamptz` and `$4 text` the order before → `order_id`,
    /// `due_at`; without it nothing is swept.
    pub overdue: Option<String>,
}

/// What a statement of the description waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Until a lock on what is released is free.
    Waits,
    /// For nothing: what another session has locked is passed over.
    Passes,
}

/// A description together with what the catalog says of its tables.
pub(super) struct Writer<'a> {
    description: &'a Description,
    facts: &'a Facts,
    /// The deadline as `timestamptz`, whatever the time zone of the session is.
    deadline: String,
    /// Whether rows are closed before their deadline.
    is_trial: bool,
    /// Releases in the order of their tables' names, which is the order of their locks.
    releases: Vec<(&'a Release, &'a Relation)>,
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

/// Statements that show what an effect does to rows, due or not, in a transaction that is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Locks the rows; `$1 text[]` keys.
    pub lock: String,
    /// Closes them whatever their deadline is; parameters as [`Statements::close`].
    pub close: String,
    /// `$1 text[]` keys → `key text`, `image jsonb`.
    pub rows: String,
    /// Of each release.
    pub targets: Vec<TrialTarget>,
}

/// Statements that show the rows of a release before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialTarget {
    /// The name of the table.
    pub table: String,
    /// The columns that amounts are added to.
    pub columns: Vec<String>,
    /// `$1 text[]` keys of rows of the effect → `key jsonb`, `image jsonb`.
    pub before: String,
    /// `$1 jsonb` an array of these keys → the same.
    pub after: String,
}

impl Trial {
    /// Writes the statements of a description.
    ///
    /// # Errors
    /// The description does not fit the tables.
    pub(crate) fn of(description: &Description, facts: &Facts) -> Result<Self, Mistake> {
        let mut writer = Writer::new(description, facts)?;
        writer.is_trial = true;
        let (from, condition) = writer.rows("$1");
        let key = writer.key_text();
        let targets = writer.releases.iter().map(|(release, relation)| {
            let short = &release.table.short;
            let columns = relation.row_key().unwrap_or_default();
            let each = columns.iter().map(|it| format!("{short}.{}", identifier(it)));
            let each = each.collect::<Vec<_>>().join(", ");
            let between = release.from.as_ref().map_or_else(String::new, |it| format!("{it}, "));
            let equal = columns.iter().enumerate().map(|(index, it)| {
                let kind = relation.kind_of(it).unwrap_or("text");
                format!("{short}.{} = ANY (ARRAY[(wanted.key ->> {index})::{kind}])", identifier(it))
            });
            let table = &relation.name;
            TrialTarget {
                table: table.clone(),
                columns: match &release.change {
                    Change::Add(amounts) => amounts.iter().map(|(column, _)| column.clone()).collect(),
                    Change::Set(_) | Change::Delete => Vec::new(),
                },
                before: format!(
                    "SELECT DISTINCT found.* FROM (SELECT row.* FROM {from} WHERE {condition}) AS row CROSS JOIN LATERAL (\
                     SELECT jsonb_build_array({each}) AS key, to_jsonb({short}) AS image FROM {between}{table} WHERE {} OFFSET 0) AS found",
                    release.condition
                ),
                after: format!(
                    "SELECT wanted.key, to_jsonb({short}) AS image FROM jsonb_array_elements($1::jsonb) AS wanted (key), {table} WHERE {}",
                    equal.collect::<Vec<_>>().join(" AND ")
                ),
            }
        });
        Ok(Self {
            targets: targets.collect(),
            lock: writer.lock(),
            close: writer.close(Waiting::Waits),
            rows: format!(
                "SELECT {key} AS key, to_jsonb(row) AS image FROM {from} WHERE {condition}"
            ),
        })
    }
}

/// The index that the sweep of a description needs: a statement for each line.
///
/// # Errors
/// The description does not fit the tables.
pub(crate) fn index(description: &Description, facts: &Facts) -> Result<Vec<String>, Mistake> {
    Ok(Writer::new(description, facts)?.index())
}

/// The statement that says what has become of rows, for those who watch what closes them today.
///
/// # Errors
/// The description does not fit the tables.
pub(crate) fn watched(description: &Description, facts: &Facts) -> Result<String, Mistake> {
    Ok(Writer::new(description, facts)?.watched())
}

/// What a role is granted to run the effect: privileges, and the table.
pub(crate) fn rights(description: &Description, facts: &Facts) -> Vec<(&'static str, String)> {
    let of = |change: &Change| match change {
        // Locking a row takes UPDATE as well.
        Change::Delete => "SELECT, UPDATE, DELETE",
        Change::Add(_) | Change::Set(_) => "SELECT, UPDATE",
    };
    let own = (of(&description.change), facts.table.name.clone());
    let released = description.releases.iter().zip(&facts.releases);
    let released = released.map(|(release, relation)| (of(&release.change), relation.name.clone()));
    [own].into_iter().chain(released).collect()
}

fn mistake(key: &'static str, what: impl Into<String>) -> Mistake {
    Mistake { key, what: what.into() }
}

impl<'a> Writer<'a> {
    fn new(description: &'a Description, facts: &'a Facts) -> Result<Self, Mistake> {
        let Facts { table, releases, deadline_type, .. } = facts;
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
        let deadline = deadline(description, deadline_type)?;
        Ok(Self { description, facts, deadline, is_trial: false, releases: targets })
    }

    fn parts(&self) -> Vec<Part<'a>> {
        let parts = (1..).zip(&self.releases);
        parts.map(|(number, &(release, relation))| Part { number, release, relation }).collect()
    }

    fn table(&self) -> &str {
        &self.facts.table.name
    }

    /// The columns of the key, qualified.
    fn key(&self, alias: &str) -> Vec<String> {
        self.description.key.iter().map(|it| format!("{alias}.{}", identifier(it))).collect()
    }

    fn key_kinds(&self) -> Vec<&str> {
        let kind = |column: &String| self.facts.table.kind_of(column).unwrap_or("text");
        self.description.key.iter().map(kind).collect()
    }

    /// The key of `row` as a message has it.
    fn key_text(&self) -> String {
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
    fn rows(&self, keys: &str) -> (String, String) {
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

    fn first_deadline(&self) -> Option<String> {
        match self.description.since {
            Since::At(at) if !self.is_trial => {
                Some(format!("timestamptz {}", literal(&at.to_string())))
            }
            Since::At(_) | Since::All | Since::Unsaid => None,
        }
    }

    /// A row is deleted, or a condition on other tables is judged: a payment that refers to the row by a foreign key has to wait.
    fn row_lock(&self) -> &'static str {
        if self.description.unless.is_some() || self.description.change == Change::Delete {
            "FOR UPDATE"
        } else {
            "FOR NO KEY UPDATE"
        }
    }

    fn lock(&self) -> String {
        let Self { description: Description { name, .. }, .. } = self;
        let (from, condition) = self.rows("$1");
        format!(
            "\
-- {name}, first statement of the transaction: locks rows of {table}, in the order of the key. Rows that
-- another session has locked are left out. The second statement begins when these locks are held, so
-- it reads what was committed before.
-- $1 text[] keys
-- -> locked text: the keys of the locked rows, which the second statement reads from this setting
SELECT set_config('overdue.locked', coalesce(pg_catalog.array_agg(key)::text, '{{}}'), true) AS locked
FROM (
    SELECT {key} AS key FROM {from}
    WHERE {condition}
    ORDER BY {order} {lock} OF row SKIP LOCKED
) AS locked
",
            table = self.table(),
            key = self.key_text(),
            order = self.key("row").join(", "),
            lock = self.row_lock(),
        )
    }

    #[expect(clippy::too_many_lines, reason = "the statement from its beginning to its end")]
    fn close(&self, waiting: Waiting) -> String {
        let Description { name, open, unless, change, event, .. } = self.description;
        let (own, outcome) = (&self.facts.own_schema, self.description.outcome());
        let (locked_from, locked_where) = self.rows("current_setting('overdue.locked', true)");
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
        // With one table whose rows are found by their key, sums are enough: rows are changed in the order of the key.
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

    /// Whether the place of a row says which row it is: not where partitions have the same places.
    fn has_place(&self) -> bool {
        self.facts.table.partitions.is_empty() && self.facts.table.kind == "r"
    }

    /// How a row that was read is found again to be changed: columns, the condition, and why.
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

    fn overdue(&self) -> String {
        let Description { name, open, not_before, .. } = self.description;
        let deadline = &self.deadline;
        let key = self.key("row").join(", ");
        let since = self.first_deadline();
        let since =
            since.map_or_else(String::new, |since| format!("\n  AND {deadline} >= {since}"));
        let grace = "now() - $2::bigint::float8 * interval '1 millisecond'";
        let found = not_before
            .as_ref()
            .map_or_else(String::new, |column| format!("\n  AND ({column}) <= {grace}"));
        let index: String =
            self.index().iter().fold(String::new(), |text, line| text + "-- " + line + "\n");
        format!(
            "\
-- {name}, look for overdue rows: rows of {table} that are open after their deadline, the oldest first,
-- page by page.
-- $1 bigint rows at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text the row
-- before the page: '-infinity' and '' at first
-- -> order_id text, due_at timestamptz
{index}SELECT {key_text} AS order_id, {deadline} AS due_at FROM {table} AS row
WHERE ({open}){since}{found}
  AND {deadline} <= {grace}
  AND {after}
ORDER BY {deadline}, {key} LIMIT $1
",
            table = self.table(),
            key_text = self.key_text(),
            after = self.after(),
        )
    }

    /// The condition that a row comes after the one before the page.
    fn after(&self) -> String {
        let (deadline, columns, kinds) = (&self.deadline, self.key("row"), self.key_kinds());
        let value = |index: usize, kind: &str| match columns.len() {
            1 => ("$4".to_owned(), kind.to_owned()),
            _ => (part("$4", index + 1), kind.to_owned()),
        };
        let values: Vec<(String, String)> =
            kinds.iter().enumerate().map(|(index, kind)| value(index, kind)).collect();
        // The least value stands for the beginning, which has no key.
        let all = kinds.iter().zip(&values).map(|(kind, (text, _))| match least(kind)? {
            "" => Some(format!("{text}::{kind}")),
            least => Some(format!("coalesce(nullif({text}, '')::{kind}, '{least}')")),
        });
        let columns = columns.join(", ");
        if let Some(all) = all.collect::<Option<Vec<_>>>() {
            return format!("({deadline}, {columns}) > ($3, {})", all.join(", "));
        }
        let values: Vec<String> =
            values.iter().map(|(text, kind)| format!("nullif({text}, '')::{kind}")).collect();
        format!(
            "{deadline} >= $3 AND ({deadline} > $3 OR $4 = '' OR ({columns}) > ({}))",
            values.join(", ")
        )
    }

    fn watched(&self) -> String {
        let Description { name, open, unless, .. } = self.description;
        let (from, condition) = self.rows("$1");
        let kept =
            unless.as_ref().map_or_else(|| "false".to_owned(), |it| format!("({it}) IS TRUE"));
        format!(
            "\
-- {name}, what has become of rows of {table}; changes nothing.
-- $1 text[] keys
-- -> key text, is_open boolean, due_at timestamptz, is_kept boolean: by `unless`, is_closed boolean: whether
--    the row has the state that the effect sets; NULL where that is no constant
SELECT {key} AS key, ({open}) IS TRUE AS is_open, {deadline} AS due_at, {kept} AS is_kept,
       {closed} AS is_closed
FROM {from} WHERE {condition}
",
            table = self.table(),
            key = self.key_text(),
            deadline = self.deadline,
            closed = self.closed_state(),
        )
    }

    /// Whether a row has the state that the effect sets: by the constants among its columns that the condition `open` names.
    fn closed_state(&self) -> String {
        let Description { open, change, .. } = self.description;
        let Change::Set(assignments) = change else { return "NULL::boolean".to_owned() };
        let words = open.split(|it: char| !it.is_alphanumeric() && it != '_');
        let is_named = |column: &str| words.clone().any(|word| word == column);
        let states =
            assignments.iter().filter(|(column, value)| is_named(column) && is_constant(value));
        let states: Vec<String> = states
            .map(|(column, value)| {
                format!("row.{} IS NOT DISTINCT FROM ({value})", identifier(column))
            })
            .collect();
        if states.is_empty() {
            "NULL::boolean".to_owned()
        } else {
            format!("({})", states.join(" AND "))
        }
    }

    /// Statements that make the index; nothing that writes waits while it is built.
    fn index(&self) -> Vec<String> {
        let Description { name, open, key, not_before, table, .. } = self.description;
        let first = not_before.as_deref().unwrap_or(&self.deadline);
        let is_wrapped = not_before.is_none() || is_name(first);
        let first = if is_wrapped { first.to_owned() } else { format!("({first})") };
        let columns = key.iter().map(|column| identifier(column));
        let columns: Vec<String> = [first].into_iter().chain(columns).collect();
        let on = format!("({}) WHERE {open}", columns.join(", "));
        let mut index = format!("{}_{name}_due", table.short.trim_matches('"'));
        index.truncate(index.floor_char_boundary(LONGEST_INDEX));
        let relation = &self.facts.table;
        if relation.kind != "p" {
            return vec![format!(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} {on};",
                identifier(&index),
                relation.name
            )];
        }
        let parent = identifier(&index);
        let schema = relation.name.split('.').next().unwrap_or_default();
        let mut lines =
            vec![format!("CREATE INDEX IF NOT EXISTS {parent} ON ONLY {} {on};", relation.name)];
        for (number, partition) in (1..).zip(&relation.partitions) {
            let part = identifier(&format!("{index}_{number}"));
            lines.push(format!(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS {part} ON {partition} {on};"
            ));
            lines.push(format!("ALTER INDEX {schema}.{parent} ATTACH PARTITION {schema}.{part};"));
        }
        lines
    }
}

/// Bytes of the name of an index, which leave room for the number of a partition.
const LONGEST_INDEX: usize = 58;

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

/// The deadline as `timestamptz` that depends on no setting of a session.
fn deadline(description: &Description, kind: &str) -> Result<String, Mistake> {
    let Description { deadline, zone, .. } = description;
    let advice = match kind {
        "timestamp with time zone" | "timestamptz" => {
            return Ok(match sum(deadline) {
                // An interval is added in the time zone of the session otherwise, and no index could have it.
                Some((column, interval)) => {
                    format!("(({column} AT TIME ZONE 'UTC' + {interval}) AT TIME ZONE 'UTC')")
                }
                None if is_name(deadline) => deadline.clone(),
                None => format!("({deadline})"),
            });
        }
        "timestamp without time zone" | "timestamp" => match zone {
            Some(zone) => {
                let bare = is_name(deadline);
                let text = if bare { deadline.clone() } else { format!("({deadline})") };
                return Ok(format!("({text} AT TIME ZONE {})", literal(zone)));
            }
            None => {
                return Err(mistake(
                    "zone",
                    format!(
                        "the deadline `{deadline}` is a timestamp without time zone, and the same value is another instant in each zone: \
                         write the zone in which it is stored, such as zone = \"UTC\""
                    ),
                ));
            }
        },
        "date" => format!(
            "a day has a beginning and an end: for its end write deadline = \"({deadline} + 1)::timestamp\", and its zone"
        ),
        "bigint" | "integer" | "int8" | "int4" | "numeric" | "double precision" | "float8" => {
            format!("for seconds since 1970 write deadline = \"to_timestamp({deadline})\"")
        }
        _ => format!(
            "write an expression of that type, such as ({deadline})::timestamptz if the text has a zone"
        ),
    };
    Err(mistake(
        "deadline",
        format!("`{deadline}` is of the type {kind}, not timestamp with time zone: {advice}"),
    ))
}

/// A column and an interval that is added to it, where the deadline is their sum.
fn sum(deadline: &str) -> Option<(&str, &str)> {
    let (column, interval) = deadline.split_once('+')?;
    let (column, interval) = (column.trim(), interval.trim());
    let is_interval = |text: &str| {
        let literal = text.get(8..).map(str::trim)?.strip_prefix('\'')?.strip_suffix('\'')?;
        let is_plain = !literal.contains(['\'', '\\']);
        (text.get(..8)?.eq_ignore_ascii_case("interval") && is_plain).then_some(())
    };
    (is_column(column) && is_interval(interval).is_some()).then_some((column, interval))
}

/// Whether it is the name of a column, alone.
fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let plain =
        text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_word);
    let quoted = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    plain || quoted.is_some_and(|it| !it.is_empty() && !it.contains('"'))
}

/// A number, a truth value, or a text, with a type or without.
fn is_constant(value: &str) -> bool {
    let value = value.trim();
    if let Some(text) = value.strip_prefix('\'') {
        let Some((text, kind)) = text.split_once('\'') else { return false };
        let kind = kind.strip_prefix("::").unwrap_or(kind);
        let is_type = |it: char| it.is_alphanumeric() || "_.\"[]".contains(it);
        return !text.contains('\\') && kind.chars().all(is_type);
    }
    let is_number = !value.is_empty() && value.chars().all(|it| it.is_ascii_digit());
    is_number || ["true", "false"].contains(&value.to_ascii_lowercase().as_str())
}

fn is_column(text: &str) -> bool {
    is_name(text.strip_prefix("row.").unwrap_or(text))
}

/// A part of a key of several columns, decoded.
fn part(key: &str, number: usize) -> String {
    format!(
        "replace(replace(replace(split_part({key}, '/', {number}), '%20', ' '), '%2F', '/'), '%25', '%')"
    )
}

/// The least value of a type; `''` of text.
fn least(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bigint" => "-9223372036854775808",
        "integer" => "-2147483648",
        "smallint" => "-32768",
        "uuid" => "00000000-0000-0000-0000-000000000000",
        "text" | "character varying" => "",
        _ => return None,
    })
}

fn outcome_literal(outcome: &str) -> String {
    if outcome == "closed" { literal(outcome) } else { literal(&format!("done:{outcome}")) }
}

fn add(sql: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _written = sql.write_str(text);
}
