//! The contract of the SQL of effects: parameters, columns, and the correction where they differ. Also the plan, and the cells of
//! result rows, which can be NULL or of another type.

use std::fmt;

use tokio_postgres::{
    Row, SimpleQueryMessage, Statement,
    types::{FromSql, Json, Kind, ToSql, Type},
};

use super::{
    FailureKind, Store, StoreError, clock::DatabaseTime, effects::Effect, orders::ClosingPath,
    pool::StatementCall,
};
use crate::{
    doctor::{effect_plan::EffectPlan, facts::Sweep},
    text::error_chain,
    wire::Traces,
};

/// Parameters of an effect's statement: order ids, path, traces. A statement need not use the traces.
const EFFECT_PARAMETERS: [Type; 3] = [Type::TEXT_ARRAY, Type::TEXT, Type::JSONB];
/// The parameter for calls without orders, and for orders whose notices have no traces.
pub(super) const NO_TRACES: Option<Json<&Traces>> = None;
const EFFECT_COLUMNS: [(&str, Type); 4] = [
    ("order_id", Type::TEXT),
    ("outcome", Type::TEXT),
    ("due_at", Type::TIMESTAMPTZ),
    ("decided_at", Type::TIMESTAMPTZ),
];
/// Parameters of `overdue_sql`: the limit, the grace, and deadline and id of the order after which a page begins.
const OVERDUE_PARAMETERS: [Type; 4] = [Type::INT8, Type::INT8, Type::TIMESTAMPTZ, Type::TEXT];
const OVERDUE_COLUMNS: [(&str, Type); 2] =
    [("order_id", Type::TEXT), ("due_at", Type::TIMESTAMPTZ)];

