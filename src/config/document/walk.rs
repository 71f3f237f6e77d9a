//! A document against its table of keys.

use std::{borrow::Cow, ops::Range};

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    key_mistakes,
    keys::{Choice, Key, Kind, Presence, Section, Text},
    mistake::{Mistake, MistakeKind},
    place::{Item, Place, empty, listed, wanted},
};
use crate::text::did_you_mean;

/// Collects mistakes, and keeps what can be used.
pub(super) struct Walk {
    root: &'static Section,
    pub(super) mistakes: Vec<Mistake>,
}

impl Walk {
    pub(super) const fn new(root: &'static Section) -> Self {
        Self { root, mistakes: Vec::new() }
    }

    pub(super) fn root<'i>(&mut self, table: DeTable<'i>) -> DeTable<'i> {
        let place = Place { path: String::new(), header: String::new(), span: 0..0 };
        self.section(&place, table, self.root)
    }

    fn section<'i>(
        &mut self,
        place: &Place,
        table: DeTable<'i>,
        section: &'static Section,
    ) -> DeTable<'i> {
        let mut usable = DeTable::new();
        let (known, unknown): (Vec<_>, Vec<_>) =
            table.into_iter().partition(|(key, _)| section.key(key.get_ref()).is_some());
        let mut there: Vec<&str> = Vec::new();
        for (written, value) in known {
            let Some(key) = section.key(written.get_ref()) else { continue };
            there.push(key.name);
            self.keep(&mut usable, place, key, written.span(), value);
        }
        for (written, value) in unknown {
            let free = section.keys.iter().filter(|key| !there.contains(&key.name));
            let meant = did_you_mean(written.get_ref(), free.map(|key| key.name));
            self.mistakes.push(key_mistakes::unknown(self.root, place, &written, meant, section));
            // Read as what was meant, so that nothing else seems to be missing.
            if let Some(key) = meant.and_then(|name| section.key(name)) {
                there.push(key.name);
                self.keep(&mut usable, place, key, written.span(), value);
            }
        }
        for key in section.keys.iter().filter(|key| !there.contains(&key.name)) {
            let Some(mistake) = key_mistakes::missing(place, key) else { continue };
            let name = Spanned::new(place.span.clone(), Cow::Borrowed(key.name));
            usable.insert(name, empty(key, place.span.clone()));
            self.mistakes.push(mistake);
        }
        usable
    }

    /// Keeps a value that can be used, or an empty one where a value has to be.
    fn keep<'i>(
        &mut self,
        usable: &mut DeTable<'i>,
        place: &Place,
        key: &'static Key,
        written: Range<usize>,
        value: Spanned<DeValue<'i>>,
    ) {
        let span = value.span();
        let value = self.value(&place.below(key.name), key, value);
        let empty = || matches!(key.presence, Presence::Required).then(|| empty(key, span));
        if let Some(value) = value.or_else(empty) {
            usable.insert(Spanned::new(written, Cow::Borrowed(key.name)), value);
        }
    }

    /// The value, where it can be used.
    pub(super) fn value<'i>(
        &mut self,
        path: &str,
        key: &'static Key,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Spanned<DeValue<'i>>> {
        self.of_kind(&Item { path, key, in_list: false }, &key.kind, value)
    }

    fn of_kind<'i>(
        &mut self,
        item: &Item<'_>,
        kind: &'static Kind,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Spanned<DeValue<'i>>> {
        let span = value.span();
        let value = match (kind, value.into_inner()) {
            (Kind::Text(text), DeValue::String(value)) => self.text(item, text, &span, value)?,
            (Kind::Choice(choice), DeValue::String(value)) => {
                self.choice(item, choice, &span, value)?
            }
            (Kind::Number { min, max }, DeValue::Integer(number)) => {
                self.number(
                    item,
                    &span,
                    *min..=*max,
                    i64::from_str_radix(number.as_str(), number.radix()).ok(),
                )?;
                DeValue::Integer(number)
            }
            (Kind::Boolean, DeValue::Boolean(value)) => DeValue::Boolean(value),
            (Kind::List { of, .. }, DeValue::Array(items)) => {
                let within = Item { in_list: true, ..*item };
                DeValue::Array(
                    items
                        .into_iter()
                        .filter_map(|value| self.of_kind(&within, of, value))
                        .collect(),
                )
            }
            (Kind::Names(of), DeValue::Table(table)) => DeValue::Table(self.names(item, of, table)),
            (Kind::Section(section), DeValue::Table(table)) => {
                DeValue::Table(self.section(&item.place("[", "]", &span), table, section))
            }
            (Kind::Sections(section), DeValue::Array(items)) => {
                DeValue::Array(self.sections(item, section, items))
            }
            (kind, value) => return self.wrong_type(item, kind, Spanned::new(span, value)),
        };
        Some(Spanned::new(span, value))
    }

    fn text<'i>(
        &mut self,
        item: &Item<'_>,
        text: &Text,
        span: &Range<usize>,
        value: Cow<'i, str>,
    ) -> Option<DeValue<'i>> {
        let Some(Err(message)) = text.check.map(|check| check(&value)) else {
            return Some(DeValue::String(value));
        };
        let message = format!("{}: {message}", item.name());
        self.add(MistakeKind::Value, span, item.path, message, item.like());
        None
    }

    fn choice<'i>(
        &mut self,
        item: &Item<'_>,
        choice: &Choice,
        span: &Range<usize>,
        value: Cow<'i, str>,
    ) -> Option<DeValue<'i>> {
        let words = || choice.words.iter().map(|(word, _)| *word);
        if words().any(|word| word == value) {
            return Some(DeValue::String(value));
        }
        let refused = choice.refused.iter().find(|(word, ..)| *word == value);
        let (message, help) = if let Some((_, message, help)) = refused {
            ((*message).to_owned(), (*help).to_owned())
        } else {
            let help = did_you_mean(&value, words()).map_or_else(
                || format!("it can be {}", listed(words(), "or")),
                |word| format!("did you mean `{word}`?"),
            );
            (format!("{} cannot be `{value}`", item.name()), help)
        };
        self.add(MistakeKind::Value, span, item.path, message, help);
        None
    }

    fn number(
        &mut self,
        item: &Item<'_>,
        span: &Range<usize>,
        bounds: std::ops::RangeInclusive<i64>,
        number: Option<i64>,
    ) -> Option<()> {
        if number.is_some_and(|number| bounds.contains(&number)) {
            return Some(());
        }
        let shown = number.map_or_else(|| "too large".to_owned(), |number| number.to_string());
        let (min, max) = bounds.into_inner();
        let message = format!("{} is {shown}: it has to be between {min} and {max}", item.name());
        let kind = if number.is_some() { MistakeKind::Range } else { MistakeKind::Value };
        self.add(kind, span, item.path, message, item.like());
        number.map(|_| ())
    }

    fn names<'i>(&mut self, item: &Item<'_>, of: &'static Kind, table: DeTable<'i>) -> DeTable<'i> {
        let mut usable = DeTable::new();
        for (name, value) in table {
            let path = format!("{}.{}", item.path, name.get_ref());
            let within = Item { path: &path, in_list: false, ..*item };
            if let Some(value) = self.of_kind(&within, of, value) {
                usable.insert(name, value);
            }
        }
        usable
    }

    fn sections<'i>(
        &mut self,
        item: &Item<'_>,
        section: &'static Section,
        items: DeArray<'i>,
    ) -> DeArray<'i> {
        let mut usable = DeArray::new();
        for value in items {
            let span = value.span();
            match value.into_inner() {
                DeValue::Table(table) => {
                    let place = item.place("[[", "]]", &span);
                    let table = self.section(&place, table, section);
                    usable.push(Spanned::new(span, DeValue::Table(table)));
                }
                other => {
                    let message = format!(
                        "an item of {} is {}, and has to be a table",
                        item.name(),
                        item.shown(&other)
                    );
                    let help = format!("write [[{}]] and its keys below it", item.path);
                    self.add(MistakeKind::Value, &span, item.path, message, help);
                }
            }
        }
        usable
    }

    /// One pair of brackets too few or too many is read as if it were right.
    fn wrong_type<'i>(
        &mut self,
        item: &Item<'_>,
        kind: &'static Kind,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Spanned<DeValue<'i>>> {
        let span = value.span();
        let Item { path, .. } = *item;
        match (kind, value.into_inner()) {
            (Kind::Sections(section), DeValue::Table(table)) => {
                let message = format!("`{path}` is a table: write `[[{path}]]`");
                let help = format!(
                    "there can be several, so each has a header with two brackets, [[{path}]]"
                );
                self.add(MistakeKind::Value, &span, path, message, help);
                let one = [Spanned::new(span.clone(), DeValue::Table(table))];
                let list = self.sections(item, section, one.into_iter().collect());
                Some(Spanned::new(span, DeValue::Array(list)))
            }
            (Kind::Section(section), DeValue::Array(items))
                if items.iter().all(|item| item.get_ref().is_table()) && !items.is_empty() =>
            {
                let message = format!("`{path}` is a list of tables: write `[{path}]`");
                let help = format!("there is only one, so its header has one bracket, [{path}]");
                self.add(MistakeKind::Value, &span, path, message, help);
                let first = items.into_iter().next()?;
                let place = item.place("[", "]", &first.span());
                let DeValue::Table(table) = first.into_inner() else { return None };
                let table = self.section(&place, table, section);
                Some(Spanned::new(span, DeValue::Table(table)))
            }
            (_, value) => {
                let message = format!(
                    "{} is {}, and has to be {}",
                    item.name(),
                    item.shown(&value),
                    wanted(kind)
                );
                self.add(MistakeKind::Value, &span, path, message, item.like());
                None
            }
        }
    }

    fn add(
        &mut self,
        kind: MistakeKind,
        span: &Range<usize>,
        key: &str,
        message: String,
        help: String,
    ) {
        self.mistakes.push(Mistake {
            kind,
            span: span.clone(),
            key: key.to_owned(),
            message,
            help,
        });
    }
}
