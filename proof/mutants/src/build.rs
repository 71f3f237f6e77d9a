//! The crate with all mutants that it compiles with.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{mutant::Mutant, switches};

/// Behind it stands the mutant that an error belongs to.
const SWITCH: &str = "crate::switch::on(";

pub(crate) struct Build {
    /// The tests.
    pub(crate) program: PathBuf,
    pub(crate) put_in: HashSet<u32>,
}

/// Writes `core` with its mutants to `to`. What rustc refuses is left out, and it is asked again.
pub(crate) fn build(core: &Path, to: &Path, mutants: &[Mutant]) -> Build {
    let (mut refused, mut constants) = (HashSet::new(), HashSet::new());
    copy(core, to);
    let library = to.join("src/lib.rs");
    fs::write(to.join("src/switch.rs"), include_str!("switch.rs")).expect("written");
    fs::write(&library, fs::read_to_string(&library).expect("read") + "pub mod switch;\n")
        .expect("written");
    loop {
        let put_in = write(core, to, mutants, &refused, &constants);
        let messages = cargo(to, &["test", "--no-run", "--test", "pure"]);
        if let Some(program) = messages.iter().find_map(|it| it["executable"].as_str()) {
            return Build { program: program.into(), put_in };
        }
        let before = refused.len() + constants.len();
        for error in messages.iter().map(|it| &it["message"]).filter(|it| it["level"] == "error") {
            match constant(error) {
                Some(function) => _ = constants.insert(function),
                None => refused.extend(mutant_of(to, error)),
            }
        }
        assert!(
            refused.len() + constants.len() > before,
            "no error is one of a mutant: {messages:#?}"
        );
    }
}

fn write(
    core: &Path,
    to: &Path,
    mutants: &[Mutant],
    refused: &HashSet<u32>,
    constants: &HashSet<String>,
) -> HashSet<u32> {
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants.iter().filter(|it| !refused.contains(&it.id)) {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let mut put_in = HashSet::new();
    for (file, mutants) in by_file {
        let text = fs::read_to_string(core.join(file)).expect("read");
        let (text, here) = switches::put_in(&text, &mutants, constants);
        fs::write(to.join(file), text).expect("written");
        put_in.extend(here);
    }
    put_in
}

/// A function that a constant needs, so that it has to stay `const`.
fn constant(error: &Value) -> Option<String> {
    let message = error["message"].as_str()?;
    let name = message.strip_prefix("cannot call non-const ")?.split('`').nth(1)?;
    (!name.ends_with("switch::on")).then(|| name.rsplit("::").next().map(str::to_owned))?
}

/// The last one before the place of the error.
fn mutant_of(to: &Path, error: &Value) -> Option<u32> {
    let mut span = error["spans"].as_array()?.iter().find(|it| it["is_primary"] == true)?;
    while span["file_name"].as_str()?.starts_with('/') {
        span = &span["expansion"]["span"];
    }
    let text = fs::read_to_string(to.join(span["file_name"].as_str()?)).ok()?;
    let end = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    // An error about the switch, in a constant, is at its begin.
    let end = (end + SWITCH.len()).min(text.len());
    let before =
        text.as_bytes()[..end].windows(SWITCH.len()).rposition(|it| it == SWITCH.as_bytes())?;
    text[before + SWITCH.len()..].split(')').next()?.parse().ok()
}

fn cargo(at: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new("cargo");
    command
        .args(arguments)
        .args(["--quiet", "--message-format=json"])
        .current_dir(at)
        .env("RUSTFLAGS", "--cap-lints allow");
    let output = command.output().expect("cargo runs");
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("removed");
    }
    fs::create_dir_all(to).expect("made");
    let status =
        Command::new("cp").arg("-rp").arg(from.join(".")).arg(to).status().expect("cp runs");
    assert!(status.success(), "{} is not copied", from.display());
}
