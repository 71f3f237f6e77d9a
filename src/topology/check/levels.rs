//! Rules about the list of levels.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::surroundings::Surroundings;
use crate::{
    diagnostic::Draft,
    topology::{
        file::{StrategyName, TopologyFile},
        level::{Level, Ttl},
    },
};

pub(super) fn present(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.delay().strategy != StrategyName::Levels || !file.delay().levels().is_empty() {
        return Vec::new();
    }
    let message = "there is no level, so nothing can be delayed".to_owned();
    let help = "add below [delay] levels = [\"5s\", \"30m\"]";
    vec![Draft::in_file(span(file), message, help)]
}

pub(super) fn text(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let texts = file.delay().levels().iter();
    texts
        .filter_map(|text| {
            let message = text.get_ref().parse::<Level>().err()?.to_string();
            let help = "a level is between 1ms and ten years, e.g. `30m`";
            Some(Draft::in_file(text.span(), message, help))
        })
        .collect()
}

/// Levels that can be read, with their place.
pub(super) fn readable(file: &TopologyFile) -> Vec<(Level, Range<usize>)> {
    let texts = file.delay().levels().iter();
    texts.filter_map(|text| Some((text.get_ref().parse().ok()?, text.span()))).collect()
}

pub(super) fn duplicate(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut seen: BTreeMap<Ttl, String> = BTreeMap::new();
    let mut drafts = Vec::new();
    for (level, span) in readable(file) {
        if let Some(first) = seen.get(&level.ttl()) {
            let message = format!("level `{level}` is there already as `{first}`");
            drafts.push(Draft::in_file(span, message, "keep one of the two"));
        } else {
            seen.insert(level.ttl(), level.name().to_owned());
        }
    }
    drafts
}

pub(super) fn order(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut seen = BTreeSet::new();
    let mut longest: Option<Level> = None;
    let mut drafts = Vec::new();
    for (level, span) in readable(file) {
        if !seen.insert(level.ttl()) {
            continue;
        }
        match &longest {
            Some(before) if level.ttl() < before.ttl() => {
                let message = format!("level `{level}` is shorter than `{before}` before it");
                drafts.push(Draft::in_file(span, message, "list the levels shortest first"));
            }
            _ => longest = Some(level),
        }
    }
    drafts
}

/// Where the list of levels stands, or the section that it belongs in.
fn span(file: &TopologyFile) -> Range<usize> {
    file.delay().levels.as_ref().map_or_else(|| file.delay.span(), toml::Spanned::span)
}

/// Levels of another strategy, which may have been left for the way back.
fn needless(file: &TopologyFile) -> Option<Draft> {
    let levels = file.delay().levels.as_ref().filter(|levels| !levels.get_ref().is_empty())?;
    let message =
        "the strategy `delayed-exchange` needs no levels: they become no queues".to_owned();
    Some(Draft::in_file(levels.span(), message, "leave them for a way back, or drop them"))
}

/// One finding for all of them: a full scale of levels is good practice, and no list of mistakes.
pub(super) fn unused(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.delay().strategy == StrategyName::DelayedExchange {
        return needless(file).into_iter().collect();
    }
    let timeouts = file.timeout.iter().flat_map(|timeout| timeout.get_ref().levels());
    let used: BTreeSet<&str> =
        timeouts.chain(file.retry.levels()).map(|level| level.get_ref().as_str()).collect();
    let levels = file.delay().levels().iter().map(|level| level.get_ref().as_str());
    let unused: Vec<String> =
        levels.filter(|level| !used.contains(level)).map(|level| format!("`{level}`")).collect();
    if unused.is_empty() {
        return Vec::new();
    }
    let (levels, are) = if unused.len() == 1 { ("level", "is") } else { ("levels", "are") };
    let message =
        format!("{levels} {} {are} named by no timeout, category or retry", unused.join(", "));
    let help = "such levels serve publishers that choose a level themselves, and notices that come early; \
                drop what neither needs: each is a queue";
    vec![Draft::in_file(span(file), message, help)]
}
