//! `[[alert]]`: conditions to report, webhook and timing.

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

/// Messages about faults, to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlertSettings {
    /// Name in messages and metrics; required.
    #[schemars(example = &"on-call")]
    pub name: String,
    /// URL of the webhook; all of it is a secret.
    #[schemars(example = &"https://example.com/hook")]
    pub url: Option<SecretText>,
    /// File with the URL.
    #[schemars(example = &"webhook.url")]
    pub url_file: Option<PathBuf>,
    /// Body of the request, with placeholders; it may contain a key of the webhook.
    #[schemars(example = &"{\"text\": \"{text}\"}")]
    pub body: Option<SecretText>,
    /// File with the body.
    #[schemars(example = &"webhook.json")]
    pub body_file: Option<PathBuf>,
    /// Text in the answer of a webhook that has accepted a message.
    #[schemars(example = &"\"errcode\":0")]
    pub answer_contains: Option<String>,
    /// File with trusted CAs, PEM; default: the CAs of the machine.
    #[schemars(example = &"ca.pem")]
    pub ca_file: Option<PathBuf>,
    /// Conditions that the alert reports.
    #[schemars(example = ["not-ready", "late"])]
    pub on: BTreeSet<Condition>,
    /// Report a worker that has not been ready for this long.
    pub not_ready_for: Interval,
    /// A condition that was not observed for this long is over; at `0s`, when one reading does not observe it.
    pub over_after: Interval,
    /// Report a condition again that is still wrong after this long; at least a minute.
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
    /// The URL of the webhook. Reading the file blocks: call this when a command starts. No error quotes the URL.
    pub(crate) fn url(&self) -> Result<Url, String> {
        let text = text("url_file", self.url.as_ref(), self.url_file.as_deref())?;
        let url = Url::parse(text.ok_or("url is missing")?.expose().trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "https" | "http") && url.has_host());
        url.ok_or_else(|| {
            "its URL cannot be used: it begins with https:// or http:// and a host".to_owned()
        })
    }

    /// The body, if the settings have one. Reading the file blocks, as in [`Self::url`]. Errors quote only placeholders of
    /// the body.
    pub(crate) fn body(&self) -> Result<Option<Template>, String> {
        let text = text("body_file", self.body.as_ref(), self.body_file.as_deref())?;
        text.map(|text| Template::parse(text.expose())).transpose()
    }

    /// Settings that contradict each other; if there are none, a URL or a body that cannot be used. Only commands
    /// that send alerts read the files.
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

/// Mistakes of all alerts, each with the index of its alert.
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

/// A text from the settings or from a file.
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
