//! The task that owns connection and channel.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::Channel;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, timeout},
};

use super::{
    error::PublishError,
    returns::Returns,
    send::send,
    sent::{Answer, CONFIRM_TIMEOUT, Confirmed, Sent},
};
use crate::{broker::Link, wire::Message};

/// How soon an idle publisher notices that its connection is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Unconfirmed messages at once: enough to hide the round trip, few enough to list what is unknown.
pub(super) const WINDOW: usize = 1_024;

/// A message, and who waits for its confirm.
pub(super) struct Request {
    pub(super) message: Message,
    pub(super) answer: Answer,
}

/// Publishes what comes in, until nobody holds a handle any more or the connection is gone.
pub(super) async fn serve(link: Link, channel: Channel, mut inbox: mpsc::Receiver<Request>) {
    let mut pending = FuturesUnordered::new();
    let mut returns = Returns::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let alive = loop {
        tokio::select! {
            biased;
            Some(first) = pending.next(), if !pending.is_empty() => {
                let mut confirmed: Vec<Confirmed> = vec![first];
                while let Some(Some(next)) = pending.next().now_or_never() {
                    confirmed.push(next);
                }
                returns.answer(confirmed, link.is_blocked());
            }
            request = inbox.recv(), if pending.len() < WINDOW => {
                let Some(Request { message, answer }) = request else { break true };
                let sent = Sent::of(&message, answer);
                match send(&link, &channel, message).await {
                    Ok(confirm) => pending.push(async move { (sent, timeout(CONFIRM_TIMEOUT, confirm).await) }),
                    Err(error) => {
                        sent.answer(Err(error));
                        break false;
                    }
                }
            }
            _ = look.tick() => {}
        }
        if !channel.status().connected() {
            break false;
        }
    };
    inbox.close();
    // What waits in a blocked connection must not go out later, after the caller heard that it did not.
    let blocked = link.is_blocked();
    let link = alive.then_some(link);
    while let Some(Request { message, answer }) = inbox.recv().await {
        let reason = "it was lost".to_owned();
        let message_id = message.message_id.clone();
        Sent::of(&message, answer).answer(Err(PublishError::Disconnected { message_id, reason }));
    }
    while let Some(last) = pending.next().await {
        returns.answer(vec![last], blocked);
    }
    if let Some(link) = link {
        link.close().await;
    }
}
