//! Settings from the environment: `OVERDUE_WORKER__BATCH_SIZE` is `worker.batch_size`.

use toml::{Table, Value};

use super::{
    document::{
        self,
        keys::{Key, Kind, Section},
    },
    keys::SETTINGS,
};
use crate::text::did_you_mean;

const PREFIX: &str = "OVERDUE_";

/// Reads the settings among `variables`; mistakes are added to `mistakes`, each with the name of its variable.
pub(super) fn read(
    variables: impl Iterator<Item = (String, Option<String>)>,
    mistakes: &mut Vec<String>,
) -> Table {
    let mut named: Vec<(String, Option<String>)> = variables.collect();
    named.sort();
    let mut settings = Table::new();
    for (name, value) in named {
        let Some(path) = name.strip_prefix(PREFIX).map(str::to_lowercase) else { continue };
        let parts: Vec<&str> = path.split("__").collect();
        match (key(&parts), &parts[..]) {
            (Some(key), _) => match typed(&parts.join("."), key, value) {
                Ok(value) => insert(&mut settings, &parts, value),
                Err(wrong) => {
                    mistakes.extend(wrong.into_iter().map(|what| format!("{name}: {what}")));
                }
            },
            // Other variables without two underscores belong to scripts.
            (None, [word]) => mistakes.extend(one_underscore(&name, word)),
            (None, _) => mistakes.push(unknown(&name, &parts)),
        }
    }
    settings
}

fn key(parts: &[&str]) -> Option<&'static Key> {
    match parts {
        [name] => SETTINGS.key(name).filter(|key| matches!(key.kind, Kind::Text(_))),
        [section, name] => section_of(section)?.key(name),
        [group, _, name] => match SETTINGS.key(group)?.kind {
            Kind::Names(Kind::Section(section)) => section.key(name),
            _ => None,
        },
        _ => None,
    }
}

fn section_of(name: &str) -> Option<&'static Section> {
    match SETTINGS.key(name)?.kind {
        Kind::Section(section) => Some(section),
        _ => None,
    }
}

/// The value as its key wants it.
fn typed(path: &str, key: &'static Key, value: Option<String>) -> Result<Value, Vec<String>> {
    let Some(text) = value else { return Err(vec!["it is not UTF-8".to_owned()]) };
    document::check_value(path, key, &text).map_err(|mistakes| {
        mistakes.into_iter().map(|mistake| mistake.message).collect::<Vec<_>>()
    })?;
    let bare = match key.kind {
        Kind::Number { .. } => text.parse().ok().map(Value::Integer),
        Kind::Boolean => text.parse().ok().map(Value::Boolean),
        _ => None,
    };
    Ok(bare.unwrap_or(Value::String(text)))
}

fn insert(settings: &mut Table, parts: &[&str], value: Value) {
    match parts {
        [] => {}
        [name] => {
            settings.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let below = settings.entry(*name).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(below) = below {
                insert(below, rest, value);
            }
        }
    }
}

fn variable(section: &str, between: &str, key: &str) -> String {
    format!("{PREFIX}{section}{between}{key}").to_uppercase()
}

/// One underscore where two belong: it would be ignored, and another broker or database be used.
fn one_underscore(name: &str, word: &str) -> Option<String> {
    SETTINGS.keys.iter().find_map(|section| {
        let key = word.strip_prefix(section.name)?.strip_prefix('_')?;
        let key = section_of(section.name)?.key(key)?;
        let meant = variable(section.name, "__", key.name);
        Some(format!("{name} is not read: write {meant}, with two underscores between the parts"))
    })
}

fn unknown(name: &str, parts: &[&str]) -> String {
    let meant = || {
        let [section, key] = parts else { return None };
        let sections = SETTINGS.keys.iter().map(|key| key.name);
        let section = did_you_mean(section, sections)?;
        let key = did_you_mean(key, section_of(section)?.keys.iter().map(|key| key.name))?;
        Some(variable(section, "__", key))
    };
    let help = meant().map_or_else(
        || "docs/settings.md lists the settings".to_owned(),
        |meant| format!("did you mean {meant}?"),
    );
    format!("{name}: there is no such setting; {help}")
}
