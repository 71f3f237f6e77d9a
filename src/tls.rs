//! TLS to the broker, its management API and the database: one client configuration, and what a failed handshake means.

mod refusal;
mod verifier;

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) use refusal::refusal;
use rustls::{
    ClientConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::doctor::facts::Encryption;

/// The encryption of a connection. The files are read for each configuration, so that renewed certificates are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) verification: Verification,
    /// PEM file with trusted CAs, instead of the machine's.
    pub(crate) ca: Option<PathBuf>,
    /// PEM file with the client's certificate and its intermediate certificates.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file with the key of the client's certificate.
    pub(crate) key: Option<PathBuf>,
    /// Names of the files' parameters in the URL.
    pub(crate) parameters: Parameters,
    /// Protocol that the handshake names (ALPN).
    pub(crate) alpn: Option<&'static [u8]>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot read {parameter} {path}: {reason}")]
    File { parameter: &'static str, path: String, reason: String },
    #[error("{given} is set and {missing} is not: a client certificate needs both")]
    Half { given: &'static str, missing: &'static str },
    #[error("{certificate} and {key} do not fit: {reason}")]
    ClientCertificate { certificate: &'static str, key: &'static str, reason: String },
    #[error("the CAs of this machine cannot be used: {reason}; name a file with {ca}")]
    Roots { reason: String, ca: &'static str },
}

impl Tls {
    /// A configuration without files.
    pub(crate) const fn new(verification: Verification, parameters: Parameters) -> Self {
        Self { verification, ca: None, certificate: None, key: None, parameters, alpn: None }
    }

    /// Reads the files and returns the configuration of a client.
    pub(crate) fn client(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = |reason: rustls::Error| TlsError::Roots {
            reason: reason.to_string(),
            ca: self.parameters.ca,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(roots)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let Parameters { certificate, key, .. } = self.parameters;
        let mut client = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(_), None) => {
                return Err(TlsError::Half { given: certificate, missing: key });
            }
            (None, Some(_)) => {
                return Err(TlsError::Half { given: key, missing: certificate });
            }
            (Some(chain), Some(private)) => {
                let chain = certificates(certificate, chain)?;
                let private = PrivateKeyDer::from_pem_file(private)
                    .map_err(|error| file(key, private, &error))?;
                builder.with_client_auth_cert(chain, private).map_err(|error| {
                    TlsError::ClientCertificate { certificate, key, reason: error.to_string() }
                })?
            }
        };
        client.alpn_protocols.extend(self.alpn.map(<[u8]>::to_vec));
        Ok(client)
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<verifier::Verifier>, TlsError> {
        let ca = self.parameters.ca;
        let trusted = match (&self.ca, self.verification) {
            (_, Verification::Nothing) => Ok(None),
            (Some(path), _) => {
                let found = certificates(ca, path)?;
                verifier::trusting(found, Arc::clone(&provider)).map(Some)
            }
            (None, _) => verifier::platform(Arc::clone(&provider)).map(Some),
        };
        let trusted = trusted.map_err(|reason| match &self.ca {
            Some(path) => {
                TlsError::File { parameter: ca, path: path.display().to_string(), reason }
            }
            None => TlsError::Roots { reason, ca },
        })?;
        Ok(Arc::new(verifier::Verifier::new(self.verification, trusted, provider)))
    }
}

fn certificates(
    parameter: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| file(parameter, path, &error))?;
    if found.is_empty() {
        let none = "there is no certificate in it (PEM: BEGIN CERTIFICATE)";
        return Err(file(parameter, path, &none));
    }
    Ok(found)
}

fn file(parameter: &'static str, path: &Path, reason: &dyn Display) -> TlsError {
    TlsError::File { parameter, path: path.display().to_string(), reason: reason.to_string() }
}

/// Checks of the peer's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// A trusted CA has signed it, and it is for this host.
    Full,
    /// A trusted CA has signed it.
    Chain,
    /// No check: the connection is encrypted, with an unknown peer.
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

/// Names of URL parameters, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) ca: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// Names of RabbitMQ's own URIs. Source: <https://www.rabbitmq.com/docs/uri-query-parameters>
pub(crate) const RABBITMQ: Parameters =
    Parameters { ca: "cacertfile", certificate: "certfile", key: "keyfile" };
/// Names of libpq. Source: <https://www.postgresql.org/docs/current/libpq-ssl.html>
pub(crate) const POSTGRESQL: Parameters =
    Parameters { ca: "sslrootcert", certificate: "sslcert", key: "sslkey" };
