//! What `src/messaging/publish` uses of lapin, with a broker behind it that decides at random (by shuttle) what becomes of messages.
//! As lapin 4 does (`acknowledgement.rs`), it gives the oldest returned message to the next confirm that it hands out, and hands out
//! those of one `basic.ack` in any order, one after the other, while the publishing task runs.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;

pub mod message {
    use crate::BasicProperties;

    #[derive(Clone, Debug, Default)]
    pub struct Delivery {
        pub exchange: String,
        pub routing_key: String,
        pub properties: BasicProperties,
    }

    #[derive(Clone, Debug, Default)]
    pub struct BasicReturnMessage {
        pub delivery: Delivery,
        pub reply_text: String,
    }
}

pub mod options {
    #[derive(Default)]
    pub struct BasicPublishOptions {
        pub mandatory: bool,
        pub immediate: bool,
    }

    #[derive(Default)]
    pub struct ConfirmSelectOptions {
        pub nowait: bool,
    }
}

pub mod protocol {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AMQPSoftError {
        NOTFOUND,
        ACCESSREFUSED,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AMQPErrorKind {
        Soft(AMQPSoftError),
        Hard,
    }

    #[derive(Clone, Debug)]
    pub struct AMQPError;

    impl AMQPError {
        pub fn kind(&self) -> AMQPErrorKind {
            AMQPErrorKind::Hard
        }

        pub fn get_message(&self) -> &'static str {
            "gone"
        }
    }
}

pub mod types {
    pub type FieldTable = std::collections::BTreeMap<String, String>;
}

pub enum ErrorKind {
    ProtocolError(protocol::AMQPError),
    Gone,
}

/// The connection is gone.
#[derive(Clone, Debug)]
pub struct Error;

impl Error {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Gone
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gone")
    }
}

#[derive(Clone, Debug, Default)]
pub struct BasicProperties {
    message_id: Option<String>,
}

macro_rules! ignored {
    ($($name:ident: $kind:ty),*) => {
        $(#[must_use]
        pub fn $name(self, _: $kind) -> Self {
            self
        })*
    };
}

impl BasicProperties {
    ignored!(
        with_delivery_mode: u8, with_priority: u8, with_timestamp: u64, with_content_type: String, with_content_encoding: String,
        with_correlation_id: String, with_reply_to: String, with_expiration: String, with_type: String, with_app_id: String,
        with_headers: types::FieldTable
    );

    #[must_use]
    pub fn with_message_id(self, id: String) -> Self {
        Self { message_id: Some(id) }
    }

    pub fn message_id(&self) -> &Option<String> {
        &self.message_id
    }
}

#[derive(Debug)]
pub struct Confirmation {
    is_nack: bool,
    returned: Option<Box<message::BasicReturnMessage>>,
}

impl Confirmation {
    pub fn is_nack(&self) -> bool {
        self.is_nack
    }

    pub fn take_message(self) -> Option<Box<message::BasicReturnMessage>> {
        self.returned
    }
}

pub struct PublisherConfirm(oneshot::Receiver<Result<Confirmation, Error>>);

impl Future for PublisherConfirm {
    type Output = Result<Confirmation, Error>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(Error)))
    }
}

/// What the broker has done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Taken,
    Routed,
    Returned,
    Refused,
}

struct Waiting {
    delivery: message::Delivery,
    answer: oneshot::Sender<Result<Confirmation, Error>>,
}

/// The broker, and the connection to it.
#[derive(Default)]
pub struct Broker {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_gone: bool,
    channels: Vec<Open>,
    fates: BTreeMap<String, Fate>,
}

#[derive(Default)]
struct Open {
    waiting: VecDeque<Waiting>,
    returned: VecDeque<message::BasicReturnMessage>,
}

impl Broker {
    pub fn is_gone(&self) -> bool {
        self.state.lock().unwrap().is_gone
    }

    /// Of each channel.
    pub fn waiting(&self) -> Vec<usize> {
        self.state.lock().unwrap().channels.iter().map(|channel| channel.waiting.len()).collect()
    }

    pub fn channel(self: &Arc<Self>) -> Channel {
        let mut state = self.state.lock().unwrap();
        state.channels.push(Open::default());
        Channel(Arc::clone(self), state.channels.len() - 1)
    }

    pub fn fates(&self) -> BTreeMap<String, Fate> {
        self.state.lock().unwrap().fates.clone()
    }

    /// The oldest messages become this, and are confirmed by one `basic.ack`, in the order of `shuffled`.
    pub async fn answer(&self, channel: usize, fates: &[Fate], shuffled: impl Fn(usize) -> usize) {
        let mut waiting: Vec<(Waiting, Fate)> = Vec::new();
        {
            let mut state = self.state.lock().unwrap();
            let open = &mut state.channels[channel].waiting;
            let count = fates.len().min(open.len());
            waiting.extend(open.drain(..count).zip(fates.iter().copied()));
            for (it, fate) in &waiting {
                let id = it.delivery.properties.message_id.clone().unwrap();
                state.fates.insert(id, *fate);
                if *fate == Fate::Returned {
                    let (delivery, reply_text) = (it.delivery.clone(), "NO_ROUTE".to_owned());
                    state.channels[channel]
                        .returned
                        .push_back(message::BasicReturnMessage { delivery, reply_text });
                }
            }
        }
        while !waiting.is_empty() {
            let (it, fate) = waiting.swap_remove(shuffled(waiting.len()));
            let returned =
                self.state.lock().unwrap().channels[channel].returned.pop_front().map(Box::new);
            let _ = it.answer.send(Ok(Confirmation { is_nack: fate == Fate::Refused, returned }));
            tokio::task::yield_now().await;
        }
    }

    /// The connection ends.
    pub fn end(&self) {
        let waiting = {
            let mut state = self.state.lock().unwrap();
            state.is_gone = true;
            std::mem::take(&mut state.channels)
        };
        for it in waiting.into_iter().flat_map(|channel| channel.waiting) {
            let _ = it.answer.send(Err(Error));
        }
    }
}

#[derive(Clone)]
pub struct ConnectionStatus(pub Arc<Broker>);

impl ConnectionStatus {
    pub fn connected(&self) -> bool {
        !self.0.is_gone()
    }

    pub fn blocked(&self) -> bool {
        false
    }
}

#[derive(Clone)]
pub struct Channel(Arc<Broker>, usize);

impl Channel {
    pub fn status(&self) -> ConnectionStatus {
        ConnectionStatus(Arc::clone(&self.0))
    }

    pub async fn confirm_select(&self, _: options::ConfirmSelectOptions) -> Result<(), Error> {
        if self.0.is_gone() { Err(Error) } else { Ok(()) }
    }

    pub async fn close(&self, _: u16, _: String) -> Result<(), Error> {
        Ok(())
    }

    pub async fn basic_publish(
        &self,
        exchange: String,
        routing_key: String,
        _: options::BasicPublishOptions,
        _: &[u8],
        properties: BasicProperties,
    ) -> Result<PublisherConfirm, Error> {
        let (answer, confirm) = oneshot::channel();
        let mut state = self.0.state.lock().unwrap();
        if state.is_gone {
            return Err(Error);
        }
        let id = properties.message_id.clone().unwrap();
        state.fates.insert(id, Fate::Taken);
        let delivery = message::Delivery { exchange, routing_key, properties };
        state.channels[self.1].waiting.push_back(Waiting { delivery, answer });
        Ok(PublisherConfirm(confirm))
    }
}
impl std::error::Error for Error {}
