//! docs/topology.md lists every key of the file and every rule about it, docs/verify.md every rule about objects,
//! docs/settings.md every setting with its default, and no other.

use std::collections::BTreeMap;

use overdue::internals::{
    config,
    diagnostic::Severity,
    topology::{self, check::RULES},
    verify,
};
use serde_json::Value;

const OF_ALERTS: &str = include_str!("../../../docs/alerts.md");
const OF_SETTINGS: &str = include_str!("../../../docs/settings.md");
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

/// `delay.ladder.max`: every key that has a value of its own, with its default, and says what it is.
fn keys(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    for (key, of) in schema["properties"].as_object().expect("a table") {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        assert!(of["description"].is_string(), "{key} is not described");
        let by_name = &of["additionalProperties"];
        match [of, &of["items"], by_name].into_iter().find(|it| it["properties"].is_object()) {
            Some(table) if table == by_name => keys(table, &format!("{key}.<name>"), found),
            Some(table) => keys(table, &key, found),
            None => assert!(found.insert(key, of["default"].clone()).is_none()),
        }
    }
}

/// The first two cells of each row below `header`, without the quotes of the key.
fn rows<'p>(page: &'p str, header: &str) -> BTreeMap<String, &'p str> {
    let (_, table) = page.split_once(header).expect("a table");
    let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(key, rest)| (key.to_owned(), rest.split(" | ").next().expect("a cell"))).collect()
}

#[test]
fn every_key_is_documented() {
    let mut declared = BTreeMap::new();
    keys(&topology::file::schema(), "", &mut declared);
    assert!(rows(OF_FILES, "| key | is | allowed |").keys().eq(declared.keys()));
}

#[test]
fn every_setting_is_documented_with_its_default() {
    let mut declared = BTreeMap::new();
    keys(&config::schema(), "", &mut declared);
    let (alerts, settings): (BTreeMap<_, _>, BTreeMap<_, _>) =
        declared.into_iter().partition(|(key, _)| key.starts_with("alert."));
    for (key, _) in alerts {
        let key = key.trim_start_matches("alert.");
        assert!(OF_ALERTS.contains(key), "docs/alerts.md does not name {key}");
    }
    let mut documented = rows(OF_SETTINGS, "| key | default | is |");
    assert!(documented.remove("alert").is_some());
    assert!(documented.keys().eq(settings.keys()), "{documented:?}\n{settings:?}");
    for (key, default) in settings {
        let written = documented[&key].trim_matches('`').replace("guest:guest", "guest:***");
        match default {
            Value::Null => assert!(!documented[&key].starts_with('`'), "{key} has no default"),
            Value::String(default) => assert_eq!(written, default, "{key}"),
            default => assert_eq!(written, default.to_string(), "{key}"),
        }
    }
}
