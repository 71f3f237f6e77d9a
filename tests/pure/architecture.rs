//! `ARCHITECTURE.md` as tests: every file of `src` has a room, and imports what its room may.

mod house;
mod rooms;
mod source;
mod strategies;

use std::{
    fs,
    path::{Path, PathBuf},
};

use house::{House, Violation, room_of};
use rooms::{EXPECTED, KNOWN, ROOMS, Room};

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

/// The crates of `Cargo.toml`, as paths name them.
fn dependencies() -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let dependencies = manifest["dependencies"].as_table().expect("a table");
    dependencies.keys().map(|name| name.replace('-', "_")).collect()
}

fn house(files: &[(String, String)]) -> House {
    let files = files.iter().map(|(file, text)| (file.as_str(), text.as_str()));
    House::new(files, dependencies())
}

/// Whether a violation is one that somebody is removing.
fn is_known(violation: &Violation) -> bool {
    match violation {
        Violation::NoFile { entry, .. } => EXPECTED.contains(entry),
        _ => violation.key().is_some_and(|key| KNOWN.contains(&key)),
    }
}

#[test]
fn every_file_has_a_room_and_keeps_its_rules() {
    let files = sources();
    let found = house(&files).violations(ROOMS, KNOWN);
    let new: Vec<String> =
        found.iter().filter(|violation| !is_known(violation)).map(ToString::to_string).collect();
    assert!(new.is_empty(), "{}", new.join("\n"));
}

#[test]
fn what_is_known_still_occurs() {
    let files = sources();
    let house = house(&files);
    let found = house.violations(ROOMS, &[]);
    let occurs = |entry: &(&str, &str)| {
        let refused = found.iter().any(|violation| violation.key() == Some(*entry));
        refused || house.is_in_a_circle(entry.0, entry.1)
    };
    let gone: Vec<_> = KNOWN.iter().filter(|entry| !occurs(entry)).collect();
    assert!(gone.is_empty(), "no longer true, remove from KNOWN: {gone:?}");
    let moved = KNOWN.is_empty() && EXPECTED.is_empty();
    let unused = house.unused(ROOMS);
    assert!(!moved || unused.is_empty(), "nobody uses what ROOMS lists: {}", unused.join("; "));
}

#[test]
fn rooms_import_only_what_stands_above_them() {
    for (at, room) in ROOMS.iter().enumerate() {
        let above: Vec<&str> = ROOMS[..at].iter().map(|room| room.name).collect();
        for import in room.imports {
            assert!(
                above.contains(import),
                "room `{}` imports `{import}`, which is not above it",
                room.name
            );
        }
        let core = |name: &str| ROOMS.iter().any(|room| room.name == name && room.core);
        let edges: Vec<_> = room.imports.iter().filter(|import| !core(import)).collect();
        assert!(!room.core || edges.is_empty(), "core room `{}` imports {edges:?}", room.name);
    }
}

#[test]
fn broker_and_store_do_not_know_each_other() {
    let room = |name: &str| ROOMS.iter().find(|room| room.name == name).expect("a room");
    assert!(!room("broker").imports.contains(&"store"));
    assert!(!room("store").imports.contains(&"broker"));
}

#[test]
fn the_table_is_the_one_in_architecture_md() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let page = fs::read_to_string(page).expect("ARCHITECTURE.md");
    let table = rooms::table();
    assert!(
        page.contains(&table),
        "ARCHITECTURE.md needs the table of ROOMS, as it is:\n\n{table}"
    );
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

/// Three rooms for the tests of the test.
const SMALL: &[Room] = &[
    Room {
        name: "core",
        core: true,
        about: "",
        files: &["core.rs", "core/"],
        imports: &[],
        uses: &["serde", "jiff", "std::time::Instant"],
    },
    Room { name: "lib", core: false, about: "", files: &["lib.rs"], imports: &[], uses: &[] },
    Room {
        name: "edge",
        core: false,
        about: "",
        files: &["edge.rs"],
        imports: &["core"],
        uses: &["tokio"],
    },
];

