//! `ARCHITECTURE.md` as tests: every file of `src` has a place, and keeps the rules of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The four places a file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Total and deterministic: neither runtime, nor broker, database, environment or clock.
    Core,
    /// Talks to RabbitMQ.
    Broker,
    /// Talks to PostgreSQL.
    Store,
    /// Everything that puts the others together.
    Edge,
}

/// Files and, with a slash at the end, folders. The longest entry that fits decides.
const PLACES: &[(&str, Place)] = &[
    ("topology.rs", Place::Core),
    ("topology/", Place::Core),
    ("plan.rs", Place::Core),
    ("plan/", Place::Core),
    ("diagnostic.rs", Place::Core),
    ("objects.rs", Place::Core),
    ("text.rs", Place::Core),
    ("text/", Place::Core),
    ("doctor.rs", Place::Core),
    ("doctor/", Place::Core),
    ("export.rs", Place::Core),
    ("export/", Place::Core),
    ("graph.rs", Place::Core),
    ("graph/", Place::Core),
    ("permissions.rs", Place::Core),
    ("permissions/", Place::Core),
    ("verify.rs", Place::Core),
    ("verify/", Place::Core),
    ("order.rs", Place::Core),
    ("worker/batch.rs", Place::Core),
    ("worker/disposition.rs", Place::Core),
    ("broker.rs", Place::Broker),
    ("broker/", Place::Broker),
    ("store.rs", Place::Store),
    ("store/", Place::Store),
    ("main.rs", Place::Edge),
    ("lib.rs", Place::Edge),
    ("cli.rs", Place::Edge),
    ("cli/", Place::Edge),
    ("config.rs", Place::Edge),
    ("config/", Place::Edge),
    ("telemetry.rs", Place::Edge),
    ("shutdown.rs", Place::Edge),
    ("worker.rs", Place::Edge),
    ("worker/", Place::Edge),
    ("demo.rs", Place::Edge),
    ("demo/", Place::Edge),
    ("bench.rs", Place::Edge),
    ("bench/", Place::Edge),
    ("bench/change/kind.rs", Place::Core),
    ("bench/change/ledger.rs", Place::Core),
    ("bench/change/scenario.rs", Place::Core),
];

impl Place {
    /// Paths that must not be named, and where such code belongs.
    const fn forbidden(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Core => (
                &[
                    "tokio",
                    "lapin",
                    "tokio_postgres",
                    "deadpool",
                    "deadpool_postgres",
                    "rabbitmq_http_client",
                    "rand",
                    "std::env",
                    "std::fs",
                    "std::net",
                    "std::process",
                    "std::thread",
                    "SystemTime::now",
                    "Instant::now",
                    "Timestamp::now",
                    "Zoned::now",
                    "crate::broker",
                    "crate::store",
                    "crate::cli",
                    "crate::config",
                    "crate::telemetry",
                    "crate::shutdown",
                ],
                "the core gets data and times passed in: do this in an edge, hand over the result",
            ),
            Self::Broker => (
                &["crate::store", "tokio_postgres", "deadpool_postgres"],
                "broker and store do not know each other; `worker` puts them together",
            ),
            Self::Store => (
                &["crate::broker", "lapin", "rabbitmq_http_client"],
                "broker and store do not know each other; `worker` puts them together",
            ),
            Self::Edge => (&[], ""),
        }
    }
}

/// Every forbidden path in a source text, with its line.
fn forbidden_uses(source: &str, place: Place) -> Vec<String> {
    let (forbidden, instead) = place.forbidden();
    let code: Vec<&str> = source.lines().map(without_comment).collect();
    let mut found = Vec::new();
    for path in forbidden {
        let named = code.iter().enumerate().filter(|(_, line)| names(line, path));
        found.extend(named.map(|(i, _)| format!("line {}: `{path}`: {instead}", i + 1)));
        if imports(&code.join("\n")).iter().any(|import| starts_with_path(import, path)) {
            found.push(format!("imports `{path}`: {instead}"));
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether `path` stands in `code`, and not as a part of a longer name.
fn names(code: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_name);
        let after = code[at + path.len()..].chars().next().is_some_and(is_name);
        !before && !after
    })
}

