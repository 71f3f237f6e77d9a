//! `[[alert]]`: what is reported, to whom, and when.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{secret_url::SecretText, settings::within, template::Template};
use crate::{condition::Condition, topology::level::Interval};

/// Messages about what is wrong, to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlertSettings {
    /// What messages and metrics call it; it has to be there.
    #[schemars(example = &"on-call")]
    pub name: String,
    /// URL of the webhook; it is a secret as a whole.
    #[schemars(example = &"https://example.com/hook")]
    pub url: Option<SecretText>,
    /// A file with that URL.
    #[schemars(example = &"webhook.url")]
    pub url_file: Option<PathBuf>,
    /// What is sent, with placeholders; it may hold a key of the other side.
    #[schemars(example = &"{\"text\": \"{text}\"}")]
    pub body: Option<SecretText>,
    /// A file with it.
    #[schemars(example = &"webhook.json")]
    pub body_file: Option<PathBuf>,
    /// A webhook has taken a message if its answer contains this.
    #[schemars(example = &"\"errcode\":0")]
    pub answer_contains: Option<String>,
    /// The CAs that are trusted, PEM; otherwise those of the machine.
    #[schemars(example = &"ca.pem")]
    pub ca_file: Option<PathBuf>,
    /// The conditions that it is on.
    #[schemars(example = ["not-ready", "late"])]
    pub on: BTreeSet<Condition>,
    /// A worker that is not ready for this long is worth a message.
    pub not_ready_for: Interval,
    /// A condition that was not seen for this long is over; at `0s` when it is not seen once.
    pub over_after: Interval,
    /// A condition that is still wrong after this long is reported again; at least a minute.
    #[serde(deserialize_with = "within::<_, 60_000, { u64::MAX }>")]
    pub again_after: Interval,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: None,
            url_file: None,
            body: None,
            body_file: None,
            answer_contains: None,
            ca_file: None,
            on: Condition::ALL.into(),
            not_ready_for: Interval::from_millis(60_000),
            over_after: Interval::from_millis(120_000),
            again_after: Interval::from_millis(14_400_000),
        }
    }
}

impl AlertSettings {
    /// Where messages go. It blocks while it reads the file, so it is for the start of a command. No error quotes it.
    pub(crate) fn url(&self) -> Result<Url, String> {
        let text = text("url_file", self.url.as_ref(), self.url_file.as_deref())?;
        let url = Url::parse(text.ok_or("url is missing")?.expose().trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "https" | "http") && url.has_host());
        url.ok_or_else(|| {
            "its URL cannot be used: it begins with https:// or http:// and a host".to_owned()
        })
    }

    /// What is sent, if it is not the usual text. It blocks while it reads the file, as [`Self::url`] does.
    /// No error quotes more than a placeholder of it.
    pub(crate) fn body(&self) -> Result<Option<Template>, String> {
        let text = text("body_file", self.body.as_ref(), self.body_file.as_deref())?;
        text.map(|text| Template::parse(text.expose())).transpose()
    }

    /// What does not go together; if all of it does, what of it cannot be used. Files are for those who send.
    fn mistakes(&self) -> Vec<String> {
        let disagreements = self.disagreements();
        if !disagreements.is_empty() {
            return disagreements.into_iter().map(str::to_owned).collect();
        }
        let url = self.url.as_ref().and_then(|_| self.url().err());
        let body = self.body.as_ref().and_then(|_| self.body().err());
        url.into_iter().chain(body).collect()
    }

    fn disagreements(&self) -> Vec<&'static str> {
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
                !self.on.is_empty(),
                "on is empty, so it would never say anything: name a condition, or take the alert out",
            ),
        ];
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
    }
}

/// What is wrong with the alerts, each with its index.
pub(super) fn mistakes(alerts: &[AlertSettings]) -> Vec<(usize, String)> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (index, alert) in alerts.iter().enumerate() {
        let twice = (!names.insert(&alert.name))
            .then(|| "its name is there twice: give each its own".to_owned());
        for what in twice.into_iter().chain(alert.mistakes()) {
            found.push((index, format!("alert `{}`: {what}", alert.name)));
        }
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
