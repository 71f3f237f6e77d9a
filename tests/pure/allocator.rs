//! The allocator of the process is chosen by this project, not by a crate far down.

use std::{fs, path::Path};

/// Crates that bring an allocator. Many of those that use one make it the allocator of the whole process.
const ALLOCATORS: [&str; 6] =
    ["jemallocator", "mimalloc", "rpmalloc", "snmalloc-rs", "tcmalloc", "tikv-jemallocator"];

#[test]
fn no_dependency_brings_an_allocator() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    let lock: toml::Table = fs::read_to_string(lock).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    let found: Vec<&str> = names.filter(|name| ALLOCATORS.contains(name)).collect();
    assert!(
        found.is_empty(),
        "{found:?}: `cargo tree -i` shows who brings it; see [patch.crates-io] in Cargo.toml"
    );
}
