//! Names in other tools: valid there, each its own, and the same when the topology grows.

use std::collections::BTreeSet;

use overdue::internals::{
    export::{kubernetes, terraform},
    topology::Topology,
};

/// Names that become alike when their odd letters are replaced.
const ODD: &str = r#"
name = "Shop_1.-x"
delay.levels = ["30m"]
[[timeout]]
name = "delay_30m"
after = "30m"
[[timeout]]
name = "Delay-30m"
after = "30m"
[[timeout]]
name = "delay-30m"
after = "30m"
[[timeout]]
name = "_a-"
after = "30m"
[[timeout]]
name = "a"
after = "30m"
"#;

fn long() -> Topology {
    let name = format!("x{}", ".y".repeat(90));
    Topology::parse(&ODD.replace("Shop_1.-x", &name)).unwrap()
}

/// The name of each object, with its kind.
fn in_kubernetes(topology: &Topology) -> Vec<(String, String)> {
    let (vhost, cluster) = ("/".to_owned(), "rabbit".to_owned());
    let text =
        kubernetes::render(topology, &kubernetes::Target { vhost, cluster, namespace: None });
    let documents = text.split("---\n").skip(1);
    let field = |document: &str, key: &str| {
        let line = document.lines().find(|line| line.starts_with(key)).unwrap();
        line[key.len()..].trim_matches([' ', '"']).to_owned()
    };
    documents.map(|document| (field(document, "kind:"), field(document, "  name:"))).collect()
}

/// The address of each resource.
fn in_terraform(topology: &Topology) -> Vec<(String, String)> {
    let text = terraform::render(topology, "/");
    let resources = text.lines().filter_map(|line| line.strip_prefix("resource "));
    let words = resources.map(|line| {
        let mut words = line.split('"').filter(|word| !word.trim().is_empty());
        (words.next().unwrap().to_owned(), words.next().unwrap().to_owned())
    });
    words.collect()
}

fn is_label(label: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty() && label.chars().all(fits) && !label.starts_with('-') && !label.ends_with('-')
}

#[test]
fn kubernetes_names_are_dns_names_and_each_its_own() {
    for topology in [Topology::parse(ODD).unwrap(), long()] {
        let names = in_kubernetes(&topology);
        for (_, name) in &names {
            assert!(name.len() <= 253 && name.split('.').all(is_label), "{name}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:#?}");
    }
}

/// The exchange of `[compat.x-delay]` has the name that others gave it.
fn taken_over(exchange: &str) -> Topology {
    let compat = format!("compat.x-delay = {{ exchange = '{exchange}', type = 'topic' }}\n");
    let delays = "delay.levels = [\"30m\"]\n";
    Topology::parse(&ODD.replace(delays, &(compat + delays))).unwrap()
}

#[test]
fn terraform_names_are_identifiers_and_each_its_own() {
    let others = ["old reminders", "a:b/c?", "-", "1", "\u{e4}\u{301}", "Shop 1 -x in", "${x}"]
        .map(taken_over);
    for topology in [Topology::parse(ODD).unwrap(), long()].into_iter().chain(others) {
        let names = in_terraform(&topology);
        for (_, name) in &names {
            assert!(name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{name}");
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            assert!(name.chars().all(fits), "{name}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:#?}");
    }
}

/// Otherwise Terraform would destroy a queue to create it under another address.
#[test]
fn names_stay_when_the_topology_grows() {
    let small = Topology::parse(ODD).unwrap();
    let text = ODD.replace("[\"30m\"]", "[\"5m\", \"30m\"]");
    let large = Topology::parse(&format!("{text}[[timeout]]\nname = 'b'\nafter = '5m'")).unwrap();
    for names in [in_terraform, in_kubernetes] {
        let (before, after) = (names(&small), names(&large));
        assert!(before.iter().all(|name| after.contains(name)));
        assert!(after.len() > before.len());
    }
}
