//! Why a TLS handshake failed, in plain words and with the next step.

use std::{error::Error, io};

use rustls::{AlertDescription, CertificateError};

use super::Parameters;

/// The reason, if `error` is about TLS; `None` for any other failure.
pub(crate) fn refusal(error: &(dyn Error + 'static), parameters: Parameters) -> Option<String> {
    let Parameters { ca, certificate, key } = parameters;
    Some(match in_chain(error)? {
        rustls::Error::InvalidCertificate(wrong) => certificate_refused(wrong, ca),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                format!("it wants a client certificate: set {certificate} and {key}")
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError => {
                format!(
                    "it refuses our client certificate ({alert:?}): check {certificate} and {key}"
                )
            }
            other => format!("it ended the TLS handshake: {other:?}"),
        },
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS on this port: check scheme and port of the URL".to_owned()
        }
        other => format!("the TLS handshake failed: {other}"),
    })
}

fn certificate_refused(wrong: &CertificateError, ca: &str) -> String {
    match wrong {
        // A CA with the same name and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("its certificate is signed by no CA that is trusted here: name the CA's file with {ca}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or correct this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: correct this machine's clock".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host name: use a name that is in it, or a certificate with this one"
                .to_owned()
        }
        other => format!("its certificate is refused: {other}"),
    }
}

/// Finds the TLS error behind an error of a client; `std::io::Error` hides its inner error.
fn in_chain<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| in_chain(inner)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}
