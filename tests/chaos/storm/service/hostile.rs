//! Publishes with confirms to any node that answers; and publishes messages that no order service
//! should publish.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lapin::{
    BasicProperties, Channel,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use overdue::internals::broker::{BrokerAddress, Link};
use tokio::time::{sleep, timeout};

use crate::storm::{
    judge::Expected,
    orders::{self, Trash},
};

/// Time after which an unconfirmed message is published again.
const CONFIRM: Duration = Duration::from_secs(10); // data: of the order service
/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(250);
const ENTRY: &str = "orders.in";

/// A channel that is replaced when its connection is lost.
pub struct Line {
    addresses: Vec<BrokerAddress>,
    next: AtomicUsize,
    open: tokio::sync::Mutex<Option<(usize, Channel, Link)>>,
}

impl Line {
    pub fn new(addresses: &[BrokerAddress]) -> Self {
        let (next, open) = (AtomicUsize::new(0), tokio::sync::Mutex::new(None));
        Self { addresses: addresses.to_vec(), next, open }
    }

    /// Repeats until the broker has confirmed; returns the number of attempts.
    pub async fn publish(&self, key: &str, properties: BasicProperties, body: &[u8]) -> usize {
        let mut attempts = 1;
        while !self.attempt(key, properties.clone(), body).await.unwrap_or(false) {
            sleep(AGAIN).await;
            attempts += 1;
        }
        attempts
    }

    async fn attempt(&self, key: &str, properties: BasicProperties, body: &[u8]) -> Option<bool> {
        let (number, channel) = self.channel().await?;
        let publishing = async {
            let options = BasicPublishOptions::default();
            channel.basic_publish(ENTRY.into(), key.into(), options, body, properties).await?.await
        };
        match timeout(CONFIRM, publishing).await {
            Ok(confirmed) => Some(confirmed.ok()?.is_ack()),
            Err(_silent) => {
                // The next attempt opens another connection, in case this one stays silent.
                let mut open = self.open.lock().await;
                open.take_if(|(it, _, _)| *it == number);
                None
            }
        }
    }

    async fn channel(&self) -> Option<(usize, Channel)> {
        let mut open = self.open.lock().await;
        if let Some((number, channel, _)) = open.as_ref().filter(|it| it.1.status().connected()) {
            return Some((*number, channel.clone()));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let link =
            Link::open(&self.addresses[number % self.addresses.len()], "storm").await.ok()?;
        let channel = link.channel().await.ok()?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.ok()?;
        *open = Some((number, channel.clone(), link));
        Some((number, channel))
    }
}

/// A client that publishes invalid and forged messages.
pub struct Hostile {
    seed: u64,
    line: Line,
    numbers: AtomicUsize,
    trash: Mutex<BTreeMap<String, Expected>>,
}

impl Hostile {
    pub fn new(seed: u64, addresses: &[BrokerAddress]) -> Self {
        let line = Line::new(addresses);
        Self { seed, line, numbers: AtomicUsize::new(0), trash: Mutex::default() }
    }

    /// All published messages that must be parked.
    pub fn trash(&self) -> BTreeMap<String, Expected> {
        self.trash.lock().unwrap().clone()
    }

    /// Publishes a message that is not a due notice, or whose routing key has no binding.
    pub async fn garbage(&self) {
        self.throw(orders::garbage(self.seed, self.number())).await;
    }

    /// Publishes the notice of an order that does not exist.
    pub async fn ghost(&self) {
        self.throw(orders::ghost(self.number())).await;
    }

    /// Publishes a forged notice of an order that exists.
    pub async fn forged(&self, id: &str) {
        let number = self.number();
        let properties =
            orders::forged(self.seed, number).with_message_id(format!("forged-{number}").into());
        self.line.publish("500ms.unpaid", properties, id.as_bytes()).await;
    }

    async fn throw(&self, trash: Trash) {
        let Trash { name, routing_key, properties, body, reason } = trash;
        let properties = properties.with_message_id(name.as_str().into()).with_delivery_mode(2);
        let sent = self.line.publish(&routing_key, properties, &body).await;
        let expected = Expected { reason: reason.to_owned(), sent };
        self.trash.lock().unwrap().insert(name, expected);
    }

    fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
