//! `[[alert]]`: what is said, to whom, and when.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use url::Url;

use super::{millis::Millis, secret_text::SecretText};
use crate::alerting::{format::Format, kind::Kind, watcher::Rule};

/// One `[[alert]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AlertSettings {
    /// What messages and metrics call it.
    pub name: String,
    /// What the other side takes.
    pub format: Format,
    /// URL of the webhook, or of the mail server; it is a secret as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretText>,
    /// A file with that URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// What messages are signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// A file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// The CAs that are trusted, PEM; otherwise those of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The sender of mails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Who gets mails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// What it is about.
    #[serde(default = "everything")]
    pub on: BTreeSet<Kind>,
    /// Orders that are closed later than that are late.
    #[serde(default = "ten_seconds")]
    pub late_after: Millis,
    /// A worker that is not ready for so long is worth a message.
    #[serde(default = "one_minute")]
    pub not_ready_for: Millis,
    /// What was not seen for so long is over.
    #[serde(default = "five_minutes")]
    pub over_after: Millis,
    /// The shortest time between two messages.
    #[serde(default = "one_minute")]
    pub at_most_every: Millis,
    /// What is still wrong after so long is said again.
    #[serde(default = "four_hours")]
    pub again_after: Millis,
    /// Where the runbooks are.
    #[serde(default = "runbooks")]
    pub runbooks: String,
}

fn everything() -> BTreeSet<Kind> {
    Kind::ALL.into()
}

const fn ten_seconds() -> Millis {
    Millis(10_000)
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

fn runbooks() -> String {
    "docs/runbooks.md".to_owned()
}

impl AlertSettings {
    /// When it speaks.
    #[must_use]
    pub fn rule(&self) -> Rule {
        Rule {
            kinds: self.on.clone(),
            late_after: self.late_after.as_duration(),
            not_ready_for: self.not_ready_for.as_duration(),
            over_after: self.over_after.as_duration(),
            at_most_every: self.at_most_every.as_duration(),
            again_after: self.again_after.as_duration(),
        }
    }

    /// Where messages go. A file is read each time, so a new URL needs no restart.
    ///
    /// # Errors
    /// The file cannot be read, or what it says is not a URL for this format. No message quotes it.
    pub fn url(&self) -> Result<Url, String> {
        let text = match &self.url_file {
            Some(path) => line_of("url_file", path)?,
            None => self.url.clone().ok_or("url is missing")?,
        };
        self.parsed(&text)
    }

    fn parsed(&self, text: &SecretText) -> Result<Url, String> {
        let [usual, other] = self.format.schemes();
        let url = Url::parse(text.expose()).ok();
        let is_right = |url: &Url| [usual, other].contains(&url.scheme()) && url.has_host();
        url.filter(is_right).ok_or_else(|| {
            format!("its URL cannot be used: for format = \"{}\" it begins with {usual}:// or {other}:// and a host", self.format.name())
        })
    }

    /// What messages are signed with, if they are.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn secret(&self) -> Result<Option<SecretText>, String> {
        match &self.secret_file {
            Some(path) => line_of("secret_file", path).map(Some),
            None => Ok(self.secret.clone()),
        }
    }

    /// What the table of keys cannot see.
    fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut unless = |right: bool, what: &str| {
            if !right {
                wrong.push(what.to_owned());
            }
        };
        let is_mail = self.format == Format::Mail;
        let has_secret = self.secret.is_some() || self.secret_file.is_some();
        unless(!self.name.is_empty(), "its name is empty: write name = \"on-call\"");
        unless(
            self.url.is_some() != self.url_file.is_some(),
            "it needs one of url and url_file: write url_file = \"webhook.url\"",
        );
        unless(
            self.secret.is_none() || self.secret_file.is_none(),
            "secret and secret_file are both there: keep one of them",
        );
        unless(
            !has_secret || self.format.is_signed(),
            "a secret is for json, dingtalk and feishu: take it out",
        );
        unless(
            !is_mail || (self.from.is_some() && !self.to.is_empty()),
            "mail needs from and to: write from = \"overdue@example.com\" and to = [\"on-call@example.com\"]",
        );
        unless(
            is_mail || (self.from.is_none() && self.to.is_empty()),
            "from and to are for mail: take them out, or write format = \"mail\"",
        );
        unless(
            !self.on.is_empty(),
            "on is empty, so it would never speak: name something, or take the alert out",
        );
        if let Some(Err(what)) = self.url.as_ref().map(|url| self.parsed(url)) {
            wrong.push(what);
        }
        wrong
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

/// The one line of a file; no message quotes it.
fn line_of(key: &str, path: &Path) -> Result<SecretText, String> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {key} {shown}: {error}"))?;
    match text.trim() {
        "" => Err(format!("{key} {shown} is empty")),
        line if line.lines().count() > 1 => Err(format!("{key} {shown} has to be one line")),
        line => Ok(line.to_owned().into()),
    }
}
