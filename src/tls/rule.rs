//! What is checked, and what the parameters of URLs are called.

use crate::doctor::facts::Encryption;

/// How much of the peer's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// A trusted CA has signed it, and it is for this host.
    Full,
    /// A trusted CA has signed it.
    Chain,
    /// Nothing: the connection is encrypted, with whomever.
    Nothing,
}

impl From<Verification> for Encryption {
    fn from(verification: Verification) -> Self {
        match verification {
            Verification::Full => Self::Verified,
            Verification::Chain => Self::ChainVerified,
            Verification::Nothing => Self::Unverified,
        }
    }
}

/// What the parameters of a URL are called, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) ca: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// As RabbitMQ's own URIs have them. Source: <https://www.rabbitmq.com/docs/uri-query-parameters>
pub(crate) const RABBITMQ: Parameters =
    Parameters { ca: "cacertfile", certificate: "certfile", key: "keyfile" };
/// As libpq has them. Source: <https://www.postgresql.org/docs/current/libpq-ssl.html>
pub(crate) const POSTGRESQL: Parameters =
    Parameters { ca: "sslrootcert", certificate: "sslcert", key: "sslkey" };
