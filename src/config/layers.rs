//! The layers of settings: defaults, file, environment, flags; each overrides the previous one. Errors name file and line,
//! variable or flag. They never quote a value: it may contain a password.

use std::{
    env, fs,
    ops::Range,
    path::{Path, PathBuf},
};

use annotate_snippets::Level;
use figment::{
    Error, Figment, Metadata, Profile, Provider, Source,
    error::Kind,
    providers::Serialized,
    value::{Dict, Map},
};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::{
    alert,
    files::{SettingsFiles, distrusted},
    secret_url::SecretUrl,
    settings::{Flags, Settings, schema},
};
use crate::{
    document::{self, Document, Mistake, keys, picture},
    effect::description,
    text::counted,
};

/// Default settings file, if it exists; `--config` names another one.
const SETTINGS_FILE: &str = "overdue.toml";
const PREFIX: &str = "OVERDUE_";
/// Names the settings file, as `--config` does: for commands that are run by hand in the container of a worker.
const FILE_VARIABLE: &str = "OVERDUE_CONFIG";

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file named with `--config` or `OVERDUE_CONFIG` does not exist.
    #[error("there is no settings file {}", .0.display())]
    NoFile(PathBuf),
    /// The file exists but cannot be read.
    #[error("cannot read the settings file {}: {error}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file was found, not named, and another user can write it.
    #[error(
        "the settings file {0} is not used: {reason}. Look at it; then name it, with --config {0} or OVERDUE_CONFIG={0}, or name another one",
        path.display()
    )]
    Distrusted {
        /// The file.
        path: PathBuf,
        /// Owner or mode that makes the file unsafe.
        reason: String,
    },
    /// Unusable keys and values, each with its file and line, its variable or its flag.
    #[error("{} in the settings\n{}", counted(.0.len(), "mistake"), .0.join("\n"))]
    Mistakes(Vec<String>),
}

impl Settings {
    /// Reads all layers.
    ///
    /// # Errors
    /// A named file does not exist; otherwise all keys and values that cannot be used; otherwise a text that its key does
    /// not accept; otherwise all settings that contradict each other.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        let file = SettingsFile::read(file)?;
        let broken = |mistake| SettingsError::Mistakes(vec![file.picture(&mistake)]);
        let document = Document::parse(&file.text).map_err(broken)?;
        let schema = schema();
        let environment = Environment::read(&schema);
        let in_file = document.mistakes(&schema);
        let mut mistakes: Vec<String> =
            in_file.iter().map(|mistake| file.picture(mistake)).collect();
        mistakes.extend(environment.mistakes(&schema));
        let place = |path: &[String], source: Option<&Metadata>, message: String| match source {
            Some(Metadata { source: Some(Source::File(_)), .. }) | None => {
                let (span, help) = (document.span(path, false), String::new());
                file.picture(&Mistake { span, message, help })
            }
            Some(source) => format!("{}: {message}", source.interpolate(&Profile::Default, path)),
        };
        none(mistakes)?;
        let layers = Figment::from(file.layer(document.read().map_err(broken)?))
            .merge(environment.layer())
            .merge(flags.layer());
        let mut settings: Self =
            layers.extract().map_err(|Error { path, metadata, kind, .. }| {
                let message = match kind {
                    Kind::Message(message) => message,
                    // The schema has already checked keys, types and words.
                    _ => "this cannot be used".to_owned(),
                };
                SettingsError::Mistakes(vec![place(&path, metadata.as_ref(), message)])
            })?;
        let rules = disagreements(&settings).into_iter();
        let placed =
            rules.map(|(path, what)| place(&path, layers.find_metadata(&path.join(".")), what));
        none(placed.collect())?;
        let in_file = |key: &str| {
            let source = layers.find_metadata(key).and_then(|it| it.source.as_ref());
            matches!(source, Some(Source::File(_)))
        };
        settings.files = settings.files_read(file.path, in_file, &flags.files);
        Ok(settings)
    }

    /// `in_file` returns whether a key is from `file`.
    fn files_read(
        &self,
        file: PathBuf,
        in_file: impl Fn(&str) -> bool,
        of_flags: &[Option<PathBuf>; 3],
    ) -> SettingsFiles {
        let Self { broker, database, alert, .. } = self;
        let urls = [
            ("broker.url", Some(&broker.url)),
            ("broker.management_url", broker.management_url.as_ref()),
            ("database.url", Some(&database.url)),
        ];
        let urls = urls.into_iter().filter_map(|(key, url)| Some((key, url?)));
        let holds_a_secret = urls.clone().any(|(key, url)| url.has_password() && in_file(key))
            || alert.iter().any(|alert| alert.url.is_some() || alert.body.is_some());
        let keys = urls.filter_map(|(_, url)| SecretUrl::key_file(url));
        let of_alerts = alert.iter().flat_map(|alert| [&alert.url_file, &alert.body_file]);
        let secret = holds_a_secret.then(|| file.clone()).into_iter();
        let secret = secret.chain(of_flags.iter().flatten().cloned()).chain(keys);
        SettingsFiles {
            secret: secret.chain(of_alerts.flatten().cloned()).collect(),
            urls: of_flags.clone(),
            settings: Some(file).filter(|file| !file.as_os_str().is_empty()),
        }
    }
}

