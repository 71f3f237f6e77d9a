//! The message of an alert, and its sender.

use std::time::Duration;

use crate::{
    condition::Condition,
    config::template::Template,
    text::{about, one_line},
};

/// Longest reason in a message, in characters: texts of brokers and databases have no limit.
const LONGEST: usize = 400;

/// A condition that begins, continues or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Condition of the alert; `None` for a test.
    pub condition: Option<Condition>,
    /// Whether the condition has ended.
    pub is_over: bool,
    /// Text of the last observation.
    pub text: String,
    /// Time since the condition began.
    pub lasted: Duration,
}

/// Alert, topology and machine of a message.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The name of the alert in the settings.
    pub alert: &'a str,
    /// The name of the topology.
    pub topology: &'a str,
    /// The machine that the worker runs on.
    pub host: &'a str,
}

impl Message {
    /// The message of `overdue doctor --send-alert`.
    pub fn test() -> Self {
        let text = "nothing is wrong, `overdue doctor --send-alert` sent this".to_owned();
        Self { condition: None, is_over: false, text, lasted: Duration::ZERO }
    }

    /// Name and state for the log: `parked`, or `parked is over`.
    pub fn about(&self) -> String {
        let over = if self.is_over { " is over" } else { "" };
        format!("{}{over}", self.condition.map_or("test", Condition::name))
    }

    /// The beginning of [`Self::line`].
    fn title(&self, sender: &Sender<'_>) -> String {
        format!("[overdue {}] {} on {}", sender.topology, self.about(), sender.host)
    }

    /// The whole message in one line.
    pub fn line(&self, sender: &Sender<'_>) -> String {
        let (title, lasted) = (self.title(sender), about(self.lasted));
        let text: String = one_line(&self.text).chars().take(LONGEST).collect();
        match self.condition {
            None => format!("{title}: {text}"),
            Some(_) if self.is_over => format!("{title}; it was: {text}; it began {lasted} ago"),
            Some(it) => format!("{title}: {text}; since {lasted}; {}", it.runbook()),
        }
    }

    /// The request body, from the template of the alert.
    pub fn body(&self, template: &Template, sender: &Sender<'_>) -> String {
        template.filled(|placeholder| self.value(placeholder, sender))
    }

    /// The value of a placeholder. Chats interpret `<` (`<!channel>` notifies all members), so `<` and `>` are replaced.
    fn value(&self, placeholder: &str, sender: &Sender<'_>) -> String {
        let value = match placeholder {
            "title" => self.title(sender),
            "condition" => self.condition.map_or("test", Condition::name).to_owned(),
            "state" => if self.is_over { "resolved" } else { "firing" }.to_owned(),
            "action" => if self.is_over { "resolve" } else { "trigger" }.to_owned(),
            "topology" => sender.topology.to_owned(),
            "host" => sender.host.to_owned(),
            "alert" => sender.alert.to_owned(),
            "runbook" => self.condition.map_or(String::new(), Condition::runbook),
            _ => self.line(sender),
        };
        value.replace('<', "‹").replace('>', "›")
    }
}
