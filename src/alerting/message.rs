//! What an alert says, and the template that puts it into the form that the other side wants.

use std::time::Duration;

use serde::de::IgnoredAny;

use crate::{
    condition::Condition,
    text::{about, did_you_mean, one_line},
};

/// The longest reason in a message, in characters: what brokers and databases say has no bound of its own.
const LONGEST: usize = 400;

/// A condition begins, goes on or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is about; `None` for a test.
    pub condition: Option<Condition>,
    /// It has ended.
    pub is_over: bool,
    /// What was seen last.
    pub text: String,
    /// From its beginning until now.
    pub lasted: Duration,
}

/// Who says it.
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
    #[must_use]
    pub fn test() -> Self {
        let text = "nothing is wrong, `overdue doctor --send-alert` sent this".to_owned();
        Self { condition: None, is_over: false, text, lasted: Duration::ZERO }
    }

    /// What it is about, for the log: `parked`, or `parked is over`.
    #[must_use]
    pub fn about(&self) -> String {
        let over = if self.is_over { " is over" } else { "" };
        format!("{}{over}", self.condition.map_or("test", Condition::name))
    }

    /// The subject of a mail.
    #[must_use]
    pub fn title(&self, sender: &Sender<'_>) -> String {
        format!("[overdue {}] {} on {}", sender.topology, self.about(), sender.host)
    }

    /// All of it in one line.
    #[must_use]
    pub fn line(&self, sender: &Sender<'_>) -> String {
        let (title, lasted) = (self.title(sender), about(self.lasted));
        let text: String = one_line(&self.text).chars().take(LONGEST).collect();
        match self.condition {
            None => format!("{title}: {text}"),
            Some(_) if self.is_over => format!("{title}: {text}; it began {lasted} ago"),
            Some(it) => format!("{title}: {text}; since {lasted}; {}", it.runbook()),
        }
    }

    /// What stands for a placeholder. Chats give `<` a meaning (`<!channel>` notifies everybody), so no value has one.
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

/// Each placeholder with what stands for it, in the order of `docs/alerts.md`.
pub const PLACEHOLDERS: [(&str, &str); 9] = [
    ("text", "all of the message in one line"),
    ("title", "its beginning; the subject of a mail"),
    ("condition", "a word of `on`, or `test`"),
    ("state", "`firing` or `resolved`"),
    ("action", "`trigger` or `resolve`"),
    ("topology", "the name of the topology"),
    ("host", "the machine that the worker runs on"),
    ("alert", "the name of the alert"),
    ("runbook", "where its runbook is, `docs/runbooks.md#…`"),
];

/// The body of a message, with placeholders in braces.
#[derive(Debug)]
pub struct Template {
    /// Text, and the placeholder behind it.
    parts: Vec<(String, Option<&'static str>)>,
    /// Values are escaped.
    is_json: bool,
}

impl Template {
    /// Reads a template. If it begins like JSON, with `{` and no placeholder, it has to be JSON.
    ///
    /// # Errors
    /// The unknown placeholders, or what is not JSON, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut unknown, mut begin) = (Vec::new(), Vec::new(), 0);
        for (at, _) in text.match_indices('{') {
            let rest = &text[at + 1..];
            let name = rest.split(|c: char| c != '_' && !c.is_ascii_alphabetic()).next();
            let name = name.filter(|it| !it.is_empty() && rest[it.len()..].starts_with('}'));
            let Some(name) = name else { continue };
            match PLACEHOLDERS.iter().find(|(known, _)| *known == name) {
                Some((known, _)) => {
                    parts.push((text[begin..at].to_owned(), Some(*known)));
                    begin = at + name.len() + 2;
                }
                None => unknown.push(unknown_placeholder(&text[..at], name)),
            }
        }
        if !unknown.is_empty() {
            return Err(unknown.join("; "));
        }
        parts.push((text[begin..].to_owned(), None));
        let is_json = parts[0].0.trim_start().starts_with('{');
        if is_json && let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            let (line, column) = (error.line(), error.column());
            return Err(format!(
                "body begins like JSON and is not JSON at line {line}, column {column}"
            ));
        }
        Ok(Self { parts, is_json })
    }

    /// Whether it is JSON.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        self.is_json
    }

    /// The body of one message.
    #[must_use]
    pub fn render(&self, message: &Message, sender: &Sender<'_>) -> String {
        let mut body = String::new();
        for (text, placeholder) in &self.parts {
            body.push_str(text);
            let Some(placeholder) = placeholder else { continue };
            let value = message.value(placeholder, sender);
            if self.is_json {
                let quoted = serde_json::Value::from(value).to_string();
                body.push_str(&quoted[1..quoted.len() - 1]);
            } else {
                body.push_str(&value);
            }
        }
        body
    }
}

fn unknown_placeholder(before: &str, name: &str) -> String {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let known = PLACEHOLDERS.map(|(known, _)| known);
    let help = did_you_mean(name, known).map_or_else(
        || format!("there are {}", known.join(", ")),
        |meant| format!("did you mean {{{meant}}}?"),
    );
    format!("body has the unknown placeholder {{{name}}} at line {line}, column {column}; {help}")
}
