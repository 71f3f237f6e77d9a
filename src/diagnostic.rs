//! A diagnostic: a finding about a topology file, a broker, a database or a machine.
//!
//! `check`, `verify` and `doctor` all report diagnostics: severity, subject, message, reason and fix.

use std::{fmt, ops::Range};

use serde::Serialize;
use serde_json::Value;

use crate::{
    objects::{Argument, Binding, arguments_json},
    text::{counted, one_line, option, quote},
};

/// Severity of a diagnostic; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No fault.
    Ok,
    /// Information; nothing must be done.
    Note,
    /// Works, but not as expected or only for a time; or could not be examined.
    Warning,
    /// Does not work, or messages can be lost, come early, or be stuck.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Subject of a diagnostic. In JSON: `{"kind": "queue", "name": "orders.unpaid"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Subject {
    /// A byte range of the topology file.
    File(Range<usize>),
    /// Name of an exchange.
    Exchange(String),
    /// Name of a queue.
    Queue(String),
    /// Name of a policy.
    Policy(String),
    /// Name of an operator policy.
    OperatorPolicy(String),
    /// A delay level of the topology.
    Level(String),
    /// A timeout of the topology.
    Timeout(String),
    /// A part of the environment: `Broker`, `Topology`, `Database`, `Machine`.
    Area(&'static str),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(_) => f.write_str("topology file"),
            Self::Exchange(name) => write!(f, "exchange {name}"),
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::OperatorPolicy(name) => write!(f, "operator policy {name}"),
            Self::Level(name) => write!(f, "level {name}"),
            Self::Timeout(name) => write!(f, "timeout {name}"),
            Self::Area(area) => f.write_str(area),
        }
    }
}

/// A finding with its severity, its subject and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Name of the rule, e.g. `missing-binding`; it does not change between versions.
    pub rule: &'static str,
    /// How bad the finding is.
    pub severity: Severity,
    /// Object of the finding.
    pub subject: Subject,
    /// The finding as a sentence without its full stop.
    pub message: String,
    /// Why the finding matters; `None` if the message is enough.
    pub reason: Option<String>,
    /// The fix; `None` if nothing must be done.
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// A diagnostic without reason and fix.
    pub(crate) fn new(
        rule: &'static str,
        severity: Severity,
        subject: Subject,
        message: impl Into<String>,
    ) -> Self {
        Self { rule, severity, subject, message: message.into(), reason: None, fix: None }
    }

    pub(crate) fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    pub(crate) fn fix(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// The diagnostic with its fix as text, for people and programs.
    pub fn rendered(&self, target: &Target<'_>) -> Rendered {
        Rendered {
            rule: self.rule,
            severity: self.severity,
            subject: self.subject.clone(),
            message: self.message.clone(),
            reason: self.reason.clone(),
            fix: self.fix.as_ref().map(|fix| fix.text(target)),
        }
    }
}

/// A finding of a rule without the rule's name. A table of rules adds the name, and the default severity and subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Severity; `None`: the default of the table.
    pub severity: Option<Severity>,
    /// Subject; `None`: the default of the table.
    pub subject: Option<Subject>,
    /// See [`Diagnostic::message`].
    pub message: String,
    /// See [`Diagnostic::reason`].
    pub reason: Option<String>,
    /// See [`Diagnostic::fix`].
    pub fix: Option<Fix>,
}

impl Draft {
    fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { severity: None, subject: None, message, reason: None, fix: None }
    }

    fn judged(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity: Some(severity), ..Self::new(message) }
    }

    /// A check that found no fault.
    pub fn ok(message: impl Into<String>) -> Self {
        Self::judged(Severity::Ok, message)
    }

    /// Something works and could be better.
    pub fn note(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::judged(Severity::Note, message).fix(Fix::Text(fix.into()))
    }

    /// Something should be examined.
    pub fn warning(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::judged(Severity::Warning, message).fix(Fix::Text(fix.into()))
    }

    /// Something does not work.
    pub fn error(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::judged(Severity::Error, message).fix(Fix::Text(fix.into()))
    }

    /// A mistake at a place in the topology file.
    pub fn in_file(
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::about(Subject::File(span), message).fix(Fix::Text(help.into()))
    }

    /// A finding about an object.
    pub fn about(subject: Subject, message: impl Into<String>) -> Self {
        Self { subject: Some(subject), ..Self::new(message) }
    }

    /// Adds the reason why the finding matters.
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// Adds the fix.
    pub fn fix(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// The diagnostic of `rule`; `severity` and `subject` apply if the draft has none.
    pub fn complete(self, rule: &'static str, severity: Severity, subject: Subject) -> Diagnostic {
        Diagnostic {
            rule,
            severity: self.severity.unwrap_or(severity),
            subject: self.subject.unwrap_or(subject),
            message: self.message,
            reason: self.reason,
            fix: self.fix,
        }
    }
}

/// A diagnostic as it is printed, and as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// See [`Diagnostic::rule`].
    pub rule: &'static str,
    /// See [`Diagnostic::severity`].
    pub severity: Severity,
    /// See [`Diagnostic::subject`].
    pub subject: Subject,
    /// See [`Diagnostic::message`].
    pub message: String,
    /// See [`Diagnostic::reason`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A command or an instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Counts per severity, worst first: `1 error, 2 warnings, 1 note`; empty for no severities.
