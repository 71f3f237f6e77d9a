//! The task that owns a channel, and shares the connection with other tasks.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{Channel, ConnectionStatus, PublisherConfirm};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, timeout},
};

use super::{
    error::PublishError,
    returns::Returns,
    send::send,
    sent::{Answer, Confirm, Confirmed, Sent},
};
use crate::{messaging::Link, wire::Message};

/// The interval at which an idle publisher checks its connection.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most unconfirmed messages: enough to hide the round trip, few enough to list as unknown.
pub(super) const WINDOW: usize = 1_024;

/// A message, and the channel for its result.
pub(super) struct Request {
    pub(super) message: Box<Message>,
    pub(super) answer: Answer,
}

/// The handling of messages while the broker blocks the connection (memory or disk alarm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhileBlocked {
    /// Messages fail after the time limit.
    Fail,
    /// Messages wait until the alarm ends; they wait for their confirms while the channel is open.
    Wait,
}

/// Limits of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Limit of the time until the connection has taken a message.
    pub(super) hand_over: Duration,
    /// Limit of the time from then until the confirm.
    pub(super) confirm: Duration,
    /// The most unconfirmed messages.
    pub(super) unconfirmed: usize,
}

/// The outcome of a message.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large one")]
enum Outcome {
    /// The message was not handed to the connection; no later message will be.
    NotSent(Sent, PublishError),
    /// The message was handed over; its confirm or error.
    Sent(Confirmed),
}

/// Publishes requests until all handles are dropped or the connection is lost.
///
/// Messages are handed over in order, without waiting until the previous one is written: so the client writes many at once.
pub(super) async fn serve(
    link: Arc<Link>,
    channel: Channel,
    mut inbox: mpsc::Receiver<Request>,
    while_blocked: WhileBlocked,
    limits: Limits,
) {
    let mut pending = FuturesUnordered::new();
    let mut returns = Returns::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waits = while_blocked == WhileBlocked::Wait;
    let way = Arc::new(Way { channel, status: link.status(), waits, limits });
    let alive = loop {
        let is_held_up = waits && link.is_blocked();
        tokio::select! {
            biased;
            Some(first) = pending.next(), if !pending.is_empty() => {
                let mut outcomes = vec![first];
                while let Some(Some(next)) = pending.next().now_or_never() {
                    outcomes.push(next);
                }
                if !answer(&mut returns, outcomes, link.is_blocked()) {
                    break false;
                }
                if pending.is_empty() {
                    returns.decide();
                }
            }
            request = inbox.recv(), if pending.len() < limits.unconfirmed && !is_held_up => {
                let Some(first) = request else { break true };
                pending.push(publish(Arc::clone(&way), first));
                while pending.len() < limits.unconfirmed && let Ok(next) = inbox.try_recv() {
                    pending.push(publish(Arc::clone(&way), next));
                }
            }
            _ = look.tick() => {}
        }
        // All callers are gone.
        if pending.len() >= limits.unconfirmed && inbox.is_closed() {
            break true;
        }
        // No caller waits for the messages of a blocked connection.
        if is_held_up && inbox.is_closed() {
            break false;
        }
        if !link.is_connected() || !way.channel.status().connected() {
            break false;
        }
    };
    inbox.close();
    let blocked = link.is_blocked();
    if alive {
        // All callers are gone.
        pending.clear();
        // The last task closes the connection.
        if let Some(link) = Arc::into_inner(link) {
            link.close().await;
        }
        return;
    }
    if way.channel.status().connected() {
        // Messages in the buffer must not be sent after the caller got an error.
        link.abort();
    }
    drop(link);
    refuse(&mut inbox, "it was lost").await;
    while let Some(last) = pending.next().await {
        answer(&mut returns, vec![last], blocked);
    }
    returns.lose();
}

/// Fails all requests without sending them.
pub(super) async fn refuse(inbox: &mut mpsc::Receiver<Request>, reason: &str) {
    inbox.close();
    while let Some(Request { message, answer }) = inbox.recv().await {
        let (message_id, reason) = (message.message_id.clone(), reason.to_owned());
        Sent::of(&message, answer).answer(Err(PublishError::Disconnected { message_id, reason }));
    }
}

/// Sends results. Returns false if a message was not sent, or not confirmed in time. Then the connection must end: the client
/// would lose the late return, and report another message as confirmed.
fn answer(returns: &mut Returns, outcomes: Vec<Outcome>, blocked: bool) -> bool {
    let mut goes_on = true;
    let confirmed = outcomes.into_iter().filter_map(|outcome| match outcome {
        Outcome::Sent(confirmed) => {
            goes_on &= confirmed.1.is_ok();
            Some(confirmed)
        }
        Outcome::NotSent(sent, error) => {
            goes_on = false;
            sent.answer(Err(error));
            None
        }
    });
    let confirmed: Vec<Confirmed> = confirmed.collect();
    returns.answer(confirmed, blocked);
    goes_on
}

/// The channel and its settings.
struct Way {
    channel: Channel,
    status: ConnectionStatus,
    waits: bool,
    limits: Limits,
}

/// Hands over a message at the first poll; futures are polled in the order of the requests.
async fn publish(way: Arc<Way>, Request { message, answer }: Request) -> Outcome {
    let sent = Sent::of(&message, answer);
    match send(&way.channel, &way.status, message, &sent, (way.waits, way.limits.hand_over)).await {
        Ok(confirm) => Outcome::Sent((sent, confirmed(confirm, &way).await)),
        Err(error) => Outcome::NotSent(sent, error),
    }
}

/// Waits for a confirm; with `waits`, while the channel is open.
async fn confirmed(confirm: PublisherConfirm, way: &Way) -> Confirm {
    let Way { channel, waits, limits: Limits { confirm: within, .. }, .. } = way;
    let mut confirm = pin!(confirm);
    loop {
        let confirmed = timeout(*within, &mut confirm).await;
        if confirmed.is_ok() || !(*waits && channel.status().connected()) {
            return confirmed.map_err(|_elapsed| *within);
        }
    }
}