/// What is wrong with a house of these files.
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let crates = ["serde", "jiff", "tokio", "rand", "lapin"].map(str::to_owned);
    let empty = ["lib.rs", "core.rs", "core/a.rs", "core/b.rs", "edge.rs"];
    let others = empty.iter().filter(|file| !files.iter().any(|(named, _)| named == *file));
    let files: Vec<_> = files.iter().copied().chain(others.map(|file| (*file, ""))).collect();
    let found = House::new(files, crates).violations(SMALL, &[]);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_crate_that_is_not_listed_is_found_wherever_it_is_named() {
    for bad in [
        "use tokio::time::sleep;",
        "use serde::Serialize;\nuse ::lapin::Channel;",
        "use rand;",
        "fn f() -> u64 { rand::random::<u64>() }",
        "fn f(c: &lapin::Channel) {}",
        "fn f() { println!(\"{}\", rand::random::<u64>()); }",
        "fn f() { tokio::select! { () = wait() => {} } }",
        "#[derive(tokio::Derived)] struct S;",
        "#[serde(with = \"rand::somewhere\")] struct S;",
        "type T = Vec<Option<lapin::Channel>>;",
        "mod inner { use tokio::time; }",
        "use not_in_cargo_toml::Thing;",
    ] {
        assert_ne!(planted(&[("core/a.rs", bad)]), Vec::<String>::new(), "not found: {bad}");
    }
}

#[test]
fn a_part_of_the_standard_library_that_is_not_listed_is_found() {
    for bad in [
        "use std::env;",
        "use std::{collections::BTreeMap, env};",
        "use std::{env as surroundings};",
        "use std::{\n    fmt,\n    net::{IpAddr, Ipv4Addr},\n};",
        "fn f() { std::fs::read(\"x\"); }",
        "fn f() { std::process::exit(1) }",
        "fn f() { std::thread::sleep(d) }",
        "fn f() -> String { core::any::type_name::<u8>().into() }",
        "use std::time::SystemTime;",
        "fn f() { let now = std::time::Instant::now(); }",
        "use std::time::Instant;\nfn f() { let now = Instant::now(); }",
        "use std::time::Instant as Clock;\nfn f() { let now = Clock::now(); }",
        "use std::time;\nfn f() { let now = time::Instant::now(); }",
        "use std::time;\nfn f() { println!(\"{:?}\", time::SystemTime::now()); }",
        "use jiff::Zoned;\nfn f() { Zoned::now(); }",
        "fn f() { let now = jiff::Timestamp::now; }",
    ] {
        assert_ne!(planted(&[("core/a.rs", bad)]), Vec::<String>::new(), "not found: {bad}");
    }
}

#[test]
fn what_a_room_may_use_is_not_found() {
    for good in [
        "// tokio would be wrong here\n/// and `std::fs`\nstruct S;",
        "fn f(brand: &str) { let operand = strand(brand); }",
        "use std::time::{Duration, Instant};\nfn f(now: Instant) {}",
        "use std::{collections::{BTreeMap, BTreeSet}, fmt::{self, Write as _}};\nfn f() -> fmt::Result { Ok(()) }",
        "use crate::core::b::B;\nuse serde::{Deserialize, Serialize};",
        "use super::b::{self, B};\nfn f() { b::c(); }",
        "#[cfg(test)]\nmod tests { use std::fs; use tokio::time; }",
        "enum E { A }\nuse E::A;",
        "fn f(rand: u8, env: u8) { println!(\"{rand} tokio {}\", env); }",
        "pub(crate) fn f() {}",
    ] {
        let b = ("core/b.rs", "pub struct B;\npub fn c() {}");
        assert_eq!(planted(&[("core/a.rs", good), b]), Vec::<String>::new(), "found in: {good}");
    }
}

