//! Named checks of a topology file: all run, all reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use toml::Spanned;

use super::{
    file::TopologyFile,
    level::{Level, Ttl},
};

/// One thing that is wrong in a topology file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, stable, for scripts and documentation.
    pub rule: &'static str,
    /// Bytes of the file the finding is about.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

type Check = fn(&TopologyFile) -> Vec<Finding>;

/// Every check, in the order in which its findings are reported.
const CHECKS: &[Check] = &[
    topology_name,
    levels_present,
    level_text,
    level_order,
    timeouts_present,
    timeout_names,
    object_names_unique,
    references_are_levels,
    delivery_limit,
];

/// Runs every check and returns the findings in the order of the file.
#[must_use]
pub fn check(file: &TopologyFile) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(file)).collect();
    findings.sort_by_key(|finding| finding.span.start);
    findings
}

fn finding(rule: &'static str, span: Range<usize>, message: String, help: &str) -> Finding {
    Finding { rule, span, message, help: help.to_owned() }
}

/// The longest name RabbitMQ accepts for a queue, an exchange or a routing key, in bytes (AMQP short string).
const MAX_NAME_BYTES: usize = 255;
/// What the name of an object has after the topology's name at the most: `.ladder.` and a level.
const NAME_RESERVE_BYTES: usize = 64;

fn topology_name(file: &TopologyFile) -> Vec<Finding> {
    const RULE: &str = "topology-name";
    let name = file.name.get_ref();
    let span = file.name.span();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) || name.starts_with('.') || name.ends_with('.') {
        let message = format!("`{name}` cannot prefix the names of queues and exchanges");
        return vec![finding(RULE, span, message, "use letters, digits, `-`, `_` and inner `.`")];
    }
    if name == "amq" || name.starts_with("amq.") {
        let message =
            format!("`{name}`: names that start with `amq.` belong to the broker, it refuses them");
        return vec![finding(RULE, span, message, "choose another name, e.g. `orders`")];
    }
    if name.len() > MAX_NAME_BYTES - NAME_RESERVE_BYTES {
        let message =
            format!("the name has {} bytes; RabbitMQ refuses object names over 255", name.len());
        return vec![finding(
            RULE,
            span,
            message,
            "keep it at 191 bytes or less: levels and timeouts are appended",
        )];
    }
    Vec::new()
}

fn levels_present(file: &TopologyFile) -> Vec<Finding> {
    if !file.delay.levels.get_ref().is_empty() {
        return Vec::new();
    }
    let message = "there is no level, so nothing can be delayed".to_owned();
    vec![finding(
        "levels-present",
        file.delay.levels.span(),
        message,
        "add one, e.g. levels = [\"30m\"]",
    )]
}

fn level_text(file: &TopologyFile) -> Vec<Finding> {
    let parsed =
        file.delay.levels.get_ref().iter().map(|text| (text, text.get_ref().parse::<Level>()));
    parsed
        .filter_map(|(text, level)| {
            let message = level.err()?.to_string();
            Some(finding(
                "level-text",
                text.span(),
                message,
                "a level is between 1ms and ten years, e.g. `30m`",
            ))
        })
        .collect()
}

/// Levels that can be read, with their place.
fn levels(file: &TopologyFile) -> Vec<(Level, Range<usize>)> {
    let texts = file.delay.levels.get_ref().iter();
    texts.filter_map(|text| Some((text.get_ref().parse().ok()?, text.span()))).collect()
}

fn level_order(file: &TopologyFile) -> Vec<Finding> {
    let levels = levels(file);
    let mut seen: BTreeMap<Ttl, String> = BTreeMap::new();
    let mut findings = Vec::new();
    let mut longest: Option<&Level> = None;
    for (level, span) in &levels {
        if let Some(first) = seen.get(&level.ttl()) {
            let message = format!("level `{level}` is there already as `{first}`");
            findings.push(finding("level-duplicate", span.clone(), message, "keep one of the two"));
            continue;
        }
        seen.insert(level.ttl(), level.name().to_owned());
        match longest {
            Some(before) if level.ttl() < before.ttl() => {
                let message = format!("level `{level}` is shorter than `{before}` before it");
                findings.push(finding(
                    "level-order",
                    span.clone(),
                    message,
                    "list the levels shortest first",
                ));
            }
            _ => longest = Some(level),
        }
    }
    findings
}

