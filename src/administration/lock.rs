//! One at a time: whoever changes a topology, rebuilds its notices or takes messages out of its parking lot holds a queue that
//! is exclusive to a connection.
//!
//! Without the one of a topology an apply that waits to delete a retired queue and one with the old file that binds it again would
//! together delete a queue that is in use.

use std::time::{Duration, Instant};

use lapin::{
    Channel, ErrorKind,
    options::QueueDeclareOptions,
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};
use tokio::time::timeout;

use crate::{
    messaging::{BrokerAddress, ConnectError, Link},
    text::length,
    topology::Topology,
};

/// The name of the connection in the management UI.
pub const PURPOSE: &str = "overdue: holds the lock of a topology";
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// The broker answers in milliseconds; later than this it is unavailable.
const ANSWER: Duration = Duration::from_secs(10);

/// Why the lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Another program holds it for longer than a change takes.
    #[error(
        "another `overdue apply` or `overdue run` is changing this topology: it has held the exclusive queue {lock} for \
         longer than {}. Nothing was changed; run this again when the other one has finished",
        length(*held)
    )]
    Taken {
        /// The lock queue.
        lock: String,
        /// For how long.
        held: Duration,
    },
    /// The user may not declare the lock.
    #[error(
        "the user may not declare the queue {lock}, which is the lock of this topology: {reason}. Nothing was changed; \
         `overdue permissions` prints the rights that are needed"
    )]
    NotPermitted {
        /// The lock queue.
        lock: String,
        /// What the broker said.
        reason: String,
    },
    /// The broker did not declare it.
    #[error("failed to declare the queue {lock}, which is the lock of this topology")]
    Failed {
        /// The lock queue.
        lock: String,
        /// What the client said.
        source: lapin::Error,
    },
}

/// The lock was held and is not any more: the broker or an administrator has closed its connection.
#[derive(Debug, thiserror::Error)]
#[error(
    "the lock of this topology, the exclusive queue {lock}, was lost: its connection to the broker is closed. Another \
     `overdue` may be changing this topology now, so no further step was carried out"
)]
pub struct LockLost {
    /// The lock queue.
    lock: String,
}

/// The right to do something alone. It goes with the connection: when this is dropped, also by a panic or because the
/// future was cancelled, and with the process, also by SIGKILL.
pub struct TopologyLock {
    lock: String,
    channel: Channel,
    link: Link,
}

impl TopologyLock {
    /// The lock for changes of `topology`: waits for at most three minutes until nobody else holds it; `on_wait` is called
    /// once if it has to.
    ///
    /// Permission needed: configure on the lock queue.
    pub async fn acquire(
        address: &BrokerAddress,
        topology: &Topology,
        on_wait: impl FnOnce(),
    ) -> Result<Self, LockError> {
        let link = Link::open(address, PURPOSE).await?;
        let lock = topology.lock_queue();
        let began = Instant::now();
        let mut on_wait = Some(on_wait);
        loop {
            if let Some(channel) = declared(&link, &lock).await? {
                return Ok(Self { lock, channel, link });
            }
            let held = address.timing.topology_lock;
            if began.elapsed() > held {
                return Err(LockError::Taken { lock, held });
            }
            if let Some(on_wait) = on_wait.take() {
                on_wait();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The lock of a command, the queue `lock`; `None` at once if somebody else has it. `purpose` is the name of the
    /// connection in the management UI.
    ///
    /// Permission needed: configure on the lock queue.
    pub(crate) async fn try_acquire(
        address: &BrokerAddress,
        lock: &str,
        purpose: &str,
    ) -> Result<Option<Self>, LockError> {
        let link = Link::open(address, purpose).await?;
        let held = declared(&link, lock).await?;
        Ok(held.map(|channel| Self { lock: lock.to_owned(), channel, link }))
    }

    /// Asks the broker over the connection that holds the lock: it answers only to that one.
    ///
    /// # Errors
    /// The lock is lost, or the broker does not answer within ten seconds.
    pub async fn check(&self) -> Result<(), LockLost> {
        let options = QueueDeclareOptions {
            passive: true,
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let lock = self.lock.as_str();
        let asked = self.channel.queue_declare(lock.into(), options, FieldTable::default());
        match timeout(ANSWER, asked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(LockLost { lock: self.lock.clone() }),
        }
    }

    /// Lets the next one in, and waits until the broker has closed the connection.
    pub async fn release(self) {
        self.link.close().await;
    }
}

/// The channel over which the lock was declared; none while another connection holds it.
async fn declared(link: &Link, lock: &str) -> Result<Option<Channel>, LockError> {
    let failed = |source| LockError::Failed { lock: lock.to_owned(), source };
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let channel = link.channel().await.map_err(failed)?;
    let declaring = channel.queue_declare(lock.into(), options, FieldTable::default());
    match link.answered(declaring).await {
        Ok(_) => Ok(Some(channel)),
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(amqp) => match amqp.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => Ok(None),
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                    let reason = amqp.get_message().to_string();
                    Err(LockError::NotPermitted { lock: lock.to_owned(), reason })
                }
                _ => Err(failed(error)),
            },
            _ => Err(failed(error)),
        },
    }
}