/// Settings that contradict each other: the key and the error.
fn disagreements(settings: &Settings) -> Vec<(Vec<String>, String)> {
    let effects = settings.effects.iter().flat_map(|(name, keys)| {
        let mistakes = keys.description(name).err().unwrap_or_default();
        mistakes.into_iter().map(move |description::Mistake { key, what }| {
            let path = ["effects", name, key].into_iter().filter(|part| !part.is_empty());
            let path: Vec<String> = path.map(str::to_owned).collect();
            let what = format!("{}: {what}", path.join("."));
            (path, what)
        })
    });
    let alerts = alert::mistakes(&settings.alert).into_iter();
    let alerts = alerts.map(|(index, what)| (vec!["alert".to_owned(), index.to_string()], what));
    effects.chain(alerts).collect()
}

fn none(mistakes: Vec<String>) -> Result<(), SettingsError> {
    if mistakes.is_empty() { Ok(()) } else { Err(SettingsError::Mistakes(mistakes)) }
}

struct Layer {
    metadata: Metadata,
    table: Table,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Serialized::defaults(&self.table).data()
    }
}

/// The settings file; empty if there is no file.
#[derive(Default)]
struct SettingsFile {
    path: PathBuf,
    text: String,
}

impl SettingsFile {
    /// The file named by the flag or by `OVERDUE_CONFIG`, otherwise the file in this folder or in the nearest above it.
    fn read(named: Option<&Path>) -> Result<Self, SettingsError> {
        let variable = env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        let path = match named.or(variable.as_deref().map(Path::new)) {
            Some(path) if !path.is_file() => return Err(SettingsError::NoFile(path.to_owned())),
            Some(path) => Some(path.to_owned()),
            None => found()?,
        };
        let Some(path) = path else { return Ok(Self::default()) };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => Err(SettingsError::Unread { path, error }),
        }
    }

    fn layer(&self, mut table: Table) -> Layer {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        if !env::current_dir().is_ok_and(|here| here == folder) {
            let topology = || Settings::default().topology.display().to_string().into();
            table.entry("topology").or_insert_with(topology);
            beside(folder, &mut table);
        }
        Layer { metadata: Metadata::from("settings file", self.path.as_path()), table }
    }

    fn picture(&self, mistake: &Mistake) -> String {
        let (text, span) = without_values(&self.text, &mistake.span);
        let title = Level::ERROR.primary_title(mistake.message.as_str());
        picture((&self.path.display().to_string(), &text), span, title, &mistake.help)
    }
}

/// The file in this folder, or in the nearest above it.
fn found() -> Result<Option<PathBuf>, SettingsError> {
    let Ok(folder) = env::current_dir() else { return Ok(None) };
    let mut files = folder.ancestors().map(|folder| folder.join(SETTINGS_FILE));
    let Some(path) = files.find(|path| path.is_file()) else { return Ok(None) };
    match distrusted(&path, &folder) {
        None => Ok(Some(path)),
        Some(reason) => Err(SettingsError::Distrusted { path, reason }),
    }
}

/// Makes the files that a settings file names (`topology`, `sql`, `url_file`, …) relative to its folder, not to the current
/// one.
fn beside(folder: &Path, table: &mut Table) {
    let is_file = |key: &str| key == "topology" || key.ends_with("sql") || key.ends_with("_file");
    for (key, value) in table {
        match value {
            Value::String(file) if is_file(key) => {
                *file = folder.join(&*file).display().to_string();
            }
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_table_mut).for_each(|it| beside(folder, it));
            }
            Value::Table(table) => beside(folder, table),
            _ => {}
        }
    }
}

/// The text with `…` for everything but headers and keys, and the span at its new position.
fn without_values(text: &str, span: &Range<usize>) -> (String, Range<usize>) {
    let is_plain = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '))
    };
    let (mut shown, mut marked, mut begin) = (String::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let header = content.trim_start_matches('[').trim_end_matches(']');
        let kept = match content.split_once('=') {
            Some((key, _)) if is_plain(key) => (key.len() + 2).min(content.len()),
            None if content.starts_with('[') && is_plain(header) => content.len(),
            _ => 0,
        };
        // A multi-byte character may begin after the equals sign.
        let kept = if content.is_char_boundary(kept) { kept } else { kept - 1 };
        let end = begin + line.len();
        if (begin..end).contains(&span.start) || (end == text.len() && span.start >= end) {
            let at = |byte: usize| shown.len() + byte.saturating_sub(begin).min(kept);
            let start = at(span.start);
            let end = if span.start - begin < kept {
                at(span.end)
            } else {
                start + if kept < content.len() { '…'.len_utf8() } else { 0 }
            };
            marked = Some(start..end);
        }
        shown += &content[..kept];
        shown += if kept < content.len() { "…\n" } else { "\n" };
        begin = end;
    }
    let marked = marked.unwrap_or_default();
    (shown, marked)
}

