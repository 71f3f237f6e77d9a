//! Publishes to many destinations on one connection, with a channel for each, so that a silent destination delays no other.
//!
//! The first publish of a channel to a silent quorum queue blocks that channel for 65 s, and is then nacked. The next publish blocks it
//! again. Other channels continue, if few messages are on the blocked channel.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::timeout};

use super::{
    Publisher, confirming,
    error::PublishError,
    task::{self, Limits, WhileBlocked},
};
use crate::{
    messaging::{BrokerAddress, Link},
    text::{error_chain, length},
    wire::Message,
};

/// The most unconfirmed messages on a channel. RabbitMQ gives a channel credit for 200 messages at a time (`credit_flow_default_credit`): a
/// channel without credit stops the whole connection.
pub(crate) const UNCONFIRMED: usize = 128;
/// Destinations with their own channel, including former ones. A topology has a destination per timeout and level, or per timeout and first
/// queue of a ladder (81 for 30 days). Messages for other programs may have any routing key. RabbitMQ allows 2,047 channels
/// (`channel_max`).
const MOST_PLACES: usize = 256;
/// The channels that all further destinations share.
const SHARED_CHANNELS: u64 = 8;
/// Channels that are reserved: the shared ones, one to test whether the broker answers, and channels that are being closed.
const OTHER_CHANNELS: usize = 16;
/// Callers do not try again within this time after a failed attempt to connect: they get the error of the attempt.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A connection and its channels. It connects with the first message, and again after the connection was lost.
pub(crate) struct PublisherPool {
    address: BrokerAddress,
    purpose: &'static str,
    state: Arc<Mutex<State>>,
    /// Held during an attempt to connect, so that there is one attempt at a time.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    publishers: BTreeMap<String, Publisher>,
    failed: Option<(Instant, String)>,
}

impl PublisherPool {
    pub(crate) fn new(address: BrokerAddress, purpose: &'static str) -> Self {
        Self { address, purpose, state: Arc::default(), connecting: Arc::default() }
    }

    /// Publishes on the channel of a destination, and waits for the answer while the connection is open. An unanswered message may have
    /// arrived, and publishing it again would only add to the backlog.
    pub(crate) async fn publish(
        &self,
        destination: &str,
        message: Message,
    ) -> Result<(), PublishError> {
        match self.publisher(destination).await {
            Ok(publisher) => publisher.publish(message).await,
            Err(reason) => {
                Err(PublishError::Disconnected { message_id: message.message_id, reason })
            }
        }
    }

    /// Connects unless connected.
    pub(crate) async fn connect(&self) -> Result<(), String> {
        self.link().await.map(drop)
    }

    /// Whether the connection is open; true also if the broker has blocked it (memory or disk alarm).
    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().connected().is_some()
    }

    /// Whether the broker has blocked the connection.
    pub(crate) fn is_blocked(&self) -> bool {
        self.state.lock().connected().is_some_and(|link| link.is_blocked())
    }

    /// Whether the broker answers on this connection: then a missing confirm is the fault of its destination.
    pub(crate) async fn answers(&self) -> Result<(), String> {
        let within = self.address.timing.hand_over;
        let Some(link) = self.state.lock().connected() else {
            return Err("the connection is gone".to_owned());
        };
        if link.is_blocked() {
            return Err("the broker has blocked the connection (memory or disk alarm)".to_owned());
        }
        match timeout(within, link.channel()).await {
            Ok(Ok(channel)) => {
                // The close is not awaited.
                let _closed = channel.close(200, "done".into()).now_or_never();
                Ok(())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err(format!("the connection has not answered for {}", length(within))),
        }
    }

    async fn publisher(&self, destination: &str) -> Result<Publisher, String> {
        let link = self.link().await?;
        let mut state = self.state.lock();
        let name = state.name(destination);
        if let Some(publisher) =
            state.publishers.get(&name).filter(|publisher| !publisher.is_closed())
        {
            return Ok(publisher.clone());
        }
        let (requests, inbox) = mpsc::channel(UNCONFIRMED);
        let publisher = Publisher { requests };
        let timing = &self.address.timing;
        let (hand_over, confirm) = (timing.hand_over, timing.confirm);
        tokio::spawn(serve(link, inbox, Limits { hand_over, confirm, unconfirmed: UNCONFIRMED }));
        state.publishers.insert(name, publisher.clone());
        Ok(publisher)
    }

    async fn link(&self) -> Result<Arc<Link>, String> {
        if let Some(link) = self.state.lock().connected() {
            return Ok(link);
        }
        let (state, connecting) = (Arc::clone(&self.state), Arc::clone(&self.connecting));
        let (address, purpose) = (self.address.clone(), self.purpose);
        // Connects in a task: the caller that began the attempt may be dropped, and others wait for its result.
        let attempt = tokio::spawn(async move {
            let _one = connecting.lock().await;
            open(&state, &address, purpose).await
        });
        attempt.await.unwrap_or_else(|panic| Err(panic.to_string()))
    }
}

