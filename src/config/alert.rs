//! `[[alert]]`: what is reported, to whom, and when.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    document::keys::{Choice, Key, Kind, Presence, Section},
    millis::Millis,
    secret_text::SecretText,
    texts::{ANY_TEXT, DURATION, INTERVAL, URL, key},
};
use crate::condition::Condition;

/// One `[[alert]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AlertSettings {
    /// What messages and metrics call it.
    pub name: String,
    /// URL of the webhook, or of the mail server; it is a secret as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretText>,
    /// A file with that URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// What is sent, with placeholders; it may hold a key of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<SecretText>,
    /// A file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_file: Option<PathBuf>,
    /// A webhook has taken a message if its answer contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_contains: Option<String>,
    /// The CAs that are trusted, PEM; otherwise those of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The sender of mails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Who gets mails; without it the URL is a webhook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The conditions that it is on.
    #[serde(default = "all_conditions")]
    pub on: BTreeSet<Condition>,
    /// A worker that is not ready for this long is worth a message.
    #[serde(default = "one_minute")]
    pub not_ready_for: Millis,
    /// A condition that was not seen for this long is over.
    #[serde(default = "five_minutes")]
    pub over_after: Millis,
    /// A condition that is still wrong after this long is reported again.
    #[serde(default = "four_hours")]
    pub again_after: Millis,
}

fn all_conditions() -> BTreeSet<Condition> {
    Condition::ALL.into()
}

const fn one_minute() -> Millis {
    Millis(60_000)
}

const fn five_minutes() -> Millis {
    Millis(300_000)
}

const fn four_hours() -> Millis {
    Millis(14_400_000)
}

impl AlertSettings {
    /// Whether it sends mails, and no requests to a webhook.
    pub(crate) fn is_mail(&self) -> bool {
        !self.to.is_empty()
    }

    /// Where messages go.
    ///
    /// # Errors
    /// The file cannot be read. No message quotes it.
    pub(crate) fn url(&self) -> Result<SecretText, String> {
        let url = text("url_file", self.url.as_ref(), self.url_file.as_deref())?;
        let url = url.ok_or("url is missing")?.expose().trim().to_owned();
        Ok(url.into())
    }

    /// What is sent, if it is not the usual text.
    ///
    /// # Errors
    /// The file cannot be read. No message quotes it.
    pub(crate) fn body(&self) -> Result<Option<SecretText>, String> {
        text("body_file", self.body.as_ref(), self.body_file.as_deref())
    }

    /// What the table of keys cannot see.
    fn mistakes(&self) -> Vec<&'static str> {
        let is_mail = self.is_mail();
        let rules = [
            (!self.name.is_empty(), "its name is empty: write name = \"on-call\""),
            (
                self.url.is_some() != self.url_file.is_some(),
                "it needs one of url and url_file: write url_file = \"webhook.url\"",
            ),
            (
                self.body.is_none() || self.body_file.is_none(),
                "body and body_file are both there: keep one of them",
            ),
            (
                is_mail == self.from.is_some(),
                "mail needs from and to, a webhook has neither: write from = \"overdue@example.com\" and \
                 to = [\"on-call@example.com\"]",
            ),
            (
                !is_mail || self.answer_contains.is_none(),
                "answer_contains is for a webhook: take it out",
            ),
            (
                !self.on.is_empty(),
                "on is empty, so it would never say anything: name a condition, or take the alert out",
            ),
        ];
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
    }
}

/// What is wrong with the alerts, each with its name.
pub(super) fn mistakes(alerts: &[AlertSettings]) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for alert in alerts {
        let name = &alert.name;
        if !names.insert(name) {
            found.push(format!("alert `{name}` is there twice: give each its own name"));
        }
        found.extend(alert.mistakes().into_iter().map(|what| format!("alert `{name}`: {what}")));
    }
    found
}

/// A text that stands in the settings or in a file.
fn text(
    key: &str,
    text: Option<&SecretText>,
    file: Option<&Path>,
) -> Result<Option<SecretText>, String> {
    let Some(path) = file else { return Ok(text.cloned()) };
    let read = fs::read_to_string(path);
    let read = read.map_err(|error| format!("cannot read {key} {}: {error}", path.display()))?;
    Ok(Some(read.into()))
}

/// The keys of an `[[alert]]`.
pub(super) static ALERT: Section = Section {
    about: "Messages about what is wrong, to a webhook or by mail.",
    keys: &[
        Key {
            name: "name",
            about: "What messages and metrics call it.",
            kind: Kind::Text(&ANY_TEXT),
            presence: Presence::Required,
            example: "\"on-call\"",
        },
        key(
            "url",
            "URL of the webhook, or of the mail server.",
            Kind::Text(&URL),
            "\"https://example.com/hook\"",
        ),
        key("url_file", "A file with that URL.", Kind::Text(&ANY_TEXT), "\"webhook.url\""),
        key("body", "What is sent.", Kind::Text(&URL), "'{\"text\": \"{text}\"}'"),
        key("body_file", "A file with it.", Kind::Text(&ANY_TEXT), "\"webhook.json\""),
        key(
            "answer_contains",
            "A webhook has taken a message if its answer contains this.",
            Kind::Text(&ANY_TEXT),
            "'\"errcode\":0'",
        ),
        key(
            "ca_file",
            "The CAs that are trusted, PEM; otherwise those of the machine.",
            Kind::Text(&ANY_TEXT),
            "\"ca.pem\"",
        ),
        key("from", "The sender of mails.", Kind::Text(&ANY_TEXT), "\"overdue@example.com\""),
        key(
            "to",
            "Who gets mails; without it the URL is a webhook.",
            Kind::List { of: &Kind::Text(&ANY_TEXT), min_items: 1, unique: true },
            "[\"on-call@example.com\"]",
        ),
        key(
            "on",
            "The conditions that it is on.",
            Kind::List { of: &Kind::Choice(&CONDITIONS), min_items: 1, unique: true },
            "[\"not-ready\", \"late\"]",
        ),
        key(
            "not_ready_for",
            "A worker that is not ready for this long is worth a message.",
            Kind::Text(&DURATION),
            "\"1m\"",
        ),
        key(
            "over_after",
            "A condition that was not seen for this long is over.",
            Kind::Text(&DURATION),
            "\"5m\"",
        ),
        key(
            "again_after",
            "A condition that is still wrong after this long is reported again.",
            Kind::Text(&INTERVAL),
            "\"4h\"",
        ),
    ],
};

static CONDITIONS: Choice = Choice {
    about: "What an alert can be on.",
    words: &[
        ("not-ready", "A condition of /readyz does not hold."),
        ("late", "Orders are closed late, or are overdue and open."),
        ("parked", "Messages are in the parking lot."),
        ("outbox", "Events wait in the outbox for long, or are refused."),
        ("scheduled", "The same for notices of schedule()."),
        ("sweep", "The sweep closes orders that no message came for."),
        ("drift", "The broker differs from the topology file."),
    ],
    refused: &[],
};
