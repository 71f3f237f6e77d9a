//! `ARCHITECTURE.md` as a test: its table is the only declaration of rooms, and `src` must match it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Forbidden in core rooms: I/O, clocks, randomness.
const IMPURE: [&str; 13] = [
    "tokio",
    "lapin",
    "deadpool",
    "reqwest",
    "hyper",
    "rand::",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "::now(",
];

/// The client's data types, of which a message consists.
const PURE_ALL_THE_SAME: [&str; 1] = ["lapin::types"];

/// Files about one strategy, or that print its name. All others use `topology/delays`.
const NAMING_A_STRATEGY: [&str; 4] =
    ["doctor/broker.rs", "graph/model.rs", "verify.rs", "verify/plan_findings.rs"];

/// A row of the table.
struct Room {
    name: String,
    is_core: bool,
    lines_at_most: usize,
}

/// A file of `src`: its path below `src`, and its text without comments.
struct Source {
    path: String,
    code: String,
    lines: usize,
}

impl Source {
    /// The first part of the path: `plan` for `plan.rs` and for `plan/diff.rs`.
    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// The rooms that the file imports: the first part of each path that begins with `crate::`.
    fn imports(&self) -> BTreeSet<&str> {
        self.code.split("crate::").skip(1).flat_map(first_parts).collect()
    }
}

/// The first parts of a path: `a` for `a::b`, `a` and `d` for `{a::{b, c}, d}`.
fn first_parts(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else { return vec![first_word(path)] };
    let mut depth = 0;
    let mut begins = Some(0);
    let mut parts = Vec::new();
    for (at, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = Some(at + 1),
            _ => {}
        }
        if depth == 0
            && !sign.is_whitespace()
            && begins.is_some_and(|begin| at >= begin)
            && sign != ','
        {
            parts.push(first_word(&group[at..]));
            begins = None;
        }
    }
    parts
}

fn first_word(text: &str) -> &str {
    let end = text.find(|sign: char| !sign.is_alphanumeric() && sign != '_');
    &text[..end.unwrap_or(text.len())]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rooms() -> Vec<Room> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| **")?.split('|');
        let name = cells.next()?.trim_end().strip_suffix("**")?.to_owned();
        let is_core = match cells.next()?.trim() {
            "core" => true,
            "edge" => false,
            kind => panic!("ARCHITECTURE.md: room {name} is `{kind}`: core or edge?"),
        };
        let lines = cells.next()?.trim().replace(',', "");
        let Ok(lines_at_most) = lines.parse() else {
            panic!("ARCHITECTURE.md: room {name} has `{lines}` lines at most: a number?")
        };
        Some(Room { name, is_core, lines_at_most })
    };
    page.lines().filter_map(row).collect()
}

fn sources() -> Vec<Source> {
    let root = root().join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let source = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("UTF-8");
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let path = file.strip_prefix(&root).expect("below src").display().to_string();
        Source { path, code: code.collect::<Vec<_>>().join("\n"), lines: text.lines().count() }
    };
    files.iter().map(source).collect()
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

/// Whether a file is in a room. The crate root, the binary and the exports for tests name every room.
fn is_in_a_room(source: &Source) -> bool {
    !["lib", "main", "internals"].contains(&source.room())
}

fn assert_none(wrong: &[String], advice: &str) {
    assert!(wrong.is_empty(), "{advice}:\n{}", wrong.join("\n"));
}

#[test]
fn every_room_has_a_row_and_every_row_a_room() {
    let sources = sources();
    let in_src: BTreeSet<&str> =
        sources.iter().filter(|it| is_in_a_room(it)).map(Source::room).collect();
    let rooms = rooms();
    let in_table: BTreeSet<&str> = rooms.iter().map(|room| room.name.as_str()).collect();
    assert_eq!(in_src, in_table, "src (left) and the table of ARCHITECTURE.md (right)");
    assert_eq!(rooms.len(), in_table.len(), "a room has two rows in ARCHITECTURE.md");
}

#[test]
fn rooms_import_only_rooms_above_them() {
    let rooms = rooms();
    let place = |name: &str| rooms.iter().position(|room| room.name == name);
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|it| is_in_a_room(it)) {
        let Some(own) = place(source.room()) else { continue };
        for import in source.imports() {
            let Some(other) = place(import) else { continue };
            if other > own {
                wrong.push(format!("src/{}: `{import}` stands below", source.path));
            } else if rooms[own].is_core && !rooms[other].is_core {
                wrong.push(format!("src/{}: `{import}` is an edge", source.path));
            }
        }
    }
    assert_none(&wrong, "the table of ARCHITECTURE.md allows imports of rooms above, core of core");
}

#[test]
fn broker_and_database_do_not_know_each_other() {
    let broker = ["messaging", "administration"];
    let knows = |source: &Source| match source.room() {
        "store" => broker.iter().any(|room| source.imports().contains(room)),
        room => broker.contains(&room) && source.imports().contains("store"),
    };
    let knowing = sources().into_iter().filter(knows);
    assert_none(&knowing.map(|source| source.path).collect::<Vec<_>>(), "`worker` joins them");
}

#[test]
fn core_rooms_have_no_io_no_clock_and_no_chance() {
    let rooms = rooms();
    let is_core = |name: &str| rooms.iter().any(|room| room.name == name && room.is_core);
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| is_core(source.room())) {
        let mut code = source.code.clone();
        for pure in PURE_ALL_THE_SAME {
            code = code.replace(pure, "");
        }
        let found = IMPURE.iter().filter(|word| code.contains(**word));
        wrong.extend(found.map(|word| format!("src/{}: {word}", source.path)));
    }
    assert_none(&wrong, "a core room computes: pass it in, or move it to an edge");
}

#[test]
fn rooms_stay_within_their_lines() {
    let sources = sources();
    let wrong = rooms().into_iter().filter_map(|room| {
        let Room { name, lines_at_most, .. } = room;
        let lines: usize = sources.iter().filter(|it| it.room() == name).map(|it| it.lines).sum();
        (lines > lines_at_most).then(|| format!("{name}: {lines} lines, at most {lines_at_most}"))
    });
    let advice =
        "take a mechanism out, or raise the number with a row under \"Raised\" in ARCHITECTURE.md";
    assert_none(&wrong.collect::<Vec<_>>(), advice);
}

#[test]
fn files_have_one_subject() {
    let wrong = sources().into_iter().filter_map(|source| {
        let most = if source.path == "main.rs" { 40 } else { 500 };
        let Source { path, lines, .. } = source;
        (lines > most).then(|| format!("src/{path}: {lines} lines, at most {most}"))
    });
    assert_none(&wrong.collect::<Vec<_>>(), "it is probably two things: split it by noun");
}

#[test]
fn few_files_outside_topology_name_a_strategy() {
    let names = ["Strategy::Levels", "Strategy::Ladder", "Strategy::DelayedExchange"];
    let is_naming = |source: &Source| {
        source.room() != "topology" && names.iter().any(|name| source.code.contains(name))
    };
    let mut naming: Vec<String> =
        sources().into_iter().filter(is_naming).map(|source| source.path).collect();
    naming.sort();
    assert_eq!(
        naming, NAMING_A_STRATEGY,
        "ask topology/delays instead, or say in the page why not"
    );
    let page = include_str!("../../docs/adr/0007-one-door-for-strategies.md");
    for file in NAMING_A_STRATEGY {
        assert!(page.contains(&format!("`{file}`")), "the page does not list {file}");
    }
}
