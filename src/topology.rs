//! The delay topology: reads and checks `topology.toml`, and computes the broker objects.

mod broker_objects;
pub(crate) mod broker_version;
pub mod check;
mod delay_rules;
pub(crate) mod delays;
pub mod file;
pub mod level;
pub(crate) mod level_routes;
pub mod report;
pub(crate) mod route;
pub mod strategy;
pub mod taken_over_exchange;

use std::{collections::BTreeMap, time::Duration};

use check::Surroundings;
use file::{Gone, LevelText, QueueType, StrategyName, TopologyFile};
use level::{Lead, Level, LevelError};
use strategy::Strategy;
use taken_over_exchange::XDelay;

use crate::{
    diagnostic::{Diagnostic, Draft, Severity, Subject},
    document::Mistake,
};

/// A topology that has passed every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Prefix of every object.
    pub name: String,
    /// How the broker delays.
    pub strategy: Strategy,
    /// Delays with a queue each, shortest first; never empty with [`Strategy::Levels`].
    pub levels: Vec<Level>,
    /// How much earlier than their names the levels expire.
    pub lead: Lead,
    /// Type of every queue.
    pub queue_type: QueueType,
    /// Deliveries of one message before the broker dead-letters it to the parking lot; quorum queues only.
    pub delivery_limit: i64,
    /// The business rules; never empty.
    pub timeouts: Vec<Timeout>,
    /// Levels of the retries, in order.
    pub retry: Vec<Level>,
    /// The exchange of the delayed message plugin that this topology takes over.
    pub compat: Option<XDelay>,
    /// JSON pointers to the order id in a body; `/order_id` is tried as well.
    pub order_id: Vec<String>,
}

/// A business rule: which effect runs for an order that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// A word of the routing key, e.g. `unpaid`.
    pub name: String,
    /// The delay of a notice whose publisher names no level.
    pub after: Level,
    /// Levels by order category.
    pub after_by_category: BTreeMap<String, Level>,
    /// The SQL that runs, e.g. `close`.
    pub effect: String,
    /// Number of queues that share the messages; with `None` there is one queue and no exchange in front of it.
    pub shards: Option<u16>,
    /// The disposition of a notice without a row in the database.
    pub gone: Gone,
}

impl Timeout {
    /// The delays of the categories, then the delay of other orders (`after`).
    pub(crate) fn delays(&self) -> impl Iterator<Item = &Level> {
        self.after_by_category.values().chain(std::iter::once(&self.after))
    }

    /// The timeout's name and its delay `after`, for `schedule()`.
    pub(crate) fn name_and_delay(&self) -> (&str, Duration) {
        (&self.name, self.after.ttl().as_duration())
    }
}

impl Topology {
    /// Parses and checks the text of a `topology.toml`.
    ///
    /// # Errors
    /// Every unusable key and value; without these, every error of the rules, in the order of the file. For a text that is not
    /// TOML: the first mistake. Warnings are not errors; [`lint`] returns them.
    pub fn parse(text: &str) -> Result<Self, Vec<Diagnostic>> {
        let of_text = |mistakes: Vec<Mistake>| mistakes.into_iter().map(unusable).collect();
        let file = file::read(text).map_err(|mistakes| -> Vec<_> { of_text(mistakes) })?;
        let mut findings = check::check(&file, &Surroundings::default());
        findings.retain(|finding| finding.severity == Severity::Error);
        if !findings.is_empty() {
            return Err(findings);
        }
        Self::from_file(&file).map_err(|message| {
            // Unreachable: the rules refuse every file that cannot be converted.
            let help = "docs/topology.md has the whole format".to_owned();
            vec![unusable(Mistake { span: 0..0, message, help })]
        })
    }

    /// Converts a file that every rule has passed.
    fn from_file(file: &TopologyFile) -> Result<Self, String> {
        let level = |text: &LevelText| text.get_ref().parse::<Level>().map_err(|e| e.to_string());
        let levels = |texts: &[LevelText]| texts.iter().map(level).collect::<Result<Vec<_>, _>>();
        let delay = file.delay();
        let timeouts = file.timeout.iter().map(|timeout| {
            let timeout = timeout.get_ref();
            let by_category = timeout.after_by_category.iter();
            let by_category = by_category.map(|(name, text)| Ok((name.clone(), level(text)?)));
            Ok::<_, String>(Timeout {
                name: timeout.name.get_ref().clone(),
                after: level(&timeout.after)?,
                after_by_category: by_category.collect::<Result<_, String>>()?,
                effect: timeout.effect().to_owned(),
                shards: timeout.shards.as_ref().map(|shards| *shards.get_ref()),
                gone: timeout.gone(),
            })
        });
        Ok(Self {
            name: file.name.get_ref().clone(),
            strategy: strategy::strategy(file).map_err(|(_, message)| message)?,
            levels: match delay.strategy {
                // The plugin's exchange needs no delay queue.
                StrategyName::DelayedExchange => Vec::new(),
                StrategyName::Levels | StrategyName::Ladder => levels(delay.levels())?,
            },
            lead: match &delay.lead {
                Some(text) => text.get_ref().parse().map_err(|e: LevelError| e.to_string())?,
                None => Lead::Usual,
            },
            queue_type: file.queues.queue_type(),
            delivery_limit: file.queues.delivery_limit(),
            timeouts: timeouts.collect::<Result<_, _>>()?,
            retry: levels(file.retry.levels())?,
            compat: file.x_delay().map(|section| XDelay {
                exchange: section.exchange.get_ref().clone(),
                routing: section.routing,
            }),
            order_id: file
                .message
                .order_id
                .as_ref()
                .map_or_else(Vec::new, |it| it.get_ref().clone()),
        })
    }

    /// The timeout called `name`.
    pub fn timeout(&self, name: &str) -> Option<&Timeout> {
        self.timeouts.iter().find(|timeout| timeout.name == name)
    }

    /// The level called `name`, as written in the file.
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name() == name)
    }
}

/// All findings about the text of a `topology.toml`, in the order of the file.
pub fn lint(text: &str, surroundings: &Surroundings) -> Vec<Diagnostic> {
    match file::read(text) {
        Ok(file) => check::check(&file, surroundings),
        Err(mistakes) => mistakes.into_iter().map(unusable).collect(),
    }
}

fn unusable(Mistake { span, message, help }: Mistake) -> Diagnostic {
    let draft = Draft::in_file(span.clone(), message, help);
    draft.complete("syntax", Severity::Error, Subject::File(span))
}
