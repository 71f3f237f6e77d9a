//! Errors of the management API, in this program's words.

use std::time::Duration;

use reqwest::{Response, StatusCode, header::LOCATION};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    text::{length, quote},
    tls,
};

/// Why the management API did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    /// The management API does not answer, or another program answers.
    #[error(
        "cannot reach the management API at {address} to {step}; is the plugin enabled (rabbitmq-plugins enable \
         rabbitmq_management), and is broker.management_url right? ({reason})"
    )]
    Unreachable {
        /// The URL of the management API.
        address: String,
        /// The step that failed.
        step: String,
        /// The HTTP client's error, or why the answer is unusable.
        reason: String,
    },
    /// The server accepted the connection and did not answer within the time of a call; it may still make a change.
    #[error(
        "the management API at {address} did not {step} within {}: look at the load of the broker and in its log, and try \
         again; if something else listens there, correct broker.management_url",
        length(*within)
    )]
    Silent {
        /// The URL of the management API.
        address: String,
        /// The step that failed.
        step: String,
        /// How long a call may take.
        within: Duration,
    },
    /// The login is refused, or the user lacks a tag or a permission.
    #[error(
        "user `{user}` may not {step} at {address}: {reason}; check the user and password in broker.management_url, \
         its `management` tag, and its permissions on the topology's objects"
    )]
    NotPermitted {
        /// The URL of the management API.
        address: String,
        /// The user of the request.
        user: String,
        /// The step that failed.
        step: String,
        /// The broker's reply.
        reason: String,
    },
    /// The broker is not RabbitMQ.
    #[error(
        "the broker at {address} is {product}, and not RabbitMQ: overdue needs its quorum queues, its dead letters and its management \
         API. Correct broker.url and broker.management_url"
    )]
    OtherProduct {
        /// The URL of the management API.
        address: String,
        /// The broker's name for its product.
        product: String,
    },
    /// The virtual host does not exist.
    #[error(
        "there is no virtual host `{vhost}` at {address}, or user `{user}` may not use it: create it with \
         `rabbitmqctl add_vhost {}` or correct broker.url",
        quote(vhost)
    )]
    NoVirtualHost {
        /// The URL of the management API.
        address: String,
        /// The virtual host that does not exist.
        vhost: String,
        /// The user of the request.
        user: String,
    },
    /// The virtual host exists by AMQP, and not by this API.
    #[error(
        "virtual host `{vhost}` is there by AMQP, and not by the management API at {address}: user `{user}` may not use it \
         (rabbitmqctl set_permissions), or a proxy in between changes `%2F` in the path of a URL and is to pass it as it is"
    )]
    OnlyByAmqp {
        /// The URL of the management API.
        address: String,
        /// The virtual host of the request.
        vhost: String,
        /// The user of the request.
        user: String,
    },
    /// The answer is about another virtual host.
    #[error(
        "the management API at {address} answers with objects of virtual host `{other}` when it is asked about `{vhost}`, so \
         nothing is known of `{vhost}`: a proxy in between decodes `%2F` or merges slashes in the path of a URL; let it pass the \
         path as it came (nginx: `proxy_pass http://host:15672;` without a path), or write a URL without the proxy into \
         broker.management_url"
    )]
    OtherVirtualHost {
        /// The URL of the management API.
        address: String,
        /// The virtual host of the request.
        vhost: String,
        /// The virtual host of the answer.
        other: String,
    },
    /// The path does not exist.
    #[error("not found: {path} at {address}, which was to {step}")]
    NotFound {
        /// The URL of the management API.
        address: String,
        /// The path of the request's URL, as it was sent.
        path: String,
        /// The step that failed.
        step: String,
    },
    /// The topology needs a plugin that the broker does not have; nothing was changed.
    #[error(
        "{broker} has no exchange type `{kind}`, which {needed_by} needs; it comes with the plugin {plugin}: {fix}"
    )]
    NoExchangeType {
        /// The broker's version and address.
        broker: String,
        /// The exchange type.
        kind: &'static str,
        /// The setting in the topology that needs the type.
        needed_by: String,
        /// The plugin that has the type.
        plugin: &'static str,
        /// How to get the plugin.
        fix: &'static str,
    },
    /// This API has names in the path of a URL, where this name is impossible; nothing was done.
    #[error(
        "cannot {step}: the management API takes no name `.` or `..`, nor one with a tab or a line break, like {name:?}"
    )]
    Unnameable {
        /// The step that failed.
        step: String,
        /// The impossible name.
        name: String,
    },
    /// The broker understood the request and refused it.
    #[error("the broker at {address} refused to {step}: {reason}")]
    Refused {
        /// The URL of the management API.
        address: String,
        /// The step that failed.
        step: String,
        /// The broker's reply.
        reason: String,
    },
}

