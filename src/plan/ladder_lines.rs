//! Steps about a ladder, a line per place: its queues differ by nothing but the digit, and there are dozens of them.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    draining::{Draining, Drains},
    step::{Change, Reason, Replaced, Step},
};
use crate::{
    text::counted,
    topology::level::{Level, Ttl},
};

/// What the lines of `steps` say; those about the same place of a ladder are one, where the first of them stands.
pub(super) fn lines<'a>(all: &'a [Step], steps: impl Iterator<Item = &'a Step>) -> Vec<String> {
    let place_of = places(all);
    let mut groups: Vec<(Option<LineKey<'a>>, Vec<&Step>)> = Vec::new();
    let mut at: BTreeMap<LineKey<'a>, usize> = BTreeMap::new();
    for step in steps {
        let key = key(&place_of, step);
        let group = key.as_ref().and_then(|key| at.get(key)).and_then(|at| groups.get_mut(*at));
        if let Some((_, group)) = group {
            group.push(step);
        } else {
            at.extend(key.clone().map(|key| (key, groups.len())));
            groups.push((key, vec![step]));
        }
    }
    groups.iter().map(|(key, steps)| line(key.as_ref(), steps)).collect()
}

/// Steps with the same key are one line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LineKey<'a> {
    /// The exchange of a place or of what is put back, or what all names of the ladder begin with.
    about: &'a str,
    is_place: bool,
    sign: char,
    reason: String,
}

/// The exchange of the place of each queue, by the bindings of the plan.
fn places(steps: &[Step]) -> BTreeMap<&str, &str> {
    let bindings = steps.iter().filter_map(|step| match &step.change {
        Change::Bind(binding) | Change::Unbind(binding) => Some(binding),
        _ => None,
    });
    let ours = bindings.filter(|it| exchange_unit(&it.source).is_some());
    ours.map(|it| (it.destination.as_str(), it.source.as_str())).collect()
}

fn key<'a>(place_of: &BTreeMap<&'a str, &'a str>, step: &'a Step) -> Option<LineKey<'a>> {
    let queue = |name: &'a str| {
        let (ladder, _) = queue_hold(name)?;
        Some(place_of.get(name).map_or((ladder, false), |place| (*place, true)))
    };
    let exchange = |name: &'a str| {
        let is_place = exchange_unit(name).is_some();
        (is_place || name.contains(".ladder.") && name.rsplit('.').next() == Some("again"))
            .then_some((name, is_place))
    };
    let ((about, is_place), sign) = match &step.change {
        Change::CreateExchange(it) => (exchange(&it.name)?, '+'),
        Change::DeleteExchange { exchange: name } => (exchange(name)?, '-'),
        Change::CreateQueue(it) => (queue(&it.name)?, '+'),
        Change::DeleteQueue { queue: name, lost: 0 } => (queue(name)?, '-'),
        Change::Bind(it) if it.mark_of().is_some() && it.to_queue => (queue(&it.destination)?, '='),
        Change::Bind(it) => (exchange(&it.source)?, '+'),
        Change::Unbind(it) => (exchange(&it.source)?, '-'),
        Change::Leave(_) | Change::DeleteQueue { .. } => return None,
    };
    Some(LineKey { about, is_place, sign, reason: reason(step) })
}

/// Without the name of the queue.
fn reason(step: &Step) -> String {
    match &step.reason {
        Reason::Missing | Reason::Adopted => String::new(),
        Reason::Replaces(Replaced { differences, .. }) => {
            let each = differences.iter().map(|differs| format!("\n          {differs}"));
            format!("replaces queues that cannot be changed:{}", each.collect::<String>())
        }
        Reason::Succeeded { contents, .. } => format!("others take their place{contents}"),
        reason => reason.to_string(),
    }
}

/// Queues that wait until they are empty; those of a ladder that are empty already are one line, for what may still come
/// to them.
pub(super) fn draining(all: &[Draining]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut empty: BTreeMap<&str, Vec<(&Draining, Ttl)>> = BTreeMap::new();
    for queue in all {
        match (queue_hold(&queue.queue), &queue.drains) {
            (Some((ladder, _)), Drains::AlongTheLadder { within }) if queue.messages == Some(0) => {
                empty.entry(ladder).or_default().push((queue, *within));
            }
            _ => lines.push(queue.to_string()),
        }
    }
    for (ladder, queues) in empty {
        match queues.as_slice() {
            [(only, _)] => lines.push(only.to_string()),
            several => lines.push(kept(ladder, several)),
        }
    }
    lines
}

