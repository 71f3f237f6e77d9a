//! Delivers one message.

use super::{files::Files, host::host, mail, refused::Refused, webhook, within::Within};
use crate::{
    alerting::{
        format::Format,
        notice::{Notice, Sender},
    },
    config::AlertSettings,
    text::one_line,
};

/// What the other side answered.
///
/// # Errors
/// It did not take the message.
pub(crate) async fn deliver(
    alert: &AlertSettings,
    files: &Files,
    topology: &str,
    notice: &Notice,
) -> Result<String, Refused> {
    let host = host();
    let sender = Sender { alert: &alert.name, topology, host: &host, runbooks: &alert.runbooks };
    let within = Within::now();
    let answer = match alert.format {
        Format::Mail => mail::send(alert, files, notice, &sender, within).await,
        _ => webhook::post(alert, files, notice, &sender, within).await,
    };
    answer.map(one_line).map_err(|refused| Refused { reason: one_line(refused.reason), ..refused })
}

/// Whether its files can be read and its URL is one, before anything is to be said.
///
/// # Errors
/// What is wrong.
pub(crate) async fn check(alert: &AlertSettings) -> Result<(), String> {
    let read = |alert: &AlertSettings| {
        alert.url()?;
        alert.secret()?;
        match alert.format {
            Format::Mail => mail::check(alert),
            _ => Ok(()),
        }
    };
    Files::default().read(alert, read).await
}

/// Where its messages go: scheme, host and port, and nothing that is secret.
pub(crate) async fn shown(alert: &AlertSettings, files: &Files) -> String {
    files.read(alert, AlertSettings::url).await.map_or_else(
        |_| "?".to_owned(),
        |url| {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
        },
    )
}
