//! docs/topology.md lists every key of the file and every rule about it, docs/verify.md every rule about objects,
//! docs/settings.md every setting with its default, and no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

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
    // The parser's own finding is not a rule of the list.
    let of_files: BTreeMap<&str, String> =
        of_files.chain([("syntax", "error".to_owned())]).collect();
    assert_eq!(documented(OF_FILES), of_files);
    let of_objects = verify::RULES.iter().map(|rule| (rule.name, rule.severity.to_string()));
    assert_eq!(documented(OF_OBJECTS), of_objects.collect());
}

/// The quoted words in the first cells of the rows below `header`.
fn first_cells<'p>(page: &'p str, header: &str) -> BTreeSet<&'p str> {
    let (_, table) = page.split_once(header).expect("a table");
    let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| ")?.split_once(" | "));
    rows.flat_map(|(cell, _)| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_finding_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(root.join("verify")).expect("the room").map(|it| it.expect("a file"));
    let paths = files.map(|file| file.path()).chain([root.join("verify.rs")]);
    let text: String = paths.map(|path| fs::read_to_string(path).expect("a source")).collect();
    let documented = first_cells(OF_OBJECTS, "| rule | finds |");
    for name in &documented {
        assert!(text.contains(&format!("\"{name}\"")), "no finding is called {name}");
    }
    let mut reported = 0;
    for call in ["Diagnostic::new(", "apply_note(", "note_on(", " error(", "(error("] {
        for passed in text.split(call).skip(1) {
            let name = passed.trim_start().strip_prefix('"').and_then(|it| it.split_once("\","));
            let Some((name, _)) = name.filter(|(name, _)| !name.contains([' ', '"'])) else {
                continue;
            };
            assert!(documented.contains(name), "docs/verify.md has no row for {name}");
            reported += 1;
        }
    }
    assert!(reported > 20, "{reported} were found");
}

#[test]
fn every_policy_key_is_documented() {
    let text = include_str!("../../../src/verify/policies.rs");
    let harmless =
        text.split_once("const HARMLESS").expect("a list").1.split_once("];").expect("an end").0;
    let arms = text
        .split_once("match key {")
        .expect("a match")
        .1
        .split_once("\n        }\n")
        .expect("an end")
        .0;
    let arms = arms.lines().filter_map(|line| line.split_once(" => ")).map(|(arm, _)| arm);
    let table = first_cells(OF_OBJECTS, "| key | on the topology's quorum queues |");
    let keys = arms.chain([harmless]).flat_map(|it| it.split('"').skip(1).step_by(2));
    let keys: Vec<&str> = keys.collect();
    assert!(keys.len() > 18, "{keys:?}");
    for key in keys {
        let is_there =
            |it: &&str| it.strip_suffix('*').map_or(*it == key, |all| key.starts_with(all));
        assert!(table.iter().any(is_there), "docs/verify.md has no row for the key {key}");
    }
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

/// `delay.ladder.max`: every key with a value and a description, with its schema.
fn keys(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    for (key, of) in schema["properties"].as_object().expect("a table") {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        assert!(of["description"].is_string(), "{key} is not described");
        let by_name = &of["additionalProperties"];
        match [of, &of["items"], by_name].into_iter().find(|it| it["properties"].is_object()) {
            Some(table) if table == by_name => keys(table, &format!("{key}.<name>"), found),
            Some(table) => keys(table, &key, found),
            None => assert!(found.insert(key, of.clone()).is_none()),
        }
    }
}

/// The first two cells of each row below `header`, with the key unquoted.
fn rows<'p>(page: &'p str, header: &str) -> BTreeMap<String, &'p str> {
    let (_, table) = page.split_once(header).expect("a table");
    let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(key, rest)| (key.to_owned(), rest.split(" | ").next().expect("a cell"))).collect()
}

/// `1,000` as in a text.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Asserts that the row of a key names its bounds.
fn assert_bounds(page: &str, key: &str, schema: &Value) {
    let row = page.lines().find(|line| line.starts_with(&format!("| `{key}` |"))).expect("a row");
    let variants = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
    for bound in
        variants.flat_map(|it| ["minimum", "maximum"].map(|bound| it[bound].as_u64())).flatten()
    {
        let written = [bound.to_string(), grouped(bound)];
        let has =
            row.split(|c: char| !c.is_ascii_digit() && c != ',').map(|it| it.trim_end_matches(','));
        assert!(
            has.clone().any(|it| written.contains(&it.to_owned())),
            "{key}: {bound} is not in {row}"
        );
    }
}

#[test]
fn every_key_is_documented() {
    let mut declared = BTreeMap::new();
    keys(&topology::file::schema(), "", &mut declared);
    assert!(rows(OF_FILES, "| key | is | allowed |").keys().eq(declared.keys()));
    for (key, schema) in &declared {
        assert_bounds(OF_FILES, key, schema);
    }
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
    for (key, schema) in settings {
        assert_bounds(OF_SETTINGS, &key, &schema);
        let default = schema["default"].clone();
        let written = documented[&key].trim_matches('`').replace("guest:guest", "guest:***");
        match default {
            Value::Null => assert!(!documented[&key].starts_with('`'), "{key} has no default"),
            Value::String(default) => assert_eq!(written, default, "{key}"),
            default => assert_eq!(written, default.to_string(), "{key}"),
        }
    }
}
