//! A publisher that is replaced when its connection is gone, by one at the next node.

use std::sync::atomic::{AtomicUsize, Ordering};

use overdue::internals::{
    broker::{BrokerAddress, Publisher},
    wire::Message,
};
use tokio::sync::Mutex;

/// The way to the broker, whichever of its nodes answers.
pub struct Line {
    addresses: Vec<BrokerAddress>,
    next: AtomicUsize,
    publisher: Mutex<Option<Publisher>>,
}

impl Line {
    pub fn new(addresses: &[BrokerAddress]) -> Self {
        let (next, publisher) = (AtomicUsize::new(0), Mutex::new(None));
        Self { addresses: addresses.to_vec(), next, publisher }
    }

    /// One attempt.
    pub async fn publish(&self, message: Message) -> Result<(), String> {
        let publisher = self.publisher().await?;
        publisher.publish(message).await.map_err(|error| error.to_string())
    }

    async fn publisher(&self) -> Result<Publisher, String> {
        let mut publisher = self.publisher.lock().await;
        if let Some(open) = publisher.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let node = self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let opened = Publisher::connect(&self.addresses[node], "order service").await;
        let opened = opened.map_err(|error| error.to_string())?;
        *publisher = Some(opened.clone());
        Ok(opened)
    }
}
