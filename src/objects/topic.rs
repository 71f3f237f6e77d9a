//! Topic patterns: which routing keys two bindings have in common
//! (<https://www.rabbitmq.com/tutorials/tutorial-five-python>).

/// Whether some routing key matches both patterns. A pattern without `*` and `#` is a routing key itself, so
/// this also answers whether a key matches a pattern.
#[must_use]
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    // meets[j]: whether the words of `one` from here on and those of `other` from j on have a key in common.
    // Built from the end, so that patterns with many `#` cost no more than their lengths multiplied.
    let mut meets: Vec<bool> = (0..=other.len()).map(|j| only_hashes(&other, j)).collect();
    for word in one.iter().rev() {
        let mut now = vec![false; meets.len()];
        for j in (0..meets.len()).rev() {
            let next = other.get(j).copied();
            let rest = now.get(j + 1).copied().unwrap_or(false);
            let both = meets.get(j + 1).copied().unwrap_or(false);
            let skipped = meets.get(j).copied().unwrap_or(false);
            let here = match (*word, next) {
                ("#", _) | (_, Some("#")) => skipped || rest,
                (_, None) => false,
                (word, Some(next)) => both && (word == next || word == "*" || next == "*"),
            };
            if let Some(slot) = now.get_mut(j) {
                *slot = here;
            }
        }
        meets = now;
    }
    meets.first().copied().unwrap_or(false)
}

/// The broker takes the empty routing key for no word at all.
fn words(pattern: &str) -> Vec<&str> {
    if pattern.is_empty() { Vec::new() } else { pattern.split('.').collect() }
}

fn only_hashes(words: &[&str], from: usize) -> bool {
    words.iter().skip(from).all(|word| *word == "#")
}