fn kept(ladder: &str, queues: &[(&Draining, Ttl)]) -> String {
    let names: Vec<(&str, &str)> = queues.iter().map(|(it, _)| (it.queue.as_str(), "")).collect();
    let within = queues.iter().map(|(_, within)| *within).max();
    let within = within.map_or_else(String::new, |within| format!(", within {within}"));
    let names = range(&names).unwrap_or_default();
    format!(
        "~ ladder    {ladder}  {names}: empty, and kept until what waits before them has come through{within}"
    )
}

fn line(key: Option<&LineKey<'_>>, steps: &[&Step]) -> String {
    let (Some(key), [_, _, ..]) = (key, steps) else {
        return steps.iter().map(ToString::to_string).collect();
    };
    let noun = if key.is_place { "place " } else { "ladder" };
    let mut line = format!("{} {noun}    {}  {}", key.sign, key.about, parts(steps));
    if !key.reason.is_empty() {
        // Writing to a string cannot fail.
        let _written = write!(line, "\n        {}", key.reason);
    }
    line
}

/// `exchange, 9 quorum queues orders.ladder.delay.1s to 9s, 10 bindings by digit, 0 to orders.dlx`.
fn parts(steps: &[&Step]) -> String {
    let changes = || steps.iter().map(|step| &step.change);
    let is_exchange =
        |it: &Change| matches!(it, Change::CreateExchange(_) | Change::DeleteExchange { .. });
    let exchange = changes().any(is_exchange).then(|| "exchange".to_owned());
    let queues = changes().filter_map(|change| match change {
        Change::CreateQueue(it) => Some((it.name.as_str(), it.kind.as_str())),
        Change::DeleteQueue { queue, .. } => Some((queue.as_str(), "")),
        Change::Bind(it) if it.to_queue && it.mark_of().is_some() => {
            Some((it.destination.as_str(), ""))
        }
        _ => None,
    });
    let queues: Vec<(&str, &str)> = queues.collect();
    let bindings = changes().filter_map(|change| match change {
        Change::Bind(it) | Change::Unbind(it) if it.mark_of().is_none() => Some(it),
        _ => None,
    });
    let bindings: Vec<_> = bindings.collect();
    let bound =
        (!bindings.is_empty()).then(|| format!("{} by digit", counted(bindings.len(), "binding")));
    let onward = bindings.iter().filter(|it| !it.to_queue);
    let onward = onward.map(|binding| format!("0 to {}", binding.destination));
    exchange
        .into_iter()
        .chain(range(&queues))
        .chain(bound)
        .chain(onward)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `9 queues orders.ladder.delay.1s to 9s`.
fn range(queues: &[(&str, &str)]) -> Option<String> {
    let (_, kind) = queues.first()?;
    let mut holds: Vec<(Level, &str)> =
        queues.iter().filter_map(|(name, _)| Some((queue_hold(name)?.1, *name))).collect();
    holds.sort_by_key(|(hold, _)| hold.ttl());
    let count = counted(queues.len(), format!("{kind} queue").trim_start());
    Some(match holds.as_slice() {
        [(_, first), .., (last, _)] => format!("{count} {first} to {last}"),
        [(_, only)] => format!("{count} {only}"),
        [] => count,
    })
}

/// How long the digit 1 of a place waits, by the name of its exchange: `10m` of `orders.ladder.10m`.
fn exchange_unit(name: &str) -> Option<Level> {
    let (_, rest) = name.rsplit_once(".ladder.")?;
    let (before, unit) = rest.rsplit_once('.').unwrap_or(("", rest));
    unit.parse().ok().filter(|_| before.rsplit('.').next() != Some("delay"))
}

/// The beginning of the names of a ladder, and how long a queue of it holds messages: `orders.ladder` and `30m` of
/// `orders.ladder.delay.30m.2`.
fn queue_hold(name: &str) -> Option<(&str, Level)> {
    let is_generation = |last: &str| last.bytes().all(|byte| byte.is_ascii_digit());
    let base = name.rsplit_once('.').filter(|(_, last)| is_generation(last));
    let base = base.map_or(name, |(base, _)| base);
    let (ladder, hold) = base.rsplit_once(".delay.")?;
    (ladder.ends_with(".ladder") || ladder.contains(".ladder.")).then_some(())?;
    Some((ladder, hold.parse().ok()?))
}
