//! One at a time runs a command of which two would be in each other's way: the other one hears so at once.

use lapin::Channel;

use super::{BrokerAddress, Link, LockError, lock::declared};

/// The right to run it, a queue that is exclusive to a connection. It goes with the connection.
#[must_use]
pub(crate) struct CommandLock {
    link: Link,
    _channel: Channel,
}

impl CommandLock {
    /// Takes it, or gives `None` at once where somebody else has it; `purpose` is the name of the connection in the
    /// management UI.
    ///
    /// Permission needed: configure on the lock queue.
    ///
    /// # Errors
    /// See [`LockError`].
    pub(crate) async fn acquire(
        address: &BrokerAddress,
        queue: &str,
        purpose: &str,
    ) -> Result<Option<Self>, LockError> {
        let link = Link::open(address, purpose).await?;
        let held = declared(&link, queue).await?;
        Ok(held.map(|channel| Self { link, _channel: channel }))
    }

    /// Lets the next one in.
    pub(crate) async fn release(self) {
        self.link.close().await;
    }
}
