//! A TOML document, and the table of the keys it may hold: every mistake at once, in plain words, with its place.
//!
//! `topology.toml` and `overdue.toml` are read this way. One table of keys gives the check, the suggestions and the
//! JSON Schema of a document.

mod key_mistakes;
pub(in crate::config) mod keys;
mod mistake;
mod place;
mod syntax;
mod walk;

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use keys::{Key, Section};
pub(in crate::config) use mistake::{Mistake, MistakeKind, position};
use walk::Walk;

/// What could be read of a document.
#[derive(Debug)]
pub(in crate::config) struct Reading<'i> {
    /// The document without what cannot be used. A required key without a usable value has an empty one, at the place
    /// of its mistake.
    pub(in crate::config) table: Spanned<DeTable<'i>>,
    /// Every mistake, in the order of the document.
    pub(in crate::config) mistakes: Vec<Mistake>,
    /// The text is so far from TOML that nothing else was checked.
    pub(in crate::config) broken: bool,
}

impl Reading<'_> {
    /// Whether `key`, or a part of it, could not be read.
    pub(in crate::config) fn lacks(&self, key: &str) -> bool {
        let within = |part: &str, whole: &str| {
            part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.mistakes.iter().any(|mistake| within(&mistake.key, key) || within(key, &mistake.key))
    }
}

/// Reads `text`, whose keys are those of `root`.
pub(in crate::config) fn read<'i>(text: &'i str, root: &'static Section) -> Reading<'i> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let (mut mistakes, broken) = syntax::mistakes(text, &errors);
    if broken {
        return Reading { table: Spanned::new(0..0, DeTable::new()), mistakes, broken };
    }
    let span = table.span();
    let mut walk = Walk::new(root);
    let table = walk.root(table.into_inner());
    let overlaps =
        |one: &Range<usize>, other: &Range<usize>| one.start <= other.end && other.start <= one.end;
    let own = walk.mistakes.into_iter().filter(|found| {
        // What is not TOML was guessed; a complaint about the guess would confuse.
        !mistakes.iter().any(|syntax| overlaps(&syntax.span, &found.span))
    });
    let own: Vec<Mistake> = own.collect();
    mistakes.extend(own);
    mistakes.sort_by_key(|mistake| mistake.span.start);
    Reading { table: Spanned::new(span, table), mistakes, broken }
}

/// Checks one value that does not come from a document, such as a variable of the environment; its span is 0..0.
pub(in crate::config) fn check_value(
    path: &str,
    key: &'static Key,
    text: &str,
) -> Result<(), Vec<Mistake>> {
    let is_bare = matches!(key.kind, keys::Kind::Number { .. } | keys::Kind::Boolean);
    let parsed = is_bare.then(|| DeValue::parse(text).ok()).flatten();
    let value = parsed.map_or_else(|| DeValue::String(text.into()), Spanned::into_inner);
    let mut walk = Walk::new(&keys::NONE);
    walk.value(path, key, Spanned::new(0..0, value));
    if walk.mistakes.is_empty() { Ok(()) } else { Err(walk.mistakes) }
}
