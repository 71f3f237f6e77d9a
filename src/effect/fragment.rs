//! Pieces of SQL in a description.

/// What keeps a fragment from standing in parentheses: a parenthesis or a quote without its other half, a semicolon, a comment to the
/// end of the line.
pub(super) fn unbalanced(text: &str) -> Option<String> {
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
