//! A trial of a described effect on real rows, in a transaction that is rolled back.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::{
    Row,
    types::{Json, ToSql},
};

use super::{
    Store, StoreError,
    contract::{NO_TRACES, taken},
    effects::{Effect, unfit},
    orders::ClosingPath,
    overdue::OverdueKey,
    pool::count,
};
use crate::{
    effect::{
        Description, Facts, Trial,
        changes::{OtherChange, TableImages},
    },
    order::OrderId,
    text::sql::{identifier, literal},
};

/// A trial must not wait for locks, and must not make other sessions wait.
const LIMITS: &str = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '10s'";
/// Tables in which row security hides rows from this login.
const HIDDEN: &str =
    "SELECT name FROM pg_catalog.unnest($1::text[]) AS name WHERE row_security_active(name)";
/// Rows of the sample that shows the values of a column.
const SAMPLED: i64 = 10_000;

/// Changes by a described effect before the rollback.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The table of the effect.
    pub(crate) own: TableImages,
    /// The table of each release.
    pub(crate) released: Vec<TableImages>,
    /// Other tables, which triggers changed.
    pub(crate) others: Vec<OtherChange>,
    /// Tables in which row security hides rows from this login.
    pub(crate) hidden: Vec<String>,
}

impl Store {
    /// Closes rows whatever their deadline, compares before and after, and rolls back.
    pub(crate) async fn changes(
        &self,
        effect: &Effect,
        description: &Description,
        facts: &Facts,
        ids: &[OrderId],
    ) -> Result<Changes, StoreError> {
        const OTHERS: &str = include_str!("../../sql/effect_others.sql");
        let trial = Trial::of(description, facts).map_err(|mistake| unfit(effect, &mistake))?;
        let keys: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let mut client = self.client().await?;
        let named = |error| self.named("effect_trial", Err(error));
        // The transaction is rolled back when it is dropped.
        let transaction = match client.transaction().await {
            Ok(transaction) => transaction,
            Err(error) => return named(error),
        };
        let images = async |sql: &str, keys: &(dyn ToSql + Sync)| {
            let rows = transaction.query(sql, &[keys]).await?;
            let image = |row: &Row| {
                let (Json(key), Json(image)): (Json<Value>, Json<Value>) = (row.get(0), row.get(1));
                (key.to_string(), image)
            };
            Ok::<_, tokio_postgres::Error>(rows.iter().map(image).collect::<Vec<_>>())
        };
        let asking = async {
            transaction.batch_execute(LIMITS).await?;
            transaction.query(&trial.lock, &[&keys]).await?;
            let mut released = Vec::new();
            for target in &trial.targets {
                let before = images(&target.before, &keys).await?;
                released.push(TableImages {
                    table: target.table.clone(),
                    columns: target.columns.clone(),
                    rows: before.into_iter().map(|(key, image)| (key, (image, None))).collect(),
                });
            }
            let statement = transaction.prepare(&trial.close).await?;
            let parameters: [&(dyn ToSql + Sync); 3] =
                [&keys, &ClosingPath::Message.as_str(), &NO_TRACES];
            transaction.query(&statement, taken(&statement, &parameters)).await?;
            for (target, TableImages { rows, .. }) in trial.targets.iter().zip(&mut released) {
                let keys: Vec<Value> =
                    rows.keys().filter_map(|it| serde_json::from_str(it).ok()).collect();
                for (key, image) in images(&target.after, &Json(keys)).await? {
                    rows.entry(key).and_modify(|images| images.1 = Some(image));
                }
            }
            let own = released.remove(0);
            let tables: Vec<&str> = [&facts.table]
                .into_iter()
                .chain(&facts.releases)
                .map(|it| it.name.as_str())
                .collect();
            let ours = ["closures", "outbox"].map(|it| format!("{}.{it}", facts.own_schema));
            let known: Vec<&str> =
                tables.iter().copied().chain(ours.iter().map(String::as_str)).collect();
            let others = transaction.query(OTHERS, &[&known]).await?;
            let others = others.iter().map(|row| OtherChange {
                table: row.get(0),
                rows: [row.get(1), row.get(2), row.get(3)],
            });
            let hidden = transaction.query(HIDDEN, &[&tables]).await?;
            let hidden = hidden.iter().map(|row| row.get(0)).collect();
            Ok(Changes { own, released, others: others.collect(), hidden })
        };
        match asking.await {
            Ok(changes) => Ok(changes),
            Err(error) => named(error),
        }
    }

