//! The layers of settings: defaults, file, environment, flags; each beats the one before it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use figment::{Figment, providers::Serialized};
use serde::Deserialize;
use toml::{Table, Value};

use super::{
    alert, document, environment,
    error::SettingsError,
    keys::SETTINGS,
    settings::{Flags, Settings},
};

/// Read when it is there; another one is named with `--config`.
const SETTINGS_FILE: &str = "overdue.toml";
/// The settings of an effect that name files.
const SQL_FILES: [&str; 3] = ["sql", "overdue_sql", "due_sql"];
/// Those of an alert.
const ALERT_FILES: [&str; 3] = ["url_file", "body_file", "ca_file"];
const BROKER_URL: &str = "broker.url";
const MANAGEMENT_URL: &str = "broker.management_url";
const DATABASE_URL: &str = "database.url";

pub(super) fn read(file: Option<&Path>, flags: &Flags) -> Result<Settings, SettingsError> {
    let mut mistakes = Vec::new();
    let mut layers = defaults();
    if let Some(path) = path(file)? {
        layers = layers.merge(Serialized::defaults(from_file(&path, &mut mistakes)?));
    }
    let environment = environment::read(variables(), &mut mistakes);
    layers = with_flags(layers.merge(Serialized::defaults(environment)), flags);
    mistakes.extend(effects_without_sql(&layers));
    if !mistakes.is_empty() {
        return Err(SettingsError::Mistakes(mistakes));
    }
    // Every value was checked where it came from; this reads what is left.
    let settings: Settings =
        layers.extract().map_err(|error| SettingsError::Unusable(error.kind.to_string()))?;
    match alert::mistakes(&settings.alert) {
        none if none.is_empty() => Ok(settings),
        mistakes => Err(SettingsError::Mistakes(mistakes)),
    }
}

/// URLs serialize without their passwords, so their defaults are merged as they are.
fn defaults() -> Figment {
    let settings = Settings::default();
    Figment::from(Serialized::defaults(&settings))
        .merge(Serialized::default(BROKER_URL, settings.broker.url.expose()))
        .merge(Serialized::default(DATABASE_URL, settings.database.url.expose()))
}

fn with_flags(layers: Figment, flags: &Flags) -> Figment {
    let Flags { topology, broker_url, management_url, database_url } = flags;
    let urls =
        [(BROKER_URL, broker_url), (MANAGEMENT_URL, management_url), (DATABASE_URL, database_url)];
    let given = urls.into_iter().filter_map(|(key, url)| Some((key, url.as_ref()?)));
    let layers = given
        .fold(layers, |layers, (key, url)| layers.merge(Serialized::default(key, url.expose())));
    match topology {
        Some(path) => layers.merge(Serialized::default("topology", path)),
        None => layers,
    }
}

/// The file that was named, or the one in this folder or the nearest above it.
fn path(file: Option<&Path>) -> Result<Option<PathBuf>, SettingsError> {
    if let Some(path) = file {
        let there = path.is_file();
        return there
            .then(|| Some(path.to_owned()))
            .ok_or_else(|| SettingsError::NoFile(path.to_owned()));
    }
    let Ok(folder) = env::current_dir() else { return Ok(None) };
    Ok(folder.ancestors().map(|folder| folder.join(SETTINGS_FILE)).find(|path| path.is_file()))
}

/// What a settings file says. A mistake names its line and never quotes it: it may hold a password.
fn from_file(path: &Path, mistakes: &mut Vec<String>) -> Result<Table, SettingsError> {
    let text = fs::read_to_string(path)
        .map_err(|error| SettingsError::Unread { path: path.to_owned(), error })?;
    let reading = document::read(&text, &SETTINGS);
    mistakes.extend(reading.mistakes.into_iter().map(|mistake| {
        let (line, column) = document::position(&text, mistake.span.start);
        format!("{}:{line}:{column}: {}; {}", path.display(), mistake.message, mistake.help)
    }));
    let mut table = Table::deserialize(toml::de::Deserializer::from(reading.table))
        .map_err(|error| SettingsError::Unusable(error.message().to_owned()))?;
    beside(path, &mut table);
    Ok(table)
}

/// What a settings file names lies beside it, wherever the program is started.
fn beside(file: &Path, table: &mut Table) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_here = env::current_dir().is_ok_and(|here| here == folder);
    if is_here || folder.as_os_str().is_empty() {
        return;
    }
    let effects = table.get_mut("effects").and_then(Value::as_table_mut);
    let effects = effects.into_iter().flat_map(|effects| effects.iter_mut());
    place(folder, effects.map(|(_, effect)| effect), &SQL_FILES);
    let alerts = table.get_mut("alert").and_then(Value::as_array_mut);
    place(folder, alerts.into_iter().flatten(), &ALERT_FILES);
}

fn place<'a>(folder: &Path, tables: impl Iterator<Item = &'a mut Value>, files: &[&str]) {
    let keys = tables.filter_map(Value::as_table_mut).flat_map(|table| table.iter_mut());
    for (_, value) in keys.filter(|(key, _)| files.contains(&key.as_str())) {
        if let Value::String(file) = value {
            *file = folder.join(&*file).display().to_string();
        }
    }
}

/// Name and value of each variable; `None` for a value that is not UTF-8.
fn variables() -> impl Iterator<Item = (String, Option<String>)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())))
}

/// Only after all layers is known whether an effect has its SQL.
fn effects_without_sql(layers: &Figment) -> Vec<String> {
    let effects: BTreeMap<String, Table> = layers.extract_inner("effects").unwrap_or_default();
    let without = effects.into_iter().filter(|(_, effect)| !effect.contains_key("sql"));
    without
        .map(|(name, _)| {
            format!(
                "effects.{name} has no `sql`: write sql = \"{name}.sql\" below [effects.{name}]"
            )
        })
        .collect()
}
