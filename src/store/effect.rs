//! The SQL of an effect, and the shape it has to have.

use tokio_postgres::{Statement, types::Type};

use super::StoreError;

const CLOSE: &str = include_str!("../../sql/close.sql");
const CLOSE_CONTENDED: &str = include_str!("../../sql/close_contended.sql");

/// The SQL of a timeout's effect: one statement, so it is its own transaction.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Its name in `topology.toml`.
    pub name: String,
    /// `$1 text[]` ids, `$2 text` path → `order_id`, `outcome`, `due_at`, `decided_at`.
    pub sql: String,
    /// Where that is written, for messages.
    pub sql_file: String,
    /// `$1 bigint` limit, `$2 bigint` grace in ms, `$3 timestamptz` and `$4 text` the order before → `order_id`,
    /// `due_at`; without it nothing is swept.
    pub overdue_sql: Option<String>,
    /// Where that is written, for messages.
    pub overdue_file: String,
}

impl Effect {
    /// The same effect in a statement that waits for no lock, where there is one.
    pub(crate) fn contended_sql(&self) -> Option<&'static str> {
        (self.sql == CLOSE).then_some(CLOSE_CONTENDED)
    }

    /// The built-in effect on the reference schema: `sql/close.sql`.
    #[must_use]
    pub fn close() -> Self {
        Self {
            name: "close".to_owned(),
            sql: CLOSE.to_owned(),
            sql_file: "built in, sql/close.sql".to_owned(),
            overdue_sql: Some(include_str!("../../sql/overdue_ids.sql").to_owned()),
            overdue_file: "built in, sql/overdue_ids.sql".to_owned(),
        }
    }
}

/// What made an order due: the value of `closures.path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPath {
    /// A message came.
    Message,
    /// The sweep found it.
    Sweep,
}

impl ClosingPath {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Sweep => "sweep",
        }
    }
}

const PARAMETERS: [Type; 2] = [Type::TEXT_ARRAY, Type::TEXT];
const COLUMNS: [(&str, Type); 4] = [
    ("order_id", Type::TEXT),
    ("outcome", Type::TEXT),
    ("due_at", Type::TIMESTAMPTZ),
    ("decided_at", Type::TIMESTAMPTZ),
];

pub(super) fn check_shape(effect: &Effect, statement: &Statement) -> Result<(), StoreError> {
    let misfit = |reason| StoreError::Effect {
        effect: effect.name.clone(),
        file: effect.sql_file.clone(),
        reason,
    };
    if statement.params() != PARAMETERS {
        let found = format!("it takes {:?}, not $1 text[] and $2 text", statement.params());
        return Err(misfit(found));
    }
    for (index, (name, kind)) in COLUMNS.iter().enumerate() {
        let number = index + 1;
        match statement.columns().get(index) {
            Some(column) if column.name() == *name && column.type_() == kind => {}
            Some(column) => {
                let found = format!("{} {}", column.name(), column.type_());
                return Err(misfit(format!("column {number} is `{found}`, not `{name} {kind}`")));
            }
            None => return Err(misfit(format!("column {number}, `{name} {kind}`, is missing"))),
        }
    }
    Ok(())
}
