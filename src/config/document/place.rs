//! Where in a document something stands, and how messages name it.

use std::{borrow::Cow, ops::Range};

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::keys::{Key, Kind, Presence, Text};

/// A table of the document.
pub(super) struct Place {
    /// Keys on the way to it, with dots; empty for the whole document.
    pub(super) path: String,
    /// As it is written: `[delay]`, `[[timeout]]`; empty for the whole document.
    pub(super) header: String,
    /// Bytes of its header.
    pub(super) span: Range<usize>,
}

impl Place {
    /// The path of a key in it.
    pub(super) fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value, or an item of a list.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    /// Keys on the way to it, with dots.
    pub(super) path: &'a str,
    /// Its key.
    pub(super) key: &'static Key,
    /// It is an item of a list.
    pub(super) in_list: bool,
}

impl Item<'_> {
    pub(super) fn name(&self) -> String {
        let path = self.path;
        if self.in_list { format!("an item of `{path}`") } else { format!("`{path}`") }
    }

    pub(super) fn like(&self) -> String {
        format!("write it like {} = {}", self.key.name, self.key.example)
    }

    pub(super) fn place(&self, open: &str, close: &str, span: &Range<usize>) -> Place {
        let path = self.path.to_owned();
        Place { header: format!("{open}{path}{close}"), path, span: span.clone() }
    }

    /// What the value is, in words. What may hold a password is not shown.
    pub(super) fn shown(&self, value: &DeValue<'_>) -> String {
        let secret = !matches!(
            self.key.kind,
            Kind::Text(Text { secret: false, .. })
                | Kind::Number { .. }
                | Kind::Boolean
                | Kind::Choice(_)
                | Kind::List { .. }
                | Kind::Names(Kind::Text(Text { secret: false, .. }))
        );
        match value {
            DeValue::String(text) if !secret && is_plain(text) => format!("the text `{text}`"),
            DeValue::String(_) => "text".to_owned(),
            DeValue::Integer(number) if !secret => format!("the number {number}"),
            DeValue::Float(number) if !secret => format!("the number {number}"),
            DeValue::Integer(_) | DeValue::Float(_) => "a number".to_owned(),
            DeValue::Boolean(value) => format!("`{value}`"),
            DeValue::Datetime(_) => "a date or a time".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        }
    }
}

/// A word or two, and not a URL.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    text.len() <= 40 && text.chars().all(plain)
}

/// What a value of this kind has to be, in words.
pub(super) const fn wanted(kind: &Kind) -> &'static str {
    match kind {
        Kind::Text(_) | Kind::Choice(_) => "text in quotes",
        Kind::Number { .. } => "a whole number",
        Kind::Boolean => "`true` or `false`",
        Kind::List { .. } => "a list",
        Kind::Names(_) | Kind::Section(_) => "a table",
        Kind::Sections(_) => "a list of tables",
    }
}

/// What stands for a required value that cannot be used.
pub(super) fn empty<'i>(key: &Key, span: Range<usize>) -> Spanned<DeValue<'i>> {
    let value = match key.kind {
        Kind::List { .. } | Kind::Sections(_) => DeValue::Array(DeArray::new()),
        Kind::Names(_) => DeValue::Table(DeTable::new()),
        Kind::Section(section) => {
            let required =
                section.keys.iter().filter(|key| matches!(key.presence, Presence::Required));
            let name = |key: &Key| Spanned::new(span.clone(), Cow::Borrowed(key.name));
            let table = required.map(|key| (name(key), empty(key, span.clone())));
            DeValue::Table(table.collect())
        }
        Kind::Text(_) | Kind::Choice(_) | Kind::Number { .. } | Kind::Boolean => {
            DeValue::String("".into())
        }
    };
    Spanned::new(span, value)
}

/// `` `a`, `b` and `c` ``
pub(super) fn listed<'a>(words: impl Iterator<Item = &'a str>, last: &str) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}
