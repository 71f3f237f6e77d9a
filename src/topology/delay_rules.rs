//! Rules about delays: levels, the lead, the ladder, and the exchange that replaces the plugin's exchange.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use toml::Spanned;

use super::{
    check::{MAX_NAME_BYTES, Surroundings, at, brokers, is_brokers, timeouts},
    file::{LevelText, StrategyName, TimeoutSection, TopologyFile, XDelaySection},
    level::{Lead, Level, LevelError, Ttl},
    strategy::strategy,
    taken_over_exchange::WORD,
};
use crate::{diagnostic::Draft, text::duration};

pub(super) fn levels_present(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.delay().strategy != StrategyName::Levels || !file.delay().levels().is_empty() {
        return Vec::new();
    }
    let message = "there is no level, so nothing can be delayed";
    let help = "add below [delay] levels = [\"5s\", \"30m\"]";
    vec![Draft::in_file(levels_span(file), message, help)]
}

/// The position of the list of levels, or of its section.
fn levels_span(file: &TopologyFile) -> Range<usize> {
    file.delay().levels.as_ref().map_or_else(|| file.delay.span(), Spanned::span)
}

/// Reports one note for all unused levels: a full scale of levels is good practice.
pub(super) fn level_unused(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let levels = file.delay().levels();
    if file.delay().strategy == StrategyName::DelayedExchange {
        let message = "the strategy `delayed-exchange` needs no levels: they become no queues";
        let help = "leave them for a way back, or drop them";
        let needless = Draft::in_file(levels_span(file), message, help);
        return if levels.is_empty() { Vec::new() } else { vec![needless] };
    }
    let used: BTreeSet<&str> = used_levels(file).map(|level| level.get_ref().as_str()).collect();
    let levels = levels.iter().map(|level| level.get_ref().as_str());
    let unused: Vec<String> =
        levels.filter(|level| !used.contains(level)).map(|level| format!("`{level}`")).collect();
    let (levels, are) = match unused.len() {
        0 => return Vec::new(),
        1 => ("level", "is"),
        _ => ("levels", "are"),
    };
    let message =
        format!("{levels} {} {are} named by no timeout, category or retry", unused.join(", "));
    let help = "such levels serve publishers that choose a level themselves, and notices that come early; \
                drop what neither needs: each is a queue";
    vec![Draft::in_file(levels_span(file), message, help)]
}

/// Every level that a timeout or a retry names.
fn used_levels(file: &TopologyFile) -> impl Iterator<Item = &LevelText> {
    timeouts(file).flat_map(TimeoutSection::levels).chain(file.retry.levels())
}

pub(super) fn level_text(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let texts = file.delay().levels().iter();
    texts
        .filter_map(|text| {
            let message = text.get_ref().parse::<Level>().err()?.to_string();
            Some(at(text, message, "a level is between 1ms and ten years, e.g. `30m`"))
        })
        .collect()
}

/// Levels with a valid text, with their positions.
fn readable(file: &TopologyFile) -> impl Iterator<Item = (Level, &LevelText)> {
    let texts = file.delay().levels().iter();
    texts.filter_map(|text| Some((text.get_ref().parse().ok()?, text)))
}

pub(super) fn level_duplicate(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut seen: BTreeMap<Ttl, Level> = BTreeMap::new();
    let mut drafts = Vec::new();
    for (level, text) in readable(file) {
        if let Some(first) = seen.get(&level.ttl()) {
            let message = format!("level `{level}` is there already as `{first}`");
            drafts.push(at(text, message, "keep one of the two"));
        } else {
            seen.insert(level.ttl(), level);
        }
    }
    drafts
}

pub(super) fn level_order(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut seen = BTreeSet::new();
    let mut longest: Option<Level> = None;
    let mut drafts = Vec::new();
    for (level, text) in readable(file).filter(|(level, _)| seen.insert(level.ttl())) {
        match &longest {
            Some(before) if level.ttl() < before.ttl() => {
                let message = format!("level `{level}` is shorter than `{before}` before it");
                drafts.push(at(text, message, "list the levels shortest first"));
            }
            _ => longest = Some(level),
        }
    }
    drafts
}

/// The lead must be a duration, and less than half of each level.
pub(super) fn lead(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(text) = &file.delay().lead else { return Vec::new() };
    let shortest = readable(file).map(|(level, _)| level).min_by_key(Level::ttl);
    let (message, help) = match (text.get_ref().parse::<Lead>(), shortest) {
        (Err(error @ LevelError::LongLead(_)), _) => {
            (error.to_string(), "shorten it: 100ms to 2s are usual".to_owned())
        }
        (Err(error), _) => {
            (error.to_string(), "write e.g. lead = \"500ms\", or \"0s\" for none".to_owned())
        }
        (Ok(Lead::Given(lead)), Some(level))
            if !lead.is_zero() && lead >= level.ttl().as_duration() / 2 =>
        {
            let message = format!(
                "a lead of `{}` is not less than half of the level `{level}`",
                text.get_ref()
            );
            let shorten = match level.ttl().as_millis().saturating_sub(1) / 2 {
                0 => String::new(),
                most => format!("shorten it to {} or less, ", duration(most)),
            };
            let help = format!(
                "{shorten}drop the level `{level}`, or leave the lead out: then each level has one that fits it"
            );
            (message, help)
        }
        (Ok(_), _) => return Vec::new(),
    };
    vec![at(text, message, help)]
}

