//! Publishing to many places on one connection: a channel for each, so that a place that does not answer holds up no other.
//!
//! The first publish of a channel to a quorum queue that does not answer blocks that channel for 65 s, and then its answer is a
//! nack; the next one blocks it again. Other channels go on, as long as few messages are on it.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, mpsc};

use super::{
    Publisher, confirming,
    error::PublishError,
    task::{self, Limits, WhileBlocked},
};
use crate::{
    broker::{BrokerAddress, Link},
    text::error_chain,
    wire::Message,
};

/// Without a confirm on one channel. RabbitMQ gives a channel credit for 200 messages at a time
/// (`credit_flow_default_credit`): one that is out of credit stops the whole connection.
const UNCONFIRMED: usize = 128;
/// Places with a channel of their own. A topology has a place per level; messages that were published for others may have any
/// routing key.
const MOST_PLACES: usize = 64;
/// What the places beyond them share.
const SHARED_CHANNELS: u64 = 8;
/// A caller that finds the connection gone soon after an attempt that failed does not try again.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A connection and its channels. It connects with the first message, and again when the connection is gone.
pub(crate) struct Outlet {
    address: BrokerAddress,
    purpose: &'static str,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    publishers: BTreeMap<String, Publisher>,
    failed: Option<(Instant, String)>,
}

impl Outlet {
    pub(crate) fn new(address: BrokerAddress, purpose: &'static str) -> Self {
        Self { address, purpose, state: Mutex::default() }
    }

    /// Publishes on the channel of a place, and waits for the broker's answer for as long as it stands: what has no answer may
    /// be there, and publishing it again would only add to what waits.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub(crate) async fn publish(&self, place: &str, message: Message) -> Result<(), PublishError> {
        match self.publisher(place).await {
            Ok(publisher) => publisher.publish(message).await,
            Err(reason) => {
                Err(PublishError::Disconnected { message_id: message.message_id, reason })
            }
        }
    }

    async fn publisher(&self, place: &str) -> Result<Publisher, String> {
        let mut state = self.state.lock().await;
        let link = self.link(&mut state).await?;
        let name = state.name(place);
        if let Some(publisher) =
            state.publishers.get(&name).filter(|publisher| !publisher.is_closed())
        {
            return Ok(publisher.clone());
        }
        let (requests, inbox) = mpsc::channel(UNCONFIRMED);
        let publisher = Publisher { requests, status: link.status() };
        let timing = &self.address.timing;
        let (hand_over, confirm) = (timing.hand_over, timing.confirm);
        tokio::spawn(serve(link, inbox, Limits { hand_over, confirm, unconfirmed: UNCONFIRMED }));
        state.publishers.insert(name, publisher.clone());
        Ok(publisher)
    }

    async fn link(&self, state: &mut State) -> Result<Arc<Link>, String> {
        if let Some(link) = state.link.as_ref().filter(|link| link.is_connected()) {
            return Ok(Arc::clone(link));
        }
        if let Some((_, reason)) = state.failed.as_ref().filter(|(at, _)| at.elapsed() < TRY_EVERY)
        {
            return Err(reason.clone());
        }
        *state = State::default();
        match Link::open(&self.address, self.purpose).await {
            Ok(link) => Ok(Arc::clone(state.link.insert(Arc::new(link)))),
            Err(error) => {
                let reason = error_chain(&error);
                state.failed = Some((Instant::now(), reason.clone()));
                Err(reason)
            }
        }
    }
}

impl State {
    /// That of a place of its own, or one of the shared.
    fn name(&self, place: &str) -> String {
        if self.publishers.contains_key(place) || self.publishers.len() < MOST_PLACES {
            return place.to_owned();
        }
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        format!("shared {}", hasher.finish() % SHARED_CHANNELS)
    }
}

impl Drop for Outlet {
    /// Nobody waits for what a blocked connection still has, and it would keep its channels until it is free.
    fn drop(&mut self) {
        if let Some(link) = self.state.get_mut().link.as_ref().filter(|link| link.is_blocked()) {
            link.abort();
        }
    }
}

/// Opens the channel, which a blocked connection does only later, and publishes on it.
async fn serve(link: Arc<Link>, mut inbox: mpsc::Receiver<task::Request>, limits: Limits) {
    match confirming(&link).await {
        Ok(channel) => task::serve(link, channel, inbox, WhileBlocked::Wait, limits).await,
        Err(error) => task::refuse(&mut inbox, &error.to_string()).await,
    }
}
