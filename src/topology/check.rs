//! Named rules about a topology file. All rules run and all findings are reported. docs/topology.md has the reasons.

use std::collections::BTreeSet;

use toml::Spanned;

pub use super::broker_version::BrokerVersion;
use super::{
    broker_version::{broker_bug, broker_plugin, broker_untested, broker_version},
    delay_rules::{
        compat_exchange, compat_ladder, compat_strategy, compat_word, ladder, ladder_short, lead,
        level_duplicate, level_order, level_reference, level_text, level_unused, levels_present,
    },
    file::{
        BUILT_IN_EFFECTS, DEFAULT_DELIVERY_LIMIT, DEFAULT_EFFECT, Gone, LevelText, QueueType,
        StrategyName, TimeoutSection, TopologyFile,
    },
    level::Ttl,
};
use crate::{
    diagnostic::{Diagnostic, Draft, Severity, Subject},
    objects::shard,
};

/// Input of a rule in addition to the file.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The broker that the topology is for; without it the rules about versions do not run.
    pub broker: Option<BrokerVersion>,
    /// Effects whose SQL is in the settings; built-in effects are not listed.
    pub effects: BTreeSet<String>,
}

/// A named check of a topology file.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stable across versions.
    pub name: &'static str,
    /// The severity of each finding.
    pub severity: Severity,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Draft>,
}

const fn rule(
    severity: Severity,
    name: &'static str,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Draft>,
) -> Rule {
    Rule { name, severity, run }
}

/// Every rule about the file, in the order in which findings at one place are reported.
pub const RULES: &[Rule] = &[
    rule(Severity::Error, "topology-name", topology_name),
    rule(Severity::Warning, "name-room", name_room),
    rule(Severity::Error, "levels-present", levels_present),
    rule(Severity::Note, "level-unused", level_unused),
    rule(Severity::Error, "level-text", level_text),
    rule(Severity::Error, "level-duplicate", level_duplicate),
    rule(Severity::Error, "level-order", level_order),
    rule(Severity::Error, "lead", lead),
    rule(Severity::Error, "ladder", ladder),
    rule(Severity::Error, "ladder-short", ladder_short),
    rule(Severity::Error, "timeouts-present", timeouts_present),
    rule(Severity::Error, "timeout-name", timeout_name),
    rule(Severity::Error, "object-name", object_name),
    rule(Severity::Error, "shards", shards),
    rule(Severity::Error, "gone", gone),
    rule(Severity::Error, "level-reference", level_reference),
    rule(Severity::Error, "effect-empty", effect_empty),
    rule(Severity::Note, "effect-unknown", effect_unknown),
    rule(Severity::Error, "category-empty", category_empty),
    rule(Severity::Warning, "category-missing", category_missing),
    rule(Severity::Warning, "at-most-once", at_most_once),
    rule(Severity::Warning, "delivery-limit-low", delivery_limit_low),
    rule(Severity::Warning, "delivery-limit-unused", delivery_limit_unused),
    rule(Severity::Warning, "retry-missing", retry_missing),
    rule(Severity::Warning, "retry-short", retry_short),
    rule(Severity::Warning, "retry-shrinks", retry_shrinks),
    rule(Severity::Error, "compat-exchange", compat_exchange),
    rule(Severity::Error, "compat-strategy", compat_strategy),
    rule(Severity::Error, "compat-word", compat_word),
    rule(Severity::Warning, "compat-ladder", compat_ladder),
    rule(Severity::Error, "broker-version", broker_version),
    rule(Severity::Error, "broker-plugin", broker_plugin),
    rule(Severity::Warning, "broker-bug", broker_bug),
    rule(Severity::Note, "broker-untested", broker_untested),
];

