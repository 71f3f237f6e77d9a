//! The TLS parameters of a PostgreSQL URL, with their meaning in libpq.
//!
//! Source: <https://www.postgresql.org/docs/current/libpq-ssl.html>

use tokio_postgres::config::SslMode;

use super::StoreError;
use crate::{
    secret::ESCAPES,
    tls::{POSTGRESQL, Tls, Verification},
};

const MODES: &str = "disable, prefer, require, verify-ca or verify-full";
/// The value of `sslrootcert` for the CAs of the machine.
const MACHINE: &str = "system";
/// The ALPN protocol that libpq 17 and later send in each TLS handshake; a server accepts `sslnegotiation=direct` only with it.
const ALPN: &[u8] = b"postgresql";

/// Parameters that platforms write into a URL for other clients, and the replacement.
const OF_OTHERS: [(&[&str], &str); 6] = [
    (&["schema", "search_path", "currentSchema"], "leave it out, and set database.search_path"),
    (
        &["connection_limit", "pool_timeout", "pool_size", "pool_max_conns"],
        "leave it out, and set database.connections",
    ),
    (
        &["pgbouncer", "prepareThreshold", "statement_cache_size", "prepared_statements"],
        "leave it out; how a pooler has to be set up is in docs/settings.md",
    ),
    (
        &["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
        "write it as options=-c%20NAME%3DVALUE, for example options=-c%20statement_timeout%3D5s",
    ),
    (&["ssl", "tls"], "write sslmode=verify-full, or sslmode=disable"),
    (
        &["client_encoding", "gssencmode", "sslcompression", "requirepeer", "krbsrvname"],
        "leave it out: this client has no such choice",
    ),
];

/// The TLS parameters of a URL.
#[derive(Debug, Default)]
pub(super) struct SslParameters {
    mode: Option<String>,
    files: Vec<(String, String)>,
}

impl SslParameters {
    /// Removes the parameters from a URL, because the client does not know them. Refuses a URL that another reader would understand
    /// differently.
    pub(super) fn take(url: &str) -> Result<(String, Self), StoreError> {
        let unreadable = |reason: &str| Err(StoreError::Address(reason.to_owned()));
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return unreadable("it does not begin with postgres://");
        }
        // The client takes all text before the first `@` for user and password.
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
                name => {
                    let of_others = OF_OTHERS.iter().find(|(names, _)| names.contains(&name));
                    if let Some((_, instead)) = of_others {
                        return unreadable(&format!("`{name}` is not known: {instead}"));
                    }
                    others.push(parameter);
                }
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok((format!("{before}{rest}"), found))
    }

    /// The TLS settings; `None` without TLS. `sslrootcert=system` means `verify-full` with the CAs of the machine.
    ///
    /// `prefer` and `require` check the certificate, which libpq does not; only a local host without a named CA is not checked. If
    /// the URL has no mode, another machine gets `require`, so that plain text needs an explicit setting.
    pub(super) fn tls(
        self,
        config: &mut tokio_postgres::Config,
        local: bool,
    ) -> Result<Option<Tls>, StoreError> {
        let mut tls = Tls { alpn: Some(ALPN), ..Tls::new(Verification::Full, POSTGRESQL) };
        let (mut mode, mut by_machine) = (self.mode, false);
        for (name, value) in self.files {
            let file = match name.as_str() {
                "sslrootcert" if value == MACHINE => {
                    by_machine = true;
                    mode.get_or_insert_with(|| "verify-full".to_owned());
                    continue;
                }
                "sslrootcert" => &mut tls.ca,
                "sslcert" => &mut tls.certificate,
                _ => &mut tls.key,
            };
            *file = Some(value.into());
        }
        let unchecked = local && tls.ca.is_none() && !by_machine;
        let checked = if unchecked { Verification::Nothing } else { Verification::Full };
        let (mode, verification) = match mode.as_deref() {
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
