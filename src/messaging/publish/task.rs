//! The task that owns a channel, and with other tasks the connection.

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

/// How soon an idle publisher notices that its connection is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Unconfirmed messages at once: enough to hide the round trip, few enough to list what is unknown.
pub(super) const WINDOW: usize = 1_024;

/// A message, and who waits for its confirm.
pub(super) struct Request {
    pub(super) message: Box<Message>,
    pub(super) answer: Answer,
}

/// What becomes of messages while the broker blocks the connection (memory or disk alarm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhileBlocked {
    /// After a while they fail.
    Fail,
    /// They wait until it is over; and for their confirms for as long as the channel stands.
    Wait,
}

/// How long a message may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Until the connection has taken it.
    pub(super) hand_over: Duration,
    /// From then on, until its confirm.
    pub(super) confirm: Duration,
    /// Messages at once that have no confirm yet.
    pub(super) unconfirmed: usize,
}

/// What became of a message.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large one")]
enum Outcome {
    /// It was not handed to the connection, and no other one will be.
    NotSent(Sent, PublishError),
    /// It was, and this came for it.
    Sent(Confirmed),
}

/// Publishes what comes in, until nobody holds a handle any more or the connection is gone.
///
/// Messages are handed over one after the other, and none waits until the one before it is on the wire: so the client
/// writes many at once.
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
        // Nobody waits for these any more.
        if pending.len() >= limits.unconfirmed && inbox.is_closed() {
            break true;
        }
        // Nobody waits for what a blocked connection still has.
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
        // Nobody waits any more.
        pending.clear();
        // The last who has it.
        if let Some(link) = Arc::into_inner(link) {
            link.close().await;
        }
        return;
    }
    if way.channel.status().connected() {
        // What waits in such a connection must not go out later, after the caller heard that it did not.
        link.abort();
    }
    drop(link);
    refuse(&mut inbox, "it was lost").await;
    while let Some(last) = pending.next().await {
        answer(&mut returns, vec![last], blocked);
    }
    returns.lose();
}

/// Nothing that has come in is sent.
pub(super) async fn refuse(inbox: &mut mpsc::Receiver<Request>, reason: &str) {
    inbox.close();
    while let Some(Request { message, answer }) = inbox.recv().await {
        let (message_id, reason) = (message.message_id.clone(), reason.to_owned());
        Sent::of(&message, answer).answer(Err(PublishError::Disconnected { message_id, reason }));
    }
}

/// Passes on what became of messages; false if one was not sent, or had no confirm in time: the client would give its return,
/// when it comes, to nobody, and say of another message that it was confirmed.
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

/// Where messages go.
struct Way {
    channel: Channel,
    status: ConnectionStatus,
    waits: bool,
    limits: Limits,
}

/// Hands over a message when it is polled for the first time, which is in the order in which they came.
async fn publish(way: Arc<Way>, Request { message, answer }: Request) -> Outcome {
    let sent = Sent::of(&message, answer);
    match send(&way.channel, &way.status, message, &sent, (way.waits, way.limits.hand_over)).await {
        Ok(confirm) => Outcome::Sent((sent, confirmed(confirm, &way).await)),
        Err(error) => Outcome::NotSent(sent, error),
    }
}

/// Waits for a confirm; with `waits` longer, for as long as the channel stands.
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
