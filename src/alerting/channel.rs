//! The webhook of an alert.

use std::{cmp::Reverse, time::Duration};

use reqwest::{Client, Response, header, redirect};
use tokio::time::timeout;
use url::Url;

use super::message::{Message, Sender};
use crate::{
    config::{AlertSettings, template::Template},
    text::{error_chain, one_line, percent_decode},
    tls::{Parameters, Tls, Verification, refusal},
};

/// Time limit from the connection attempt to the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the body of an answer after its status.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const READ_BYTES: usize = 4_096;
/// Characters of an answer that are shown.
const SHOWN: usize = 200;

/// Replaces a secret.
const HIDDEN: &str = "***";
/// Shorter parts of a URL, in bytes, are not hidden: many words contain them.
const OF_URL: usize = 3;
/// Shorter words of a body, in bytes, are not hidden: they are too short for a key.
const OF_BODY: usize = 8;

const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The interval of attempts while a webhook is down for hours.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);
/// The webhook has the message and may have accepted it: the alert does not repeat it soon.
const NOT_SOON: Option<Duration> = Some(LONGEST_PAUSE);
/// Limit for a longer pause that the webhook requests, because its `Retry-After` may be wrong.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// Names of the settings in error messages.
const PARAMETERS: Parameters = Parameters { ca: "ca_file", certificate: "", key: "" };

/// The default body; Slack, Mattermost and Rocket.Chat accept it.
const BODY: &str = r#"{"text": "{text}"}"#;

/// A message that the webhook refused or did not confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// A line without the URL, whose path may be a secret.
    pub(crate) reason: String,
    /// Shortest pause before the next attempt.
    pub(super) retry_after: Option<Duration>,
}

/// The pause after this many consecutive failures: 2 s, 4 s … 2 min, or a longer pause that the webhook requests.
pub fn pause(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.max(retry_after.unwrap_or_default().min(LONGEST_ASKED))
}

/// URL, body and client of one alert.
pub(super) struct Channel {
    url: Url,
    body: Template,
    client: Client,
    /// Text that must be in the answer to an accepted message.
    answer_contains: Option<String>,
    /// Secrets that are removed from shown answers, longest first: the webhook may quote the request.
    secrets: Vec<String>,
}

impl Channel {
    /// Reads the files, which blocks: call it when a command starts. No error quotes the URL or the body.
    pub(super) fn new(alert: &AlertSettings) -> Result<Self, String> {
        let url = alert.url()?;
        let body = alert.body()?.map_or_else(|| Template::parse(BODY), Ok)?;
        let client = client(alert, url.scheme() == "https")?;
        let secrets = secrets(&url, &body);
        Ok(Self { url, body, client, answer_contains: alert.answer_contains.clone(), secrets })
    }

    pub(super) fn destination(&self) -> String {
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.url.scheme(), self.url.host_str().unwrap_or_default())
    }

    /// The answer in one line, without secrets.
    fn shown(&self, answer: &str) -> String {
        let hide = |text: String, secret: &String| text.replace(secret, HIDDEN);
        one_line(self.secrets.iter().fold(answer.trim().to_owned(), hide))
    }

    /// Sends the message and returns the webhook's answer, in one line and without secrets. After an error the webhook may
    /// have accepted the message anyway.
    pub(super) async fn send(
        &self,
        message: &Message,
        sender: &Sender<'_>,
    ) -> Result<String, Refused> {
        let late = || Refused {
            reason: format!("not answered within {} s", ANSWER_TIMEOUT.as_secs()),
            retry_after: NOT_SOON,
        };
        let sent = self.post(message.body(&self.body, sender));
        let sent = timeout(ANSWER_TIMEOUT, sent).await.unwrap_or_else(|_| Err(late()));
        sent.map(one_line)
            .map_err(|refused| Refused { reason: one_line(refused.reason), ..refused })
    }

    async fn post(&self, body: String) -> Result<String, Refused> {
        let kind = if self.body.is_json() { "application/json" } else { "text/plain" };
        let post = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, format!("{kind}; charset=utf-8"))
            .body(body);
        let response = post.send().await.map_err(|error| {
            let is_sent = !error.is_connect() && !error.is_builder();
            let error = error.without_url();
            Refused {
                reason: refusal(&error, PARAMETERS).unwrap_or_else(|| error_chain(&error)),
                retry_after: NOT_SOON.filter(|_| is_sent),
            }
        })?;
        let status = response.status();
        let asked = response.headers().get(header::RETRY_AFTER).and_then(|it| it.to_str().ok());
        let retry_after = asked.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let (answer, is_whole) = beginning(response).await;
        let shown: String = self.shown(&answer).chars().take(SHOWN).collect();
        let line = format!("{} {shown}", status.as_u16()).trim_end().to_owned();
        if !status.is_success() {
            return Err(Refused { reason: line, retry_after });
        }
        match &self.answer_contains {
            Some(text) if !answer.contains(text) => {
                let reason =
                    format!("{line}: the answer does not contain {text} (answer_contains)");
                let retry_after = if is_whole { retry_after } else { retry_after.max(NOT_SOON) };
                Err(Refused { reason, retry_after })
            }
            _ => Ok(line),
        }
    }
}

/// Secrets in the URL (user, path, query) and in the body (long words that are not keys of JSON objects).
fn secrets(url: &Url, body: &Template) -> Vec<String> {
    let path = url.path_segments().into_iter().flatten();
    let query = url.query().unwrap_or_default().split(['&', '=']);
    let user = [url.username(), url.password().unwrap_or_default()];
    let of_url = path.chain(query).chain(user).filter(|part| part.len() >= OF_URL);
    let of_url = of_url.flat_map(|part| [part.to_owned(), percent_decode(part)]);
    let pieces = body.literals().flat_map(|text| {
        let behind = text.split('"').skip(1).chain([""]);
        text.split('"').zip(behind).filter(|(_, behind)| !behind.trim_start().starts_with(':'))
    });
    let words = pieces.flat_map(|(text, _)| text.split(|c: char| !c.is_ascii_graphic()));
    let of_body = words.filter(|word| word.len() >= OF_BODY).map(str::to_owned);
    let mut secrets: Vec<String> = of_url.chain(of_body).collect();
    secrets.sort_by_key(|secret| Reverse(secret.len()));
    secrets
}

fn client(alert: &AlertSettings, is_secure: bool) -> Result<Client, String> {
    let client = if is_secure {
        let mut tls = Tls::new(Verification::Full, PARAMETERS);
        tls.ca.clone_from(&alert.ca_file);
        let config = tls.client().map_err(|error| error.to_string())?;
        Client::builder().tls_backend_preconfigured(config)
    } else {
        Client::builder().tls_certs_only([])
    };
    // Messages are hours apart, so no connection is kept. A redirect would become a GET without a body, and be answered with
    // 200.
    let client = client.pool_max_idle_per_host(0).redirect(redirect::Policy::none());
    client.connect_timeout(CONNECT_TIMEOUT).build().map_err(|error| error.to_string())
}

/// The beginning of an answer, as far as it arrives in time; and whether all bytes to read arrived.
async fn beginning(mut response: Response) -> (String, bool) {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < READ_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend(chunk.iter().take(READ_BYTES - read.len())),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    };
    let is_whole = timeout(BODY_TIMEOUT, reading).await.unwrap_or(false);
    (String::from_utf8_lossy(&read).into_owned(), is_whole)
}
