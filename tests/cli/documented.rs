//! The commands in the documents: the program has every subcommand and flag that they name.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::support::{overdue, process::finish};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages that show commands.
fn pages() -> Vec<PathBuf> {
    let markdown = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect::<Vec<_>>()
    };
    [markdown(root()), markdown(&root().join("docs"))].concat()
}

/// Every line of a code block that begins with `overdue `, without prompt and comment, up to a pipe. `&&` begins
/// another command.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).flat_map(|line| line.split("&&"));
    let lines = lines.map(|line| line.trim().trim_start_matches("$ "));
    let lines = lines.map(|line| line.split(" #").next().unwrap_or_default());
    let lines = lines.map(|line| line.split(" | ").next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with("overdue ")).map(str::to_owned).collect()
}

fn help(subcommands: &[&str]) -> Option<String> {
    let run = finish(overdue(&[subcommands, &["--help"]].concat()), None);
    (run.code == Some(0)).then_some(run.stdout)
}

#[test]
fn every_command_and_flag_in_the_documents_exists() {
    let mut tried = BTreeSet::new();
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let plain = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
            // `database init`: the second word belongs to the command if that command exists.
            let names: Vec<&str> = words.iter().take(2).take_while(plain).copied().collect();
            let help = help(&names).or_else(|| help(&names[..1]));
            let help =
                help.unwrap_or_else(|| panic!("{}: no such command: {command}", page.display()));
            for flag in words.iter().filter(|word| word.starts_with('-')) {
                assert!(help.contains(flag), "{}: {command}: there is no {flag}", page.display());
            }
            tried.insert(names.first().copied().unwrap_or_default().to_owned());
        }
    }
    assert!(tried.len() > 10, "{tried:?}");
}
