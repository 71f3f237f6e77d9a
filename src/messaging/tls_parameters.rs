//! The parameters of RabbitMQ's URIs that are about TLS: `cacertfile`, `certfile`, `keyfile` and `verify`.
//!
//! Source: <https://www.rabbitmq.com/docs/uri-query-parameters>

use crate::{
    doctor::facts::is_loopback,
    text::percent_decode,
    tls::{RABBITMQ, Tls, Verification},
};

/// What a URL says about TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsParameters {
    given: Vec<(String, String)>,
}

const NAMES: [&str; 4] = ["cacertfile", "certfile", "keyfile", "verify"];

impl TlsParameters {
    /// Takes them out of a URL: the clients that get it do not know them.
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

    /// How TLS is done with these hosts; `None` where it is not.
    ///
    /// Without `verify` the certificate is checked, but for a host that is this machine and no CA that is named.
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
