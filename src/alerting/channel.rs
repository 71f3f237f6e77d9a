//! The webhook that an alert sends to.

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

/// From the connection to the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For the rest of an answer whose status is there.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// So much of an answer is read, in bytes.
const READ_BYTES: usize = 4_096;
/// So much of it is shown, in characters.
const SHOWN: usize = 200;

/// Stands for what is secret.
const HIDDEN: &str = "***";
/// Shorter parts of a URL are in many words, in bytes.
const OF_URL: usize = 3;
/// Shorter words of a body are none that open anything, in bytes.
const OF_BODY: usize = 8;

const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// A webhook that is down for hours is asked so seldom.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);
/// The other side has a message and may have taken it: it does not get the same one again soon.
const NOT_SOON: Option<Duration> = Some(LONGEST_PAUSE);
/// If the other side asks for a longer one, at most this long: it may be wrong.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// How messages name what is set.
const PARAMETERS: Parameters = Parameters { ca: "ca_file", certificate: "", key: "" };

/// The body unless the settings name another one: Slack, Mattermost and Rocket.Chat take it.
const BODY: &str = r#"{"text": "{text}"}"#;

/// A message that was not taken, as far as is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// In one line and without the URL: its path may be a secret.
    pub(crate) reason: String,
    /// When to try again at the earliest.
    pub(super) retry_after: Option<Duration>,
}

/// The pause after this many failures in a row: 2 s, 4 s … 2 min, or what the other side has asked for.
pub fn pause(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.max(retry_after.unwrap_or_default().min(LONGEST_ASKED))
}

/// Where one alert sends its messages, and in which form.
pub(super) struct Channel {
    url: Url,
    body: Template,
    client: Client,
    /// The answer to a message that is taken contains this.
    answer_contains: Option<String>,
    /// What is in no answer that is shown: the other side may quote what it got. The longest first.
    secrets: Vec<String>,
}

impl Channel {
    /// Reads the files and blocks meanwhile, so it is for the start of a command. No error quotes the URL or the body.
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

    /// An answer as it may be shown.
    fn shown(&self, answer: &str) -> String {
        let hide = |text: String, secret: &String| text.replace(secret, HIDDEN);
        one_line(self.secrets.iter().fold(answer.trim().to_owned(), hide))
    }

    /// What the other side answered, in one line and without what is secret.
    /// After an error it may have taken the message all the same.
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

/// The parts of a URL behind its host, and before it; of a body the long words, but for the names of JSON's members.
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
    // Messages are hours apart. A redirect would make a GET without a body of it, and be answered 200.
    let client = client.pool_max_idle_per_host(0).redirect(redirect::Policy::none());
    client.connect_timeout(CONNECT_TIMEOUT).build().map_err(|error| error.to_string())
}

/// The beginning of an answer, or what of it comes in time, and whether that is all that is asked for.
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
