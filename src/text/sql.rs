//! Names, values and pieces of SQL.

/// Words that cannot be a name unless quoted, also those that may name a function or a type:
/// <https://www.postgresql.org/docs/current/sql-keywords-appendix.html>.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column \
    concurrently constraint create cross current_catalog current_date current_role current_schema current_time \
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from \
    full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit \
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references \
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true union \
    unique user using variadic verbose when where window with";

/// A name in SQL, quoted if necessary.
pub(crate) fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_reserved = RESERVED.split(' ').any(|word| word == name);
    if begins && name.chars().all(plain) && !is_reserved {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value as a literal, which takes the type of the column that it is compared with: text, an enum, a number.
pub(crate) fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    // The literal does not depend on `standard_conforming_strings`.
    if value.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// Why a fragment cannot be put into parentheses: an unbalanced parenthesis or quote, a semicolon, or a comment to the end
/// of the line.
pub(crate) fn unbalanced(text: &str) -> Option<String> {
    let mut depth = 0_i32;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            quote @ ('\'' | '"') if !rest.any(|it| it == quote) => {
                return Some(format!("`{text}` has {quote} without the second one"));
            }
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth < 0 {
                    return Some(format!("`{text}` has `)` without `(`"));
                }
            }
            ';' => {
                return Some(format!(
                    "`{text}` has a semicolon: write an expression, not a statement"
                ));
            }
            '-' if rest.peek() == Some(&'-') => {
                return Some(format!("`{text}` has a comment: leave it out"));
            }
            _ => {}
        }
    }
    match (text.trim().is_empty(), depth) {
        (true, _) => Some("it is empty: leave the key out".to_owned()),
        (_, 0) => None,
        _ => Some(format!("`{text}` has `(` without `)`")),
    }
}
