//! One AMQP connection on a socket of our own, so that it can always be ended.
//!
//! lapin's `connect` has no handshake time-out, and a connection that the broker has blocked answers to
//! nothing. A duplicate of the socket is kept here: shutting it down ends both cases at once, without a leak.

use std::{io, net::Shutdown, pin::pin, sync::Arc, time::Duration};

use async_compat::CompatExt;
use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    Channel, Connection, ConnectionProperties, ConnectionStatus, ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError},
    tcp::AsyncTcpStream,
    uri::AMQPUri,
};
use parking_lot::Mutex;
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{BrokerAddress, gathering::Gathering, product::OtherProduct, stream};
use crate::{
    config::Login,
    telemetry,
    text::{length, quote},
    tls::{self, Tls},
};

/// A polite close; after it the socket is shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Unacknowledged bytes for so long mean that the peer is gone (nearly two heartbeats).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(9);
/// Idle time before the first keepalive probe, and between two of them.
const KEEPALIVE: Duration = Duration::from_secs(3);
/// How long nodes that say nothing are given before the next node of a cluster is tried as well.
const NEXT_NODE: Duration = Duration::from_millis(300);

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum ConnectError {
    /// Nobody answers.
    #[error("cannot reach the broker at {address}; is it running, and is broker.url right?")]
    Unreachable { address: String, source: lapin::Error },
    /// It has as many connections as the virtual host, the user or the node may have.
    #[error(
        "the broker at {address} takes no more connections: {reason}; end others, or raise the limit (docs/sizing.md says how many a \
         worker has)"
    )]
    Full { address: String, reason: String },
    /// Somebody accepts the connection and says nothing.
    #[error("the broker at {address} did not finish the AMQP handshake within {}", length(*within))]
    Silent { address: String, within: Duration },
    /// Who answers speaks something else, TLS for example.
    #[error(
        "the server at {address} does not speak AMQP: correct the port in broker.url, or write amqps:// if it expects TLS"
    )]
    NotAmqp { address: String },
    /// Another broker.
    #[error(
        "the broker at {address} is {product}, and not RabbitMQ: overdue needs its quorum queues, its dead letters and its management \
         API. Correct broker.url"
    )]
    OtherProduct { address: String, product: String },
    /// TLS cannot be set up, or the handshake failed.
    #[error("no TLS connection to the broker at {address}: {reason}")]
    Tls { address: String, reason: String },
    /// The user name or the password is wrong.
    #[error(
        "the broker at {address} refuses the login of user `{user}`: check the user and password in broker.url"
    )]
    Login { address: String, user: String },
    /// There is no such virtual host.
    #[error(
        "{address} does not exist: create it with `rabbitmqctl add_vhost {}` or correct broker.url",
        quote(vhost)
    )]
    NoVirtualHost { address: String, vhost: String },
    /// The user has no permissions in the virtual host.
    #[error(
        "user `{user}` may not use {address}: `overdue permissions` prints the `rabbitmqctl set_permissions` that it takes"
    )]
    NotAllowed { address: String, user: String, vhost: String },
}

impl ConnectError {
    /// Nobody has said anything for as long as a handshake may take.
    fn silent(address: &BrokerAddress) -> Self {
        Self::Silent { address: address.to_string(), within: address.timing.handshake }
    }

    /// Whether the cluster has answered: another node would say the same.
    const fn is_answer(&self) -> bool {
        matches!(self, Self::Login { .. } | Self::NoVirtualHost { .. } | Self::NotAllowed { .. })
    }
}

/// A connection and the means to end it at once.
pub struct Link {
    connection: Connection,
    socket: Socket,
    gathering: Gathering,
}

#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<std::net::TcpStream>>>);

impl Socket {
    fn keep(&self, socket: std::net::TcpStream) {
        *self.0.lock() = Some(socket);
    }