/// The role of a statement in an effect.
#[derive(Clone, Copy)]
pub(super) enum Contract<'a> {
    /// A statement of `overdue`.
    None,
    /// The statement that closes orders.
    Effect(&'a Effect),
    /// The statement that locks the rows before they are closed.
    Lock(&'a Effect),
    /// The statement that finds overdue orders.
    Overdue(&'a Effect),
}

impl Contract<'_> {
    /// Checks parameters and columns.
    pub(super) fn check(self, statement: &Statement) -> Result<(), StoreError> {
        let (parameters, columns) = (statement.params(), statement.columns());
        let columns: Vec<_> = columns.iter().map(|it| (it.name(), it.type_())).collect();
        let wrong = match self {
            Self::None | Self::Lock(_) => None,
            Self::Effect(_) => wrong_effect_parameter(parameters)
                .or_else(|| wrong_column(&columns, &EFFECT_COLUMNS)),
            Self::Overdue(_) => wrong_overdue(parameters, &columns),
        };
        wrong.map_or(Ok(()), |wrong| Err(self.misfit(wrong)))
    }

    /// The error for a statement that breaks the contract.
    pub(super) fn misfit(self, wrong: impl Into<Misfit>) -> StoreError {
        let (effect, file) = self.place();
        StoreError::misfit(effect, file, wrong.into())
    }

    /// Adds file and effect to a failure of the statement `sql`.
    pub(super) fn failure(self, error: StoreError, sql: &str) -> StoreError {
        let (effect, file) = self.place();
        // The tables have not changed if a row fails or another session has locked it.
        let have_changed = error.kind() == FailureKind::Configuration || error.is_stale();
        if let Some(effect) = self.effect().filter(|_| have_changed) {
            effect.forget();
        }
        match (self, &error) {
            // A statement that runs before the effect is no part of it.
            (Self::None, _) | (_, StoreError::Statement { statement: "pauses_refuse", .. }) => {
                error
            }
            _ => error.in_effect(effect, file, sql),
        }
    }

    /// Whether the statement names each table with its schema.
    pub(super) fn names_schemas(&self) -> bool {
        self.effect().is_some_and(|effect| effect.description().is_some())
    }

    const fn effect(&self) -> Option<&Effect> {
        match self {
            Self::None => None,
            Self::Effect(effect) | Self::Lock(effect) | Self::Overdue(effect) => Some(effect),
        }
    }

    fn place(&self) -> (&str, &str) {
        let Some(effect) = self.effect() else { return ("", "") };
        let [close, overdue] = effect.places();
        (&effect.name, if matches!(self, Self::Overdue(_)) { overdue } else { close })
    }
}

impl Store {
    /// Compares the parameters and columns of the effect's SQL with the contract. It also plans the SQL, which shows missing
    /// permissions; it changes nothing.
    ///
    /// # Errors
    /// A table, a column or a permission is missing, or the SQL breaks the contract.
    pub async fn check_effect(&self, effect: &Effect) -> Result<(), StoreError> {
        let (none, path): (&[&str], _) = (&[], ClosingPath::Message.as_str());
        let statements = self.statements(effect).await?;
        let closing =
            [&statements.lock, &Some(statements.close.clone()), &statements.close_contended];
        let contracts =
            [Contract::Lock(effect), Contract::Effect(effect), Contract::Effect(effect)];
        for (sql, contract) in closing.into_iter().zip(contracts) {
            let Some(sql) = sql else { continue };
            let parameters: &[&(dyn ToSql + Sync)] = &[&none, &path, &NO_TRACES];
            self.check_statement(StatementCall { name: "effect", sql, parameters, contract })
                .await?;
        }
        let Some(sql) = &statements.overdue else { return Ok(()) };
        self.check_statement(StatementCall {
            name: "overdue_ids",
            sql,
            parameters: &[&0_i64, &0_i64, &DatabaseTime::FIRST, &""],
            contract: Contract::Overdue(effect),
        })
        .await
    }

    async fn check_statement(&self, question: StatementCall<'_>) -> Result<(), StoreError> {
        let StatementCall { name, sql, parameters, contract } = question;
        self.prepare(question).await?;
        let explained = self.explain(name, sql, parameters).await;
        explained.map_err(|error| contract.failure(error, sql))
    }

    /// Checks the effect against the contract, and reads PostgreSQL's generic plan.
    pub(crate) async fn effect_plan(&self, effect: &Effect) -> Result<EffectPlan, StoreError> {
        const ROWS: &str = include_str!("../../sql/table_rows.sql");
        self.check_effect(effect).await?;
        let contract = Contract::Effect(effect);
        let statements = self.statements(effect).await?;
        let sql = statements.lock.iter().chain([&statements.close]);
        let mut plan = EffectPlan::default();
        for sql in sql {
            plan.extend(self.plan(contract, sql, &["'{}'", "'message'", "NULL"]).await?);
        }
        for scan in &mut plan.scans {
            // The latest statistics; negative if the table was never analysed.
            let rows = self.rows("table_rows", ROWS, &[&scan.table]).await?;
            scan.rows = rows.first().map(|row| row.get(0)).filter(|rows| *rows >= 0);
        }
        Ok(plan)
    }

    /// The plan of a query for overdue rows; `None` without `overdue_sql`.
    pub(crate) async fn look_plan(
        &self,
        effect: &Effect,
    ) -> Result<Option<EffectPlan>, StoreError> {
        let statements = self.statements(effect).await?;
        let Some(sql) = &statements.overdue else { return Ok(None) };
        let page = &["500", "60000", "'-infinity'", "''"];
        self.plan(Contract::Overdue(effect), sql, page).await.map(Some)
    }

    /// Tables that a page of the sweep scans.
    pub(super) async fn sweep_plan(&self, effect: &Effect) -> Result<Sweep, StoreError> {
        let plan = self.look_plan(effect).await?;
        let scans = |plan: EffectPlan| plan.scans.into_iter().map(|scan| scan.table).collect();
        Ok(plan.map_or(Sweep::None, |plan| Sweep::Planned { scans: scans(plan) }))
    }

    /// The generic plan of a statement, without sequential scans if there is another way: on a small table PostgreSQL scans
    /// although there is an index.
    async fn plan(
        &self,
        contract: Contract<'_>,
        sql: &str,
        arguments: &[&str],
    ) -> Result<EffectPlan, StoreError> {
        // Behind a pooler another client may run the next transaction on the server's connection.
        let (name, sql) = (format!("overdue_plan_{:x}", rand::random::<u64>()), without_end(sql));
        let asking = async {
            // The connection is closed afterwards, with its settings and prepared statements.
            let client = self.detached().await?;
            let statement = self.named("effect_plan", client.prepare(sql).await)?;
            let arguments = taken(&statement, arguments).join(", ");
            let script = format!(
                "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan;\n\
                 PREPARE {name} AS {sql}\n;\n\
                 EXPLAIN (FORMAT json) EXECUTE {name} ({arguments}); DEALLOCATE {name}; ROLLBACK",
            );
            self.named("effect_plan", client.simple_query(&script).await)
        };
        let answer = self.with_watchdog(Box::pin(asking)).await;
        let answer = answer.map_err(|error| contract.failure(error, sql))?;
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let unreadable = |error| contract.misfit(format!("its plan cannot be read: {error}"));
        let plan = serde_json::from_str(&rows.collect::<String>()).map_err(unreadable)?;
        Ok(EffectPlan::read(&plan))
    }
}

/// The parameters that a statement uses: an effect need not use all.
pub(super) fn taken<'a, T>(statement: &Statement, parameters: &'a [T]) -> &'a [T] {
    &parameters[..parameters.len().min(statement.params().len())]
}

