//! Foreign text on a terminal: names on a broker, texts of a database, headers of messages.
//!
//! A control character can clear the screen, a bidirectional override can reverse a name, and a line break can add a line to
//! a report. Each is shown as its escape: `\u{1b}`.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

/// `text` with an escape for each character that a terminal would interpret. Line breaks are kept: they are ours, because
/// every text inserted into a line went through [`OneLine`].
pub fn printable(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c != '\n' && is_active(c);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// `text` in one line, with escaped line breaks.
pub fn one_line(text: impl fmt::Display) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _written = write!(OneLine(&mut line), "{text}");
    line
}

/// JSON with an escape for each active character that JSON itself allows.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // Outside of strings JSON has no such characters except line breaks; inside, JSON escapes characters below U+0020
    // itself.
    let acts = |c: char| c >= '\u{7f}' && is_active(c);
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _written = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Writes everything to `0` in one line.
pub(crate) struct OneLine<'a, W: Write>(pub(crate) &'a mut W);

impl<W: Write> Write for OneLine<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_active) {
            let last = part.chars().next_back().filter(|last| is_active(*last));
            let plain = last.map_or(part, |last| part.strip_suffix(last).unwrap_or(part));
            self.0.write_str(plain)?;
            if let Some(active) = last {
                write!(self.0, "{}", active.escape_default())?;
            }
        }
        Ok(())
    }
}

/// Control characters, line and paragraph separators, and characters that only change how others are shown (Unicode's
/// category Cf: bidirectional overrides, zero widths, tags).
///
/// Source: <https://www.unicode.org/Public/UNIDATA/extracted/DerivedGeneralCategory.txt>
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}
