//! The task that owns connection and channel.

use std::{pin::pin, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{Channel, Confirmation, ConnectionStatus, PublisherConfirm};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, error::Elapsed, timeout},
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

/// What becomes of messages while the broker blocks the connection (memory or disk alarm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhileBlocked {
    /// After a while they fail.
    Fail,
    /// They wait until it is over.
    Wait,
}

/// Publishes what comes in, until nobody holds a handle any more or the connection is gone.
pub(super) async fn serve(
    link: Link,
    channel: Channel,
    mut inbox: mpsc::Receiver<Request>,
    while_blocked: WhileBlocked,
) {
    let mut pending = FuturesUnordered::new();
    let mut returns = Returns::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waits = while_blocked == WhileBlocked::Wait;
    let alive = loop {
        let is_held_up = waits && link.is_blocked();
        tokio::select! {
            biased;
            Some(first) = pending.next(), if !pending.is_empty() => {
                let mut confirmed: Vec<Confirmed> = vec![first];
                while let Some(Some(next)) = pending.next().now_or_never() {
                    confirmed.push(next);
                }
                returns.answer(confirmed, link.is_blocked());
            }
            request = inbox.recv(), if pending.len() < WINDOW && !is_held_up => {
                let Some(Request { message, answer }) = request else { break true };
                let sent = Sent::of(&message, answer);
                match send(&link, &channel, message, || waits && !inbox.is_closed()).await {
                    Ok(confirm) => {
                        let status = link.status();
                        pending.push(async move { (sent, confirmed(confirm, waits, &status).await) });
                    }
                    Err(error) => {
                        sent.answer(Err(error));
                        break false;
                    }
                }
            }
            _ = look.tick() => {}
        }
        // Nobody waits for what a blocked connection still has.
        if is_held_up && inbox.is_closed() {
            break false;
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

/// Waits for a confirm; with `waits` longer, for as long as the broker blocks the connection.
async fn confirmed(
    confirm: PublisherConfirm,
    waits: bool,
    status: &ConnectionStatus,
) -> Result<Result<Confirmation, lapin::Error>, Elapsed> {
    let mut confirm = pin!(confirm);
    loop {
        let confirmed = timeout(CONFIRM_TIMEOUT, &mut confirm).await;
        if confirmed.is_ok() || !(waits && status.connected() && status.blocked()) {
            return confirmed;
        }
    }
}
