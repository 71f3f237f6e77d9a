//! The parameters of a PostgreSQL URL that are about TLS, with the meaning they have for libpq.
//!
//! Source: <https://www.postgresql.org/docs/current/libpq-ssl.html>

use tokio_postgres::config::SslMode;

use super::StoreError;
use crate::tls::{POSTGRESQL, Tls, Verification};

const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// What a URL says about TLS.
#[derive(Debug, Default)]
pub(super) struct TlsParameters {
    mode: Option<String>,
    files: Vec<(String, String)>,
}

impl TlsParameters {
    /// Takes them out of a URL: the client that gets it does not know them.
    pub(super) fn take(url: &str) -> (String, Self) {
        let mut found = Self::default();
        let Some((before, query)) = url.split_once('?').filter(|_| url.contains("://")) else {
            return (url.to_owned(), found);
        };
        let mut others = Vec::new();
        for parameter in query.split('&') {
            let pair = url::form_urlencoded::parse(parameter.as_bytes()).next();
            let Some((name, value)) = pair.map(|(name, value)| (name, value.into_owned())) else {
                continue;
            };
            match &*name {
                "sslmode" => found.mode = Some(value),
                "sslrootcert" | "sslcert" | "sslkey" => {
                    found.files.push((name.into_owned(), value));
                }
                _ => others.push(parameter),
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        (format!("{before}{rest}"), found)
    }

    /// How TLS is done; `None` where it is not.
    ///
    /// `prefer` (the default) and `require` check the certificate too, but for a host that is this machine and no CA
    /// that is named: libpq would take any.
    pub(super) fn tls(
        self,
        config: &mut tokio_postgres::Config,
        local: bool,
    ) -> Result<Option<Tls>, StoreError> {
        let mut tls = Tls::new(Verification::Full, POSTGRESQL);
        for (name, value) in self.files {
            let file = match name.as_str() {
                "sslrootcert" => &mut tls.ca,
                "sslcert" => &mut tls.certificate,
                _ => &mut tls.key,
            };
            *file = Some(value.into());
        }
        let unverified = local && tls.ca.is_none();
        let (mode, verification) = match self.mode.as_deref() {
            Some("disable") => (SslMode::Disable, Verification::Nothing),
            None | Some("prefer") if unverified => (SslMode::Prefer, Verification::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Verification::Full),
            Some("require") if unverified => (SslMode::Require, Verification::Nothing),
            Some("require" | "verify-full") => (SslMode::Require, Verification::Full),
            Some("verify-ca") => (SslMode::Require, Verification::Chain),
            Some(other) => {
                return Err(StoreError::Address(format!(
                    "sslmode is `{other}`: it can be {MODES}"
                )));
            }
        };
        config.ssl_mode(mode);
        tls.verification = verification;
        Ok((mode != SslMode::Disable).then_some(tls))
    }
}
