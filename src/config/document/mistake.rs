//! What is wrong with a document, and where.

use std::ops::Range;

/// Something in a document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct Mistake {
    /// What kind of mistake it is.
    pub(in crate::config) kind: MistakeKind,
    /// Bytes of the document it is about.
    pub(in crate::config) span: Range<usize>,
    /// The key it is about, with dots between the parts; empty where no key could be read.
    pub(in crate::config) key: String,
    /// What is wrong.
    pub(in crate::config) message: String,
    /// What to do.
    pub(in crate::config) help: String,
}

/// The kinds of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum MistakeKind {
    /// The text is not TOML.
    Syntax,
    /// The key is not in the table of keys.
    UnknownKey,
    /// A required key is not there.
    MissingKey,
    /// The value has another type, or is none of those that there are.
    Value,
    /// The number is out of its range; it stays in what was read.
    Range,
}

/// Line and column of a byte, both from 1, as editors count.
pub(in crate::config) fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte.min(text.len())).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    // A byte order mark does not count as a character of the first line.
    let line = before.get(line_start..).unwrap_or_default().trim_start_matches('\u{feff}');
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
