//! Writes the two files: new ones, or an existing pair with a further table.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    cli::exit::Failure,
    effect::proposal::{Answers, Proposal, file::SETTINGS},
    text::{duration, quote},
    topology::{Topology, report},
};

const TOPOLOGY: &str = "topology.toml";
const OVERDUE: &str = "overdue.toml";

pub(super) struct Files {
    folder: PathBuf,
    /// Contents of the existing files, if a table is added.
    there: Option<There>,
}

struct There {
    topology: String,
    settings: String,
}

impl Files {
    /// Checks the folder: it must have no files, or with `adds` both files.
    pub(super) fn look(folder: &Path, adds: bool) -> Result<Self, Failure> {
        let folder = folder.to_owned();
        if !adds {
            let there: Vec<&str> =
                [TOPOLOGY, OVERDUE].into_iter().filter(|it| folder.join(it).exists()).collect();
            if !there.is_empty() {
                return Err(Failure::failed(format!(
                    "{} already has {}: nothing was written; name another folder, or put a second table into the files with --add",
                    folder.display(),
                    there.join(", ")
                )));
            }
            return Ok(Self { folder, there: None });
        }
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| {
                Failure::failed(format!(
                    "--add puts a table into files that are there, and {} cannot be read: {error}",
                    path.display()
                ))
            })
        };
        let there = There { topology: read(TOPOLOGY)?, settings: read(OVERDUE)? };
        Ok(Self { folder, there: Some(there) })
    }

    /// Refuses invalid names, and names that the files contain already.
    pub(super) fn refuse(&self, answers: &Answers) -> Result<(), Failure> {
        let is_name = |it: &str| {
            !it.is_empty() && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        let Answers { effect, timeout, .. } = answers;
        let effect = effect.as_deref().unwrap_or_default();
        let timeout = timeout.as_deref().unwrap_or_default();
        for (option, name) in [("--effect", effect), ("--timeout", timeout)] {
            if !is_name(name) {
                return Err(Failure::usage(format!(
                    "{option}: `{name}` is no name: write letters, digits, `_` and `-`"
                )));
            }
        }
        let Some(there) = &self.there else { return Ok(()) };
        let settings = parsed(OVERDUE, &there.settings)?;
        let topology = parsed(TOPOLOGY, &there.topology)?;
        let has_effect = settings.get("effects").is_some_and(|it| it.get(effect).is_some());
        let mut timeouts =
            topology.get("timeout").and_then(|it| it.as_array()).into_iter().flatten();
        let has_timeout =
            timeouts.any(|it| it.get("name").and_then(toml::Value::as_str) == Some(timeout));
        let (there, option) = match (has_effect, has_timeout) {
            (true, _) => (format!("{OVERDUE} already has [effects.{effect}]"), "--effect"),
            (_, true) => (format!("{TOPOLOGY} already has the timeout `{timeout}`"), "--timeout"),
            _ => return Ok(()),
        };
        Err(Failure::failed(format!(
            "{there}: nothing was written; name another one with {option}"
        )))
    }

    /// Writes the files, and returns their paths.
    pub(super) fn write(&self, proposal: &Proposal) -> Result<Vec<PathBuf>, Failure> {
        let paths = [TOPOLOGY, OVERDUE].map(|name| self.folder.join(name));
        let description = proposal.description();
        let written = match &self.there {
            None => {
                fs::create_dir_all(&self.folder).map_err(|error| cannot(&self.folder, &error))?;
                let settings = format!("{SETTINGS}\n{description}");
                [proposal.topology(&prefix(&proposal.table)), settings]
            }
            Some(there) => {
                let settings = format!("{}\n\n{description}", there.settings.trim_end());
                [there.topology_with(proposal)?, settings]
            }
        };
        Topology::parse(&written[0]).map_err(|findings| {
            let report = report::render(TOPOLOGY, &written[0], &findings);
            Failure::failed(format!(
                "the topology would not be valid, and nothing was written:\n{report}"
            ))
        })?;
        for (path, text) in paths.iter().zip(&written) {
            let done =
                if self.there.is_some() { replace(path, text) } else { write_new(path, text) };
            done.map_err(|error| cannot(path, &error))?;
        }
        Ok(paths.into())
    }
}

impl There {
    /// The topology with a further timeout, and its level.
    fn topology_with(&self, proposal: &Proposal) -> Result<String, Failure> {
        let topology = parsed(TOPOLOGY, &self.topology)?;
        let name = topology.get("name").and_then(toml::Value::as_str).unwrap_or_default();
        let section = proposal.timeout_section(name);
        let levels =
            topology.get("delay").and_then(|it| it.get("levels")).and_then(toml::Value::as_array);
        let after = duration(proposal.after.0);
        let text = match levels {
            Some(levels) => with_level(&self.topology, levels, proposal.after.0).ok_or_else(|| {
                Failure::failed(format!(
                    "{TOPOLOGY} has its levels in several lines: add \"{after}\" to `levels` of [delay], the shortest first, and run this \
                     again; nothing was written"
                ))
            })?,
            None => self.topology.clone(),
        };
        Ok(format!("{}\n\n{section}", text.trim_end()))
    }
}

/// Adds a level to the line `levels = […]`; none if the list has several lines.
fn with_level(text: &str, levels: &[toml::Value], after: u64) -> Option<String> {
    let name = duration(after);
    let mut levels: Vec<(u64, &str)> = levels
        .iter()
        .map(|it| {
            it.as_str().and_then(|it| Some((crate::effect::proposal::interval(it).ok()?, it)))
        })
        .collect::<Option<_>>()?;
    if levels.iter().any(|(ms, _)| *ms == after) {
        return Some(text.to_owned());
    }
    levels.push((after, &name));
    levels.sort_unstable();
    let line = text.lines().find(|it| it.trim_start().starts_with("levels"))?;
    let (begin, rest) = line.split_once('[')?;
    let (_, end) = rest.split_once(']')?;
    let levels: Vec<String> = levels.iter().map(|(_, name)| format!("\"{name}\"")).collect();
    Some(text.replacen(line, &format!("{begin}[{}]{end}", levels.join(", ")), 1))
}

fn parsed(name: &str, text: &str) -> Result<toml::Table, Failure> {
    toml::from_str(text)
        .map_err(|error| Failure::configuration(format!("{name} is not TOML: {error}")))
}

/// The prefix of exchanges and queues, from the name of the table.
fn prefix(table: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let name: String = table.chars().filter(|it| fits(*it)).collect();
    if name.is_empty() || name == "amq" { "rows".to_owned() } else { name }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", quote(&path.display().to_string())))
}

/// Fails if another program has created the file meanwhile: nothing is overwritten.
fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if path.ends_with(OVERDUE) {
        // The file will have passwords.
        options.mode(0o600);
    }
    options.open(path)?.write_all(content.as_bytes())
}

/// Replaces the file atomically, with the rights that it had.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let rights = fs::metadata(path)?.permissions();
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.as_file().set_permissions(rights)?;
    file.persist(path)?;
    Ok(())
}
