//! Whether the tests notice a mutant: `overdue-mutants CORE KNOWN ROOM…`.
//!
//! CORE is the crate that `docker/core_crate.sh` writes. cargo-mutants lists the mutants of each ROOM; all of them are compiled at
//! once, each behind a switch, and with each only the tests run that reach it. A mutant that no test notices has to stand in
//! KNOWN, with the reason; one that stands there and is noticed has to leave it.
#![allow(clippy::unwrap_used, reason = "a program for those who read its source")]

use std::{collections::BTreeMap, env, fs, path::PathBuf, process::ExitCode};

mod build;
mod mutant;
mod switches;
mod trial;

/// A property that is to fail; it takes minutes.
const LEFT_OUT: &str = "life::known_faults";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (Some(core), Some(known)) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        eprintln!("overdue-mutants CORE KNOWN ROOM…");
        return ExitCode::from(64);
    };
    let rooms: Vec<String> = arguments.collect();
    let mutants = mutant::list(&core, &rooms);
    let to = core.with_file_name("switched");
    let built = build::build(&core, &to, &mutants);
    let tests = trial::Tests::record(built.program, to, LEFT_OUT);
    let tried: Vec<&mutant::Mutant> =
        mutants.iter().filter(|it| built.put_in.contains(&it.id)).collect();
    let noticed = tests.notice(&tried.iter().map(|it| it.id).collect::<Vec<_>>());

    // So many of each that were not noticed, and that are known.
    let mut unnoticed: BTreeMap<String, (Vec<&str>, usize)> = BTreeMap::new();
    for (mutant, _) in tried.iter().zip(&noticed).filter(|(_, noticed)| !**noticed) {
        unnoticed.entry(mutant.key()).or_default().0.push(&mutant.name);
    }
    let known = fs::read_to_string(known).expect("a list");
    for line in known.lines().filter(|line| line.starts_with("src/")) {
        let key = line.split("  #").next().unwrap_or_default().trim_end();
        if rooms.iter().any(|room| {
            key.starts_with(&format!("src/{room}.rs")) || key.starts_with(&format!("src/{room}/"))
        }) {
            unnoticed.entry(key.to_owned()).or_default().1 += 1;
        }
    }

    let missed: usize = unnoticed.values().map(|(names, _)| names.len()).sum();
    println!(
        "{} mutants: {} tried, {} that do not compile, or stand in a constant",
        mutants.len(),
        tried.len(),
        mutants.len() - tried.len()
    );
    println!(
        "{} are noticed, {missed} are not: {} of 100",
        tried.len() - missed,
        (tried.len() - missed) * 100 / tried.len().max(1)
    );
    let mut as_known = true;
    for (key, (names, known)) in &unnoticed {
        if names.len() > *known {
            println!("not noticed, and {known} of it in the list:\n    {}", names.join("\n    "));
        } else if names.len() < *known {
            println!("noticed, but in the list: {key}");
        }
        as_known &= names.len() == *known;
    }
    if as_known { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
