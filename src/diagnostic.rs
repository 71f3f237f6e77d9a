//! A diagnostic: something a person should know about a topology file, a broker, a database or a machine.
//!
//! `check`, `verify` and `doctor` all report in this form: how bad it is, what it is about, what was found, why it
//! matters, and how to fix it.

use std::{fmt, ops::Range};

use serde::Serialize;

use crate::objects::Binding;

/// How bad a diagnostic is; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Good to know; nothing has to be done.
    Note,
    /// It works, but not as one would expect, or not for long; or it could not be examined.
    Warning,
    /// It does not work, or messages can be lost, come early, or stand still.
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

/// What a diagnostic is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Bytes of the topology file.
    File(Range<usize>),
    /// An exchange, by its name.
    Exchange(String),
    /// A queue, by its name.
    Queue(String),
    /// A policy or an operator policy, by its name.
    Policy(String),
    /// The whole topology on this broker.
    Topology,
    /// A part of the environment: `Broker`, `Database`, `Machine`.
    Area(&'static str),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(_) => f.write_str("topology file"),
            Self::Exchange(name) => write!(f, "exchange {name}"),
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Topology => f.write_str("topology"),
            Self::Area(area) => f.write_str(area),
        }
    }
}

/// What to do, without the virtual host and the topology's name, which only a command knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// `overdue apply`
    Apply,
    /// `overdue unblock`, once what blocked this queue is fixed.
    Unblock(String),
    /// Delete this binding.
    Unbind(Binding),
    /// Narrow or clear what applies: a policy, an operator policy, or both.
    Policies {
        /// The policy's name.
        policy: Option<String>,
        /// The operator policy's name.
        operator: Option<String>,
    },
    /// Something else, as a sentence.
    Text(String),
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The rule that found it, e.g. `missing-binding`; stays the same from version to version.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// What was found, as a sentence without its full stop.
    pub message: String,
    /// Why it matters; `None` where the message says it.
    pub reason: Option<String>,
    /// What to do; `None` where nothing has to be done.
    pub fix: Option<Fix>,
}