/// Environment variables with settings: `OVERDUE_WORKER__BATCH_SIZE` is `worker.batch_size`.
struct Environment {
    /// Name of each variable, and the path of its key.
    variables: Vec<(String, Vec<String>)>,
    table: Table,
    /// Errors of variables that have no key or no value.
    unusable: Vec<String>,
}

impl Environment {
    fn read(schema: &Json) -> Self {
        let mut read = Self { variables: Vec::new(), table: Table::new(), unusable: Vec::new() };
        let named =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let mut named: Vec<_> = named.collect();
        named.sort();
        for (name, value) in named {
            let Some(path) = name.strip_prefix(PREFIX).map(str::to_lowercase) else { continue };
            let path: Vec<String> = path.split("__").map(str::to_owned).collect();
            let key = path.iter().try_fold(schema, |table, part| {
                table["properties"]
                    .get(part)
                    .or(table.get("additionalProperties").filter(|it| it.is_object()))
            });
            let kind = key.and_then(|key| key["type"].as_str());
            match value.into_string() {
                // Other variables without two underscores belong to scripts and are ignored.
                _ if path.len() == 1 && kind != Some("string") => {
                    read.unusable.extend(one_underscore(schema, &name, &path[0]));
                }
                Err(_) => read.unusable.push(format!("{name}: it is not UTF-8")),
                Ok(text) => {
                    if insert(&mut read.table, &path, typed(kind, text)) {
                        read.variables.push((name, path));
                    } else {
                        read.unusable.push(format!(
                            "{name} is not read: there are no keys below a value; \
                             a file is named by a key that ends in _file"
                        ));
                    }
                }
            }
        }
        read
    }

    /// Values that the schema does not allow, each with its variable.
    fn mistakes(&self, schema: &Json) -> impl Iterator<Item = String> {
        let found = document::check(schema, &self.table).into_iter().map(|wrong| {
            let variable = self.variables.iter().find(|(_, path)| path.starts_with(&wrong.path));
            let name = variable.map_or(PREFIX, |(name, _)| name);
            format!("{name}: {}; {}", wrong.message, wrong.help)
        });
        self.unusable.iter().cloned().chain(found)
    }

    fn layer(self) -> Layer {
        let name =
            |_: &Profile, keys: &[&str]| format!("{PREFIX}{}", keys.join("__")).to_uppercase();
        Layer { metadata: Metadata::named("environment").interpolater(name), table: self.table }
    }
}

fn typed(kind: Option<&str>, text: String) -> Value {
    let value = match kind {
        Some("integer") => text.parse().ok().map(Value::Integer),
        Some("boolean") => text.parse().ok().map(Value::Boolean),
        _ => None,
    };
    value.unwrap_or(Value::String(text))
}

/// Returns whether the path could be inserted.
fn insert(table: &mut Table, path: &[String], value: Value) -> bool {
    match path {
        [] => false,
        [key] => {
            table.insert(key.clone(), value);
            true
        }
        [key, rest @ ..] => match table.entry(key).or_insert_with(|| Table::new().into()) {
            Value::Table(below) => insert(below, rest, value),
            _ => false,
        },
    }
}

/// The error for one underscore in the place of two: otherwise the variable would be ignored and another broker or database
/// used.
fn one_underscore(schema: &Json, name: &str, word: &str) -> Option<String> {
    keys(schema).into_iter().find_map(|section| {
        let key = word.strip_prefix(section)?.strip_prefix('_')?;
        schema["properties"][section]["properties"].get(key)?;
        let meant = format!("{PREFIX}{section}__{key}").to_uppercase();
        Some(format!("{name} is not read: write {meant}, with two underscores between the parts"))
    })
}

impl Flags {
    fn layer(&self) -> Layer {
        let Self { topology, broker_url, management_url, database_url, .. } = self;
        let mut table = Table::new();
        if let Some(path) = topology {
            table.insert("topology".to_owned(), path.display().to_string().into());
        }
        for (section, key, url) in [
            ("broker", "url", broker_url),
            ("broker", "management_url", management_url),
            ("database", "url", database_url),
        ] {
            if let Some(url) = url {
                let path = [section.to_owned(), key.to_owned()];
                insert(&mut table, &path, url.expose().into());
            }
        }
        let name = |_: &Profile, keys: &[&str]| match keys {
            ["broker", "management_url"] => "--management-url".to_owned(),
            keys => format!("--{}", keys.join("-")),
        };
        Layer { metadata: Metadata::named("flags").interpolater(name), table }
    }
}
