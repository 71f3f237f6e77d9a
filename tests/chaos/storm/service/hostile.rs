//! Messages that no order service should publish, each until the broker has confirmed it.

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

/// After so long a message is published again.
const CONFIRM: Duration = Duration::from_secs(10);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(500);
const ENTRY: &str = "orders.in";

/// Whoever publishes them.
pub struct Hostile {
    seed: u64,
    addresses: Vec<BrokerAddress>,
    open: tokio::sync::Mutex<Option<(Channel, Link)>>,
    connections: AtomicUsize,
    numbers: AtomicUsize,
    trash: Mutex<BTreeMap<String, Expected>>,
}

impl Hostile {
    pub fn new(seed: u64, addresses: &[BrokerAddress]) -> Self {
        Self {
            seed,
            addresses: addresses.to_vec(),
            open: tokio::sync::Mutex::new(None),
            connections: AtomicUsize::new(0),
            numbers: AtomicUsize::new(0),
            trash: Mutex::default(),
        }
    }

    /// Everything so far that belongs into the parking lot.
    pub fn trash(&self) -> BTreeMap<String, Expected> {
        self.trash.lock().unwrap().clone()
    }

    /// Garbage and a ghost.
    pub async fn one_of_each(&self) {
        self.garbage().await;
        self.ghost().await;
    }

    /// Something that is not a due notice, or whose routing key leads nowhere.
    pub async fn garbage(&self) {
        self.throw(orders::garbage(self.seed, self.number())).await;
    }

    /// The notice of an order that does not exist.
    pub async fn ghost(&self) {
        self.throw(orders::ghost(self.number())).await;
    }

    /// A forged notice of an order that exists.
    pub async fn forged(&self, id: &str) {
        let number = self.number();
        let properties =
            orders::forged(self.seed, number).with_message_id(format!("forged-{number}").into());
        while self.publish("500ms.unpaid", properties.clone(), id.as_bytes()).await.is_err() {
            sleep(AGAIN).await;
        }
    }

    async fn throw(&self, trash: Trash) {
        let Trash { name, routing_key, properties, body, reason } = trash;
        let properties = properties.with_message_id(name.as_str().into()).with_delivery_mode(2);
        let expected = Expected { reason: reason.to_owned(), sent: 0, confirmed: false };
        self.trash.lock().unwrap().insert(name.clone(), expected);
        loop {
            self.expected(&name, |expected| expected.sent += 1);
            if self.publish(&routing_key, properties.clone(), &body).await.is_ok() {
                break;
            }
            sleep(AGAIN).await;
        }
        self.expected(&name, |expected| expected.confirmed = true);
    }

    fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn expected(&self, name: &str, change: impl FnOnce(&mut Expected)) {
        change(self.trash.lock().unwrap().get_mut(name).unwrap());
    }

    async fn publish(
        &self,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), String> {
        let mut open = self.open.lock().await;
        let (channel, link) = match open.take().filter(|(channel, _)| channel.status().connected())
        {
            Some(open) => open,
            None => self.connect().await?,
        };
        let publishing = async {
            let options = BasicPublishOptions::default();
            channel.basic_publish(ENTRY.into(), key.into(), options, body, properties).await?.await
        };
        let confirmed =
            timeout(CONFIRM, publishing).await.map_err(|elapsed| elapsed.to_string())?;
        let confirmed = confirmed.map_err(|error| error.to_string())?;
        *open = Some((channel, link));
        if confirmed.is_ack() { Ok(()) } else { Err("refused".to_owned()) }
    }

    async fn connect(&self) -> Result<(Channel, Link), String> {
        let node = self.connections.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let link = Link::open(&self.addresses[node], "hostile").await;
        let link = link.map_err(|error| error.to_string())?;
        let channel = link.channel().await.map_err(|error| error.to_string())?;
        let confirms = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.map_err(|error| error.to_string())?;
        Ok((channel, link))
    }
}
