//! JSON as people keep it in a repository: an object per line, keys in the order of their meaning.

use serde_json::Value;

use super::printable_json;

/// `{"name": "orders.in", "type": "topic"}`
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> String {
    let fields = fields.map(|(key, value)| format!("{}: {value}", Value::from(key)));
    printable_json(&format!("{{{}}}", fields.join(", "))).into_owned()
}

/// An object of lists, each entry on a line of its own.
pub(crate) fn sections(lists: &[(&str, Vec<String>)]) -> String {
    let list = |(key, entries): &(&str, Vec<String>)| {
        let entries: Vec<String> = entries.iter().map(|entry| format!("    {entry}")).collect();
        match entries.as_slice() {
            [] => format!("  {}: []", Value::from(*key)),
            _ => format!("  {}: [\n{}\n  ]", Value::from(*key), entries.join(",\n")),
        }
    };
    let lists: Vec<String> = lists.iter().map(list).collect();
    format!("{{\n{}\n}}\n", lists.join(",\n"))
}