/// A statement to embed in another one: without the final semicolon and the comments after it.
pub(super) fn without_end(sql: &str) -> &str {
    let mut rest = sql.trim_end();
    loop {
        let line = rest.rfind('\n').map_or(0, |end| end + 1);
        let comment = rest[line..].find("--").map(|at| line + at);
        let before = comment.map(|at| rest[..at].trim_end());
        rest = match before {
            Some(before) if before.ends_with(';') || before.len() <= line => before,
            _ if rest.ends_with(';') => rest[..rest.len() - 1].trim_end(),
            _ => return rest,
        };
    }
}

/// A difference between a statement and the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) found: String,
    /// The correction, for the author of the statement.
    pub(super) write: Option<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        self.write.as_ref().map_or(Ok(()), |write| write!(f, ": {write}"))
    }
}

impl From<String> for Misfit {
    fn from(found: String) -> Self {
        Self { found, write: None }
    }
}

fn misfit(found: String, write: String) -> Misfit {
    Misfit { found, write: Some(write) }
}

fn wrong_effect_parameter(found: &[Type]) -> Option<Misfit> {
    let takes_traces = found.get(2) == EFFECT_PARAMETERS.get(2);
    wrong_parameter(found, &EFFECT_PARAMETERS[..if takes_traces { 3 } else { 2 }])
}

/// Finds the first parameter that differs.
fn wrong_parameter(found: &[Type], wanted: &[Type]) -> Option<Misfit> {
    for (number, wanted) in (1..).zip(wanted) {
        let kind = sql_name(wanted);
        match found.get(number - 1) {
            Some(found) if found == wanted => {}
            Some(found) => {
                let found = sql_name(found);
                let write = format!("write ${number}::{kind}::{found}");
                return Some(misfit(format!("${number} is {found}"), write));
            }
            None => {
                let write =
                    format!("use it, or write `${number}::{kind} IS NOT NULL` into a condition");
                return Some(misfit(format!("${number} {kind} is missing"), write));
            }
        }
    }
    let extra = found.len() > wanted.len();
    extra.then(|| format!("${} is one parameter too many", wanted.len() + 1).into())
}

/// Finds the first column whose name or type differs.
fn wrong_column(found: &[(&str, &Type)], wanted: &[(&str, Type)]) -> Option<Misfit> {
    for (number, (name, kind)) in (1..).zip(wanted) {
        let kind_name = sql_name(kind);
        let agreed = format!("`{name} {kind_name}`");
        match found.get(number - 1) {
            Some((found, is)) if found == name && *is == kind => {}
            Some((found, is)) => {
                let advice = if *is == kind {
                    format!("AS {name}")
                } else {
                    format!("…::{kind_name} AS {name}")
                };
                let is = sql_name(is);
                let found = format!("column {number} is `{found} {is}`, not {agreed}");
                return Some(misfit(found, format!("write {advice}")));
            }
            None => return Some(format!("column {number}, {agreed}, is missing").into()),
        }
    }
    None
}

/// The name of a type in SQL.
fn sql_name(kind: &Type) -> String {
    if let Kind::Array(element) = kind.kind() {
        return format!("{}[]", sql_name(element));
    }
    let name = match *kind {
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::BOOL => "boolean",
        _ => kind.name(),
    };
    name.to_owned()
}

