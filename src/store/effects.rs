//! The statements of an effect: as written in files, or made from its description and the catalog.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio_postgres::types::Json;

use super::{FailureKind, Store, StoreError, contract::Misfit, failure::BUILT_IN};
use crate::effect::{
    Description, Facts, Statements,
    description::{Change, Mistake, TableName},
    facts::Relation,
    reference,
};

/// The effect of a timeout.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The name in `topology.toml`.
    pub name: String,
    /// Files or a description.
    pub source: Source,
}

/// The source of the statements of an effect.
#[derive(Clone, Debug)]
pub enum Source {
    /// Statements from files.
    Written(Written),
    /// Statements that are made from a description.
    Described(Arc<Described>),
}

/// Statements from files.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The statement that closes orders, and the statement that finds overdue orders.
    pub statements: Arc<Statements>,
    /// The file of the closing statement, for messages.
    pub file: String,
    /// The file of the statement that finds overdue orders.
    pub overdue_file: String,
}

/// A description, and the statements made from it.
#[derive(Debug)]
pub struct Described {
    /// The settings of the effect.
    pub description: Description,
    /// Place of the description, for messages.
    pub place: String,
    statements: Mutex<Option<Arc<Statements>>>,
    is_admitted: AtomicBool,
}

impl Described {
    /// Lets the effect close overdue rows from now on.
    pub(super) fn admitted(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }
}

impl Effect {
    /// An effect from files.
    pub fn written(name: &str, sql: &str, overdue_sql: Option<&str>) -> Self {
        let statements = Statements {
            close: sql.to_owned(),
            overdue: overdue_sql.map(str::to_owned),
            ..Statements::default()
        };
        let written = Written {
            statements: Arc::new(statements),
            file: format!("{name}.sql"),
            overdue_file: format!("{name}_overdue.sql"),
        };
        Self { name: name.to_owned(), source: Source::Written(written) }
    }

    /// An effect from its description in `overdue.toml`.
    pub fn described(description: Description) -> Self {
        let place = format!("[effects.{}] of overdue.toml", description.name);
        Self::of(description, place)
    }

    fn of(description: Description, place: String) -> Self {
        let name = description.name.clone();
        // The terms of built-in effects need no acceptance.
        let is_admitted = AtomicBool::new(place.starts_with(BUILT_IN));
        let described = Described { description, place, statements: Mutex::default(), is_admitted };
        Self { name, source: Source::Described(Arc::new(described)) }
    }

    /// The effect of this name on the reference tables, if there is one.
    pub fn built_in(name: &str) -> Option<Self> {
        let description = reference(name)?;
        Some(Self::of(description, format!("{BUILT_IN}effects.{name}")))
    }

    /// The effect on unpaid orders of the reference tables.
    ///
    /// # Panics
    /// Never: the description is part of the program.
    #[expect(clippy::expect_used, reason = "a test reads the reference")]
    pub fn close() -> Self {
        Self::built_in("close").expect("the reference has it")
    }

    /// Whether the effect is part of the program.
    pub(crate) fn is_built_in(&self) -> bool {
        self.places()[0].starts_with(BUILT_IN)
    }

    /// The description; `None` for an effect from files.
    pub(crate) fn description(&self) -> Option<&Description> {
        match &self.source {
            Source::Written(_) => None,
            Source::Described(described) => Some(&described.description),
        }
    }

    /// Whether the effect has a statement that finds overdue orders without a message.
    pub(crate) fn finds_overdue(&self) -> bool {
        match &self.source {
            Source::Written(written) => written.statements.overdue.is_some(),
            Source::Described(_) => true,
        }
    }

    /// Places of the closing statement and of the statement that finds orders.
    pub(crate) fn places(&self) -> [&str; 2] {
        match &self.source {
            Source::Written(Written { file, overdue_file, .. }) => [file, overdue_file],
            Source::Described(described) => [&described.place, &described.place],
        }
    }

    /// The description, until its terms are known to be accepted.
    pub(super) fn to_admit(&self) -> Option<&Described> {
        match &self.source {
            Source::Described(it) if !it.is_admitted.load(Ordering::Relaxed) => Some(it),
            _ => None,
        }
    }

    /// Drops the statements, because tables have changed: the next statement reads the catalog again.
    pub(super) fn forget(&self) {
        if let Source::Described(described) = &self.source {
            *described.statements.lock() = None;
        }
    }
}

impl Store {
    /// The statements of an effect.
    ///
    /// # Errors
    /// The description does not fit the tables, or the catalog cannot be read.
    pub async fn statements(&self, effect: &Effect) -> Result<Arc<Statements>, StoreError> {
        let described = match &effect.source {
            Source::Written(written) => return Ok(Arc::clone(&written.statements)),
            Source::Described(described) => described,
        };
        if let Some(statements) = described.statements.lock().clone() {
            return Ok(statements);
        }
        let facts = self.table_facts(effect, &described.description).await?;
        let statements = match Statements::of(&described.description, &facts) {
            Ok(statements) => Arc::new(statements),
            Err(mut mistake) => {
                if mistake.key == "zone" {
                    mistake.what += &self.both_readings(&described.description, &facts).await?;
                }
                return Err(unfit(effect, &mistake));
            }
        };
        *described.statements.lock() = Some(Arc::clone(&statements));
        Ok(statements)
    }