pub fn counts_by_severity(severities: impl IntoIterator<Item = Severity>) -> String {
    let severities: Vec<Severity> = severities.into_iter().collect();
    let count = |of: Severity| severities.iter().filter(|severity| **severity == of).count();
    let parts = [Severity::Error, Severity::Warning, Severity::Note, Severity::Ok];
    let parts = parts.into_iter().map(|of| (of, count(of))).filter(|(_, count)| *count > 0);
    let parts = parts.map(|(of, count)| match of {
        Severity::Ok => format!("{count} ok"),
        of => counted(count, &of.to_string()),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// A fix without virtual host and topology name, which only a command knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Run `overdue apply`.
    Apply,
    /// Delete this binding.
    Unbind(Binding),
    /// Delete this exchange; then `overdue apply` creates it with the desired arguments.
    Replace(String),
    /// Delete this exchange of the delayed message plugin after it has become empty.
    LeavePlugin(String),
    /// Narrow or clear these policies.
    Policies {
        /// The policy's name.
        policy: Option<String>,
        /// The operator policy's name.
        operator: Option<String>,
    },
    /// Purge this queue while it has a leader.
    Purge {
        /// Name of the queue.
        queue: String,
        /// Effect of the purge, as text.
        then: &'static str,
    },
    /// Another fix, as a sentence.
    Text(String),
}

/// Names for the commands of a fix.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the topology.
    pub topology: &'a str,
    /// Virtual host of the topology.
    pub virtual_host: &'a str,
}

impl Fix {
    /// The fix in one line: a command or an instruction.
    pub fn text(&self, target: &Target<'_>) -> String {
        match self {
            Self::Apply => "overdue apply".to_owned(),
            Self::Unbind(binding) => unbind(binding, target),
            Self::Replace(exchange) => format!(
                "RabbitMQ cannot change an exchange, and bindings of others go with it, which apply does not restore. Stop the \
                 publishers, then run: {} && overdue apply",
                delete_exchange(target.virtual_host, exchange)
            ),
            Self::LeavePlugin(exchange) => format!(
                "delete it only once it holds nothing: that would be lost, and bindings of others go with it. The steps, and \
                 what it holds: {}",
                exit_plugin(exchange)
            ),
            Self::Policies { policy, operator } => {
                policies(policy.as_deref(), operator.as_deref(), target)
            }
            Self::Purge { queue, then } => format!(
                "while the queue has a leader: rabbitmqctl purge_queue -p {} {}; {then}",
                quote(target.virtual_host),
                quote(queue)
            ),
            Self::Text(text) => text.clone(),
        }
    }
}

fn policies(policy: Option<&str>, operator: Option<&str>, target: &Target<'_>) -> String {
    let clear = |name: Option<&str>, command: &str| {
        let (vhost, name) = (quote(target.virtual_host), quote(name?));
        Some(format!("rabbitmqctl {command} -p {vhost} {name}"))
    };
    let commands = [clear(policy, "clear_policy"), clear(operator, "clear_operator_policy")];
    let commands: Vec<String> = commands.into_iter().flatten().collect();
    format!(
        "change its pattern so that no queue of {} matches, or clear it: {}",
        target.topology,
        commands.join("; ")
    )
}

fn unbind(binding: &Binding, target: &Target<'_>) -> String {
    let Binding { source, destination, to_queue, routing_key, arguments } = binding;
    let [source, destination, routing_key] = [source, destination, routing_key].map(String::as_str);
    let by_hand =
        |why: &str| format!("delete the binding of {destination} in the management UI ({why})");
    // On the broker, the value may have been a number or a list.
    let unsure =
        |it: &Argument| it.text().is_some_and(|it| serde_json::from_str::<Value>(it).is_ok());
    if arguments.values().any(unsure) {
        return by_hand("it has arguments of another type");
    }
    let json = Value::from(arguments_json(arguments)).to_string();
    let arguments = if arguments.is_empty() { "" } else { json.as_str() };
    // Escaped control characters are not part of the names, so a copied command would be wrong.
    if [source, destination, routing_key, arguments].into_iter().any(|name| one_line(name) != name)
    {
        return by_hand("its names have control characters");
    }
    let kind = if *to_queue { "queue" } else { "exchange" };
    let with = if arguments.is_empty() { String::new() } else { option(" --arguments", arguments) };
    format!(
        "rabbitmqadmin {} bindings delete {} --destination-type {kind} {} {}{with}",
        option("--vhost", target.virtual_host),
        option("--source", source),
        option("--destination", destination),
        option("--routing-key", routing_key)
    )
}

/// The command that deletes an exchange.
pub(crate) fn delete_exchange(virtual_host: &str, exchange: &str) -> String {
    let (vhost, name) = (option("--vhost", virtual_host), option("--name", exchange));
    format!("rabbitmqadmin {vhost} exchanges delete {name}")
}

/// The command that prints the steps to leave the delayed message plugin, and the number of its messages.
pub(crate) fn exit_plugin(exchange: &str) -> String {
    format!("overdue exit-plugin {}", quote(&one_line(exchange)))
}

/// The command that prints how many messages the delayed message plugin has on the node where it runs.
pub(crate) fn list_held(virtual_host: &str) -> String {
    format!("rabbitmqctl list_exchanges -p {} name messages_delayed", quote(virtual_host))
}