fn wrong_overdue(parameters: &[Type], columns: &[(&str, &Type)]) -> Option<Misfit> {
    let types = columns.iter().map(|it| it.1);
    if parameters == OVERDUE_PARAMETERS && types.eq(OVERDUE_COLUMNS.iter().map(|it| &it.1)) {
        return None;
    }
    let Misfit { found, write } = wrong_overdue_parameter(parameters)
        .or_else(|| wrong_column(columns, &OVERDUE_COLUMNS))
        .unwrap_or_else(|| "it gives more than the columns order_id and due_at".to_owned().into());
    let agreed = "overdue_sql takes $1 bigint, $2 bigint, $3 timestamptz, $4 text and gives order_id text, due_at \
                  timestamptz";
    let write = write.unwrap_or_else(|| "write what is agreed".to_owned());
    Some(misfit(found, format!("{write} ({agreed})")))
}

fn wrong_overdue_parameter(found: &[Type]) -> Option<Misfit> {
    if found == &OVERDUE_PARAMETERS[..2] {
        let found = "it takes no place to begin at ($3 and $4)".to_owned();
        let write = "write `AND (due_at, id) > ($3, $4) ORDER BY due_at, id LIMIT $1`".to_owned();
        return Some(misfit(found, write));
    }
    match found.get(3) {
        // `$4` is empty before the first page, and an empty text is no number.
        Some(kind) if *kind != Type::TEXT && found[..3] == OVERDUE_PARAMETERS[..3] => {
            let kind = sql_name(kind);
            Some(misfit(format!("$4 is {kind}"), format!("write nullif($4, '')::{kind}")))
        }
        _ => wrong_parameter(found, &OVERDUE_PARAMETERS),
    }
}

/// The most characters of a text from the database that an error repeats.
const EXCERPT: usize = 60;

/// Reads a cell. The error is the end of a sentence: `the effect gave …`.
pub(super) fn cell<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
    let name = row.columns().get(index).map_or("?", tokio_postgres::Column::name);
    match row.try_get::<_, Option<T>>(index) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("NULL as `{name}`")),
        Err(error) => {
            Err(format!("a value as `{name}` that cannot be read ({})", error_chain(&error)))
        }
    }
}

/// The beginning of a text from the database, for a message.
pub(super) fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT).is_some() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_another_type_are_cast_at_the_parameter() {
        let said = |found: &[Type]| {
            wrong_effect_parameter(found).map(|misfit| misfit.to_string()).unwrap_or_default()
        };
        assert_eq!(said(&[Type::TEXT_ARRAY, Type::TEXT]), "");
        assert_eq!(said(&[Type::TEXT_ARRAY, Type::TEXT, Type::JSONB]), "");
        assert_eq!(
            said(&[Type::INT8_ARRAY, Type::TEXT]),
            "$1 is bigint[]: write $1::text[]::bigint[]"
        );
        assert_eq!(said(&[Type::UUID_ARRAY, Type::TEXT]), "$1 is uuid[]: write $1::text[]::uuid[]");
        assert_eq!(
            said(&[Type::TEXT_ARRAY]),
            "$2 text is missing: use it, or write `$2::text IS NOT NULL` into a condition"
        );
        assert_eq!(
            said(&[Type::TEXT_ARRAY, Type::TEXT, Type::INT8]),
            "$3 is one parameter too many"
        );
    }

    #[test]
    fn columns_are_cast_and_named() {
        let wanted = [("order_id", Type::TEXT)];
        let said = |found: &[(&str, &Type)]| {
            wrong_column(found, &wanted).map(|misfit| misfit.to_string()).unwrap_or_default()
        };
        assert_eq!(said(&[("order_id", &Type::TEXT)]), "");
        assert_eq!(
            said(&[("order_id", &Type::INT8)]),
            "column 1 is `order_id bigint`, not `order_id text`: write …::text AS order_id"
        );
        assert_eq!(
            said(&[("id", &Type::TEXT)]),
            "column 1 is `id text`, not `order_id text`: write AS order_id"
        );
        assert_eq!(said(&[]), "column 1, `order_id text`, is missing");
    }

    #[test]
    fn a_statement_inside_another_one_has_no_end() {
        let ends = ["", ";", " ;\n", "; -- comment", "; -- a\n -- b; c\n", "\n-- a\n;\n-- b"];
        for end in ends {
            assert_eq!(
                without_end(&format!("SELECT 1\nLIMIT $1{end}")),
                "SELECT 1\nLIMIT $1",
                "{end}"
            );
        }
        for whole in ["SELECT ';'", "SELECT 'a -- b'", "SELECT 1 -- a\nLIMIT 1"] {
            assert_eq!(without_end(whole), whole);
        }
    }
}
