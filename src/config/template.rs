//! The body of an alert, with placeholders.

use crate::text::did_you_mean;

/// Each placeholder with its meaning, in the order of `docs/alerts.md`.
pub const PLACEHOLDERS: [(&str, &str); 9] = [
    ("text", "all of the message in one line"),
    ("title", "its beginning"),
    ("condition", "a word of `on`, or `test`"),
    ("state", "`firing` or `resolved`"),
    ("action", "`trigger` or `resolve`"),
    ("topology", "the name of the topology"),
    ("host", "the machine that the worker runs on"),
    ("alert", "the name of the alert"),
    ("runbook", "where its runbook is, `docs/runbooks.md#…`"),
];

/// The body of a message, with placeholders in braces.
#[derive(Debug)]
pub struct Template {
    /// Text, and the placeholder after it.
    parts: Vec<(String, Option<&'static str>)>,
    /// Whether values are escaped as in JSON strings.
    is_json: bool,
}

impl Template {
    /// Reads a template. A template that begins like JSON must be JSON: with `{` and no placeholder, or with a list of
    /// objects, lists or strings.
    ///
    /// # Errors
    /// Unknown placeholders, or a syntax error of JSON, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut unknown, mut begin) = (Vec::new(), Vec::new(), 0);
        for (at, _) in text.match_indices('{') {
            let rest = &text[at + 1..];
            let name = rest.split(|c: char| c != '_' && !c.is_ascii_alphabetic()).next();
            let name = name.filter(|it| !it.is_empty() && rest[it.len()..].starts_with('}'));
            let Some(name) = name else { continue };
            match PLACEHOLDERS.iter().find(|(known, _)| *known == name) {
                Some((known, _)) => {
                    parts.push((text[begin..at].to_owned(), Some(*known)));
                    begin = at + name.len() + 2;
                }
                None => unknown.push(unknown_placeholder(&text[..at], name)),
            }
        }
        if !unknown.is_empty() {
            return Err(unknown.join("; "));
        }
        parts.push((text[begin..].to_owned(), None));
        let begin = parts[0].0.trim_start();
        // `[overdue] {text}` is not a list.
        let is_json = begin.strip_prefix('[').map_or_else(
            || begin.starts_with('{'),
            |item| item.trim_start().starts_with(['{', '[', '"']),
        );
        if is_json && let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
            let (line, column) = (error.line(), error.column());
            return Err(format!(
                "body begins like JSON and is not JSON at line {line}, column {column}"
            ));
        }
        Ok(Self { parts, is_json })
    }

    /// Whether the body is JSON.
    pub const fn is_json(&self) -> bool {
        self.is_json
    }

    /// The text between the placeholders.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(text, _)| text.as_str())
    }

    /// The body of one message, with the value of each placeholder.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        let mut body = String::new();
        for (text, placeholder) in &self.parts {
            body.push_str(text);
            let Some(placeholder) = placeholder else { continue };
            let value = value(placeholder);
            if self.is_json {
                let quoted = serde_json::Value::from(value).to_string();
                body.push_str(&quoted[1..quoted.len() - 1]);
            } else {
                body.push_str(&value);
            }
        }
        body
    }
}

fn unknown_placeholder(before: &str, name: &str) -> String {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let known = PLACEHOLDERS.map(|(known, _)| known);
    let help = did_you_mean(name, known).map_or_else(
        || format!("there are {}", known.join(", ")),
        |meant| format!("did you mean {{{meant}}}?"),
    );
    format!("body has the unknown placeholder {{{name}}} at line {line}, column {column}; {help}")
}
