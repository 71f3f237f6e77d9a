//! The text of an effect's SQL: what its trial changes in it, and what can be seen without any order.

use crate::{order::FinalState, text::did_you_mean};

/// The present, as SQL says it.
const PRESENT: [&str; 5] = [
    "now()",
    "current_timestamp",
    "transaction_timestamp()",
    "statement_timestamp()",
    "clock_timestamp()",
];
/// An order that is open waits for less.
const MUCH_LATER: &str = "(now() + interval '100 years')";
/// Outcomes that are no words of daily use: a state of an order is hardly called so.
const OUTCOMES: [&str; 2] = ["not_due", "already_final"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextPart {
    Code,
    Literal,
    /// A comment, or a quoted name.
    Other,
}

/// The text in parts, without what it means: a trial finds out where this is not enough.
fn parts(mut sql: &str) -> Vec<(TextPart, &str)> {
    let kinds = [
        ("--", "\n", TextPart::Other),
        ("/*", "*/", TextPart::Other),
        ("\"", "\"", TextPart::Other),
        ("'", "'", TextPart::Literal),
    ];
    let mut parts = Vec::new();
    loop {
        let begins = kinds.iter().filter_map(|kind| Some((sql.find(kind.0)?, kind)));
        let Some((at, (open, close, part))) = begins.min_by_key(|(at, _)| *at) else { break };
        parts.push((TextPart::Code, &sql[..at]));
        let inner = at + open.len();
        let end = sql[inner..].find(close).map_or(sql.len(), |end| inner + end + close.len());
        parts.push((*part, &sql[at..end]));
        sql = &sql[end..];
    }
    parts.push((TextPart::Code, sql));
    parts
}

/// The same statement in a hundred years, when every order of today is due; none if it does not say `now()`.
pub(crate) fn much_later(sql: &str) -> Option<String> {
    let later = |(part, text): (TextPart, &str)| match part {
        TextPart::Code => with_a_later_present(text),
        TextPart::Literal | TextPart::Other => text.to_owned(),
    };
    let later: String = parts(sql).into_iter().map(later).collect();
    (later != sql).then_some(later)
}

fn with_a_later_present(code: &str) -> String {
    let (lower, mut later, mut from) = (code.to_ascii_lowercase(), String::new(), 0);
    let is_word = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
    };
    loop {
        let found =
            PRESENT.iter().filter_map(|word| Some((from + lower[from..].find(word)?, word)));
        let Some((at, word)) = found.min() else { break };
        let end = at + word.len();
        let is_part = is_word(lower[..at].chars().next_back())
            || (!word.ends_with(')') && is_word(lower[end..].chars().next()));
        later += &code[from..at];
        later += if is_part { &code[at..end] } else { MUCH_LATER };
        from = end;
    }
    later + &code[from..]
}

/// Literals that are no outcomes and look like one, with what may be meant.
pub(crate) fn misspelt_outcomes(sql: &str) -> Vec<String> {
    let literals = parts(sql).into_iter().filter(|(part, _)| *part == TextPart::Literal);
    let literals = literals.map(|(_, text)| text.trim_matches('\''));
    let misspelt = literals.filter_map(|text| {
        if OUTCOMES.contains(&text) || FinalState::of_outcome(text).is_some() {
            return None;
        }
        if text.to_ascii_lowercase().starts_with("done") {
            return Some(format!("'{text}' (done:<word>, in small letters, digits and _)"));
        }
        let meant = did_you_mean(&text.to_ascii_lowercase(), OUTCOMES)?;
        Some(format!("'{text}' (did you mean '{meant}'?)"))
    });
    misspelt.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_is_moved_where_it_is_code() {
        let sql = "SELECT 'now()', \"now()\" -- now()\n, NOW(), pg_catalog.now(), my_now(), current_timestamp, current_timestamps /* now() */";
        let later = "SELECT 'now()', \"now()\" -- now()\n, (now() + interval '100 years'), pg_catalog.now(), my_now(), \
                     (now() + interval '100 years'), current_timestamps /* now() */";
        assert_eq!(much_later(sql).as_deref(), Some(later));
        assert_eq!(much_later("SELECT 'now()'"), None);
        assert_eq!(much_later("it's not closed: now()"), None);
    }

    #[test]
    fn words_that_are_nearly_outcomes() {
        let sql = "SELECT 'notdue', 'Not_Due', 'done:Expired', 'not_due', 'done:expired', 'closed', 'open', 'pending', 'busy', 'paid', \
                   'message' -- 'notdue'";
        let misspelt = misspelt_outcomes(sql);
        assert_eq!(
            misspelt,
            [
                "'notdue' (did you mean 'not_due'?)",
                "'Not_Due' (did you mean 'not_due'?)",
                "'done:Expired' (done:<word>, in small letters, digits and _)",
            ]
        );
    }
}
