//! Suggestions for a misspelt key, name or value.

/// Below this similarity (Jaro, 0 to 1) two words have nothing to do with each other; clap uses the same bound.
const SIMILAR: f64 = 0.7;

/// The word of `known` that `word` is most like, if any is.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let rated = known.into_iter().map(|known| (strsim::jaro(word, known), known));
    let similar = rated.filter(|(similarity, _)| *similarity > SIMILAR);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}
