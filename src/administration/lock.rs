//! Locks: to change a topology, rebuild its notices or take messages out of its parking lot, a program declares a queue that is
//! exclusive to its connection.
//!
//! Without the topology's lock, two applies could together delete a queue that is in use: one waits to delete a retired queue,
//! and the other one, with the old file, binds it again.

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

/// The name of the lock's connection in the management UI.
pub const PURPOSE: &str = "overdue: holds the lock of a topology";
/// Interval between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Time after which a broker that does not answer is unavailable; it usually answers in milliseconds.
const ANSWER: Duration = Duration::from_secs(10);

/// Why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Another program has the lock for longer than a change takes.
    #[error(
        "another `overdue apply` or `overdue run` is changing this topology: it has held the exclusive queue {lock} for \
         longer than {}. Nothing was changed; run this again when the other one has finished",
        length(*held)
    )]
    Taken {
        /// The lock queue.
        lock: String,
        /// The longest time that a change takes; the lock was not free within it.
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
        /// The broker's reply.
        reason: String,
    },
    /// The broker did not declare the lock queue.
    #[error("failed to declare the queue {lock}, which is the lock of this topology")]
    Failed {
        /// The lock queue.
        lock: String,
        /// The client's error.
        source: lapin::Error,
    },
}

/// The lock was acquired and is lost: the broker or an administrator has closed its connection.
#[derive(Debug, thiserror::Error)]
#[error(
    "the lock of this topology, the exclusive queue {lock}, was lost: its connection to the broker is closed. Another \
     `overdue` may be changing this topology now, so no further step was carried out"
)]
pub struct LockLost {
    /// The lock queue.
    lock: String,
}

/// An acquired lock. It ends with its connection: when this value is dropped, also by a panic or a cancelled future, and when
/// the process ends, also by SIGKILL.
pub struct TopologyLock {
    lock: String,
    channel: Channel,
    link: Link,
}

impl TopologyLock {
    /// Acquires the lock for changes of `topology`. Waits at most three minutes while another connection has the lock, and
    /// calls `on_wait` once if it must wait.
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

    /// Acquires the lock of a command, the queue `lock`; returns `None` at once if another connection has it. `purpose` is the
    /// name of the connection in the management UI.
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

    /// Asks the broker for the lock queue over its own connection: the broker refuses every other connection.
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

    /// Releases the lock, and waits until the broker has closed the connection.
    pub async fn release(self) {
        self.link.close().await;
    }
}

/// Declares the lock queue, and returns the channel; `None` if another connection has the queue.
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
