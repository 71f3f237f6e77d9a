//! The broker's address: the AMQP URI, and the management API that belongs to it.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use lapin::uri::{AMQPScheme, AMQPUri};
use tokio::time::timeout;
use url::Url;

use super::{host_list::each_host, tls_parameters::TlsParameters};
use crate::{
    config::{Login, UrlFile},
    secret::{ESCAPES, Secret, has_late_at},
    timing::Timing,
    tls::{Tls, Verification},
};

/// The limit of a lookup; a name server usually answers within milliseconds.
const LOOKUP_WITHIN: Duration = Duration::from_secs(2);
/// Seconds between heartbeats: a dead peer is detected within ten seconds.
const HEARTBEAT_SECONDS: u16 = 5;
/// The largest frame, in bytes: the size that RabbitMQ proposes (4.1 and later need at least 8192).
const FRAME_MAX_BYTES: u32 = 131_072;
/// A smaller limit, in bytes. The client has buffers of 32 frames in each direction, and all of this memory becomes resident.
const SMALL_FRAME_MAX_BYTES: u32 = 32_768;

/// A broker's address with its credentials; its `Display` and `Debug` have no password.
#[derive(Clone)]
pub struct BrokerAddress {
    /// At least one node; several nodes are of one cluster, with the same user and virtual host.
    pub(super) nodes: Secret<Vec<AMQPUri>>,
    /// The frame size unless the URI names one.
    frame_max: u32,
    /// `None` without TLS.
    pub(crate) tls: Option<Tls>,
    /// At least one URL; several are of one cluster.
    pub(crate) management: Secret<Vec<Url>>,
    /// Whether `management` is derived from the AMQP URI, because no other URL is set.
    is_derived: bool,
    pub(crate) management_tls: Option<Tls>,
    /// The files with the AMQP URI and the URL of the management API, to read them again.
    files: [Option<Arc<UrlFile>>; 2],
    /// Time-outs for this broker.
    pub(crate) timing: Arc<Timing>,
}

/// The reason why a URL is not a broker address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The AMQP URI cannot be read.
    #[error("broker.url is not an AMQP URI: {0}; write it like amqp://user:password@host:5672/%2f")]
    Amqp(String),
    /// The AMQP URI names a virtual host without a name.
    #[error(
        "broker.url ends in `/`, which names a virtual host without a name: leave the slash out or write %2f for virtual host `/`, \
         or write the name of another one behind it"
    )]
    NamelessVirtualHost,
    /// The URL of the management API cannot be read.
    #[error(
        "broker.management_url is not an http(s) URL: {0}; write it like http://user:password@host:15672"
    )]
    Management(String),
}

impl BrokerAddress {
    /// Parses both URLs. Each may name several nodes of a cluster, `amqp://user:password@one:5672,two:5672/%2f`, and has the TLS query
    /// parameters of RabbitMQ's own URIs. Without `management_url` the management API has the same host and credentials, and its default
    /// port (15672, or 15671 with TLS). If its certificate is fully verified, port 443 is tried as well, which managed brokers use.
    ///
    /// # Errors
    /// Either URL is not valid.
    pub fn parse(url: &str, management_url: Option<&str>) -> Result<Self, AddressError> {
        // The parser's error quotes the URL, which may contain a password.
        let unreadable = |reason: String| AddressError::Amqp(reason.replace(url, "<url>"));
        if has_late_at(url) {
            return Err(AddressError::Amqp(late_at()));
        }
        let (url_of_tls, parameters) = TlsParameters::take(url);
        let mut nodes = Vec::new();
        for node in each_host(&url_of_tls) {
            let unreadable = |reason: String| unreadable(reason.replace(&node, "<url>"));
            let mut uri: AMQPUri = node.parse().map_err(unreadable)?;
            // The broker would accept an empty name, but the management API would answer for all virtual hosts.
            if uri.vhost.is_empty() {
                return Err(AddressError::NamelessVirtualHost);
            }
            uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
            nodes.push(uri);
        }
        let secure = nodes.first().is_some_and(|uri| uri.scheme == AMQPScheme::AMQPS);
        let hosts = nodes.iter().map(|uri| uri.authority.host.as_str());
        let tls = parameters.clone().tls(secure, hosts).map_err(unreadable)?;
        let (mut management, parameters) = if let Some(text) = management_url {
            management_nodes(text)?
        } else {
            let derived: Result<Vec<Url>, _> = nodes.iter().map(derived_management).collect();
            (derived?, parameters)
        };
        let secure = management.first().is_some_and(|url| url.scheme() == "https");
        let hosts = management.iter().filter_map(Url::host_str);
        let management_tls = parameters.tls(secure, hosts).map_err(AddressError::Management)?;
        let is_derived = management_url.is_none();
        let is_verified =
            management_tls.as_ref().is_some_and(|tls| tls.verification == Verification::Full);
        if is_derived && is_verified {
            let default_ports = management.clone().into_iter().filter_map(|mut url| {
                url.set_port(None).ok()?;
                Some(url)
            });
            management.extend(default_ports.collect::<Vec<_>>());
        }
        Ok(Self {
            nodes: Secret::new(nodes),
            frame_max: FRAME_MAX_BYTES,
            tls,
            management: Secret::new(management),
            is_derived,
            management_tls,
            files: [None, None],
            timing: Arc::default(),
        })
    }