#[test]
fn a_room_that_is_not_listed_is_found_through_whatever_passes_it_on() {
    let edge = ("edge.rs", "pub struct Edge;");
    for bad in [
        "use crate::edge::Edge;",
        "use crate::{core::b::B, edge::Edge};",
        "use crate::edge;",
        "use crate::edge::*;",
        "use super::super::edge::Edge;",
        "fn f(e: &crate::edge::Edge) {}",
        "use crate as root;\nfn f(e: &root::edge::Edge) {}",
        "use crate::Passed;",
        "fn f() { println!(\"{}\", crate::edge::Edge); }",
    ] {
        let lib = ("lib.rs", "mod edge;\nmod core;\npub use edge::Edge as Passed;");
        let found = planted(&[("core/a.rs", bad), ("core/b.rs", "pub struct B;"), edge, lib]);
        let named = found
            .iter()
            .any(|violation| violation.contains("room `core` may not import room `edge`"));
        assert!(named, "not found: {bad}\n{found:?}");
    }
    let back = [("core/a.rs", "pub struct A;"), ("edge.rs", "use crate::core::a::A;")];
    let found = planted(&back);
    assert!(
        !found.iter().any(|violation| violation.contains("may not import room `core`")),
        "{found:?}"
    );
}

#[test]
fn a_circle_between_files_is_found() {
    let circle = |files: &[(&str, &str)]| {
        let found = planted(files);
        found
            .into_iter()
            .find(|violation| violation.starts_with("files in a circle"))
            .unwrap_or_default()
    };
    let neighbours = [
        ("core/a.rs", "use super::b::B;\npub struct A;"),
        ("core/b.rs", "pub struct B;\nfn f(a: super::a::A) {}"),
    ];
    assert!(circle(&neighbours).contains("src/core/a.rs -> src/core/b.rs -> src/core/a.rs"));
    let three = [
        ("core/a.rs", "use super::b::B;\npub struct A;"),
        ("core/b.rs", "use crate::core::Core;\npub struct B;"),
        ("core.rs", "pub mod a;\npub mod b;\nuse a::A;\npub struct Core(A);"),
    ];
    assert!(
        circle(&three).contains("src/core.rs -> src/core/a.rs -> src/core/b.rs -> src/core.rs")
    );
    let parent_that_uses_what_it_passes_on = [
        ("core.rs", "pub mod a;\npub use a::A;\npub struct Core(A);"),
        ("core/a.rs", "use super::Core;\npub struct A;"),
    ];
    assert!(circle(&parent_that_uses_what_it_passes_on).contains("src/core.rs -> src/core/a.rs"));
    let parent_that_passes_on = [
        ("core.rs", "mod a;\npub use a::A;\npub struct Core;"),
        ("core/a.rs", "use super::Core;\npub struct A;"),
        ("edge.rs", "use crate::core::{self, A};\nfn f(c: core::Core) {}"),
    ];
    assert_eq!(circle(&parent_that_passes_on), "");
}

#[test]
fn a_file_without_a_room_and_a_room_without_a_file_are_found() {
    let found = planted(&[("utils.rs", "")]);
    assert!(
        found.iter().any(|violation| violation.contains("src/utils.rs has no room")),
        "{found:?}"
    );
    let found = planted(&[("lib.rs", "pub mod inner { pub struct S; }")]);
    assert!(found.iter().any(|violation| violation.contains("module `inner`")), "{found:?}");
    let found = House::new([("lib.rs", "")], []).violations(SMALL, &[]);
    let entries = ["`core.rs`", "`core/`", "`edge.rs`"];
    for entry in entries {
        assert!(
            found.iter().any(|violation| violation.to_string().contains(entry)),
            "{entry}: {found:?}"
        );
    }
    assert_eq!(found.len(), entries.len(), "{found:?}");
    let found =
        House::new([("core.rs", "use serde::Serialize;"), ("edge.rs", "")], []).unused(SMALL);
    assert_eq!(
        found,
        ["`core`: jiff", "`core`: std::time::Instant", "`edge`: core", "`edge`: tokio"],
        "what a room may and does not is found"
    );
    assert_eq!(room_of(ROOMS, "decisions/batch.rs").map(|room| room.name), Some("decisions"));
    assert_eq!(room_of(ROOMS, "worker/receive/settle.rs").map(|room| room.name), Some("worker"));
}