    /// The deadline of an open row, as UTC and in the time zone of this session.
    async fn both_readings(
        &self,
        Description { deadline, open, .. }: &Description,
        facts: &Facts,
    ) -> Result<String, StoreError> {
        let sql = format!(
            "SELECT ({deadline})::text, to_char((({deadline})::timestamptz) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI\"Z\"'), \
             to_char({deadline}, 'YYYY-MM-DD\"T\"HH24:MI\"Z\"'), current_setting('TimeZone') \
             FROM (SELECT * FROM {} LIMIT 10000) AS row WHERE ({open}) AND ({deadline}) IS NOT NULL LIMIT 1",
            facts.table.name
        );
        let rows = self.rows("both_readings", &sql, &[]).await?;
        Ok(rows.first().map_or_else(String::new, |row| {
            let [value, here, utc, zone]: [String; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
            format!(" (of one row, {value} is {utc} in UTC, and {here} in {zone}, the zone of this session)")
        }))
    }

    /// Reads the catalog for the tables of a description. Each fragment is prepared alone, so that a mistake is reported with its
    /// key.
    pub(crate) async fn table_facts(
        &self,
        effect: &Effect,
        description: &Description,
    ) -> Result<Facts, StoreError> {
        let Description { table, open, unless, deadline, not_before, change, releases, .. } =
            description;
        let own_schema = self.own_schema.to_string();
        let relation = self.relation(effect, "table", table).await?;
        let from = format!("FROM {} AS row", relation.name);
        let select = format!("SELECT FROM {} WHERE ({open})", relation.name);
        self.fragment(effect, "open", &select, &[open]).await?;
        let select = format!("SELECT ({deadline}) {from}");
        let deadline_type = self.fragment(effect, "deadline", &select, &[deadline]).await?;
        let adds_interval = match description.sum() {
            None => false,
            Some((_, added)) => {
                let select = format!("SELECT ({added}) {from}");
                self.fragment(effect, "deadline", &select, &[added]).await? == "interval"
            }
        };
        for (key, text) in [("unless", unless), ("not_before", not_before)] {
            if let Some(text) = text {
                let condition = if key == "unless" {
                    format!("SELECT {from} WHERE ({text})")
                } else {
                    format!("SELECT ({text}) {from}")
                };
                self.fragment(effect, key, &condition, &[text]).await?;
            }
        }
        if let Change::Set(values) = change {
            for (column, value) in values {
                if relation.kind_of(column).is_none() {
                    let what = format!("{} has no column {column}", relation.name);
                    return Err(unfit(effect, &Mistake { key: "set", what }));
                }
                let select = format!("SELECT ({value}) {from}");
                self.fragment(effect, "set", &select, &[value]).await?;
            }
        }
        let mut targets = Vec::new();
        for release in releases {
            let target = self.relation(effect, "release", &release.table).await?;
            for (column, _) in release.assignments() {
                if target.kind_of(column).is_none() {
                    let what = format!("{} has no column {column}", target.name);
                    return Err(unfit(effect, &Mistake { key: "release", what }));
                }
            }
            let between = release.from.as_ref().map_or_else(String::new, |it| format!("{it}, "));
            let values = release.assignments().iter().map(|(_, value)| format!("({value})"));
            let joined = format!(
                "SELECT {from} CROSS JOIN LATERAL (SELECT {} FROM {between}{} WHERE {} OFFSET 0) AS needed",
                values.collect::<Vec<_>>().join(", "),
                target.name,
                release.condition
            );
            let values = release.assignments().iter().map(|(_, value)| value);
            let texts = values.chain([&release.condition]).chain(&release.from);
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            self.fragment(effect, "release", &joined, &texts).await?;
            targets.push(target);
        }
        Ok(Facts { own_schema, table: relation, deadline_type, adds_interval, releases: targets })
    }

    /// A table of the description, from the catalog.
    async fn relation(
        &self,
        effect: &Effect,
        key: &'static str,
        table: &TableName,
    ) -> Result<Relation, StoreError> {
        const SQL: &str = include_str!("../../sql/effect_relation.sql");
        let rows = self.rows("effect_relation", SQL, &[&table.sql]).await?;
        let Some(row) = rows.first() else {
            // `to_regclass` skips a schema that the user may not use; a statement fails with the missing grant.
            let select = format!("SELECT FROM {}", table.sql);
            let client = self.client().await?;
            let found = self.named("effect_relation", client.prepare(&select).await);
            if let Err(closed @ StoreError::ClosedSchema { .. }) = found {
                return Err(closed);
            }
            let what = format!(
                "there is no table {}, or the user may not use its schema: write it with its schema, or correct \
                 database.search_path",
                table.sql
            );
            return Err(unfit(effect, &Mistake { key, what }));
        };
        let Json(relation) = row.get(0);
        Ok(relation)
    }

    /// Prepares a statement without running it, and returns the type of its first column; `texts` are its parts from the
    /// description.
    async fn fragment(
        &self,
        effect: &Effect,
        key: &'static str,
        sql: &str,
        texts: &[&str],
    ) -> Result<String, StoreError> {
        let client = self.client().await?;
        match self.named("effect_fragment", client.prepare(sql).await) {
            Ok(statement) => Ok(statement
                .columns()
                .first()
                .map(|it| it.type_().name().to_owned())
                .unwrap_or_default()),
            // A locked table or a server without memory is no mistake of the fragment.
            Err(error) if matches!(error.kind(), FailureKind::Configuration | FailureKind::Row) => {
                let what = error.refusal(sql, texts);
                Err(unfit(effect, &Mistake { key, what }))
            }
            Err(error) => Err(error),
        }
    }
}

/// The error for a description that does not fit the tables.
pub(super) fn unfit(effect: &Effect, mistake: &Mistake) -> StoreError {
    let [place, _] = effect.places();
    let found = if mistake.key.is_empty() {
        mistake.what.clone()
    } else {
        format!("{}: {}", mistake.key, mistake.what)
    };
    StoreError::misfit(&effect.name, place, Misfit { found, write: None })
}
