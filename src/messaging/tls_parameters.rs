//! The TLS parameters of RabbitMQ's URIs: `cacertfile`, `certfile`, `keyfile` and `verify`.
//!
//! Source: <https://www.rabbitmq.com/docs/uri-query-parameters>

use crate::{
    doctor::facts::is_loopback,
    text::percent_decode,
    tls::{RABBITMQ, Tls, Verification},
};

/// The TLS parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsParameters {
    given: Vec<(String, String)>,
}

const NAMES: [&str; 4] = ["cacertfile", "certfile", "keyfile", "verify"];

impl TlsParameters {
    /// Removes the parameters from a URL: the clients that get the URL do not know them.
    pub(super) fn take(url: &str) -> (String, Self) {
        let Some((before, query)) = url.split_once('?') else {
            return (url.to_owned(), Self::default());
        };
        let (mut given, mut others) = (Vec::new(), Vec::new());
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !NAMES.contains(&name) {
                others.push(parameter);
                continue;
            }
            given.push((name.to_owned(), percent_decode(value)));
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        (format!("{before}{rest}"), Self { given })
    }

    /// The TLS settings for these hosts; `None` without TLS.
    ///
    /// If `verify` is missing, the certificate is verified, unless all hosts are this machine and no CA is named.
    pub(super) fn tls<'a>(
        self,
        secure: bool,
        mut hosts: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Tls>, String> {
        let mut tls = Tls::new(Verification::Full, RABBITMQ);
        let mut verify = None;
        for (name, value) in self.given {
            if !secure {
                return Err(format!("{name} needs TLS: write amqps:// or https://"));
            }
            match name.as_str() {
                "cacertfile" => tls.ca = Some(value.into()),
                "certfile" => tls.certificate = Some(value.into()),
                "keyfile" => tls.key = Some(value.into()),
                _ => verify = Some(value),
            }
        }
        let local = hosts.all(is_loopback);
        tls.verification = match verify.as_deref() {
            Some("verify_peer") => Verification::Full,
            Some("verify_none") => Verification::Nothing,
            Some(other) => {
                return Err(format!("verify is `{other}`: write verify_peer or verify_none"));
            }
            None if local && tls.ca.is_none() => Verification::Nothing,
            None => Verification::Full,
        };
        Ok(secure.then_some(tls))
    }
}
