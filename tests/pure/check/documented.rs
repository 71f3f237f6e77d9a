//! docs/topology.md lists every key of the file and every rule about it, docs/verify.md every rule about objects, and no
//! other.

use std::collections::{BTreeMap, BTreeSet};

use overdue::internals::{
    diagnostic::Severity,
    topology::{check::RULES, file::schema},
    verify,
};
use serde_json::Value;

const OF_FILES: &str = include_str!("../../../docs/topology.md");
const OF_OBJECTS: &str = include_str!("../../../docs/verify.md");

/// Rules and severities of the rows `| rule | severity | … |`.
fn documented(page: &str) -> BTreeMap<&str, String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (rule, rest) = row.split_once("` | ")?;
        let severity = rest.split(" | ").next()?;
        let known = [Severity::Error, Severity::Warning, Severity::Note].map(|s| s.to_string());
        known.contains(&severity.to_owned()).then(|| (rule, severity.to_owned()))
    })
    .collect()
}

#[test]
fn every_rule_is_documented() {
    let of_files = RULES.iter().map(|rule| (rule.name, rule.severity.to_string()));
    // The parser's own finding is no rule of the list.
    let of_files: BTreeMap<&str, String> =
        of_files.chain([("syntax", "error".to_owned())]).collect();
    assert_eq!(documented(OF_FILES), of_files);
    let of_objects = verify::RULES.iter().map(|rule| (rule.name, rule.severity.to_string()));
    assert_eq!(documented(OF_OBJECTS), of_objects.collect());
}

#[test]
fn names_are_unique_and_plain() {
    let names =
        RULES.iter().map(|rule| rule.name).chain(verify::RULES.iter().map(|rule| rule.name));
    let names: Vec<&str> = names.collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}

/// `delay.ladder.max`: every key that has a value of its own, and says what it is.
fn keys(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (key, of) in schema["properties"].as_object().expect("a table") {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        assert!(of["description"].is_string(), "{key} is not described");
        match [of, &of["items"]].into_iter().find(|table| table["properties"].is_object()) {
            Some(table) => keys(table, &key, found),
            None => assert!(found.insert(key)),
        }
    }
}

#[test]
fn every_key_is_documented() {
    let (_, table) =
        OF_FILES.split_once("| key | is | allowed |\n|---|---|---|\n").expect("a table");
    let rows = table.lines().map_while(|row| row.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(key, _)| key.to_owned()).collect();
    let mut declared = BTreeSet::new();
    keys(&schema(), "", &mut declared);
    assert_eq!(documented, declared);
}
