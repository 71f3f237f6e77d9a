//! The connection for copies (put back, parked) of all timeouts. It is replaced when it is gone; the session goes on.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::{
    broker::{BrokerAddress, ConnectError, PublishError, Publisher},
    text::error_chain,
    wire::Message,
};

/// Who finds the connection gone soon after somebody tried in vain does not try again.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Why a copy is not there, or not known to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("{0}")]
    Connect(String),
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// A publisher that waits while the broker blocks it.
pub(super) struct CopyPublisher {
    address: BrokerAddress,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    publisher: Option<Publisher>,
    failed: Option<(Instant, String)>,
}

impl CopyPublisher {
    /// Connects with the first copy.
    pub(super) fn new(address: BrokerAddress) -> Self {
        Self { address, slot: Mutex::default() }
    }

    /// Publishes, and waits for the confirm for as long as the broker blocks the connection.
    pub(super) async fn publish(&self, message: Message) -> Result<(), CopyError> {
        let publisher = self.publisher().await?;
        Ok(publisher.publish(message).await?)
    }

    async fn publisher(&self) -> Result<Publisher, CopyError> {
        let mut slot = self.slot.lock().await;
        if let Some(publisher) = slot.publisher.as_ref().filter(|known| !known.is_closed()) {
            return Ok(publisher.clone());
        }
        if let Some((_, reason)) = slot.failed.as_ref().filter(|(at, _)| at.elapsed() < TRY_EVERY) {
            return Err(CopyError::Connect(reason.clone()));
        }
        match self.connect().await {
            Ok(publisher) => {
                *slot = Slot { publisher: Some(publisher.clone()), failed: None };
                Ok(publisher)
            }
            Err(error) => {
                let reason = error_chain(&error);
                *slot = Slot { publisher: None, failed: Some((Instant::now(), reason.clone())) };
                Err(CopyError::Connect(reason))
            }
        }
    }

    async fn connect(&self) -> Result<Publisher, ConnectError> {
        Publisher::connect_patient(&self.address, "overdue worker: publishing").await
    }
}