    /// Uses smaller frames, which take less memory; headers of more than 24 KiB are dropped. A `frame_max` in the URI wins.
    pub fn with_small_frames(self) -> Self {
        Self { frame_max: SMALL_FRAME_MAX_BYTES, ..self }
    }

    /// Adds the files of the URLs, which are read again when the broker refuses a login.
    pub(crate) fn with_url_files(self, broker: Option<&Path>, management: Option<&Path>) -> Self {
        let broker = broker.map(UrlFile::new);
        let derived = broker.clone().filter(|_| self.is_derived);
        let management = management.map(UrlFile::new).or(derived);
        Self { files: [broker, management], ..self }
    }

    /// The file with the URL of the management API.
    pub(crate) fn management_file(&self) -> Option<Arc<UrlFile>> {
        self.files[1].clone()
    }

    /// The login that is valid now.
    pub(super) fn login(&self) -> Login {
        let of_url = |uri: &AMQPUri| {
            let (user, password) =
                (&uri.authority.userinfo.username, &uri.authority.userinfo.password);
            Login { user: user.clone(), password: password.clone().into() }
        };
        let first = self.first().map(of_url);
        let first = first.unwrap_or(Login { user: String::new(), password: "".into() });
        match &self.files[0] {
            Some(file) => file.login(first),
            None => first,
        }
    }

    /// Whether the file now has another login than the refused one.
    pub(super) fn has_other(&self, refused: &Login) -> bool {
        self.files[0].as_ref().is_some_and(|file| file.read_again(refused))
    }

    /// Sets other time-outs.
    pub fn with_timing(self, timing: Arc<Timing>) -> Self {
        Self { timing, ..self }
    }

    /// Whether the name of any node resolves.
    pub(crate) async fn is_known(&self) -> bool {
        for node in self.nodes.expose() {
            let host = node.authority.host.trim_start_matches('[').trim_end_matches(']');
            let lookup = tokio::net::lookup_host((host, node.authority.port));
            // If the name server does not answer, the name may be right.
            if timeout(LOOKUP_WITHIN, lookup).await.map_or(true, |found| found.is_ok()) {
                return true;
            }
        }
        false
    }

    /// The frame size that a connection to `node` requests.
    pub(super) fn frame_max(&self, node: &AMQPUri) -> u32 {
        node.query.frame_max.unwrap_or(self.frame_max)
    }

    /// A node for the settings that all nodes share. [`BrokerAddress::parse`] accepts no address without a node.
    fn first(&self) -> Option<&AMQPUri> {
        self.nodes.expose().first()
    }

    /// The virtual host, `/` by default.
    pub fn virtual_host(&self) -> &str {
        self.first().map_or("/", |uri| uri.vhost.as_str())
    }

    /// The user that logs in.
    pub fn user(&self) -> &str {
        self.first().map_or("", |uri| uri.authority.userinfo.username.as_str())
    }

    /// The host names, to judge whether they are this machine.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.nodes.expose().iter().map(|uri| uri.authority.host.as_str())
    }

    /// The management API without credentials, for messages.
    pub fn management_display(&self) -> String {
        let nodes = self.management.expose();
        let scheme = nodes.first().map_or("http", Url::scheme);
        let each = nodes.iter().map(|url| {
            let host = url.host_str().unwrap_or_default();
            let port = url.port_or_known_default().unwrap_or_default();
            format!("{host}:{port}{}", url.path().trim_end_matches('/'))
        });
        let derived = " (derived from broker.url: broker.management_url is not set)";
        let derived = if self.is_derived { derived } else { "" };
        format!("{scheme}://{}{derived}", each.collect::<Vec<_>>().join(","))
    }
}

fn management_nodes(text: &str) -> Result<(Vec<Url>, TlsParameters), AddressError> {
    if has_late_at(text) {
        return Err(AddressError::Management(late_at()));
    }
    let (text, parameters) = TlsParameters::take(text);
    let mut nodes = Vec::new();
    for node in each_host(&text) {
        let url = Url::parse(&node).map_err(|error| AddressError::Management(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Management(format!("scheme `{}`", url.scheme())));
        }
        nodes.push(url);
    }
    Ok((nodes, parameters))
}

fn late_at() -> String {
    format!("there is an `@` behind the host: {ESCAPES}")
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
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        let nodes = self.nodes.expose().iter().map(|uri| &uri.authority);
        let nodes: Vec<String> = nodes.map(|node| format!("{}:{}", node.host, node.port)).collect();
        write!(f, "{scheme}://{} virtual host `{}`", nodes.join(","), self.virtual_host())
    }
}

impl fmt::Debug for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
