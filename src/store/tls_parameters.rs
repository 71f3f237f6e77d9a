//! The parameters of a PostgreSQL URL that are about TLS, with the meaning they have for libpq.
//!
//! Source: <https://www.postgresql.org/docs/current/libpq-ssl.html>

use tokio_postgres::config::SslMode;

use super::StoreError;
use crate::{
    secret::ESCAPES,
    tls::{POSTGRESQL, Tls, Verification},
};

const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// What a URL says about TLS.
#[derive(Debug, Default)]
pub(super) struct SslParameters {
    mode: Option<String>,
    files: Vec<(String, String)>,
}

impl SslParameters {
    /// Takes them out of a URL: the client that gets it does not know them.
    /// A URL in which two readers would not find the same is refused.
    pub(super) fn take(url: &str) -> Result<(String, Self), StoreError> {
        let unreadable = |reason: &str| Err(StoreError::Address(reason.to_owned()));
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return unreadable("it does not begin with postgres://");
        }
        // The client takes everything up to the first `@` for user and password.
        let begin = url.find('@').map_or(0, |at| at + 1);
        let (hosts, query) = url[begin..].split_once('?').unwrap_or((&url[begin..], ""));
        if hosts.contains('@') {
            return unreadable(&format!("there is a second `@`: {ESCAPES}"));
        }
        let (before, mut found) = (&url[..begin + hosts.len()], Self::default());
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
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
        Ok((format!("{before}{rest}"), found))
    }

    /// How TLS is done; `None` where it is not.
    ///
    /// `prefer` and `require` check the certificate too, but for a host that is this machine and no CA that is named: libpq
    /// would take any. Without a mode it is `require` for another machine: no plain text that nobody has asked for.
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
        let checked =
            if local && tls.ca.is_none() { Verification::Nothing } else { Verification::Full };
        let (mode, verification) = match self.mode.as_deref() {
            Some("disable") => (SslMode::Disable, Verification::Nothing),
            Some("prefer") => (SslMode::Prefer, checked),
            None if local => (SslMode::Prefer, checked),
            None | Some("require") => (SslMode::Require, checked),
            Some("verify-full") => (SslMode::Require, Verification::Full),
            Some("verify-ca") if tls.ca.is_some() => (SslMode::Require, Verification::Chain),
            Some("verify-ca") => {
                return Err(StoreError::Address(
                    "sslmode=verify-ca takes any certificate of the CAs that are trusted, and those of the machine sign \
                     for everybody: name a CA of your own with sslrootcert, or write verify-full"
                        .to_owned(),
                ));
            }
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
