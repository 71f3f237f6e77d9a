//! Rules about `[retry]`.

use super::surroundings::Surroundings;
use crate::{
    diagnostic::Draft,
    topology::{
        file::TopologyFile,
        level::{Level, Ttl},
    },
};

/// What is tried again is an order that the database does not know yet, or refused. A transaction that is still
/// open, a lock, a failing trigger: none of them is reliably over in less than a second.
const SHORTEST_SANE_MS: u64 = 1_000;

pub(super) fn missing(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if !file.retry.levels().is_empty() {
        return Vec::new();
    }
    // A list that is there and empty is the place; else there is none.
    let span = file.retry.after.as_ref().map_or_else(|| file.name.span(), toml::Spanned::span);
    let message = "without a retry an order that the database does not know yet is parked at its first delivery";
    vec![Draft::in_file(span, message.to_owned(), "add [retry] after = [\"5s\", \"30s\", \"5m\"]")]
}

pub(super) fn short(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let levels = file.retry.levels().iter();
    let ttl = |text: &str| text.parse::<Level>().ok().map(|level| level.ttl());
    levels
        .filter(|text| ttl(text.get_ref()).is_some_and(|ttl| ttl.as_millis() < SHORTEST_SANE_MS))
        .map(|text| {
            let message = format!(
                "a retry after `{}` may be spent before what made the first attempt fail is over, such as a \
                 transaction that has not committed",
                text.get_ref()
            );
            Draft::in_file(text.span(), message, "use levels of 1s and more")
        })
        .collect()
}

pub(super) fn shrinks(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let levels = file.retry.levels();
    let ttl = |text: &str| -> Option<Ttl> { Some(text.parse::<Level>().ok()?.ttl()) };
    let pairs = levels.iter().zip(levels.iter().skip(1));
    pairs
        .filter(|(before, after)| {
            matches!((ttl(before.get_ref()), ttl(after.get_ref())), (Some(before), Some(after)) if after < before)
        })
        .map(|(before, after)| {
            let message = format!(
                "retry `{}` comes sooner than `{}` before it: the longer something is broken, the harder it is tried",
                after.get_ref(),
                before.get_ref()
            );
            Draft::in_file(after.span(), message, "list the retries shortest first")
        })
        .collect()
}