    /// Tables of a described effect in which row security hides rows from this login; empty for an effect from files, whose tables
    /// are unknown.
    pub(crate) async fn hidden_tables(&self, effect: &Effect) -> Result<Vec<String>, StoreError> {
        let Some(Description { table, releases, .. }) = effect.description() else {
            return Ok(Vec::new());
        };
        let tables = std::iter::once(table).chain(releases.iter().map(|it| &it.table));
        let tables: Vec<&str> = tables.map(|it| it.sql.as_str()).collect();
        let rows = self.rows("hidden_tables", HIDDEN, &[&tables]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Rows of a table with its partitions, from the latest statistics; estimated from its size if it was never analysed.
    pub(crate) async fn rows_by_statistics(&self, table: &str) -> Result<f32, StoreError> {
        const SQL: &str = "SELECT coalesce(sum(CASE WHEN c.reltuples > 0 THEN c.reltuples ELSE pg_relation_size(c.oid) / 200 END), 0)::real \
                           FROM pg_class c WHERE c.relkind = 'r' \
                           AND (c.oid = to_regclass($1) OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))";
        Ok(self.one("rows_by_statistics", SQL, &[&table]).await?.get(0))
    }

    /// Indexes of a table whose build did not finish.
    pub(crate) async fn invalid_indexes(&self, table: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = to_regclass($1) AND NOT indisvalid ORDER BY 1";
        Ok(self
            .rows("invalid_indexes", SQL, &[&table])
            .await?
            .iter()
            .map(|row| row.get(0))
            .collect())
    }

    /// Open rows that a poll reads if no index orders them by deadline, counted up to `most`.
    pub(crate) async fn open_before(
        &self,
        Description { open, not_before, .. }: &Description,
        facts: &Facts,
        most: i64,
    ) -> Result<i64, StoreError> {
        let not_before = not_before.as_ref();
        let not_before = not_before.map_or_else(String::new, |it| format!(" AND ({it}) <= now()"));
        let sql = format!(
            "SELECT count(*) FROM (SELECT FROM {} AS row WHERE ({open}){not_before} LIMIT {most}) AS open",
            facts.table.name
        );
        Ok(self.one("open_before", &sql, &[]).await?.get(0))
    }

    /// The rows with the earliest deadlines.
    pub(crate) async fn oldest_overdue(
        &self,
        effect: &Effect,
        most: i64,
    ) -> Result<Vec<OrderId>, StoreError> {
        let page = self.overdue_page(effect, &OverdueKey::first(), most, Duration::ZERO).await?;
        Ok(page.map(|page| page.ids).unwrap_or_default())
    }

    /// The most frequent values of the columns that the condition `open` names, in the first 10,000 rows: `state: 10 (4), 90 (12)`.
    pub(crate) async fn values_there_are(
        &self,
        description: &Description,
        facts: &Facts,
    ) -> Result<Vec<String>, StoreError> {
        let is_named = |name: &str| {
            description
                .open
                .split(|it: char| !it.is_alphanumeric() && it != '_')
                .any(|word| word == name)
        };
        let mut lines = Vec::new();
        for column in facts.table.columns.iter().filter(|it| is_named(&it.name)) {
            let sql = format!(
                "SELECT value, count(*) AS rows FROM (SELECT {}::text AS value FROM {} LIMIT {SAMPLED}) AS sample \
                 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 8",
                identifier(&column.name),
                facts.table.name
            );
            let rows = self.rows("effect_values", &sql, &[]).await?;
            let values = rows.iter().map(|row| {
                let value: Option<&str> = row.get(0);
                format!(
                    "{} ({})",
                    value.map_or_else(|| "NULL".to_owned(), literal),
                    count(row, "rows")
                )
            });
            let values: Vec<String> = values.collect();
            lines.push(format!("{}: {}", column.name, values.join(", ")));
        }
        Ok(lines)
    }
}
