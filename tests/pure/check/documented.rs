//! docs/topology.md lists every rule about the file, docs/verify.md every rule about objects, and no other.

use std::collections::BTreeMap;

use overdue::internals::{diagnostic::Severity, topology::check::RULES, verify::rules};

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
    let of_objects = rules::RULES.iter().map(|rule| (rule.name, rule.severity.to_string()));
    assert_eq!(documented(OF_OBJECTS), of_objects.collect());
}

#[test]
fn names_are_unique_and_plain() {
    let names = RULES.iter().map(|rule| rule.name).chain(rules::RULES.iter().map(|rule| rule.name));
    let names: Vec<&str> = names.collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}
