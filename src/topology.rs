//! The delay topology: what operations wrote, validated, and the objects it becomes.

pub mod check;
pub mod file;
pub mod level;
pub mod objects;
pub mod report;
pub mod route;
pub mod schema;

use std::collections::BTreeMap;

use check::Surroundings;
use file::{QueueType, TopologyFile};
use level::Level;

use crate::diagnostic::{Diagnostic, Draft, Severity, Subject};

/// RabbitMQ's own default since 4.0, written out so that an older or newer broker does the same.
const DEFAULT_DELIVERY_LIMIT: i64 = 20;

/// A topology that every check has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Prefix of every object.
    pub name: String,
    /// Levels, shortest first, never empty.
    pub levels: Vec<Level>,
    /// Type of every queue.
    pub queue_type: QueueType,
    /// Deliveries of one message before it is parked, on quorum queues.
    pub delivery_limit: i64,
    /// The business rules, never empty.
    pub timeouts: Vec<Timeout>,
    /// Levels of the retries, in order.
    pub retry: Vec<Level>,
}

/// A business rule: what happens to an order that did not get on in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// One word of the routing key, e.g. `unpaid`.
    pub name: String,
    /// The level a publisher uses when it says nothing else.
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
    /// Every error of every rule, in the order of the file; a file that is no TOML, or has unknown keys,
    /// gives the one the parser stops at. Warnings are no errors: [`check::lint`] has them.
    pub fn parse(text: &str) -> Result<Self, Vec<Diagnostic>> {
        let file = read(text).map_err(|finding| vec![finding])?;
        let mut findings = check::check(&file, &Surroundings::default());
        findings.retain(|finding| finding.severity == Severity::Error);
        if findings.is_empty() { Self::from_file(&file) } else { Err(findings) }
    }

    fn from_file(file: &TopologyFile) -> Result<Self, Vec<Diagnostic>> {
        let level = |text: &toml::Spanned<String>| text.get_ref().parse::<Level>();
        let build = || {
            let timeouts = file.timeout.iter().map(|timeout| {
                let timeout = timeout.get_ref();
                let by_category = timeout.after_by_category.iter();
                Ok(Timeout {
                    name: timeout.name.get_ref().clone(),
                    after: level(&timeout.after)?,
                    after_by_category: by_category
                        .map(|(category, text)| Ok((category.clone(), level(text)?)))
                        .collect::<Result<_, level::LevelError>>()?,
                    effect: timeout.effect().to_owned(),
                })
            });
            Ok::<_, level::LevelError>(Self {
                name: file.name.get_ref().clone(),
                levels: file.delay.levels.get_ref().iter().map(level).collect::<Result<_, _>>()?,
                queue_type: file.queues.queue_type(),
                delivery_limit: file
                    .queues
                    .delivery_limit
                    .as_ref()
                    .map_or(DEFAULT_DELIVERY_LIMIT, |l| *l.get_ref()),
                timeouts: timeouts.collect::<Result<_, _>>()?,
                retry: file.retry.levels().iter().map(level).collect::<Result<_, _>>()?,
            })
        };
        build().map_err(|error| {
            let draft = Draft::in_file(0..0, error.to_string(), "write it like `30m`");
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

/// The file as written, or the one finding the parser stops at.
fn read(text: &str) -> Result<TopologyFile, Diagnostic> {
    toml::from_str(text).map_err(|error| syntax(&error, text))
}

/// A TOML error as a finding; the parser knows where, the help says what the file may hold.
fn syntax(error: &toml::de::Error, text: &str) -> Diagnostic {
    let message = error.message().to_owned();
    let help = if message.starts_with("unknown field") {
        "keys are spelled as in docs/topology.md; `overdue` refuses what it does not know"
    } else if message.starts_with("unknown variant") {
        "see docs/topology.md for the values this key takes"
    } else {
        "see docs/topology.md for the whole format"
    };
    let span = error.span().unwrap_or(0..text.len().min(1));
    let draft = Draft::in_file(span.clone(), message, help);
    draft.complete("syntax", Severity::Error, Subject::File(span))
}
