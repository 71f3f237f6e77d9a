//! What a message says.

use std::{fmt, time::Duration};

use super::kind::Kind;

/// The longest text of one item, in characters: what brokers and databases say has no bound of its own.
const LONGEST: usize = 400;

/// One message, whatever its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What is wrong, and what was; empty in a test.
    pub items: Vec<Item>,
}

/// One thing that is wrong, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is about.
    pub kind: Kind,
    /// It has not been so for a while.
    pub over: bool,
    /// What was seen, in one line.
    pub text: String,
    /// How often it was seen since it began; 0 for what cannot be counted.
    pub count: u64,
    /// How long ago it began.
    pub began_ago: Duration,
}

/// Who says it, and where help is.
#[derive(Clone, Debug)]
pub struct Sender<'a> {
    /// The name of the alert in the settings.
    pub alert: &'a str,
    /// The name of the topology.
    pub topology: &'a str,
    /// The machine the worker runs on.
    pub host: &'a str,
    /// Where the runbooks are, up to the `#`.
    pub runbooks: &'a str,
}

/// Whether something is wrong now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Something is wrong.
    Wrong,
    /// Nothing is wrong any more.
    Over,
    /// Somebody wants to know whether messages arrive.
    Test,
}

impl Condition {
    /// As the generic JSON has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Over => "over",
            Self::Test => "test",
        }
    }
}

impl Notice {
    /// A message that says that it is a test.
    #[must_use]
    pub const fn test() -> Self {
        Self { items: Vec::new() }
    }

    /// Whether something is wrong now.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match self.items.as_slice() {
            [] => Condition::Test,
            items if items.iter().all(|item| item.over) => Condition::Over,
            _ => Condition::Wrong,
        }
    }

    /// One line: the subject of a mail, the first line of a chat message.
    #[must_use]
    pub fn headline(&self, sender: &Sender<'_>) -> String {
        let names = |over: bool| {
            let items = self.items.iter().filter(|item| item.over == over);
            items.map(|item| item.kind.name()).collect::<Vec<_>>().join(", ")
        };
        let what = match self.condition() {
            Condition::Test => format!("test of the alert {}", sender.alert),
            Condition::Over => format!("over: {}", names(true)),
            Condition::Wrong => names(false),
        };
        format!("[overdue {}] {what} ({})", sender.topology, sender.host)
    }

    /// The lines below it.
    #[must_use]
    pub fn lines(&self, sender: &Sender<'_>) -> Vec<String> {
        if self.items.is_empty() {
            return vec!["Nothing is wrong: somebody ran `overdue alert test`.".to_owned()];
        }
        self.items.iter().map(|item| item.line(sender.runbooks)).collect()
    }
}

impl Item {
    /// What was seen, no longer than a message bears.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text: String = self.text.chars().take(LONGEST).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        text
    }

    /// Where its runbook is.
    #[must_use]
    pub fn runbook(&self, runbooks: &str) -> String {
        format!("{runbooks}#{}", self.kind.runbook())
    }

    fn line(&self, runbooks: &str) -> String {
        let (name, text, ago) = (self.kind.name(), self.short(), Ago(self.began_ago));
        if self.over {
            format!("over: {name}: {text}; it began {ago} ago")
        } else {
            format!("{name}: {text}; since {ago}; {}", self.runbook(runbooks))
        }
    }
}

/// A duration in its two largest units: `2 h 5 min`.
struct Ago(Duration);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes) {
            (0, 0) => write!(f, "{rest} s"),
            (0, _) => write!(f, "{minutes} min {rest} s"),
            _ => write!(f, "{hours} h {minutes} min"),
        }
    }
}
