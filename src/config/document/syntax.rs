//! What is not TOML, in plain words.

use std::ops::Range;

use toml::de::Error;

use super::mistake::{Mistake, MistakeKind, position};

/// How far a mistake reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The value or key alone: the rest of the document can be read.
    Value,
    /// Its line: what follows in the document may be wrong or right, and is not looked at.
    Line,
    /// What follows was read as a part of it: it says nothing.
    Rest,
}

/// Start of the parser's message, how far it reaches, what is wrong, and what to do.
const WORDS: &[(&str, Reach, &str, &str)] = &[
    ("duplicate key", Reach::Value, "", "keep one of the two"),
    (
        "string values must be quoted",
        Reach::Value,
        "text has to stand in quotes",
        "write it like \"30m\"",
    ),
    (
        "invalid boolean",
        Reach::Line,
        "text has to stand in quotes",
        "write it like \"30m\"; `true` and `false` have lower-case letters",
    ),
    ("invalid basic string, expected `\"`", Reach::Line, QUOTE, "add a `\"` where the text ends"),
    ("invalid literal string, expected `'`", Reach::Line, QUOTE, "add a `'` where the text ends"),
    ("invalid multi-line", Reach::Rest, QUOTE, "add the three quotes where the text ends"),
    (
        "invalid basic string",
        Reach::Line,
        "this character cannot stand in a text",
        "take it out, or write it as an escape like `\\t` or `\\u0001`",
    ),
    (
        "missing escaped value",
        Reach::Line,
        "a backslash begins an escape, and there is none with this letter",
        "write `\\\\` for a backslash",
    ),
    (
        "key with no value",
        Reach::Line,
        "a key needs `=` and a value",
        "write it like name = \"orders\"",
    ),
    (
        "missing value",
        Reach::Line,
        "a key needs `=` and a value",
        "write it like name = \"orders\"",
    ),
    ("extra `=`", Reach::Line, "there is one `=` too many", "write it like name = \"orders\""),
    (
        "invalid key-value pair",
        Reach::Rest,
        "a line is a key and its value, or the header of a table",
        "write it like name = \"orders\", or [delay]",
    ),
    (
        "unquoted keys cannot be empty",
        Reach::Line,
        "a key is missing",
        "write it like name = \"orders\", or [delay]",
    ),
    (
        "invalid unquoted key",
        Reach::Line,
        "a key has letters, digits, `-` and `_` only",
        "put a key with other characters in quotes",
    ),
    ("unclosed array table", Reach::Line, "the header of the table is not closed", "add `]]`"),
    ("unclosed table", Reach::Line, "the header of the table is not closed", "add `]`"),
    (
        "unclosed array",
        Reach::Rest,
        "the list is not closed, or a comma is missing",
        "write it like [\"5s\", \"30m\"]",
    ),
    (
        "missing comma between array elements",
        Reach::Rest,
        "the list is not closed, or a comma is missing",
        "write it like [\"5s\", \"30m\"]",
    ),
    ("extra comma in array", Reach::Line, "there is one comma too many in the list", "take it out"),
    (
        "unclosed inline table",
        Reach::Rest,
        "the table is not closed, or a comma is missing",
        "write it like { virtual = \"5m\", physical = \"30m\" }",
    ),
    (
        "missing comma between key-value pairs",
        Reach::Rest,
        "the table is not closed, or a comma is missing",
        "write it like { virtual = \"5m\", physical = \"30m\" }",
    ),
    (
        "unexpected key or value",
        Reach::Line,
        "the line has to end after the value",
        "begin a new line, put text in quotes, and a list in [ ]",
    ),
    ("unexpected leading zero", Reach::Line, "a number cannot begin with 0", "take the 0 out"),
];

const QUOTE: &str = "the text is not closed";

/// Every mistake, and whether the document is too broken to say more about it.
pub(super) fn mistakes(text: &str, errors: &[Error]) -> (Vec<Mistake>, bool) {
    let mut found: Vec<(Reach, Mistake)> =
        errors.iter().map(|error| mistake(text, error)).collect();
    found.sort_by_key(|(_, mistake)| mistake.span.start);
    let broken = found.iter().any(|(reach, _)| *reach != Reach::Value);
    let mut line = None;
    let mut mistakes = Vec::new();
    for (reach, mistake) in found {
        // Of several on one line the first is the cause.
        let (of, _) = position(text, mistake.span.start);
        if line.replace(of) != Some(of) {
            mistakes.push(mistake);
        }
        if reach == Reach::Rest {
            break;
        }
    }
    (mistakes, broken)
}

fn mistake(text: &str, error: &Error) -> (Reach, Mistake) {
    let span = error.span().unwrap_or(0..0);
    // `name: "orders"`, as in YAML and JSON.
    let colon = text.get(span.start..).is_some_and(|rest| rest.starts_with(':'));
    let said = if colon { "key with no value" } else { error.message() };
    let known = WORDS.iter().find(|(start, ..)| said.starts_with(start));
    let (reach, message, help) = match known {
        Some((_, reach, "", help)) => {
            let key = text.get(span.clone()).unwrap_or_default();
            (*reach, format!("`{key}` is there twice"), *help)
        }
        Some((_, reach, message, help)) => (*reach, (*message).to_owned(), *help),
        None => {
            let message = format!("this is not TOML: {}", error.message());
            (Reach::Line, message, "the format is explained at https://toml.io")
        }
    };
    let span = if reach == Reach::Rest { end_before(text, span) } else { span };
    let kind = MistakeKind::Syntax;
    (reach, Mistake { kind, span, key: String::new(), message, help: help.to_owned() })
}

/// What is not closed is found on a later line; the end of the text before it is the place to look at.
fn end_before(text: &str, span: Range<usize>) -> Range<usize> {
    let before = text.get(..span.start).unwrap_or_default();
    if before.ends_with('\n') { before.trim_end().len()..before.trim_end().len() } else { span }
}