async fn open(
    state: &Mutex<State>,
    address: &BrokerAddress,
    purpose: &'static str,
) -> Result<Arc<Link>, String> {
    {
        let mut state = state.lock();
        if let Some(link) = state.connected() {
            return Ok(link);
        }
        if let Some((_, reason)) = state.failed.as_ref().filter(|(at, _)| at.elapsed() < TRY_EVERY)
        {
            return Err(reason.clone());
        }
        *state = State::default();
    }
    match Link::open(address, purpose).await {
        Ok(link) => Ok(Arc::clone(state.lock().link.insert(Arc::new(link)))),
        Err(error) => {
            let reason = error_chain(&error);
            state.lock().failed = Some((Instant::now(), reason.clone()));
            Err(reason)
        }
    }
}

impl State {
    fn connected(&self) -> Option<Arc<Link>> {
        self.link.clone().filter(|link| link.is_connected())
    }

    /// The publisher's name: the destination's own, or a shared one.
    fn name(&self, destination: &str) -> String {
        let allowed = self.link.as_ref().map_or(usize::MAX, |link| link.most_channels());
        let most = MOST_PLACES.min(allowed.saturating_sub(OTHER_CHANNELS));
        if self.publishers.contains_key(destination) || self.publishers.len() < most {
            return destination.to_owned();
        }
        let mut hasher = DefaultHasher::new();
        destination.hash(&mut hasher);
        format!("shared {}", hasher.finish() % SHARED_CHANNELS)
    }
}

impl Drop for PublisherPool {
    /// Ends a blocked connection: no caller waits for its messages, and its channels would exist until the alarm ends.
    fn drop(&mut self) {
        if let Some(link) = self.state.lock().link.as_ref().filter(|link| link.is_blocked()) {
            link.abort();
        }
    }
}

/// Opens the channel (on a blocked connection only after the alarm), and publishes on it.
async fn serve(link: Arc<Link>, mut inbox: mpsc::Receiver<task::Request>, limits: Limits) {
    match confirming(&link).await {
        Ok(channel) => task::serve(link, channel, inbox, WhileBlocked::Wait, limits).await,
        Err(error) => task::refuse(&mut inbox, &error.to_string()).await,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::timing::Timing;

    /// A ladder of 30 days has 81 first queues, and for each of three timeouts a destination per queue.
    #[test]
    fn the_places_of_a_long_ladder_have_channels_of_their_own() {
        let mut state = State::default();
        for destination in 0..3 * 81 {
            let destination = format!("queue {destination}");
            assert_eq!(state.name(&destination), destination);
            let publisher = Publisher { requests: mpsc::channel(1).0 };
            state.publishers.insert(destination, publisher);
        }
    }

    /// The first caller is not polled meanwhile.
    #[tokio::test]
    async fn an_attempt_to_connect_holds_up_nobody_who_waits_for_it() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("amqp://{}", silent.local_addr().unwrap());
        let address =
            BrokerAddress::parse(&url, None).unwrap().with_timing(Arc::new(Timing::tenth()));
        let publishers = PublisherPool::new(address, "test");
        let mut first = pin!(publishers.publish("a", Message::default()));
        while publishers.connecting.try_lock().is_ok() {
            assert!(first.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        assert!(publishers.connect().await.is_err(), "no broker answers");
    }
}