fn starts_with_path(import: &str, path: &str) -> bool {
    import.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path a source text imports, with nested braces written out.
fn imports(code: &str) -> Vec<String> {
    let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let trees = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    trees.flat_map(|tree| expanded("", tree)).collect()
}

fn expanded(prefix: &str, tree: &str) -> Vec<String> {
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![format!("{prefix}{}", path.trim())];
    };
    let prefix = format!("{prefix}{}", head.trim());
    let group = group.trim_end();
    let mut depth = 0_i32;
    let branches = group.strip_suffix('}').unwrap_or(group).split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    branches.flat_map(|branch| expanded(&prefix, branch)).collect()
}

fn place_of(file: &str) -> Option<Place> {
    let fits = |entry: &str| file == entry || (entry.ends_with('/') && file.starts_with(entry));
    let entries = PLACES.iter().filter(|(entry, _)| fits(entry));
    entries.max_by_key(|(entry, _)| entry.len()).map(|(_, place)| *place)
}

/// Every source file: its path below `src`, and its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let name = |file: &Path| file.strip_prefix(&root).expect("below src").display().to_string();
    files.iter().map(|file| (name(file), fs::read_to_string(file).expect("UTF-8"))).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of src") {
        let path = entry.expect("an entry of src").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_file_has_a_place() {
    let homeless: Vec<String> =
        sources().into_iter().map(|(file, _)| file).filter(|f| place_of(f).is_none()).collect();
    assert!(
        homeless.is_empty(),
        "{homeless:?}: decide whether it is core, broker, store or edge, and add it to PLACES here"
    );
}

#[test]
fn every_file_keeps_the_rules_of_its_place() {
    for (file, text) in sources() {
        let Some(place) = place_of(&file) else { continue };
        let found = forbidden_uses(&text, place);
        assert!(found.is_empty(), "src/{file} ({place:?})\n  {}", found.join("\n  "));
    }
}

#[test]
fn files_stay_small() {
    for (file, text) in sources() {
        let (most, advice) = match file.as_str() {
            "main.rs" => (40, "it is a table of contents: move the rest to cli.rs"),
            _ => (400, "it is probably two things: split it by noun"),
        };
        let lines = text.lines().count();
        assert!(lines <= most, "src/{file} has {lines} lines, at most {most}: {advice}");
    }
}

#[test]
fn a_forbidden_use_is_found() {
    let found = |source: &str, place| forbidden_uses(source, place).len();
    for bad in [
        "use tokio::time::sleep;",
        "let now = std::time::Instant::now();",
        "jiff::Zoned::now()",
        "use std::{collections::BTreeMap, env};",
        "use std::{env as surroundings};",
        "use std::{\n    fmt,\n    net::{IpAddr, Ipv4Addr},\n};",
        "use crate::{order::Outcome, store::Store};",
        "rand::random::<u64>()",
    ] {
        assert!(found(bad, Place::Core) > 0, "not found: {bad}");
    }
    for good in [
        "// tokio would be wrong here",
        "let operand = strand(brand);",
        "use std::time::{Duration, Instant};",
        "use crate::topology::{level::Level, objects::{Argument, Queue}};",
    ] {
        assert_eq!(forbidden_uses(good, Place::Core), Vec::<String>::new(), "found in: {good}");
    }
    assert_eq!(found("use crate::store::Store;", Place::Broker), 2);
    assert_eq!(found("use crate::{broker::Link, order::OrderId};", Place::Store), 1);
    assert_eq!(found("use crate::{broker::Link, store::Store};", Place::Edge), 0);
}

#[test]
fn a_new_file_has_no_place() {
    assert_eq!(place_of("utils.rs"), None);
    assert_eq!(place_of("worker/batch.rs"), Some(Place::Core));
    assert_eq!(place_of("worker/settle.rs"), Some(Place::Edge));
    assert_eq!(place_of("worker/queues.rs"), Some(Place::Edge));
    for file in ["diff", "generation", "saved", "snapshot", "text"] {
        assert_eq!(place_of(&format!("plan/{file}.rs")), Some(Place::Core), "{file}");
    }
    for file in ["kind", "ledger", "scenario"] {
        assert_eq!(place_of(&format!("bench/change/{file}.rs")), Some(Place::Core), "{file}");
    }
    for file in ["applying", "book", "following", "publishing", "report"] {
        assert_eq!(place_of(&format!("bench/change/{file}.rs")), Some(Place::Edge), "{file}");
    }
    for file in ["apply", "passive", "publish", "remove", "stats"] {
        assert_eq!(place_of(&format!("broker/{file}.rs")), Some(Place::Broker), "{file}");
    }
}
