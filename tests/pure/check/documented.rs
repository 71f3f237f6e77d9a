//! docs/topology.md lists every rule, and no other.

use std::collections::BTreeMap;

use overdue::topology::check::{RULES, Severity, objects};

const PAGE: &str = include_str!("../../../docs/topology.md");

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

#[test]
fn every_rule_is_documented() {
    let of_files = RULES.iter().map(|rule| (rule.name, name(rule.severity)));
    let of_objects = objects::RULES.iter().map(|rule| (rule.name, name(rule.severity)));
    // The parser's own finding is no rule of the list.
    let rules: BTreeMap<&str, &str> =
        of_files.chain(of_objects).chain([("syntax", "error")]).collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeMap<&str, &str> = rows
        .filter_map(|row| {
            let (rule, rest) = row.split_once("` | ")?;
            let severity = rest.split(" | ").next()?;
            matches!(severity, "error" | "warning" | "note").then_some((rule, severity))
        })
        .collect();
    assert_eq!(documented, rules);
}

#[test]
fn names_are_unique_and_plain() {
    let names =
        RULES.iter().map(|rule| rule.name).chain(objects::RULES.iter().map(|rule| rule.name));
    let names: Vec<&str> = names.collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}