fn timeouts_present(file: &TopologyFile) -> Vec<Finding> {
    if !file.timeout.is_empty() {
        return Vec::new();
    }
    let message = "there is no timeout, so nothing would ever be consumed".to_owned();
    let help = "add one: a line [[timeout]], then name = \"unpaid\" and after = \"30m\"";
    vec![finding("timeouts-present", file.name.span(), message, help)]
}

fn timeout_names(file: &TopologyFile) -> Vec<Finding> {
    let names = file.timeout.iter().map(|timeout| &timeout.get_ref().name);
    names.filter_map(timeout_name).collect()
}

/// A timeout's name is one word of a topic routing key.
fn timeout_name(name: &Spanned<String>) -> Option<Finding> {
    let text = name.get_ref();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || !text.chars().all(fits) {
        let message = format!("`{text}` cannot be one word of a routing key");
        return Some(finding(
            "timeout-name",
            name.span(),
            message,
            "use letters, digits, `-` and `_`, no dot",
        ));
    }
    if text.len() > NAME_RESERVE_BYTES - 1 {
        let message = format!(
            "the name has {} bytes; with the topology's name before it, a queue's name has 255 at the most",
            text.len()
        );
        return Some(finding("timeout-name", name.span(), message, "keep it at 63 bytes or less"));
    }
    None
}

fn object_names_unique(file: &TopologyFile) -> Vec<Finding> {
    let mut taken = BTreeSet::from(["parked"]);
    let mut findings = Vec::new();
    for timeout in &file.timeout {
        let name = &timeout.get_ref().name;
        if !taken.insert(name.get_ref()) {
            let message =
                format!("two queues would be called `{}.{}`", file.name.get_ref(), name.get_ref());
            findings.push(finding(
                "object-name",
                name.span(),
                message,
                "give this timeout another name",
            ));
        }
    }
    findings
}

fn references_are_levels(file: &TopologyFile) -> Vec<Finding> {
    let declared: BTreeSet<&str> =
        file.delay.levels.get_ref().iter().map(|l| l.get_ref().as_str()).collect();
    let readable: Vec<String> =
        levels(file).iter().map(|(level, _)| format!("`{level}`")).collect();
    let help = match &readable[..] {
        [] => "add it to delay.levels".to_owned(),
        levels => format!("add it to delay.levels or use one of {}", levels.join(", ")),
    };
    let timeouts = file.timeout.iter().map(Spanned::get_ref);
    let by_timeout = timeouts.flat_map(|timeout| {
        let by_category = timeout.after_by_category.iter().map(|(category, level)| {
            (format!("after_by_category.{category} of timeout `{}`", timeout.name.get_ref()), level)
        });
        std::iter::once((format!("after of timeout `{}`", timeout.name.get_ref()), &timeout.after))
            .chain(by_category)
    });
    let by_retry = file.retry.after.iter().map(|level| ("retry.after".to_owned(), level));
    by_timeout
        .chain(by_retry)
        .filter(|(_, level)| !declared.contains(level.get_ref().as_str()))
        .map(|(place, level)| {
            let message = format!("{place} is `{}`, which is no level", level.get_ref());
            finding("level-reference", level.span(), message, &help)
        })
        .collect()
}

fn delivery_limit(file: &TopologyFile) -> Vec<Finding> {
    let Some(limit) = &file.queues.delivery_limit else { return Vec::new() };
    if (1..=1_000_000).contains(limit.get_ref()) {
        return Vec::new();
    }
    let message = format!("a delivery limit of {} is not between 1 and 1000000", limit.get_ref());
    vec![finding(
        "delivery-limit",
        limit.span(),
        message,
        "leave it out for 20, RabbitMQ's own default",
    )]
}
