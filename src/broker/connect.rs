//! One AMQP connection on a socket of our own, so that it can always be ended.
//!
//! lapin's `connect` has no handshake time-out, and a connection that the broker has blocked answers to
//! nothing. A duplicate of the socket is kept here: shutting it down ends both cases at once, without a leak.

use std::{
    io,
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_compat::CompatExt;
use lapin::{
    Channel, Connection, ConnectionProperties, ConnectionStatus, ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError},
    tcp::{AsyncTcpStream, RustlsConnectorConfig},
    uri::{AMQPScheme, AMQPUri},
};
use socket2::{SockRef, TcpKeepalive};
use tokio::time::timeout;

use super::{BrokerAddress, stream};

/// TCP connect; a broker on the same continent answers in a tenth of it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// TCP, TLS, login and opening the virtual host together.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A polite close; after it the socket is shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Unacknowledged bytes for so long mean that the peer is gone (two heartbeats).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle time before the first keepalive probe.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum ConnectError {
    /// Nobody answers.
    #[error("cannot reach the broker at {address}; is it running, and is broker.url right?")]
    Unreachable { address: String, source: lapin::Error },
    /// Somebody accepts the connection and says nothing.
    #[error("the broker at {address} did not finish the AMQP handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Silent { address: String },
    /// The user name or the password is wrong.
    #[error(
        "the broker at {address} refuses the login of user `{user}`: check the user and password in broker.url"
    )]
    Login { address: String, user: String },
    /// There is no such virtual host.
    #[error(
        "{address} does not exist: create it with `rabbitmqctl add_vhost {vhost}` or correct broker.url"
    )]
    NoVirtualHost { address: String, vhost: String },
    /// The user has no permissions in the virtual host.
    #[error(
        "user `{user}` may not use {address}: grant it with `rabbitmqctl set_permissions -p {vhost} {user} ...`"
    )]
    NotAllowed { address: String, user: String, vhost: String },
}

/// A connection and the means to end it at once.
pub struct Link {
    connection: Connection,
    socket: Socket,
}

#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    fn keep(&self, socket: TcpStream) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    fn abort(&self) {
        if let Some(socket) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The peer may have closed it already; then there is nothing left to end.
            let _already_closed = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Link {
    /// Connects, logs in and opens the virtual host within ten seconds.
    ///
    /// `purpose` becomes the connection's name in the management UI, e.g. `overdue worker, consuming`.
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing is left behind.
    pub async fn open(address: &BrokerAddress, purpose: &str) -> Result<Self, ConnectError> {
        let socket = Socket::default();
        let kept = socket.clone();
        let open = async move |uri: AMQPUri, _runtime| {
            open_stream(&uri, &kept).await.map_err(lapin::Error::from)
        };
        let properties = ConnectionProperties::default().with_connection_name(purpose.into());
        let uri = address.uri.expose().clone();
        let connecting = Connection::connector(uri, stream::runtime(), open, properties);
        match timeout(HANDSHAKE_TIMEOUT, connecting).await {
            Ok(Ok(connection)) => Ok(Self { connection, socket }),
            Ok(Err(error)) => {
                socket.abort();
                Err(refusal(address, error))
            }
            Err(_elapsed) => {
                socket.abort();
                Err(ConnectError::Silent { address: address.to_string() })
            }
        }
    }

    /// A new channel.
    ///
    /// # Errors
    /// The connection is gone, or has too many channels.
    pub async fn channel(&self) -> Result<Channel, lapin::Error> {
        self.connection.create_channel().await
    }

    /// Whether the broker has blocked this connection (memory or disk alarm): nothing written gets through.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// What the connection knows of itself, also for who does not hold it.
    pub(super) fn status(&self) -> ConnectionStatus {
        self.connection.status().clone()
    }

    /// Whether the connection still stands.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection.status().connected()
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

async fn open_stream(uri: &AMQPUri, socket: &Socket) -> io::Result<stream::ReadableStream> {
    let target = (uri.authority.host.as_str(), uri.authority.port);
    let stream = timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect(target)).await??;
    stream.set_nodelay(true)?;
    let options = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    options.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    socket.keep(options.try_clone()?.into());
    let plain = AsyncTcpStream::Plain(stream.compat());
    let stream = match uri.scheme {
        AMQPScheme::AMQP => plain,
        AMQPScheme::AMQPS => {
            let config = RustlsConnectorConfig::default();
            let connector = config.connector_with_no_client_auth().map_err(io::Error::other)?;
            plain.into_rustls(&connector, &uri.authority.host).await?
        }
    };
    Ok(AsyncTcpStream::Plain(stream::Readable::new(stream, uri.query.frame_max.unwrap_or(0))))
}

/// Login and virtual host are refused with connection exceptions; anything else is "unreachable".
fn refusal(address: &BrokerAddress, error: lapin::Error) -> ConnectError {
    let user = address.user().to_owned();
    let vhost = address.virtual_host().to_owned();
    let where_ = address.to_string();
    if let ErrorKind::ProtocolError(amqp) = error.kind() {
        let text = amqp.get_message().to_string();
        match amqp.kind() {
            AMQPErrorKind::Soft(lapin::protocol::AMQPSoftError::ACCESSREFUSED) => {
                return ConnectError::Login { address: where_, user };
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) if text.contains("not found") => {
                return ConnectError::NoVirtualHost { address: where_, vhost };
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                return ConnectError::NotAllowed { address: where_, user, vhost };
            }
            _ => {}
        }
    }
    ConnectError::Unreachable { address: where_, source: error }
}
