//! A TLS server in front of a service in plain text, with certificates made for the test.

use std::{path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// The certificate that a server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Right,
    Expired,
    /// A certificate for `other.example`.
    OtherHost,
    /// A certificate of an untrusted CA.
    OtherCa,
}

/// A CA, and files with certificates that it signed.
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Ca {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// The file with the CA's own certificate.
    pub fn file(&self) -> String {
        self.path("ca.pem").display().to_string()
    }

    /// Signs a certificate for a host; returns it and its key as PEM.
    fn signs(&self, host: &str, expired: bool) -> (String, String) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    /// Writes a certificate and a key for a client.
    pub fn client(&self) -> [String; 2] {
        self.files("client")
    }

    /// Writes a certificate and a key for a host.
    pub fn files(&self, host: &str) -> [String; 2] {
        let (certificate, key) = self.signs(host, false);
        let files = [("pem", certificate), ("key", key)];
        files.map(|(ending, text)| {
            let path = self.path(&format!("{host}.{ending}"));
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// PostgreSQL requires this protocol name.
const ALPN: &[u8] = b"postgresql";

/// The beginning of a connection, before TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    AtOnce,
    /// PostgreSQL: a request for TLS, and the answer `S`.
    AsPostgresql,
    /// PostgreSQL with TLS from the first byte.
    DirectlyAsPostgresql,
}

/// Listens on `localhost` until drop.
pub struct TlsServer {
    pub port: u16,
    serving: JoinHandle<()>,
}

impl TlsServer {
    /// A server in front of `service` (`host:port`); with `clients`, it requires a client certificate of that CA.
    pub async fn before(
        service: String,
        begins: Begins,
        ca: &Ca,
        shown: Shown,
        clients: Option<&Ca>,
    ) -> Self {
        let other;
        let signer = if shown == Shown::OtherCa {
            other = Ca::new();
            &other
        } else {
            ca
        };
        let host = if shown == Shown::OtherHost { "other.example" } else { "localhost" };
        let (certificate, key) = signer.signs(host, shown == Shown::Expired);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(trusted) => {
                let mut roots = RootCertStore::empty();
                roots.add(trusted.issuer.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = config.with_single_cert(chain, key).unwrap();
        if begins == Begins::DirectlyAsPostgresql {
            config.alpn_protocols.push(ALPN.to_vec());
        }
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), service.clone());
                // Some tests have a client that refuses the certificate.
                tokio::spawn(async move { serve(client, &acceptor, &service, begins).await.ok() });
            }
        });
        Self { port, serving }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut client: TcpStream,
    acceptor: &TlsAcceptor,
    service: &str,
    begins: Begins,
) -> std::io::Result<()> {
    if begins == Begins::AsPostgresql {
        let mut request = [0; 8];
        client.read_exact(&mut request).await?;
        client.write_all(b"S").await?;
    }
    let mut secure = acceptor.accept(client).await?;
    // As PostgreSQL: "received direct SSL connection request without ALPN protocol negotiation extension".
    if begins == Begins::DirectlyAsPostgresql && secure.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Ok(());
    }
    let mut plain = TcpStream::connect(service).await?;
    copy_bidirectional(&mut secure, &mut plain).await.map(drop)
}
