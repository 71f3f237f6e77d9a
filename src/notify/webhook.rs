//! A message to a webhook.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Client, Response, header, redirect};
use tokio::time::timeout;

use super::{files::Files, refused::Refused, within::Within};
use crate::{
    alerting::{
        answer::{answer, retry_after},
        notice::{Notice, Sender},
        request::{Request, request},
    },
    config::{AlertSettings, SecretText},
    text::error_chain,
    tls::{Parameters, Tls, Verification, refusal},
};

/// How messages name what is set.
const PARAMETERS: Parameters = Parameters { ca: "ca_file", certificate: "", key: "" };
/// So much of an answer is read, in bytes.
const READ: usize = 4_096;
/// Later than that it is known that the message was sent.
const CONNECT: Duration = Duration::from_secs(4);
/// For the rest of an answer whose status is there.
const BODY: Duration = Duration::from_secs(2);

/// Posts it; what was answered.
pub(super) async fn post(
    alert: &AlertSettings,
    files: &Files,
    notice: &Notice,
    sender: &Sender<'_>,
    within: Within,
) -> Result<String, Refused> {
    let read = |alert: &AlertSettings| {
        let url = alert.url()?;
        let client = client(alert, url.scheme() == "https")?;
        Ok((url, alert.secret()?, client))
    };
    let (mut url, secret, client) = files.read(alert, read).await?;
    let secret = secret.as_ref().map(SecretText::expose);
    let Request { query, headers, body } = request(alert.format, notice, sender, secret, now());
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let mut post =
        client.post(url).header(header::CONTENT_TYPE, "application/json; charset=utf-8").body(body);
    for (name, value) in headers {
        post = post.header(name, value);
    }
    let response = within.answer(post.send()).await?.map_err(failed)?;
    let status = response.status();
    let asked = response.headers().get(header::RETRY_AFTER).and_then(|it| it.to_str().ok());
    let retry_after = asked.and_then(|value| retry_after(value, now()));
    let (body, whole) = beginning(response).await;
    answer(alert.format, status.as_u16(), &body).map_err(|reason| Refused {
        reason,
        maybe_taken: status.is_success() && !whole,
        retry_after,
    })
}

/// By this machine's clock: the other side compares it with its own.
#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// A new one for each message: messages are rare, and files may have changed.
fn client(alert: &AlertSettings, secure: bool) -> Result<Client, String> {
    let client = if secure {
        let mut tls = Tls::new(Verification::Full, PARAMETERS);
        tls.ca.clone_from(&alert.ca_file);
        let config = tls.client().map_err(|error| error.to_string())?;
        Client::builder().tls_backend_preconfigured(config)
    } else {
        Client::builder().tls_certs_only([])
    };
    // A redirect would make a GET without a body of it, and be answered 200.
    let client = client.redirect(redirect::Policy::none()).connect_timeout(CONNECT).build();
    client.map_err(|error| error.to_string())
}

fn failed(error: reqwest::Error) -> Refused {
    let error = error.without_url();
    let reason = refusal(&error, PARAMETERS).unwrap_or_else(|| error_chain(&error));
    let maybe_taken = !error.is_connect() && !error.is_builder();
    Refused { maybe_taken, ..reason.into() }
}

/// Whatever the other side sends, and for however long; whether that is all of it, as far as it is read.
async fn beginning(mut response: Response) -> (String, bool) {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < READ {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend(chunk.iter().take(READ - read.len())),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    };
    let whole = timeout(BODY, reading).await.unwrap_or(false);
    (String::from_utf8_lossy(&read).into_owned(), whole)
}