/// Why a call has no usable answer.
#[derive(Debug)]
pub(in crate::administration) enum ApiFailure {
    /// The server did not answer, or its answer cannot be read.
    Request(reqwest::Error),
    /// The server redirected the request, so nothing was done; with the reason and the fix.
    Redirect(String),
    /// The answer is no JSON; with the parser's error.
    NotJson(String),
    /// The answer is about this virtual host, and the request was about another one.
    OtherVirtualHost(String),
    /// A URL cannot have this name in its path, so nothing was done.
    Unnameable(String),
    /// The server answered with an error status.
    Status { status: StatusCode, path: String, body: String },
}

impl From<reqwest::Error> for ApiFailure {
    fn from(error: reqwest::Error) -> Self {
        Self::Request(error)
    }
}

impl ApiFailure {
    /// Returns a response with status 2xx; every other status is a failure.
    pub(super) async fn unless_done(response: Response) -> Result<Response, Self> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_client_error() || status.is_server_error() {
            let path = response.url().path().to_owned();
            let body = response.text().await?;
            return Err(Self::Status { status, path, body });
        }
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        Err(Self::Redirect(match to.and_then(|to| response.url().join(to).ok()) {
            Some(to) => format!(
                "it redirects to {}{}: write the URL of the management API itself into broker.management_url",
                to.origin().ascii_serialization(),
                to.path()
            ),
            None => format!(
                "it redirects ({status}) and names no target: write the URL of the management API itself into broker.management_url"
            ),
        }))
    }

    /// Parses the body of an answer with `status`, which is no error for some requests. Every other failure is returned.
    pub(in crate::administration) fn read<T: DeserializeOwned>(
        self,
        status: u16,
    ) -> Result<T, Self> {
        match &self {
            Self::Status { status: it, body, .. } if it.as_u16() == status => {
                serde_json::from_str(body).map_err(|_not_ours| self)
            }
            _ => Err(self),
        }
    }

    /// Whether the server answered with this error status.
    pub(in crate::administration) fn is(&self, status: u16) -> bool {
        matches!(self, Self::Status { status: it, .. } if it.as_u16() == status)
    }
}

/// The body of a refusal.
#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
    reason: Option<String>,
}

/// The broker's reason in a refusal; the status if the body is empty.
fn reason(status: StatusCode, body: String) -> String {
    let refusal = serde_json::from_str(&body).ok();
    let said = refusal.and_then(|Refusal { error, reason }| reason.or(error)).unwrap_or(body);
    if said.is_empty() { status.to_string() } else { said }
}

/// The caller whose request failed, as the errors name it.
pub(super) struct Caller<'a> {
    pub(super) address: &'a str,
    pub(super) user: &'a str,
    pub(super) vhost: &'a str,
    /// How long a call may take.
    pub(super) within: Duration,
}

impl Caller<'_> {
    /// Turns the failure of a request into an error; `step` is the purpose of the request.
    pub(super) fn explain(&self, step: &str, error: ApiFailure) -> ManagementError {
        let address = self.address.to_owned();
        let user = self.user.to_owned();
        let step = step.to_owned();
        let (status, path, body) = match error {
            ApiFailure::Status { status, path, body } => (status, path, body),
            ApiFailure::OtherVirtualHost(other) => {
                let vhost = self.vhost.to_owned();
                return ManagementError::OtherVirtualHost { address, vhost, other };
            }
            ApiFailure::NotJson(reason) => {
                let reason = format!("its answer is no JSON: {reason}");
                return ManagementError::Unreachable { address, step, reason };
            }
            ApiFailure::Unnameable(name) => return ManagementError::Unnameable { step, name },
            ApiFailure::Redirect(reason) => {
                return ManagementError::Unreachable { address, step, reason };
            }
            ApiFailure::Request(error) if error.is_timeout() && !error.is_connect() => {
                return ManagementError::Silent { address, step, within: self.within };
            }
            ApiFailure::Request(error) => {
                let reason = tls::refusal(&error, tls::RABBITMQ);
                let reason = reason.unwrap_or_else(|| causes(&error));
                return ManagementError::Unreachable { address, step, reason };
            }
        };
        let reason = reason(status, body);
        let refused = reason.to_ascii_uppercase().contains("ACCESS_REFUSED");
        match status.as_u16() {
            404 => ManagementError::NotFound { address, path, step },
            401 | 403 => ManagementError::NotPermitted { address, user, step, reason },
            400..500 if refused => ManagementError::NotPermitted { address, user, step, reason },
            _ => ManagementError::Refused { address, step, reason },
        }
    }
}

/// The innermost cause of an HTTP client's "error sending request": refused, timed out, no such host.
fn causes(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
