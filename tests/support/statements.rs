//! The statements of the effects `close`, `cancel` and `complete`, without a database: its tables as `sql/schema.sql` has them. They
//! find the tables by the search path.

use std::sync::Arc;

use overdue::internals::{
    effect::{Column, Description, Facts, Relation, Statements, reference},
    store::orders::{Effect, Source, Written},
};

/// The columns of `sql/schema.sql`; `!` is behind those that are declared NOT NULL.
const ORDERS: &str = "id text!, category text!, status text!, created_at timestamptz!, due_at timestamptz!, paid_at timestamptz, \
                      closed_at timestamptz, ship_by timestamptz, confirm_by timestamptz, shipped_at timestamptz, \
                      completed_at timestamptz, cancelled_at timestamptz";
const STOCK: &str = "sku text!, available bigint!, reserved bigint!, sold bigint!";

/// A statement of ours, which finds our tables by the search path as well.
pub fn found(sql: &str) -> String {
    sql.replace("{own}.", "")
}

/// The description of one of them.
pub fn description(name: &str) -> Description {
    reference(name).unwrap()
}

/// The statements of one of them.
pub fn statements(name: &str) -> Statements {
    of(&description(name))
}

/// The statements of a description of `orders` that gives nothing back but stock.
pub fn of(description: &Description) -> Statements {
    let facts = Facts {
        own_schema: "OWN".to_owned(),
        table: relation("orders", ORDERS),
        deadline_type: "timestamptz".to_owned(),
        adds_interval: false,
        releases: description.releases.iter().map(|_| relation("stock", STOCK)).collect(),
    };
    let Statements { lock, close, close_contended, overdue } =
        Statements::of(description, &facts).unwrap();
    let found = |sql: String| sql.replace("OWN.", "");
    Statements {
        lock: lock.map(found),
        close: found(close),
        close_contended: close_contended.map(found),
        overdue: overdue.map(found),
    }
}

fn relation(name: &str, columns: &str) -> Relation {
    let column = |text: &str| {
        let (name, kind) = text.trim().split_once(' ').unwrap();
        let (kind, is_not_null) = (kind.trim_end_matches('!'), kind.ends_with('!'));
        Column { name: name.to_owned(), kind: kind.to_owned(), is_not_null }
    };
    let columns: Vec<Column> = columns.split(',').map(column).collect();
    let key = vec![columns[0].name.clone()];
    let (name, kind) = (name.to_owned(), "r".to_owned());
    Relation { name, kind, columns, unique: vec![key], partitions: Vec::new() }
}

/// The same with the statement for what others have locked in the place of the one that waits.
pub fn contended(statements: &Statements) -> Statements {
    let close = statements.close_contended.clone().unwrap();
    Statements { close, ..statements.clone() }
}

/// An effect with these statements.
pub fn effect(name: &str, statements: Statements) -> Effect {
    let written = Written { statements: Arc::new(statements), ..Written::default() };
    Effect { name: name.to_owned(), source: Source::Written(written) }
}
