//! Reads PostgreSQL's plan of an effect: indexes in use, sequential scans, and the order of row locks.

use serde_json::Value;

use crate::text::sql::identifier;

/// Rows below which a sequential scan is cheap.
const SMALL: i64 = 1_000;

/// The plan of an effect, for any orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectPlan {
    /// Tables read by an index: table, index.
    pub indexes: Vec<(String, String)>,
    /// Tables read from end to end although PostgreSQL was told to avoid it.
    pub scans: Vec<Scan>,
    /// Row locks, in the order of the statement.
    pub locks: Vec<RowLocks>,
    /// Tables whose rows are changed without having been locked in an order before.
    pub unordered: Vec<String>,
    /// Whether all rows are read before they are sorted.
    pub sorts: bool,
    /// Join conditions that are evaluated for each pair of rows: for 2,000 orders, 4,000,000 times.
    pub pairs: Vec<String>,
}

/// A table that has no index for the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The table's name.
    pub table: String,
    /// Rows by the latest statistics; `None` if the table was never analysed.
    pub rows: Option<i64>,
}

/// Rows of a table that the statement locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLocks {
    /// The table's name.
    pub table: String,
    /// The sort key of the locks; `None` if they are not sorted.
    pub order: Option<String>,
}

impl Scan {
    /// Whether the scan may be expensive; true if the number of rows is unknown.
    pub fn is_large(&self) -> bool {
        self.rows.is_none_or(|rows| rows >= SMALL)
    }

    /// The index to create, without blocking writes to the table.
    pub(crate) fn fix(&self) -> String {
        let table = identifier(&self.table);
        format!(
            "CREATE INDEX CONCURRENTLY ON {table} (what it is looked up by), and cast the parameter, not the column"
        )
    }
}

impl EffectPlan {
    /// Reads the output of `EXPLAIN (FORMAT json)`.
    pub fn read(plan: &Value) -> Self {
        let mut read = Self::default();
        read.add(plan);
        let changed = std::mem::take(&mut read.unordered);
        let is_unordered =
            |table: &String| !read.locks.iter().any(|it| it.table == *table && it.order.is_some());
        read.unordered = changed.into_iter().filter(is_unordered).collect();
        read
    }

    /// Adds the plan of another statement of the same transaction: a lock by either statement covers both.
    pub(crate) fn extend(&mut self, other: Self) {
        let Self { indexes, scans, locks, unordered, sorts, pairs } = other;
        self.sorts |= sorts;
        extend(&mut self.indexes, indexes);
        extend(&mut self.scans, scans);
        extend(&mut self.locks, locks);
        extend(&mut self.pairs, pairs);
        extend(&mut self.unordered, unordered);
        let locks = &self.locks;
        self.unordered
            .retain(|table| !locks.iter().any(|it| it.table == *table && it.order.is_some()));
    }

    fn add(&mut self, plan: &Value) {
        match plan {
            Value::Array(nodes) => nodes.iter().for_each(|node| self.add(node)),
            Value::Object(node) => {
                self.add_node(plan);
                node.values().for_each(|child| self.add(child));
            }
            _ => {}
        }
    }

    fn add_node(&mut self, node: &Value) {
        let text = |key: &str| node.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(kind) = text("Node Type") else { return };
        if let ("Nested Loop", Some(condition)) = (kind.as_str(), text("Join Filter")) {
            push(&mut self.pairs, condition);
        }
        let table = text("Relation Name");
        match (kind.as_str(), table) {
            ("Seq Scan", Some(table)) => push(&mut self.scans, Scan { table, rows: None }),
            ("LockRows", _) => self.add_locks(node),
            ("Sort", _) => self.sorts = true,
            ("ModifyTable", Some(table)) if text("Operation").as_deref() != Some("Insert") => {
                push(&mut self.unordered, table);
            }
            (_, Some(table)) => {
                if let Some(index) = index_of(node) {
                    push(&mut self.indexes, (table, index));
                }
            }
            _ => {}
        }
    }

    fn add_locks(&mut self, node: &Value) {
        let mut tables = Vec::new();
        find(node, "Relation Name", &mut tables);
        let mut keys = Vec::new();
        find(node, "Sort Key", &mut keys);
        let mut indexes = Vec::new();
        find(node, "Index Name", &mut indexes);
        let order = keys.first().or(indexes.first());
        for table in tables {
            push(&mut self.locks, RowLocks { table, order: order.cloned() });
        }
    }
}

/// The index of the node, or of the bitmap scan below it.
fn index_of(node: &Value) -> Option<String> {
    let mut indexes = Vec::new();
    match node.get("Node Type").and_then(Value::as_str)? {
        "Bitmap Heap Scan" => find(node, "Index Name", &mut indexes),
        _ => indexes.extend(node.get("Index Name").and_then(Value::as_str).map(str::to_owned)),
    }
    indexes.into_iter().next()
}

/// Collects all values of a key, at any depth; the members of a list are joined into a text.
fn find(plan: &Value, key: &str, found: &mut Vec<String>) {
    match plan {
        Value::Array(nodes) => nodes.iter().for_each(|node| find(node, key, found)),
        Value::Object(node) => {
            for (name, value) in node {
                match value {
                    Value::String(text) if name == key => push(found, text.clone()),
                    Value::Array(texts) if name == key => {
                        let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
                        push(found, texts.join(", "));
                    }
                    _ => find(value, key, found),
                }
            }
        }
        _ => {}
    }
}

fn extend<T: PartialEq>(list: &mut Vec<T>, items: Vec<T>) {
    for item in items {
        push(list, item);
    }
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
