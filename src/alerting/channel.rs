//! The way of a message: a webhook, or a mail server.

use std::{cmp::Reverse, fs, path::Path, time::Duration};

use jiff::{Timestamp, fmt::rfc2822};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message as Mail, Tokio1Executor,
    message::{Mailbox, MessageBuilder, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, CertificateStore, Tls as MailTls, TlsParameters},
        extension::ClientId,
    },
};
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
/// For a connection, and for each step of the dialogue with a mail server.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
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

/// What a webhook gets unless the settings say something else: Slack, Mattermost and Rocket.Chat take it.
const WEBHOOK_BODY: &str = r#"{"text": "{text}"}"#;
const MAIL_BODY: &str = "{text}\n\n`overdue status` shows what is so now.\n";

/// A message that was not taken, as far as is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// In one line and without the URL: its path may be a secret.
    pub(crate) reason: String,
    /// When to try again at the earliest.
    pub(super) retry_after: Option<Duration>,
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self { reason, retry_after: None }
    }
}

/// The pause after this many failures in a row: 2 s, 4 s … 2 min, or what the other side has asked for.
pub fn pause(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.max(retry_after.unwrap_or_default().min(LONGEST_ASKED))
}

/// What a `Retry-After` asks for: seconds, or a date (`now` is by this machine's clock); `None` if it is neither.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::parse(value.trim()).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// Where one alert sends its messages, and in which form.
pub(super) struct Channel {
    url: Url,
    body: Template,
    way: Transport,
    /// What is in no answer that is shown: the other side may quote what it got. The longest first.
    secrets: Vec<String>,
}

enum Transport {
    Webhook { client: Client, answer_contains: Option<String> },
    Mail { transport: Box<AsyncSmtpTransport<Tokio1Executor>>, draft: Box<MessageBuilder> },
}

impl Channel {
    /// Reads the files and blocks meanwhile, so it is for the start of a command. `host` is how a mail server is greeted.
    /// No error quotes the URL or the body.
    pub(super) fn new(alert: &AlertSettings, host: &str) -> Result<Self, String> {
        let (url, is_mail) = (alert.url()?, alert.is_mail());
        let default = if is_mail { MAIL_BODY } else { WEBHOOK_BODY };
        let body = alert.body()?.map_or_else(|| Template::parse(default), Ok)?;
        let way = if is_mail {
            let from = mailbox("from", alert.from.as_deref().unwrap_or_default())?;
            let mut draft = Mail::builder().from(from).header(ContentType::TEXT_PLAIN);
            for to in &alert.to {
                draft = draft.to(mailbox("to", to)?);
            }
            let transport = transport(alert.ca_file.as_deref(), &url, host)?;
            Transport::Mail { transport: Box::new(transport), draft: Box::new(draft) }
        } else {
            let client = client(alert, url.scheme() == "https")?;
            Transport::Webhook { client, answer_contains: alert.answer_contains.clone() }
        };
        let secrets = secrets(&url, &body);
        Ok(Self { url, body, way, secrets })
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
        let body = message.body(&self.body, sender);
        let sent = async {
            match &self.way {
                Transport::Webhook { client, answer_contains } => {
                    self.post(client, answer_contains.as_deref(), body).await
                }
                Transport::Mail { transport, draft } => {
                    let mail = draft.as_ref().clone().subject(message.title(sender));
                    let mail = mail.message_id(None).body(body);
                    let mail = mail.map_err(|error| error_chain(&error))?;
                    let answer = transport.send(mail).await.map_err(|error| Refused {
                        reason: self.shown(&error_chain(&error)),
                        retry_after: NOT_SOON.filter(|_| error.is_timeout()),
                    })?;
                    let lines: Vec<&str> = answer.message().collect();
                    Ok(format!("{} {}", answer.code(), self.shown(&lines.join(" "))))
                }
            }
        };
        let late = || Refused {
            reason: format!("not answered within {} s", ANSWER_TIMEOUT.as_secs()),
            retry_after: NOT_SOON,
        };
        let sent = timeout(ANSWER_TIMEOUT, sent).await.unwrap_or_else(|_| Err(late()));
        sent.map(one_line)
            .map_err(|refused| Refused { reason: one_line(refused.reason), ..refused })
    }

    async fn post(
        &self,
        client: &Client,
        answer_contains: Option<&str>,
        body: String,
    ) -> Result<String, Refused> {
        let kind = if self.body.is_json() { "application/json" } else { "text/plain" };
        let post = client
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
        let retry_after = asked.and_then(|value| retry_after(value, now()));
        let (answer, is_whole) = beginning(response).await;
        let shown: String = self.shown(&answer).chars().take(SHOWN).collect();
        let line = format!("{} {shown}", status.as_u16()).trim_end().to_owned();
        if !status.is_success() {
            return Err(Refused { reason: line, retry_after });
        }
        match answer_contains {
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

/// By this machine's clock: the other side wrote a date by its own.
#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
fn now() -> Timestamp {
    Timestamp::now()
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
    client.connect_timeout(STEP_TIMEOUT).build().map_err(|error| error.to_string())
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

fn mailbox(key: &str, address: &str) -> Result<Mailbox, String> {
    address.parse().map_err(|_| {
        format!(
            "{key} has `{address}`, which is not an address: write it like \"on-call@example.com\""
        )
    })
}

/// `smtps` begins with TLS. `smtp` asks for it (STARTTLS) and goes on in no other way, but for a server on this machine
/// or if the URL says `tls=none`.
fn transport(
    ca_file: Option<&Path>,
    url: &Url,
    host: &str,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let server = url.host_str().unwrap_or_default();
    let is_local = matches!(server, "localhost" | "127.0.0.1" | "[::1]");
    let asked = url.query_pairs().find(|(key, _)| key == "tls").map(|(_, value)| value);
    let tls = || tls_parameters(ca_file, server);
    // The usual ports: <https://www.rfc-editor.org/rfc/rfc8314>
    let (tls, port) = match (url.scheme(), asked.as_deref()) {
        ("smtps", None) => (MailTls::Wrapper(tls()?), 465),
        ("smtp", Some("none")) => (MailTls::None, 25),
        ("smtp", None) if is_local => (MailTls::None, 25),
        ("smtp", None | Some("required")) => (MailTls::Required(tls()?), 587),
        _ => {
            return Err("its URL cannot be used: tls can be required or none, after smtp://".into());
        }
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server)
        .port(url.port().unwrap_or(port))
        .tls(tls)
        .timeout(Some(STEP_TIMEOUT))
        .hello_name(ClientId::Domain(host.to_owned()));
    if let Some(password) = url.password() {
        let (user, password) = (percent_decode(url.username()), percent_decode(password));
        transport = transport.credentials(Credentials::new(user, password));
    }
    Ok(transport.build())
}

/// Reads `ca_file`, at the start only.
fn tls_parameters(ca_file: Option<&Path>, server: &str) -> Result<TlsParameters, String> {
    let server = server.trim_start_matches('[').trim_end_matches(']');
    let mut parameters = TlsParameters::builder(server.to_owned());
    if let Some(path) = ca_file {
        let failed = |error: String| format!("cannot read ca_file {}: {error}", path.display());
        let pem = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| failed(error_chain(&error)))?;
        parameters =
            parameters.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    }
    parameters.build().map_err(|error| error_chain(&error))
}
