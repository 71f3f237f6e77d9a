//! Rules about what a timeout or a retry refers to.

use std::collections::BTreeSet;

use toml::Spanned;

use super::{levels::readable, surroundings::Surroundings};
use crate::{
    diagnostic::Draft,
    topology::{
        file::{BUILT_IN_EFFECTS, DEFAULT_EFFECT, StrategyName, TopologyFile},
        level::Level,
    },
};

pub(super) fn timeouts_present(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if !file.timeout.is_empty() {
        return Vec::new();
    }
    let message = "there is no timeout, so nothing would ever be consumed".to_owned();
    let help = "add one: a line [[timeout]], then name = \"unpaid\" and after = \"30m\"";
    vec![Draft::in_file(file.name.span(), message, help)]
}

pub(super) fn levels(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.delay().strategy != StrategyName::Levels {
        return unreadable(file);
    }
    // That there is no list says it all.
    if file.delay().levels.is_none() {
        return Vec::new();
    }
    let declared: BTreeSet<&str> =
        file.delay().levels().iter().map(|level| level.get_ref().as_str()).collect();
    let readable: Vec<String> =
        readable(file).iter().map(|(level, _)| format!("`{level}`")).collect();
    let help = match &readable[..] {
        [] => "add it to delay.levels".to_owned(),
        levels => format!("add it to delay.levels or use one of {}", levels.join(", ")),
    };
    references(file)
        .filter(|(_, level)| !declared.contains(level.get_ref().as_str()))
        .map(|(place, level)| {
            let message = format!("{place} is `{}`, which is not in delay.levels", level.get_ref());
            Draft::in_file(level.span(), message, help.as_str())
        })
        .collect()
}

/// Where any delay will do, it has to be one all the same.
fn unreadable(file: &TopologyFile) -> Vec<Draft> {
    let drafts = references(file).filter_map(|(place, level)| {
        let error = level.get_ref().parse::<Level>().err()?;
        let help = "write a whole number and one unit, e.g. `30m`";
        Some(Draft::in_file(level.span(), format!("{place}: {error}"), help))
    });
    drafts.collect()
}

/// Every place that names a level, in words, and what it names.
fn references(file: &TopologyFile) -> impl Iterator<Item = (String, &Spanned<String>)> {
    let timeouts = file.timeout.iter().map(Spanned::get_ref);
    let by_timeout = timeouts.flat_map(|timeout| {
        let name = timeout.name.get_ref();
        let by_category = timeout.after_by_category.iter().map(move |(category, level)| {
            (format!("after_by_category.{category} of timeout `{name}`"), level)
        });
        std::iter::once((format!("after of timeout `{name}`"), &timeout.after)).chain(by_category)
    });
    let by_retry = file.retry.levels().iter().map(|level| ("retry.after".to_owned(), level));
    by_timeout.chain(by_retry)
}

pub(super) fn effect_empty(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let effects = file.timeout.iter().filter_map(|timeout| timeout.get_ref().effect.as_ref());
    let empty = effects.filter(|effect| effect.get_ref().trim().is_empty());
    empty
        .map(|effect| {
            let message = "an effect without a name does not say which SQL runs".to_owned();
            let help = format!("leave it out for `{DEFAULT_EFFECT}`, or name one of the settings");
            Draft::in_file(effect.span(), message, help)
        })
        .collect()
}

pub(super) fn effects(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let effects = file.timeout.iter().filter_map(|timeout| timeout.get_ref().effect.as_ref());
    let unknown = effects.filter(|effect| {
        let name = effect.get_ref();
        // Without a name it is an error already.
        let is_built_in = BUILT_IN_EFFECTS.contains(&name.as_str());
        !is_built_in && !name.trim().is_empty() && !surroundings.effects.contains(name)
    });
    unknown
        .map(|effect| {
            let name = effect.get_ref();
            let message = format!(
                "effect `{name}` is not built in, and the settings at hand do not say which SQL it is"
            );
            let help = format!(
                "the worker needs, in its overdue.toml: [effects.{name}] sql = \"{name}.sql\" (docs/effects.md)"
            );
            Draft::in_file(effect.span(), message, help)
        })
        .collect()
}
