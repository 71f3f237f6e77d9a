//! Regular expressions of object names, as RabbitMQ matches them (PCRE, not anchored by itself).

use std::collections::{BTreeMap, BTreeSet};

use super::Object;

/// Matches no object: the empty name is the default exchange, which has no permissions.
pub(crate) const NOTHING: &str = "^$";

/// Generations after the first, as `plan::generation` names them.
const NUMBER: &str = r"\.[0-9]+";

/// Names after the name of a timeout: shards, generations, both, or nothing; and the exchange of shards, from which a worker
/// without the tag `management` finds the shards. `objects::shard` defines the names.
const SHARD: &str = r"\.shards|(\.shard-[0-9]+)?(\.[0-9]+)?";

/// Matches exactly these objects of `topology`; [`NOTHING`] if there are none.
pub(crate) fn exactly(topology: &str, objects: &BTreeSet<&Object>) -> String {
    if objects.is_empty() {
        return NOTHING.to_owned();
    }
    format!("^{}{}$", prefix(topology), group(&alternatives(topology, objects)))
}

/// Matches all names under `topology` except `excluded`, and the names of `elsewhere`.
pub(crate) fn under(
    topology: &str,
    excluded: &BTreeSet<&Object>,
    elsewhere: &BTreeSet<&Object>,
) -> String {
    let excluded: BTreeSet<&Object> =
        excluded.iter().copied().filter(|object| object.is_under(topology)).collect();
    let mut under = prefix(topology);
    if !excluded.is_empty() {
        under = format!("{under}(?!{}$)", group(&alternatives(topology, &excluded)));
    }
    if elsewhere.is_empty() {
        return format!("^{under}");
    }
    format!("^({under}|{}$)", group(&alternatives(topology, elsewhere)))
}

fn prefix(topology: &str) -> String {
    escape(&format!("{topology}."))
}

/// An expression for each name, sorted, without the common prefix.
fn alternatives(topology: &str, objects: &BTreeSet<&Object>) -> Vec<String> {
    let mut suffixes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let prefix = format!("{topology}.");
    for object in objects {
        let name = object.name();
        let suffix = match object {
            Object::Named(_) => "",
            Object::Generations(_) => NUMBER,
            Object::Shards(_) => SHARD,
            Object::Below(_) => r"\..+",
        };
        suffixes.entry(name.strip_prefix(&prefix).unwrap_or(name)).or_default().insert(suffix);
    }
    let expression = |(name, suffixes): (&str, BTreeSet<&str>)| {
        let optional = if suffixes.contains("") { "?" } else { "" };
        let suffixes: Vec<&str> =
            suffixes.into_iter().filter(|suffix| !suffix.is_empty()).collect();
        match suffixes.as_slice() {
            [] => escape(name),
            several => format!("{}({}){optional}", escape(name), several.join("|")),
        }
    };
    suffixes.into_iter().map(expression).collect()
}

/// An expression for one of several alternatives.
pub(super) fn group(alternatives: &Vec<String>) -> String {
    match alternatives.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", alternatives.join("|")),
    }
}

/// An expression that matches only this text.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '-' | '_') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