/// Runs every rule about the file and returns the findings in the order of the file.
pub(crate) fn check(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Diagnostic> {
    let whole = || Subject::File(file.name.span());
    let named = |rule: &Rule| {
        let Rule { name, severity, run } = *rule;
        let drafts = run(file, surroundings).into_iter();
        drafts.map(move |draft| draft.complete(name, severity, whole()))
    };
    let mut findings: Vec<Diagnostic> = RULES.iter().flat_map(named).collect();
    findings.sort_by_key(|finding| match &finding.subject {
        Subject::File(span) => span.start,
        _ => 0,
    });
    findings
}

/// A finding about the text of `place`.
pub(super) fn at<T>(
    place: &Spanned<T>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Draft {
    Draft::in_file(place.span(), message, help)
}

/// The longest name RabbitMQ accepts for a queue, an exchange or a routing key, in bytes (AMQP short string).
pub(super) const MAX_NAME_BYTES: usize = 255;
/// Bytes reserved after the topology's name for `.` and a timeout, or for the name of a delay queue. Names are used for
/// years, and a later version may append a longer text, so both rules about lengths reserve these bytes now.
const NAME_RESERVE_BYTES: usize = 64;
/// Bytes of the suffix of the next generation: `.2`.
const GENERATION_BYTES: usize = 2;

fn topology_name(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let name = file.name.get_ref();
    let fits = |c: char| is_word(c) || c == '.';
    let (message, help) = if name.is_empty()
        || !name.chars().all(fits)
        || name.starts_with('.')
        || name.ends_with('.')
    {
        let message = format!("`{name}` cannot prefix the names of queues and exchanges");
        (message, "use letters, digits, `-`, `_` and inner `.`".to_owned())
    } else if is_brokers(name) {
        (brokers(name), "choose another name, e.g. `orders`".to_owned())
    } else if name.len() > MAX_NAME_BYTES - NAME_RESERVE_BYTES {
        let message = format!(
            "the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES} for the name of a queue, and \
             {NAME_RESERVE_BYTES} of them are kept for what is appended to it, such as `.unpaid` or `.delay.30m`",
            name.len()
        );
        (message, format!("keep it at {} bytes or less", MAX_NAME_BYTES - NAME_RESERVE_BYTES))
    } else {
        return Vec::new();
    };
    vec![at(&file.name, message, help)]
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

pub(super) fn is_brokers(name: &str) -> bool {
    name == "amq" || name.starts_with("amq.")
}

pub(super) fn brokers(name: &str) -> String {
    format!("`{name}`: names that start with `amq.` belong to the broker, it refuses them")
}

pub(super) fn timeouts(file: &TopologyFile) -> impl Iterator<Item = &TimeoutSection> {
    file.timeout.iter().map(Spanned::get_ref)
}

/// Bytes of the longest queue name of this timeout.
fn queue_bytes(file: &TopologyFile, timeout: &TimeoutSection) -> usize {
    let base = file.name.get_ref().len() + 1 + timeout.name.get_ref().len();
    let last = timeout.shards.as_ref().map(|shards| shards.get_ref().saturating_sub(1));
    base + last.map_or(0, |last| shard::queue("", last).len())
}

/// A changed queue gets a successor, e.g. `orders.unpaid.2`. The names of delay queues have room because levels are short.
fn name_room(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let names = timeouts(file).map(|timeout| (&timeout.name, queue_bytes(file, timeout)));
    let tight = names.filter(|(name, bytes)| {
        // A name over its own limit is an error of `timeout_name`.
        name.get_ref().len() < NAME_RESERVE_BYTES
            && (MAX_NAME_BYTES - GENERATION_BYTES + 1..=MAX_NAME_BYTES).contains(bytes)
    });
    tight
        .map(|(name, bytes)| {
            let message = format!(
                "the name of its queue has {bytes} of 255 bytes: no room for the `.2` of a next generation, so the \
                 queue's type or delivery limit can never be changed"
            );
            at(name, message, "shorten this name or the topology's")
        })
        .collect()
}

fn timeouts_present(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    // Messages of `[compat.x-delay]` wait without a timeout.
    if !file.timeout.is_empty() || file.x_delay().is_some() {
        return Vec::new();
    }
    let message = "there is no timeout, so nothing would ever be consumed";
    let help = "add one: a line [[timeout]], then name = \"unpaid\" and after = \"30m\"";
    vec![at(&file.name, message, help)]
}

/// A timeout's name is one word of a topic routing key.
fn timeout_name(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for TimeoutSection { name, .. } in timeouts(file) {
        let text = name.get_ref();
        if text.is_empty() || !text.chars().all(is_word) {
            let message = format!("`{text}` cannot be one word of a routing key");
            drafts.push(at(name, message, "use letters, digits, `-` and `_`, no dot"));
        } else if text.len() >= NAME_RESERVE_BYTES {
            let message = format!(
                "the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES} for the name of a queue, which has the \
                 topology's name before it, and for a routing key, which has the level before it",
                text.len()
            );
            let help = format!("keep it at {} bytes or less", NAME_RESERVE_BYTES - 1);
            drafts.push(at(name, message, help));
        }
    }
    drafts
}

fn object_name(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut taken = BTreeSet::from(["parked"]);
    let names = timeouts(file).map(|timeout| &timeout.name);
    let twice = names.filter(|name| !taken.insert(name.get_ref()));
    twice
        .map(|name| {
            let message =
                format!("two queues would be called `{}.{}`", file.name.get_ref(), name.get_ref());
            at(name, message, "give this timeout another name")
        })
        .collect()
}

fn shards(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let sharded = timeouts(file).filter_map(|it| Some((it, it.shards.as_ref()?)));
    let drafts = sharded.filter_map(|(timeout, shards)| {
        if file.delay().strategy == StrategyName::DelayedExchange {
            let message = "the strategy `delayed-exchange` keeps everything that waits on one node: shards behind it spread \
                           nothing";
            let help = "take shards out, or write strategy = \"levels\" or \"ladder\"";
            return Some(at(shards, message, help));
        }
        let bytes = queue_bytes(file, timeout);
        let message =
            format!("the names of its queues have {bytes} bytes; RabbitMQ takes {MAX_NAME_BYTES}");
        let help = "shorten this timeout's name or the topology's";
        (bytes > MAX_NAME_BYTES).then(|| at(shards, message, help))
    });
    drafts.collect()
}

/// A row whose transaction has not committed is not visible either, so the worker needs a retry before it acks.
fn gone(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let acked = timeouts(file).filter(|timeout| timeout.gone() == Gone::Ack);
    let drafts = acked.filter_map(|timeout| {
        let message = "a row that is not seen is looked for once more after the first retry level, and `retry.after` has none";
        let help = "add a level such as after = [\"5s\"] to [retry], or take gone out";
        file.retry.levels().is_empty().then(|| Some(at(timeout.gone.as_ref()?, message, help)))?
    });
    drafts.collect()
}

fn effect_empty(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let effects = timeouts(file).filter_map(|timeout| timeout.effect.as_ref());
    let empty = effects.filter(|effect| effect.get_ref().trim().is_empty());
    empty
        .map(|effect| {
            let message = "an effect without a name does not say which SQL runs";
            let help = format!("leave it out for `{DEFAULT_EFFECT}`, or name one of the settings");
            at(effect, message, help)
        })
        .collect()
}

fn effect_unknown(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let effects = timeouts(file).filter_map(|timeout| timeout.effect.as_ref());
    let unknown = effects.filter(|effect| {
        let name = effect.get_ref();
        // The rule `effect_empty` reports empty names.
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
            at(effect, message, help)
        })
        .collect()
}

/// The parser keeps no position of a key, so the finding points to the level.
fn category_empty(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let categories = timeouts(file).flat_map(|timeout| &timeout.after_by_category);
    let empty = categories.filter(|(category, _)| category.trim().is_empty());
    empty
        .map(|(_, level)| {
            let message = format!("the category of level `{}` has no name", level.get_ref());
            at(level, message, "name it as order services do, e.g. virtual, or take it out")
        })
        .collect()
}

/// A timeout without categories treats all orders alike, which is fine. A timeout that has categories, and lacks one that
/// another timeout has, probably contains a mistake.
fn category_missing(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let categories = timeouts(file).flat_map(|timeout| timeout.after_by_category.keys());
    // The rule `category_empty` reports empty names.
    let known: BTreeSet<&String> =
        categories.filter(|category| !category.trim().is_empty()).collect();
    let mut drafts = Vec::new();
    for timeout in timeouts(file).filter(|timeout| !timeout.after_by_category.is_empty()) {
        let (name, after) = (timeout.name.get_ref(), timeout.after.get_ref());
        for category in known.iter().filter(|it| !timeout.after_by_category.contains_key(**it)) {
            let message = format!(
                "timeout `{name}` has levels by category, but none for `{category}`, which another timeout has; \
                 `overdue publish --timeout {name} --category {category}` is refused"
            );
            let help = format!("add {category} = \"{after}\" to its after_by_category");
            drafts.push(at(&timeout.name, message, help));
        }
    }
    drafts
}

fn at_most_once(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let classic = file.queues.queue_type.as_ref();
    let Some(classic) = classic.filter(|it| *it.get_ref() == QueueType::Classic) else {
        return Vec::new();
    };
    let message = "classic queues dead-letter at most once and are not replicated: a due message is lost when the broker \
                   stops before its next queue has it, and what waits is lost with its node's disk"
        .to_owned();
    let help =
        "use type = \"quorum\"; with classic, the sweep is what finds the orders of lost messages";
    vec![at(classic, message, help)]
}

/// Each lost connection counts as a delivery of every unacked message
/// (<https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling>). Below this limit, good orders are parked after a
/// worker is killed some times in a row, by a bad roll-out or one bad message.
const LOWEST_SANE_LIMIT: i64 = 20;

fn delivery_limit_low(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(limit) = &file.queues.delivery_limit else { return Vec::new() };
    if *limit.get_ref() >= LOWEST_SANE_LIMIT || file.queues.queue_type() == QueueType::Classic {
        return Vec::new();
    }
    let message = format!(
        "a delivery limit of {} parks good orders: each lost connection counts as a delivery of every message \
         the worker held",
        limit.get_ref()
    );
    vec![at(limit, message, format!("leave it out for {DEFAULT_DELIVERY_LIMIT}"))]
}

fn delivery_limit_unused(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let limit = file.queues.delivery_limit.as_ref();
    let unused = limit.filter(|_| file.queues.queue_type() == QueueType::Classic);
    let message = "classic queues have no delivery limit: a message that kills its worker comes back for ever";
    let help = "use type = \"quorum\", or take the limit out";
    unused.map(|limit| at(limit, message, help)).into_iter().collect()
}

fn retry_missing(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if !file.retry.levels().is_empty() {
        return Vec::new();
    }
    // The finding points to an empty list if there is one, otherwise to the topology's name.
    let span = file.retry.after.as_ref().map_or_else(|| file.name.span(), Spanned::span);
    let message = "without a retry an order that the database does not know yet is parked at its first delivery";
    vec![Draft::in_file(span, message, "add [retry] after = [\"5s\", \"30s\", \"5m\"]")]
}

/// The worker retries an order that the database does not know yet, or refused. An open transaction, a lock or a failing
/// trigger rarely ends in less than a second.
const SHORTEST_SANE_MS: u64 = 1_000;

/// The retries whose text is a valid TTL.
fn retries(file: &TopologyFile) -> impl Iterator<Item = (Ttl, &LevelText)> {
    file.retry.levels().iter().filter_map(|text| Some((text.get_ref().parse().ok()?, text)))
}

fn retry_short(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    retries(file)
        .filter(|(ttl, _)| ttl.as_millis() < SHORTEST_SANE_MS)
        .map(|(_, text)| {
            let message = format!(
                "a retry after `{}` may be spent before what made the first attempt fail is over, such as a \
                 transaction that has not committed",
                text.get_ref()
            );
            at(text, message, "use levels of 1s and more")
        })
        .collect()
}

fn retry_shrinks(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let pairs = retries(file).zip(retries(file).skip(1));
    pairs
        .filter(|((before, _), (after, _))| after < before)
        .map(|((_, before), (_, after))| {
            let message = format!(
                "retry `{}` comes sooner than `{}` before it: the longer something is broken, the harder it is tried",
                after.get_ref(),
                before.get_ref()
            );
            at(after, message, "list the retries shortest first")
        })
        .collect()
}
