//! One door for strategies: who outside `topology` names one, as `docs/adr/0007-one-door-for-strategies.md` lists them.

use super::sources;

const NAMES: [&str; 3] = ["Strategy::Levels", "Strategy::Ladder", "Strategy::DelayedExchange"];

/// Files that are about one strategy, or show what it is called. Everybody else asks `topology/delays`.
const NAMING: [&str; 4] =
    ["doctor/cluster.rs", "graph/model.rs", "verify/held.rs", "verify/shape.rs"];

#[test]
fn few_files_outside_topology_name_a_strategy() {
    let outside = |file: &str| file != "topology.rs" && !file.starts_with("topology/");
    let names = |text: &str| NAMES.iter().any(|name| text.contains(name));
    let mut naming: Vec<String> = sources()
        .into_iter()
        .filter(|(file, text)| outside(file) && names(text))
        .map(|(file, _)| file)
        .collect();
    naming.sort();
    assert_eq!(naming, NAMING, "ask topology/delays instead, or say in the page why not");
    let page = include_str!("../../../docs/adr/0007-one-door-for-strategies.md");
    for file in NAMING {
        assert!(page.contains(&format!("`{file}`")), "the page does not list {file}");
    }
}
