//! Where the broker is: the AMQP URI and the management API that belongs to it.

use std::fmt;

use lapin::uri::{AMQPScheme, AMQPUri};
use url::Url;

use crate::secret::Secret;

/// Seconds between heartbeats: a dead peer is noticed within twenty.
const HEARTBEAT_SECONDS: u16 = 10;
/// Bytes; what RabbitMQ itself proposes (4.1 and later need at least 8192).
const FRAME_MAX_BYTES: u32 = 131_072;

/// A broker's address with its credentials; its `Display` and `Debug` have no password.
#[derive(Clone)]
pub struct BrokerAddress {
    pub(super) uri: Secret<AMQPUri>,
    pub(super) management: Secret<Url>,
}

/// Why a URL is not a broker address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The AMQP URI cannot be read.
    #[error("broker.url is not an AMQP URI: {0}; write it like amqp://user:password@host:5672/%2f")]
    Amqp(String),
    /// The URL of the management API cannot be read.
    #[error(
        "broker.management_url is not an http(s) URL: {0}; write it like http://user:password@host:15672"
    )]
    Management(String),
}

impl BrokerAddress {
    /// Reads both URLs. Without `management_url` the management API is expected on the same host, on its
    /// default port (15672, or 15671 with TLS), with the same credentials.
    ///
    /// # Errors
    /// One of the two cannot be read.
    pub fn parse(url: &str, management_url: Option<&str>) -> Result<Self, AddressError> {
        // The parser quotes the URL, and there may be a password in it.
        let unreadable = |reason: String| AddressError::Amqp(reason.replace(url, "<url>"));
        let mut uri: AMQPUri = url.parse().map_err(unreadable)?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        uri.query.frame_max.get_or_insert(FRAME_MAX_BYTES);
        let management = match management_url {
            Some(text) => {
                Url::parse(text).map_err(|error| AddressError::Management(error.to_string()))?
            }
            None => derived_management(&uri)?,
        };
        if !matches!(management.scheme(), "http" | "https") {
            return Err(AddressError::Management(format!("scheme `{}`", management.scheme())));
        }
        Ok(Self { uri: Secret::new(uri), management: Secret::new(management) })
    }

    /// The virtual host, `/` by default.
    #[must_use]
    pub fn virtual_host(&self) -> &str {
        &self.uri.expose().vhost
    }

    /// The user that logs in.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.uri.expose().authority.userinfo.username
    }

    /// The management API without credentials, for messages.
    #[must_use]
    pub fn management_display(&self) -> String {
        let url = self.management.expose();
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        format!("{}://{host}:{port}", url.scheme())
    }
}

fn derived_management(uri: &AMQPUri) -> Result<Url, AddressError> {
    let authority = &uri.authority;
    let base = match uri.scheme {
        AMQPScheme::AMQPS => format!("https://{}:15671", authority.host),
        AMQPScheme::AMQP => format!("http://{}:15672", authority.host),
    };
    let unreadable = |error: String| AddressError::Management(error);
    let mut url = Url::parse(&base).map_err(|error| unreadable(error.to_string()))?;
    let set = url.set_username(&authority.userinfo.username);
    set.and_then(|()| url.set_password(Some(&authority.userinfo.password)))
        .map_err(|()| unreadable(format!("no credentials can be put into {base}")))?;
    Ok(url)
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.uri.expose();
        let authority = &uri.authority;
        let scheme = match uri.scheme {
            AMQPScheme::AMQPS => "amqps",
            AMQPScheme::AMQP => "amqp",
        };
        write!(f, "{scheme}://{}:{} virtual host `{}`", authority.host, authority.port, uri.vhost)
    }
}

impl fmt::Debug for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
