//! An AMQP connection on a socket of our own, which can be closed at any time.
//!
//! lapin's `connect` has no handshake time-out, and a blocked connection does not answer anything. So this module keeps a
//! duplicate of the socket: shutting it down ends both cases at once, without a leak.

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

use super::{BrokerAddress, product::OtherProduct, read_coalescer::ReadCoalescer, stream};
use crate::{
    config::Login,
    telemetry,
    text::{length, quote},
    tls::{self, Tls},
};

/// The limit of an AMQP close; then the socket is shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The peer is dead if bytes stay unacknowledged for this time (nearly two heartbeats).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(9);
/// Idle time before the first keepalive probe, and between two probes.
const KEEPALIVE: Duration = Duration::from_secs(3);
/// The wait for a silent node before the next node of the cluster is tried as well.
const NEXT_NODE: Duration = Duration::from_millis(300);

/// The reason why a connection failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum ConnectError {
    /// The broker cannot be reached.
    #[error("cannot reach the broker at {address}; is it running, and is broker.url right?")]
    Unreachable { address: String, source: lapin::Error },
    /// The connection limit of the virtual host, the user or the node is reached.
    #[error(
        "the broker at {address} takes no more connections: {reason}; end others, or raise the limit (docs/sizing.md says how many a \
         worker has)"
    )]
    Full { address: String, reason: String },
    /// A program accepts the connection and does not answer.
    #[error("the broker at {address} did not finish the AMQP handshake within {}", length(*within))]
    Silent { address: String, within: Duration },
    /// The peer uses another protocol, TLS for example.
    #[error(
        "the server at {address} does not speak AMQP: correct the port in broker.url, or write amqps:// if it expects TLS"
    )]
    NotAmqp { address: String },
    /// The broker is another product.
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
    /// An error for a handshake that timed out.
    fn silent(address: &BrokerAddress) -> Self {
        Self::Silent { address: address.to_string(), within: address.timing.handshake }
    }

    /// Whether the cluster has decided: another node would give the same answer.
    const fn is_answer(&self) -> bool {
        matches!(self, Self::Login { .. } | Self::NoVirtualHost { .. } | Self::NotAllowed { .. })
    }
}

/// A connection that can be ended at once.
pub struct Link {
    connection: Connection,
    socket: Socket,
    coalescer: ReadCoalescer,
}

#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<std::net::TcpStream>>>);

impl Socket {
    fn keep(&self, socket: std::net::TcpStream) {
        *self.0.lock() = Some(socket);
    }

    fn abort(&self) {
        if let Some(socket) = self.0.lock().take() {
            // The peer may have closed the socket already.
            let _already_closed = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Link {
    /// Connects, logs in and opens the virtual host within ten seconds, on the first node that accepts. If the broker refuses the
    /// login, the file with the URL is read again.
    ///
    /// `purpose` becomes the connection's name in the management UI, e.g. `overdue worker, consuming`.
    ///
    /// # Errors
    /// See [`ConnectError`]; the socket is closed.
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
            // Tries the next node after an attempt has failed, or while the earlier nodes are silent.
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
        // Closes the socket also if another attempt wins and this one is dropped.
        let attempt = Attempt(Some(socket.clone()));
        let coalescer = ReadCoalescer::default();
        let kept = (socket.clone(), coalescer.clone(), address.timing.connect);
        let open = async move |uri: AMQPUri, _runtime| {
            open_stream(&uri, tls.clone(), &kept).await.map_err(lapin::Error::from)
        };
        let properties = ConnectionProperties::default().with_connection_name(purpose.into());
        let connecting = Connection::connector(node, stream::runtime(), open, properties);
        match timeout(address.timing.handshake, connecting).await {
            Ok(Ok(connection)) => {
                attempt.succeeded();
                Ok(Self { connection, socket, coalescer })
            }
            Ok(Err(error)) => Err(refusal(address, error)),
            Err(_elapsed) => Err(ConnectError::silent(address)),
        }
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// The connection is lost, or has too many channels.
    pub async fn channel(&self) -> Result<Channel, lapin::Error> {
        self.answered(self.connection.create_channel()).await
    }

    /// Delays reads after few deliveries, to read more at once; a delivery is late by up to `within`.
    pub(crate) fn gather_deliveries(&self, within: Duration) {
        self.coalescer.set(within);
    }

    /// The delay of reads.
    pub(super) const fn coalescer(&self) -> &ReadCoalescer {
        &self.coalescer
    }

    /// Whether the broker has blocked this connection (memory or disk alarm): the broker reads nothing from it.
    pub fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// The most channels of this connection, by the broker and the URL.
    pub(super) fn most_channels(&self) -> usize {
        self.connection.configuration().channel_max().into()
    }

    /// The state of the connection, for code that does not own the link.
    pub(super) fn status(&self) -> ConnectionStatus {
        self.connection.status().clone()
    }

    /// Whether the connection is open.
    pub fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Closes the socket, and so all channels.
    pub(super) fn abort(&self) {
        self.socket.abort();
    }

    /// Closes the connection within two seconds, then the socket.
    pub async fn close(self) {
        let closing = self.connection.close(200, "done".into());
        // On any failure, `drop` shuts the socket down.
        let _closed = timeout(CLOSE_TIMEOUT, closing).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.socket.abort();
    }
}

/// An attempt to connect; dropping it closes the socket unless it succeeded.
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
    (socket, coalescer, within): &(Socket, ReadCoalescer, Duration),
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
    Ok(AsyncTcpStream::Plain(stream::Readable::new(stream, frame_max, coalescer.clone())))
}

/// Maps the broker's connection exceptions to login and virtual host errors; all others are "unreachable".
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
            // The limit of the virtual host, the user or the node: the broker's text names it, and another node may have room.
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

/// The interval at which a lost connection is detected if the client does not report it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Link {
    /// Awaits an answer of the broker for as long as the connection is open.
    ///
    /// # Errors
    /// The answer is an error, or the connection ended first.
    pub async fn answered<T>(
        &self,
        question: impl Future<Output = Result<T, lapin::Error>>,
    ) -> Result<T, lapin::Error> {
        answered(&self.status(), question).await
    }
}

/// [`Link::answered`] for code that does not own the link.
pub(super) async fn answered<T>(
    connection: &ConnectionStatus,
    question: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, lapin::Error> {
    let mut question = pin!(question);
    loop {
        // The client usually reports the reason a moment later, so it gets another interval.
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
