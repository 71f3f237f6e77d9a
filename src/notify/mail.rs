//! A message by mail.

use std::{fs, path::Path, time::Duration};

use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, CertificateStore, Tls, TlsParameters},
        extension::ClientId,
    },
};
use url::Url;

use super::{files::Files, refused::Refused, within::Within};
use crate::{
    alerting::{
        mail::mail,
        notice::{Notice, Sender},
    },
    config::AlertSettings,
    text::error_chain,
};

/// For each step of the dialogue.
const STEP: Duration = Duration::from_secs(5);

/// Sends it; what the server answered at last.
pub(super) async fn send(
    alert: &AlertSettings,
    files: &Files,
    notice: &Notice,
    sender: &Sender<'_>,
    within: Within,
) -> Result<String, Refused> {
    let (subject, text) = mail(notice, sender);
    let message = message(alert, subject, text)?;
    let host = sender.host.to_owned();
    let transport = files.read(alert, move |alert| transport(alert, &alert.url()?, &host)).await?;
    let answer = within.answer(transport.send(message)).await?.map_err(|error| {
        let (reason, maybe_taken) = (error_chain(&error), error.is_timeout());
        Refused { maybe_taken, ..reason.into() }
    })?;
    let lines: Vec<&str> = answer.message().collect();
    Ok(format!("{} {}", answer.code(), lines.join(" ")))
}

/// Whether addresses and certificates can be used.
pub(super) fn check(alert: &AlertSettings) -> Result<(), String> {
    message(alert, String::new(), String::new())?;
    transport(alert, &alert.url()?, "check").map(drop)
}

fn message(alert: &AlertSettings, subject: String, text: String) -> Result<Message, String> {
    let address = |key: &str, text: &str| {
        let parsed: Result<Mailbox, _> = text.parse();
        parsed.map_err(|_| {
            format!(
                "{key} has `{text}`, which is not an address: write it like \"on-call@example.com\""
            )
        })
    };
    let from = address("from", alert.from.as_deref().unwrap_or_default())?;
    let mut message = Message::builder()
        .from(from)
        .subject(subject)
        .message_id(None)
        .header(ContentType::TEXT_PLAIN);
    for to in &alert.to {
        message = message.to(address("to", to)?);
    }
    message.body(text).map_err(|error| format!("the mail cannot be written: {error}"))
}

fn transport(
    alert: &AlertSettings,
    url: &Url,
    host: &str,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let server = url.host_str().unwrap_or_default();
    let encryption = Encryption::of(url)?;
    let tls = match encryption {
        Encryption::None => Tls::None,
        Encryption::FromTheStart => Tls::Wrapper(tls_parameters(alert, server)?),
        Encryption::StartTls => Tls::Required(tls_parameters(alert, server)?),
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server)
        .port(url.port().unwrap_or(encryption.port()))
        .tls(tls)
        .timeout(Some(STEP))
        .hello_name(ClientId::Domain(host.to_owned()));
    if let Some(password) = url.password() {
        let decoded = |text: &str| percent_decoded(text);
        transport =
            transport.credentials(Credentials::new(decoded(url.username())?, decoded(password)?));
    }
    Ok(transport.build())
}

/// How the connection is encrypted.
#[derive(Clone, Copy)]
enum Encryption {
    FromTheStart,
    StartTls,
    None,
}

impl Encryption {
    /// `smtps` begins with TLS. `smtp` asks for it (STARTTLS) and goes on in no other way, but for a server on this machine
    /// or where the URL says `tls=none`.
    fn of(url: &Url) -> Result<Self, String> {
        let asked = url.query_pairs().find(|(key, _)| key == "tls").map(|(_, value)| value);
        let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        match (url.scheme(), asked.as_deref()) {
            ("smtps", None) => Ok(Self::FromTheStart),
            ("smtp", Some("none")) => Ok(Self::None),
            ("smtp", None) if local => Ok(Self::None),
            ("smtp", None | Some("required")) => Ok(Self::StartTls),
            _ => {
                Err("its URL cannot be used: tls can be required or none, after smtp://".to_owned())
            }
        }
    }

    /// The usual one. <https://www.rfc-editor.org/rfc/rfc8314>
    const fn port(self) -> u16 {
        match self {
            Self::FromTheStart => 465,
            Self::StartTls => 587,
            Self::None => 25,
        }
    }
}

fn tls_parameters(alert: &AlertSettings, server: &str) -> Result<TlsParameters, String> {
    let server = server.trim_start_matches('[').trim_end_matches(']');
    let mut parameters = TlsParameters::builder(server.to_owned());
    if let Some(path) = &alert.ca_file {
        parameters = parameters
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate(path)?);
    }
    parameters.build().map_err(|error| error_chain(&error))
}

fn certificate(path: &Path) -> Result<Certificate, String> {
    let shown = path.display();
    let pem = fs::read(path).map_err(|error| format!("cannot read ca_file {shown}: {error}"))?;
    Certificate::from_pem(&pem).map_err(|error| format!("ca_file {shown}: {}", error_chain(&error)))
}

/// What a URL has as `%40`.
fn percent_decoded(text: &str) -> Result<String, String> {
    // A form has `+` for a space, which a password may have as well.
    let escaped = text.replace('+', "%2B");
    let pair = format!("p={escaped}");
    let mut decoded = url::form_urlencoded::parse(pair.as_bytes());
    decoded
        .next()
        .map(|(_, value)| value.into_owned())
        .ok_or_else(|| "its URL cannot be used".to_owned())
}
