//! Rules about the ladder.

use super::surroundings::Surroundings;
use crate::{
    diagnostic::Draft,
    topology::{
        file::{StrategyName, TopologyFile},
        ladder_section::strategy,
        level::Ttl,
    },
};

/// It is there where the strategy needs it, can be built, and is not there for nothing.
pub(super) fn present(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if let Some(section) = &file.delay().ladder
        && file.delay().strategy != StrategyName::Ladder
    {
        let message = "there is a ladder, and the strategy is another one".to_owned();
        let help = "write strategy = \"ladder\" below [delay], or drop [delay.ladder]";
        return vec![Draft::in_file(section.span(), message, help)];
    }
    let error = strategy(file).err();
    let draft = error.map(|error| {
        let help = "write e.g. [delay.ladder] and below it max = \"30d\"";
        Draft::in_file(error.span, error.message, help)
    });
    draft.into_iter().collect()
}

/// What is longer than the ladder can hold. A level of its own holds what it holds.
pub(super) fn too_long(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let strategy = strategy(file).ok();
    let Some(ladder) = strategy.as_ref().and_then(|strategy| strategy.ladder()) else {
        return Vec::new();
    };
    let levels = file.delay().levels();
    let has_level = |text: &str| levels.iter().any(|level| level.get_ref() == text);
    let timeouts = file.timeout.iter().flat_map(|timeout| timeout.get_ref().levels());
    let delays = timeouts.chain(file.retry.levels());
    delays
        .filter(|delay| !has_level(delay.get_ref()))
        .filter(|delay| {
            let ttl = delay.get_ref().parse::<Ttl>();
            ttl.is_ok_and(|ttl| ttl.as_duration() > ladder.max())
        })
        .map(|delay| {
            let message = format!(
                "`{}` is longer than the ladder can hold a message, {:?}",
                delay.get_ref(),
                ladder.max()
            );
            Draft::in_file(delay.span(), message, "raise max of [delay.ladder]")
        })
        .collect()
}