/// The ladder must exist if the strategy needs it, must compile, and must not exist with another strategy.
pub(super) fn ladder(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let needs_it = file.delay().strategy == StrategyName::Ladder;
    if let Some(section) = file.delay().ladder.as_ref().filter(|_| !needs_it) {
        let message = "there is a ladder, and the strategy is another one";
        let help = "write strategy = \"ladder\" below [delay], or drop [delay.ladder]";
        return vec![at(section, message, help)];
    }
    let help = "write e.g. [delay.ladder] and below it max = \"30d\"";
    let error = strategy(file).err();
    error.map(|(span, message)| Draft::in_file(span, message, help)).into_iter().collect()
}

/// Reports delays that are longer than the ladder's maximum. A delay with a queue of its own is fine.
pub(super) fn ladder_short(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let strategy = strategy(file).ok();
    let Some(ladder) = strategy.as_ref().and_then(|strategy| strategy.ladder()) else {
        return Vec::new();
    };
    let levels: BTreeSet<&String> =
        file.delay().levels().iter().map(|level| level.get_ref()).collect();
    let others = used_levels(file).filter(|delay| !levels.contains(delay.get_ref()));
    let longer = others.filter(|delay| {
        delay.get_ref().parse::<Ttl>().is_ok_and(|ttl| ttl.as_duration() > ladder.max())
    });
    longer
        .map(|delay| {
            let (delay_text, max) = (delay.get_ref(), ladder.max());
            let message =
                format!("`{delay_text}` is longer than the ladder can hold a message, {max:?}");
            at(delay, message, "raise max of [delay.ladder]")
        })
        .collect()
}

pub(super) fn level_reference(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.delay().strategy != StrategyName::Levels {
        // Other strategies take any delay; its text must still be a valid level.
        let unreadable = references(file).filter_map(|(place, level)| {
            let error = level.get_ref().parse::<Level>().err()?;
            let help = "write a whole number and one unit, e.g. `30m`";
            Some(at(level, format!("{place}: {error}"), help))
        });
        return unreadable.collect();
    }
    // The rule `levels_present` reports a missing list.
    if file.delay().levels.is_none() {
        return Vec::new();
    }
    let declared: BTreeSet<&str> =
        file.delay().levels().iter().map(|level| level.get_ref().as_str()).collect();
    let readable: Vec<String> = readable(file).map(|(level, _)| format!("`{level}`")).collect();
    let help = match &readable[..] {
        [] => "add it to delay.levels".to_owned(),
        levels => format!("add it to delay.levels or use one of {}", levels.join(", ")),
    };
    references(file)
        .filter(|(_, level)| !declared.contains(level.get_ref().as_str()))
        .map(|(place, level)| {
            let message = format!("{place} is `{}`, which is not in delay.levels", level.get_ref());
            at(level, message, help.as_str())
        })
        .collect()
}

/// Every reference to a level: its place in words, and the level's text.
fn references(file: &TopologyFile) -> impl Iterator<Item = (String, &LevelText)> {
    let by_timeout = timeouts(file).flat_map(|timeout| {
        let name = timeout.name.get_ref();
        let by_category = timeout.after_by_category.iter().map(move |(category, level)| {
            (format!("after_by_category.{category} of timeout `{name}`"), level)
        });
        std::iter::once((format!("after of timeout `{name}`"), &timeout.after)).chain(by_category)
    });
    let by_retry = file.retry.levels().iter().map(|level| ("retry.after".to_owned(), level));
    by_timeout.chain(by_retry)
}

/// The name must be one that publishers of the plugin can have used, and not a name of the topology.
pub(super) fn compat_exchange(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(XDelaySection { exchange, .. }) = file.x_delay() else { return Vec::new() };
    let (name, topology) = (exchange.get_ref(), file.name.get_ref());
    let message = if name.is_empty() {
        "the default exchange cannot be taken over: it has no name".to_owned()
    } else if is_brokers(name) {
        brokers(name)
    } else if name.len() > MAX_NAME_BYTES {
        format!("the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES}", name.len())
    } else if name.starts_with(&format!("{topology}.")) {
        format!("`{name}` begins with the name of the topology, whose exchanges are its own")
    } else {
        return Vec::new();
    };
    let help = "write the name of the exchange that publishers use with the header x-delay";
    vec![at(exchange, message, help)]
}

/// The plugin's own exchange needs no replacement.
pub(super) fn compat_strategy(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    compat_with(
        file,
        StrategyName::DelayedExchange,
        (
            "[compat.x-delay] takes the place of the plugin, and the strategy `delayed-exchange` needs it",
            "choose the strategy `ladder` or `levels`, or drop [compat.x-delay]",
        ),
    )
}

fn compat_with(
    file: &TopologyFile,
    strategy: StrategyName,
    (message, help): (&str, &str),
) -> Vec<Draft> {
    let section = file.x_delay().filter(|_| file.delay().strategy == strategy);
    section.map(|section| at(&section.exchange, message, help)).into_iter().collect()
}

/// A timeout `compat` would get the messages of `[compat.x-delay]`.
pub(super) fn compat_word(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let names = timeouts(file).map(|timeout| &timeout.name);
    let taken = names.filter(|name| file.x_delay().is_some() && name.get_ref() == WORD);
    taken
        .map(|name| {
            let topology = file.name.get_ref();
            let message =
                format!("two queues would be called `{topology}.{WORD}`: [compat.x-delay] has one");
            at(name, message, "give this timeout another name")
        })
        .collect()
}

/// A worker keeps delays below the shortest level unacked if there is no ladder.
pub(super) fn compat_ladder(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    compat_with(
        file,
        StrategyName::Levels,
        (
            "an `x-delay` other than a level waits in several levels, and the rest of it in a worker",
            "choose the strategy `ladder` where publishers send any `x-delay`; where all of them are levels it is fine",
        ),
    )
}