    fn abort(&self) {
        if let Some(socket) = self.0.lock().take() {
            // The peer may have closed it already; then there is nothing left to end.
            let _already_closed = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Link {
    /// Connects, logs in and opens the virtual host within ten seconds, on the first node that takes it. If the login is refused,
    /// the file with the URL is read again.
    ///
    /// `purpose` becomes the connection's name in the management UI, e.g. `overdue worker, consuming`.
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing is left behind.
    pub async fn open(address: &BrokerAddress, purpose: &str) -> Result<Self, ConnectError> {
        let login = address.login();
        match Self::open_as(address, &login, purpose).await {
            Err(ConnectError::Login { .. }) if address.has_other(&login) => {
                telemetry::url_file_read_again("broker");
                Self::open_as(address, &address.login(), purpose).await
            }
            opened => opened,
        }
    }

    async fn open_as(
        address: &BrokerAddress,
        login: &Login,
        purpose: &str,
    ) -> Result<Self, ConnectError> {
        let tls = match &address.tls {
            Some(tls) => Some(client(address, tls)?),
            None => None,
        };
        let mut nodes = address.nodes.expose().iter();
        let mut attempts = FuturesUnordered::new();
        let mut first = None;
        loop {
            // The next one begins when one has failed, and when those before it are silent.
            if let Some(mut node) = nodes.next().cloned() {
                node.authority.userinfo.username.clone_from(&login.user);
                node.authority.userinfo.password.clone_from(login.password.expose());
                attempts.push(Self::open_node(address, node, tls.clone(), purpose));
            }
            match timeout(NEXT_NODE, attempts.next()).await {
                Ok(Some(Ok(link))) => return Ok(link),
                Ok(Some(Err(error))) if error.is_answer() => return Err(error),
                Ok(Some(Err(error))) => first = first.or(Some(error)),
                Ok(None) => break,
                Err(_silent) => {}
            }
        }
        Err(first.unwrap_or_else(|| ConnectError::silent(address)))
    }

    async fn open_node(
        address: &BrokerAddress,
        mut node: AMQPUri,
        tls: Option<Arc<ClientConfig>>,
        purpose: &str,
    ) -> Result<Self, ConnectError> {
        node.query.frame_max = Some(address.frame_max(&node));
        let socket = Socket::default();
        // Ends the socket also where somebody else was quicker and this attempt is dropped.
        let attempt = Attempt(Some(socket.clone()));
        let gathering = Gathering::default();
        let kept = (socket.clone(), gathering.clone(), address.timing.connect);
        let open = async move |uri: AMQPUri, _runtime| {
            open_stream(&uri, tls.clone(), &kept).await.map_err(lapin::Error::from)
        };
        let properties = ConnectionProperties::default().with_connection_name(purpose.into());
        let connecting = Connection::connector(node, stream::runtime(), open, properties);
        match timeout(address.timing.handshake, connecting).await {
            Ok(Ok(connection)) => {
                attempt.succeeded();
                Ok(Self { connection, socket, gathering })
            }
            Ok(Err(error)) => Err(refusal(address, error)),
            Err(_elapsed) => Err(ConnectError::silent(address)),
        }
    }

    /// A new channel.
    ///
    /// # Errors
    /// The connection is gone, or has too many channels.
    pub async fn channel(&self) -> Result<Channel, lapin::Error> {
        self.answered(self.connection.create_channel()).await
    }

    /// Lets deliveries wait for others, where few come at once; they are late by up to `within`.
    pub(crate) fn gather_deliveries(&self, within: Duration) {
        self.gathering.set(within);
    }

    /// How long deliveries wait.
    pub(super) const fn gathering(&self) -> &Gathering {
        &self.gathering
    }

    /// Whether the broker has blocked this connection (memory or disk alarm): nothing written gets through.
    pub fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// How many channels it may have, as the broker and the URL say.
    pub(super) fn most_channels(&self) -> usize {
        self.connection.configuration().channel_max().into()
    }

    /// What the connection knows of itself, also for who does not hold it.
    pub(super) fn status(&self) -> ConnectionStatus {
        self.connection.status().clone()
    }

    /// Whether the connection still stands.
    pub fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Ends the socket, and with it all channels.
    pub(super) fn abort(&self) {
        self.socket.abort();
    }

    /// Closes politely for two seconds, then ends the socket.
    pub async fn close(self) {
        let closing = self.connection.close(200, "done".into());
        // Refused or late alike end in the abort of `drop`.
        let _closed = timeout(CLOSE_TIMEOUT, closing).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.socket.abort();
    }
}

/// An attempt to connect: unless it succeeds, its socket ends with it.
struct Attempt(Option<Socket>);

impl Attempt {
    fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            socket.abort();
        }
    }
}

fn client(address: &BrokerAddress, tls: &Tls) -> Result<Arc<ClientConfig>, ConnectError> {
    tls.client().map(Arc::new).map_err(|error| ConnectError::Tls {
        address: address.to_string(),
        reason: error.to_string(),
    })
}

async fn open_stream(
    uri: &AMQPUri,
    tls: Option<Arc<ClientConfig>>,
    (socket, gathering, within): &(Socket, Gathering, Duration),
) -> io::Result<stream::ReadableStream> {
    let host = uri.authority.host.as_str();
    let target = (host.trim_start_matches('[').trim_end_matches(']'), uri.authority.port);
    let stream = timeout(*within, TcpStream::connect(target)).await??;
    stream.set_nodelay(true)?;
    let options = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    options
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    socket.keep(options.try_clone()?.into());
    let stream = match tls {
        None => stream::Socket::Plain(stream.compat()),
        Some(config) => {
            let name = ServerName::try_from(target.0.to_owned()).map_err(io::Error::other)?;
            let secure = TlsConnector::from(config).connect(name, stream).await?;
            stream::Socket::Tls(Box::new(secure.compat()))
        }
    };
    let frame_max = uri.query.frame_max.unwrap_or(0);
    Ok(AsyncTcpStream::Plain(stream::Readable::new(stream, frame_max, gathering.clone())))
}

/// Login and virtual host are refused with connection exceptions; anything else is "unreachable".
fn refusal(address: &BrokerAddress, error: lapin::Error) -> ConnectError {
    let user = address.user().to_owned();
    let vhost = address.virtual_host().to_owned();
    let where_ = address.to_string();
    if let Some(reason) = tls::refusal(&error, tls::RABBITMQ) {
        return ConnectError::Tls { address: where_, reason };
    }
    if let ErrorKind::IOError(io) = error.kind()
        && let Some(OtherProduct(product)) = io.get_ref().and_then(|it| it.downcast_ref())
    {
        return ConnectError::OtherProduct { address: where_, product: product.clone() };
    }
    if matches!(error.kind(), ErrorKind::ParsingError(_)) {
        return ConnectError::NotAmqp { address: where_ };
    }
    if let ErrorKind::ProtocolError(amqp) = error.kind() {
        let text = amqp.get_message().to_string();
        match amqp.kind() {
            AMQPErrorKind::Soft(lapin::protocol::AMQPSoftError::ACCESSREFUSED) => {
                return ConnectError::Login { address: where_, user };
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) if text.contains("not found") => {
                return ConnectError::NoVirtualHost { address: where_, vhost };
            }
            // Of the virtual host, the user or the node: the broker's own text says which, and another node may have room.
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) if text.contains("connection limit") => {
                return ConnectError::Full { address: where_, reason: text };
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                return ConnectError::NotAllowed { address: where_, user, vhost };
            }
            _ => {}
        }
    }
    ConnectError::Unreachable { address: where_, source: error }
}

/// How soon the end of a connection is seen where the client does not say it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Link {
    /// The answer to a question, for which the broker may take its time while the connection stands.
    ///
    /// # Errors
    /// The answer is one, or the connection ended before it came.
    pub async fn answered<T>(
        &self,
        question: impl Future<Output = Result<T, lapin::Error>>,
    ) -> Result<T, lapin::Error> {
        answered(&self.status(), question).await
    }
}

/// [`Link::answered`] for who has not got the link.
pub(super) async fn answered<T>(
    connection: &ConnectionStatus,
    question: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, lapin::Error> {
    let mut question = pin!(question);
    loop {
        // The client reports why it ended, as a rule a moment later.
        let stood = connection.connected();
        match timeout(LOOK_EVERY, &mut question).await {
            Ok(answer) => return answer,
            Err(_elapsed) if stood => {}
            Err(_elapsed) => {
                let reason = "the connection ended before there was an answer";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason).into());
            }
        }
    }
}
