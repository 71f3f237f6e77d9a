//! One at a time: whoever changes a topology holds its lock queue, which goes with the connection.
//!
//! Without it an apply that waits to delete a retired queue and one with the old file that binds it again would
//! together delete a queue that is in use.

use std::time::{Duration, Instant};

use lapin::{
    ErrorKind,
    options::QueueDeclareOptions,
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};

use super::{BrokerAddress, ConnectError, Link};
use crate::topology::Topology;

/// How long to wait for another one to be done; carrying a plan out takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Why it is not our turn.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Somebody else is at it, and does not end.
    #[error(
        "another `overdue apply` or `overdue run` is changing this topology: it holds the exclusive queue {lock} since \
         more than {PATIENCE:?}. Nothing was changed; run it again when the other one is done"
    )]
    Taken {
        /// The lock queue.
        lock: String,
    },
    /// The user may not declare the lock.
    #[error(
        "the queue {lock}, which keeps two changes of one topology apart, may not be declared: {reason}. Nothing was \
         changed; `overdue permissions` prints the rights that are needed"
    )]
    NotPermitted {
        /// The lock queue.
        lock: String,
        /// What the broker said.
        reason: String,
    },
    /// The broker did not do it.
    #[error("failed to declare the queue {lock}, which keeps two changes of one topology apart")]
    Failed {
        /// The lock queue.
        lock: String,
        /// What the client said.
        source: lapin::Error,
    },
}

/// The turn to change a topology. It ends when this goes, also by SIGKILL: the queue is exclusive to the connection.
#[must_use]
pub struct Turn {
    link: Link,
}

impl Turn {
    /// Waits for at most a minute; `told` hears once that it has to.
    ///
    /// Permission needed: configure on the lock queue.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn take(
        address: &BrokerAddress,
        topology: &Topology,
        told: impl FnOnce(),
    ) -> Result<Self, TurnError> {
        let link = Link::open(address, "overdue: changing the topology").await?;
        let lock = topology.lock_queue();
        let began = Instant::now();
        let mut told = Some(told);
        while !declared(&link, &lock).await? {
            if began.elapsed() > PATIENCE {
                return Err(TurnError::Taken { lock });
            }
            if let Some(told) = told.take() {
                told();
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Self { link })
    }

    /// Lets the next one in.
    pub async fn end(self) {
        self.link.close().await;
    }
}

/// Whether the lock is ours now; `false` while another connection has it.
async fn declared(link: &Link, lock: &str) -> Result<bool, TurnError> {
    let failed = |source| TurnError::Failed { lock: lock.to_owned(), source };
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let channel = link.channel().await.map_err(failed)?;
    match channel.queue_declare(lock.into(), options, FieldTable::default()).await {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(amqp) => match amqp.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => Ok(false),
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                    let reason = amqp.get_message().to_string();
                    Err(TurnError::NotPermitted { lock: lock.to_owned(), reason })
                }
                _ => Err(failed(error)),
            },
            _ => Err(failed(error)),
        },
    }
}
