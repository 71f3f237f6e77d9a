//! `[delay.ladder]`: from what is written to a ladder.

use std::{ops::Range, time::Duration};

use super::{
    file::{LadderSection, StrategyName, TopologyFile},
    level::Ttl,
    strategy::Strategy,
};
use crate::ladder::{Ladder, spec::LadderSpec};

/// What is wrong with the section, and where.
pub(super) struct SectionError {
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

/// The strategy of a file; a ladder is compiled.
pub(super) fn strategy(file: &TopologyFile) -> Result<Strategy, SectionError> {
    match file.delay().strategy {
        StrategyName::Levels => Ok(Strategy::Levels),
        StrategyName::DelayedExchange => Ok(Strategy::DelayedExchange),
        StrategyName::Ladder => {
            let message = "the strategy `ladder` has no [delay.ladder]".to_owned();
            let missing = || SectionError { span: file.delay.span(), message };
            let section = file.delay().ladder.as_ref().ok_or_else(missing)?;
            compile(file.name.get_ref(), section.get_ref()).map(Strategy::Ladder)
        }
    }
}

fn compile(topology: &str, section: &LadderSection) -> Result<Ladder, SectionError> {
    let at_max = |message: String| SectionError { span: section.max.span(), message };
    let max: Ttl = section
        .max
        .get_ref()
        .parse()
        .map_err(|error: super::level::LevelError| at_max(error.to_string()))?;
    let mut spec = LadderSpec::up_to(max.as_duration());
    spec.max_queues = section.queues.as_ref().map(|queues| *queues.get_ref());
    Ladder::compile(topology, &spec).map_err(|error| {
        let queues = section.queues.as_ref().filter(|_| is_whole_seconds(max.as_duration()));
        let span = queues.map_or_else(|| section.max.span(), toml::Spanned::span);
        SectionError { span, message: error.to_string() }
    })
}

fn is_whole_seconds(max: Duration) -> bool {
    max.subsec_nanos() == 0
}
