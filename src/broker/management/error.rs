//! What the management API says when it does not do what was asked, in this program's words.

use rabbitmq_http_client::error::Error as ApiError;

use crate::{text::quote, tls};

pub(in crate::broker) type ApiFailure = rabbitmq_http_client::api::HttpClientError;

/// Why the management API did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    /// Nobody answers, or something other than the management API answers.
    #[error(
        "cannot reach the management API at {address} to {step}; is the plugin enabled (rabbitmq-plugins enable \
         rabbitmq_management), and is broker.management_url right? ({reason})"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What was being done.
        step: String,
        /// What the HTTP client said.
        reason: String,
    },
    /// The login is refused, or the user lacks a tag or a permission.
    #[error(
        "user `{user}` may not {step} at {address}: {reason}; check the user and password in broker.management_url, \
         its `management` tag, and its permissions on the topology's objects"
    )]
    NotPermitted {
        /// Where.
        address: String,
        /// Who.
        user: String,
        /// What was being done.
        step: String,
        /// What the broker said.
        reason: String,
    },
    /// The virtual host does not exist.
    #[error(
        "there is no virtual host `{vhost}` at {address}, or user `{user}` may not use it: create it with \
         `rabbitmqctl add_vhost {}` or correct broker.url",
        quote(vhost)
    )]
    NoVirtualHost {
        /// Where.
        address: String,
        /// Which.
        vhost: String,
        /// Who asked.
        user: String,
    },
    /// The topology needs a plugin that the broker does not have; nothing was changed.
    #[error(
        "{broker} has no exchange type `{kind}`, which strategy `{strategy}` needs; it comes with \
         the plugin rabbitmq_delayed_message_exchange: {fix}"
    )]
    NoExchangeType {
        /// Its version, and where.
        broker: String,
        /// The type.
        kind: &'static str,
        /// As it is written in the topology.
        strategy: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The broker understood and said no.
    #[error("the broker at {address} refused to {step}: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// What was being done.
        step: String,
        /// What the broker said.
        reason: String,
    },
}

/// Whose call failed: what every error of this API names.
pub(super) struct Caller<'a> {
    pub(super) address: &'a str,
    pub(super) user: &'a str,
    pub(super) vhost: &'a str,
}

impl Caller<'_> {
    /// What a failure of the HTTP client means, in `step`.
    pub(super) fn explain(&self, step: &str, error: ApiFailure) -> ManagementError {
        let address = self.address.to_owned();
        let user = self.user.to_owned();
        let vhost = || self.vhost.to_owned();
        let step = step.to_owned();
        match error {
            ApiError::NotFound => ManagementError::NoVirtualHost { address, vhost: vhost(), user },
            ApiError::ClientErrorResponse { status_code, body, error_details, .. } => {
                let details =
                    error_details.as_ref().and_then(|details| details.reason().map(str::to_owned));
                let reason = details.or(body).unwrap_or_else(|| status_code.to_string());
                let refused = reason.to_ascii_uppercase().contains("ACCESS_REFUSED");
                match status_code.as_u16() {
                    404 => ManagementError::NoVirtualHost { address, vhost: vhost(), user },
                    401 | 403 => ManagementError::NotPermitted { address, user, step, reason },
                    _ if refused => ManagementError::NotPermitted { address, user, step, reason },
                    _ => ManagementError::Refused { address, step, reason },
                }
            }
            ApiError::ServerErrorResponse { status_code, body, .. } => {
                let reason = body.unwrap_or_else(|| status_code.to_string());
                ManagementError::Refused { address, step, reason }
            }
            ApiError::RequestError { error, .. } => {
                let reason = tls::refusal(&error, tls::RABBITMQ);
                let reason = reason.unwrap_or_else(|| causes(&error));
                ManagementError::Unreachable { address, step, reason }
            }
            other => ManagementError::Unreachable { address, step, reason: other.to_string() },
        }
    }
}

/// What is behind an HTTP client's "error sending request": refused, timed out, no such host.
fn causes(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
