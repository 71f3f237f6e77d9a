//! The table of metrics in the documents is the one in the code.

use std::{collections::BTreeSet, fs, path::Path};

use overdue::internals::telemetry::{labels, metrics};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).expect(file)
}

fn page() -> String {
    read("docs/metrics.md")
}

/// The rows below a heading row.
fn table<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, rest) = page.split_once(heading).expect("the table");
    rest.trim_start().lines().skip(1).take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn the_documented_metrics_are_those_of_the_program() {
    let rows = metrics::described().into_iter().map(|metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}` | {} | {labels} | {} |", metric.name, metric.kind, metric.help)
    });
    let rows: Vec<String> = rows.collect();
    assert_eq!(table(&page(), "| metric | type | labels | is |"), rows);
}

#[test]
fn the_documented_labels_are_those_of_the_program() {
    let rows: Vec<String> = labels::described()
        .iter()
        .map(|(name, values)| format!("| `{name}` | {values} |"))
        .collect();
    assert_eq!(table(&page(), "| label | values |"), rows);
    let documented: BTreeSet<&str> = labels::described().iter().map(|(name, _)| *name).collect();
    let used: BTreeSet<&str> =
        metrics::described().iter().flat_map(|metric| metric.labels.iter().copied()).collect();
    assert_eq!(documented, used);
}

/// A missing name would be an alert that never fires, and an empty graph.
#[test]
fn alerts_and_graphs_name_metrics_that_exist() {
    let known: BTreeSet<&str> = metrics::described().iter().map(|metric| metric.name).collect();
    for file in ["deploy/prometheus/alerts.yml", "deploy/grafana/overdue.json"] {
        let text = read(file);
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let names: BTreeSet<&str> = words.filter(|word| word.starts_with("overdue_")).collect();
        assert!(names.len() > 10, "{file}: {names:?}");
        for name in names {
            let parts = ["_bucket", "_sum", "_count"];
            let base = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            assert!(known.contains(name) || known.contains(base), "{file}: there is no {name}");
        }
    }
}

#[test]
fn each_alert_has_its_runbook_and_the_other_way_round() {
    let (alerts, page) = (read("deploy/prometheus/alerts.yml"), read("docs/runbooks.md"));
    let named: BTreeSet<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    // A heading of two words has no alert: a lost disk of the broker has none.
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let explained: BTreeSet<&str> = headings.filter(|heading| !heading.contains(' ')).collect();
    assert_eq!(named, explained);
    for name in named {
        let (_, section) = page.split_once(&format!("## {name}\n")).expect("its section");
        let section = section.split("\n#").next().unwrap_or_default();
        let words = section.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("`overdue "), "{name}: whoever is on call wants something to type");
        let link = format!("runbook: docs/runbooks.md#{}\n", name.to_lowercase());
        assert!(alerts.contains(&link), "{name}");
        assert!(
            read("deploy/prometheus/alerts_test.yml").contains(&format!("alertname: {name}")),
            "{name}"
        );
    }
}

/// Both pages are for people on call, and begin with the same command.
#[test]
fn the_runbooks_begin_like_the_page_about_operations() {
    let (runbooks, operations) = (read("docs/runbooks.md"), read("docs/operations.md"));
    let (_, begin) = runbooks.split_once("```sh\n").expect("commands");
    assert!(begin.starts_with("overdue status "), "{}", begin.lines().next().unwrap_or_default());
    let (_, begin) = operations.split_once("## What to do when\n\n").expect("the section");
    assert!(begin.starts_with("Start with `overdue status`"), "{begin}");
}

/// <https://prometheus.io/docs/practices/naming/>
#[test]
fn names_follow_the_rules_of_prometheus() {
    let mut names = BTreeSet::new();
    for metric in metrics::described() {
        let name = metric.name;
        assert!(name.starts_with("overdue_"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == "counter", "{name}");
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        assert!(names.insert(name), "{name} is there twice");
    }
    assert!(names.len() > 30, "{names:?}");
}
