//! The SQL of an effect for a table: what closes its rows, and what finds those that are overdue.

use super::own_table::{ColumnName, PrimaryKey, StateChange, Stock, TableName, literal};
use crate::order::FinalState;

/// The name of the effect, and what a row has become if its state is not a word.
const EFFECT: &str = "expire";
const DONE: &str = "expired";

/// A table whose rows have a deadline.
pub(super) struct OwnTable {
    pub(super) table: TableName,
    pub(super) key: PrimaryKey,
    pub(super) state: StateChange,
    pub(super) deadline: ColumnName,
    pub(super) stock: Option<Stock>,
}

impl OwnTable {
    /// The statement that runs for the keys of messages; docs/effects.md says why each part is as it is.
    pub(super) fn effect(&self) -> String {
        let Self { table, key: PrimaryKey { column: key, kind }, state, deadline, .. } = self;
        let (table_name, table, key, deadline) = (&table.name, &table.sql, &key.0, &deadline.0);
        let (state_column, from, to) = (&state.column.0, literal(&state.from), literal(&state.to));
        let (taken, given_back) =
            self.stock.as_ref().map_or_else(Default::default, |stock| self.stock_sql(stock));
        let comment = self.stock.as_ref().map_or_else(String::new, |stock| {
            format!(", and {} goes back to {}", stock.amount.0, stock.table.sql)
        });
        let done = self.done();
        format!(
            "\
-- {EFFECT}: rows of {table} that are {from} after {deadline} become {to}{comment}.
-- $1 text[] keys, $2 text what made them due: message, burst or sweep; $3 jsonb traces of their
-- notices (W3C Trace Context), by key
WITH asked AS MATERIALIZED (
    -- Keys are text in messages. The parameter is cast and not the column, so that the index of
    -- the key is used. Rows are locked in the order of the key, so that two statements do not
    -- deadlock; rows that another session has locked are left out.
    SELECT it.{key} AS key, it.{state_column} AS state, it.{deadline} AS due_at, it.ctid AS place
    FROM {table} AS it
    WHERE it.{key} = ANY ($1::text[]::{kind}[])
    ORDER BY it.{key} FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    -- The guard: only from this state, and after the deadline by the database's clock. A row that
    -- was changed since the statement began is not found at its place: what belongs to it may
    -- have been changed with it, and would be read as it was.
    UPDATE {table} AS it SET {state_column} = {to}
    FROM asked
    WHERE it.{key} = ANY (ARRAY[asked.key]) AND it.ctid IS NOT DISTINCT FROM asked.place
      AND asked.state = {from} AND asked.due_at <= now()
    RETURNING asked.key, asked.due_at, it.{state_column} AS state{taken}
), closed AS (
    -- Nothing has become of a row whose state a BEFORE trigger has kept.
    SELECT * FROM changed WHERE state IS DISTINCT FROM {from}
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome)
    SELECT key::text, '{EFFECT}', $2, due_at, '{done}' FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id, traceparent, tracestate)
    SELECT {event}, key::text, $3::jsonb -> key::text ->> 'traceparent', $3::jsonb -> key::text ->> 'tracestate'
    FROM closed
){given_back}
SELECT key::text AS order_id,
       -- IN and NOT IN look into a hash table, however few rows the planner expects; a join may
       -- compare each row with each. NOT IN finds nothing beside a NULL: a primary key is none.
       CASE WHEN (key IN (SELECT key FROM closed)) IS TRUE THEN 'done:{done}'
            WHEN state IS DISTINCT FROM {from} THEN 'already_final'
            WHEN due_at <= now() AND NOT EXISTS
                 (SELECT FROM {table} AS it WHERE it.{key} = ANY (ARRAY[asked.key])
                  AND it.ctid IS NOT DISTINCT FROM asked.place OFFSET 0) THEN 'busy'
            ELSE 'not_due' END AS outcome,
       due_at,
       now() AS decided_at
FROM asked
UNION ALL
-- Locked by another session: the worker asks again until the row is free.
SELECT it.{key}::text, 'busy', it.{deadline}, now() FROM {table} AS it
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND it.{key} = ANY ($1::text[]::{kind}[])
  AND it.{key} NOT IN (SELECT key FROM asked)
",
            event = literal(&format!("{table_name}.{done}")),
        )
    }

    /// What the closed rows say of the stock, and the parts of the statement that give it back.
    fn stock_sql(&self, stock: &Stock) -> (String, String) {
        let Stock { table, column, key, amount, reference, lines } = stock;
        let (stock_table, column, stock_key) = (&table.sql, &column.0, &key.0);
        let (amount, reference) = (&amount.0, &reference.0);
        let (taken, back) = match lines {
            None => (
                format!(", it.{reference} AS stock_key, it.{amount} AS amount"),
                "SELECT stock_key, coalesce(sum(amount), 0) AS amount FROM closed GROUP BY stock_key"
                    .to_owned(),
            ),
            Some((lines, owner)) => {
                let (lines, owner) = (&lines.sql, &owner.as_ref().unwrap_or(&self.key.column).0);
                let back = format!(
                    "-- OFFSET 0: row after row, by an index that begins with {owner}, also if the tables were
    -- empty when this was planned.
    SELECT stock_key, coalesce(sum(amount), 0) AS amount
    FROM closed CROSS JOIN LATERAL
         (SELECT {reference} AS stock_key, {amount} AS amount FROM {lines} AS line
          WHERE line.{owner} = closed.key OFFSET 0) AS lines
    GROUP BY stock_key"
                );
                (String::new(), back)
            }
        };
        let given_back = format!(
            ", back AS MATERIALIZED (
    {back}
), stock AS MATERIALIZED (
    -- Rows that many others share: locked last, in the order of their key, and changed once.
    SELECT shelf.{stock_key} AS stock_key, back.amount
    FROM back JOIN {stock_table} AS shelf ON shelf.{stock_key} = ANY (ARRAY[back.stock_key])
    ORDER BY shelf.{stock_key} FOR NO KEY UPDATE OF shelf
), released AS (
    UPDATE {stock_table} AS shelf SET {column} = shelf.{column} + stock.amount FROM stock
    WHERE shelf.{stock_key} = ANY (ARRAY[stock.stock_key])
)"
        );
        (taken, given_back)
    }

    /// The statement that finds overdue rows without a message.
    pub(super) fn overdue(&self) -> String {
        let Self { table, key: PrimaryKey { column: key, kind }, state, deadline, .. } = self;
        let (table, key, deadline) = (&table.sql, &key.0, &deadline.0);
        let (state, from) = (&state.column.0, literal(&state.from));
        // Beside NULL in its place, a row whose deadline is '-infinity' would not be behind the beginning.
        let after = self.key.least().map_or_else(
            || format!("$4::{kind}"),
            |least| format!("coalesce(nullif($4, '')::{kind}, '{least}')"),
        );
        let index = self.index();
        format!(
            "\
-- {EFFECT}_overdue: rows of {table} that are {from} after {deadline}, oldest first, page by page.
-- $1 bigint rows at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text the row
-- before the page: '-infinity' and '' at first. The literal state lets the partial index serve it:
-- {index}
SELECT it.{key}::text AS order_id, it.{deadline} AS due_at FROM {table} AS it
WHERE it.{state} = {from}
  AND it.{deadline} <= now() - $2::bigint::float8 * interval '1 millisecond'
  AND (it.{deadline}, it.{key}) > ($3, {after})
ORDER BY it.{deadline}, it.{key} LIMIT $1
"
        )
    }

    /// The index that the sweep needs. The table is in use: nothing that writes waits while it is built.
    pub(super) fn index(&self) -> String {
        let Self { table, key, state, deadline, .. } = self;
        let (deadline, key, from) = (&deadline.0, &key.column.0, literal(&state.from));
        format!(
            "CREATE INDEX CONCURRENTLY ON {} ({deadline}, {key}) WHERE {} = {from};",
            table.sql, state.column.0
        )
    }

    /// What a closed row has become, in a word.
    fn done(&self) -> &str {
        let word = FinalState::of_outcome(&format!("done:{}", self.state.to));
        word.map_or(DONE, |_| &self.state.to)
    }
}
