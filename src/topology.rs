//! The delay topology: what operations wrote, validated, and the objects it becomes.

pub(crate) mod after;
pub(crate) mod check;
mod compat;
mod delays;
pub(crate) mod file;
mod keys;
mod ladder_section;
pub(crate) mod lead;
pub(crate) mod level;
pub(crate) mod level_routes;
pub(crate) mod objects;
pub(crate) mod published;
mod reading;
pub(crate) mod report;
pub(crate) mod route;
pub(crate) mod schema;
pub(crate) mod stages;
pub(crate) mod strategy;
pub(crate) mod trial;
pub(crate) mod x_delay;

use std::collections::BTreeMap;

use check::Surroundings;
use file::{DEFAULT_DELIVERY_LIMIT, QueueType, StrategyName, TopologyFile};
use lead::Lead;
use level::Level;
use strategy::Strategy;
use x_delay::XDelay;

use crate::diagnostic::{Diagnostic, Draft, Severity, Subject};

/// A topology that every check has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Prefix of every object.
    pub name: String,
    /// How the broker delays.
    pub strategy: Strategy,
    /// Delays with a queue each, shortest first; never empty with [`Strategy::Levels`].
    pub levels: Vec<Level>,
    /// How early the levels let go.
    pub lead: Lead,
    /// Type of every queue.
    pub queue_type: QueueType,
    /// Deliveries of one message before it is parked, on quorum queues.
    pub delivery_limit: i64,
    /// The business rules, never empty.
    pub timeouts: Vec<Timeout>,
    /// Levels of the retries, in order.
    pub retry: Vec<Level>,
    /// An exchange of the delayed message plugin that is taken over.
    pub compat: Option<XDelay>,
}

/// A business rule: what happens to an order whose time is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// One word of the routing key, e.g. `unpaid`.
    pub name: String,
    /// The level a publisher uses when it names no other.
    pub after: Level,
    /// Levels by order category.
    pub after_by_category: BTreeMap<String, Level>,
    /// Which SQL runs, e.g. `close`.
    pub effect: String,
}

impl Topology {
    /// Reads and checks the text of a `topology.toml`.
    ///
    /// # Errors
    /// Every error, in the order of the file: keys and values that cannot be used, and what the rules say about the
    /// rest. Of a text that is not TOML only the mistakes in its syntax. Warnings are not errors: [`lint`] has
    /// them.
    pub fn parse(text: &str) -> Result<Self, Vec<Diagnostic>> {
        let (file, mut findings) = checked(text, &Surroundings::default());
        findings.retain(|finding| finding.severity == Severity::Error);
        match file {
            Some(file) if findings.is_empty() => Self::from_file(&file),
            _ => Err(findings),
        }
    }

    fn from_file(file: &TopologyFile) -> Result<Self, Vec<Diagnostic>> {
        let level = |text: &toml::Spanned<String>| {
            text.get_ref().parse::<Level>().map_err(|error| error.to_string())
        };
        let build = || {
            let timeouts = file.timeout.iter().map(|timeout| {
                let timeout = timeout.get_ref();
                let by_category = timeout.after_by_category.iter();
                Ok::<_, String>(Timeout {
                    name: timeout.name.get_ref().clone(),
                    after: level(&timeout.after)?,
                    after_by_category: by_category
                        .map(|(category, text)| Ok((category.clone(), level(text)?)))
                        .collect::<Result<_, String>>()?,
                    effect: timeout.effect().to_owned(),
                })
            });
            Ok::<_, String>(Self {
                name: file.name.get_ref().clone(),
                strategy: ladder_section::strategy(file).map_err(|error| error.message)?,
                levels: match file.delay().strategy {
                    // It needs no queue that delays.
                    StrategyName::DelayedExchange => Vec::new(),
                    StrategyName::Levels | StrategyName::Ladder => {
                        file.delay().levels().iter().map(level).collect::<Result<_, _>>()?
                    }
                },
                lead: file.delay().lead().map_err(|error| error.to_string())?,
                queue_type: file.queues.queue_type(),
                delivery_limit: file
                    .queues
                    .delivery_limit
                    .as_ref()
                    .map_or(DEFAULT_DELIVERY_LIMIT, |l| *l.get_ref()),
                timeouts: timeouts.collect::<Result<_, _>>()?,
                retry: file.retry.levels().iter().map(level).collect::<Result<_, _>>()?,
                compat: file.x_delay().map(|section| XDelay {
                    exchange: section.exchange.get_ref().clone(),
                    routing: section.routing,
                }),
            })
        };
        build().map_err(|error: String| {
            let draft = Draft::in_file(0..0, error, "write it like `30m`");
            vec![draft.complete("level-text", Severity::Error, Subject::File(0..0))]
        })
    }

    /// The timeout called `name`.
    #[must_use]
    pub fn timeout(&self, name: &str) -> Option<&Timeout> {
        self.timeouts.iter().find(|timeout| timeout.name == name)
    }

    /// The level called `name`, as written in the file.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name() == name)
    }
}

/// The file as far as it can be read, and every finding about it, in the order of the file.
fn checked(text: &str, surroundings: &Surroundings) -> (Option<TopologyFile>, Vec<Diagnostic>) {
    let reading = reading::read(text);
    let ruled = reading.file.iter().flat_map(|file| check::check(file, surroundings));
    let ruled = ruled.filter(|finding| match &finding.subject {
        Subject::File(span) => !reading.explains(finding.rule, span),
        _ => true,
    });
    let unusable = reading.mistakes.iter().map(|mistake| {
        let span = mistake.span.clone();
        let draft = Draft::in_file(span.clone(), mistake.message.clone(), mistake.help.as_str());
        draft.complete("syntax", Severity::Error, Subject::File(span))
    });
    let mut findings: Vec<Diagnostic> = unusable.chain(ruled).collect();
    findings.sort_by_key(check::start);
    (reading.file, findings)
}

/// Everything there is to say about the text of a `topology.toml`, in the order of the file.
#[must_use]
pub fn lint(text: &str, surroundings: &Surroundings) -> Vec<Diagnostic> {
    let (file, mut findings) = checked(text, surroundings);
    let Some(file) = file else { return findings };
    if findings.iter().all(|finding| finding.severity < Severity::Error) {
        findings.extend(Topology::from_file(&file).err().into_iter().flatten());
    }
    findings.sort_by_key(check::start);
    findings
}
