//! Messages leave the parking lot by a replay or a drop.
//!
//! A replay publishes with confirms, and acks a message after its confirm. An interruption loses no message: at worst a message
//! is published and still parked, and the next replay finds its order final. A drop first records the messages in the database.

use std::num::NonZeroU32;

use futures_util::stream::{self, StreamExt};

use super::{
    super::{
        actions::{self, MOST_ORDERS, NewAction, Via},
        failure::Failure,
        pace::Pace,
    },
    Batch, Found, Lots, Reader, Seen,
};
use crate::{
    messaging::{PublishError, Publisher, parking_lot::Place},
    parking::{Fate, Filter, ParkedMessage, Selection, Totals, fate},
    shutdown::Stop,
    store::history::DroppedMessage,
    text::{counted, error_chain, one_line},
    wire::Message,
};

/// Messages published at the same time.
const IN_FLIGHT: usize = 64;

/// Counts what a replay would do.
struct Previewing<'a, P> {
    lots: &'a Lots,
    progress: P,
    totals: Totals,
    selected: Selection,
}

/// Drops messages.
struct Dropping<'a, P> {
    lots: &'a Lots,
    because: &'a str,
    progress: P,
    dropped: u64,
    orders: Vec<String>,
}

/// Publishes messages again.
struct Replaying<'a, P> {
    lots: &'a Lots,
    publisher: Publisher,
    pace: Pace,
    stop: &'a Stop,
    progress: P,
    totals: Totals,
    /// Orders whose messages have left.
    orders: &'a mut Vec<String>,
    first_failure: Option<PublishError>,
}

/// Fails if the broker lacks objects for some messages: the next replay would not publish them either.
pub(crate) fn all_applied(totals: &Totals) -> Result<(), Failure> {
    match totals.not_applied() {
        0 => Ok(()),
        count => Err(Failure::configuration(format!(
            "{} not put back: the broker lacks what the topology has for them; run `overdue apply`, and then this again",
            counted(count, "message")
        ))),
    }
}

impl Lots {
    /// Counts what a replay would do, and returns its messages; changes nothing. `progress` gets the number of messages of each
    /// batch.
    pub(crate) async fn preview(
        &self,
        filter: &Filter,
        progress: impl FnMut(u64) + Send,
    ) -> Result<(Totals, Selection, Seen), Failure> {
        let (totals, selected) = (Totals::default(), Selection::default());
        let mut previewing = Previewing { lots: self, progress, totals, selected };
        let seen = self.read(filter, &Stop::new(), &mut previewing).await?;
        Ok((previewing.totals, previewing.selected, seen))
    }

    /// Replays the messages that `filter` takes, at most `rate` per second, until all are done or `stop` is requested. Returns
    /// the totals, also after a failure, and the note from [`Seen::end`].
    pub(crate) async fn replay(
        &self,
        filter: &Filter,
        rate: NonZeroU32,
        via: Via<'_>,
        stop: &Stop,
        progress: impl FnMut(u64) + Send,
    ) -> (Totals, Result<Option<String>, Failure>) {
        let lock = match self.lock().await {
            Ok(lock) => lock,
            Err(failure) => return (Totals::default(), Err(failure)),
        };
        let mut orders = Vec::new();
        let (totals, ended) = self.replay_locked(filter, rate, stop, progress, &mut orders).await;
        lock.release().await;
        if totals.leaving() > 0 {
            let action = NewAction {
                via,
                action: "parked replay",
                what: filter.to_string(),
                count: Some(totals.leaving()),
                why: None,
                orders: &orders,
            };
            actions::record(&self.services.store, action).await;
        }
        (totals, ended)
    }

    async fn replay_locked(
        &self,
        filter: &Filter,
        rate: NonZeroU32,
        stop: &Stop,
        progress: impl FnMut(u64) + Send,
        orders: &mut Vec<String>,
    ) -> (Totals, Result<Option<String>, Failure>) {
        let publisher = Publisher::connect(&self.services.address, "overdue parked replay").await;
        let publisher = match publisher {
            Ok(publisher) => publisher,
            Err(error) => return (Totals::default(), Err(error.into())),
        };
        let mut replaying = Replaying {
            lots: self,
            publisher,
            pace: Pace::new(rate),
            stop,
            progress,
            totals: Totals::default(),
            orders,
            first_failure: None,
        };
        let ended = self.read(filter, stop, &mut replaying).await;
        let Replaying { totals, first_failure, .. } = replaying;
        let ended = match first_failure {
            Some(error) => {
                let Failure { code, text } = error.into();
                let count = counted(totals.unconfirmed, "message");
                Err(Failure { code, text: format!("{count} not confirmed: {text}") })
            }
            None => ended.and_then(|seen| {
                all_applied(&totals)?;
                seen.end()
            }),
        };
        (totals, ended)
    }

    /// The result of a replay for each message.
    pub(super) async fn fates(&self, messages: &[&ParkedMessage]) -> Result<Vec<Fate>, Failure> {
        let outcomes = self.outcomes(messages).await?;
        let topology = &self.services.topology;
        let each = messages.iter().zip(&outcomes);
        Ok(each.map(|(it, now)| fate(topology, &self.routes, it, now.as_ref())).collect())
    }

    /// Drops the messages that `filter` takes, until all are done or `stop` is requested; records `because` with each. Returns
    /// the number of dropped messages, also after a failure, and the note from [`Seen::end`].
    pub(crate) async fn drop_messages(
        &self,
        filter: &Filter,
        because: &str,
        via: Via<'_>,
        stop: &Stop,
        progress: impl FnMut(u64) + Send,
    ) -> (u64, Result<Option<String>, Failure>) {
        let lock = match self.lock().await {
            Ok(lock) => lock,
            Err(failure) => return (0, Err(failure)),
        };
        let mut dropping =
            Dropping { lots: self, because, progress, dropped: 0, orders: Vec::new() };
        let ended = self.read(filter, stop, &mut dropping).await;
        lock.release().await;
        let Dropping { dropped, orders, .. } = dropping;
        if dropped > 0 {
            let action = NewAction {
                via,
                action: "parked drop",
                what: filter.to_string(),
                count: Some(dropped),
                why: Some(because),
                orders: &orders,
            };
            actions::record(&self.services.store, action).await;
        }
        (dropped, ended.and_then(|seen| seen.end()))
    }
}

impl<P: FnMut(u64) + Send> Reader for Previewing<'_, P> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        self.lots
            .fates(&messages(&batch.found))
            .await?
            .iter()
            .for_each(|fate| self.totals.add(fate));
        batch.found.iter().for_each(|found| self.selected.add(found.message.print));
        (self.progress)(number(&batch.found));
        Ok(())
    }
}

impl<P: FnMut(u64) + Send> Reader for Replaying<'_, P> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        let number = number(&batch.found);
        let fates = self.lots.fates(&messages(&batch.found)).await?;
        let mut to_publish = Vec::new();
        for (found, fate) in batch.found.into_iter().zip(fates) {
            match fate {
                Fate::Replay(ref route) => {
                    let message = found.received.replayed(route.clone());
                    to_publish.push((found.place, message, found.message, fate));
                }
                Fate::Settle => {
                    batch.lot.ack(found.place).await?;
                    self.totals.add(&fate);
                    note(self.orders, &found.message);
                }
                Fate::Stay(_) => self.totals.add(&fate),
            }
        }
        let (publisher, pace, stop) = (&self.publisher, &self.pace, self.stop);
        let mut results = stream::iter(to_publish)
            .map(async |(place, message, parked, fate): (Place, Message, ParkedMessage, Fate)| {
                let go = pace.wait(stop).await;
                let answer = if go { Some(publisher.publish(message).await) } else { None };
                (place, parked, fate, answer)
            })
            .buffer_unordered(IN_FLIGHT);
        while let Some((place, parked, fate, result)) = results.next().await {
            match result {
                Some(Ok(())) => {
                    batch.lot.ack(place).await?;
                    self.totals.add(&fate);
                    note(self.orders, &parked);
                }
                Some(Err(error)) => {
                    self.totals.unconfirmed += 1;
                    let kept = self.first_failure.take();
                    self.first_failure = Some(PublishError::that_says_why(kept, error));
                }
                None => {}
            }
        }
        drop(results);
        (self.progress)(number);
        match &self.first_failure {
            Some(error) if self.publisher.is_closed() => {
                Err(Failure::failed(one_line(error_chain(error))))
            }
            _ => Ok(()),
        }
    }
}

impl<P: FnMut(u64) + Send> Reader for Dropping<'_, P> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        let records: Vec<DroppedMessage> =
            batch.found.iter().map(|found| record(batch.queue, found)).collect();
        self.lots.services.store.record_dropped(&records, self.because).await?;
        for found in &batch.found {
            batch.lot.ack(found.place).await?;
        }
        let number = number(&batch.found);
        batch.found.iter().for_each(|found| note(&mut self.orders, &found.message));
        self.dropped += number;
        (self.progress)(number);
        Ok(())
    }
}

/// Escapes control characters: text in PostgreSQL has no NUL.
fn record(queue: &str, found: &Found) -> DroppedMessage {
    let Found { message, received, .. } = found;
    let text = |text: &String| one_line(text);
    DroppedMessage {
        queue: queue.to_owned(),
        order_id: message.order.as_ref().map(ToString::to_string),
        timeout: message.timeout.as_ref().map(text),
        routing_key: one_line(&message.routing_key),
        message_id: message.message_id.as_ref().map(text),
        parked_because: one_line(&message.cause),
        parked_at: message.parked_at,
        body: received.body_left_out().is_none().then(|| received.body.clone()),
        body_bytes: i64::try_from(message.body_bytes).unwrap_or(i64::MAX),
    }
}

/// Notes the order of a message that leaves.
fn note(orders: &mut Vec<String>, message: &ParkedMessage) {
    if let Some(order) = message.order.as_ref().filter(|_| orders.len() < MOST_ORDERS) {
        orders.push(order.to_string());
    }
}

fn messages(found: &[Found]) -> Vec<&ParkedMessage> {
    found.iter().map(|found| &found.message).collect()
}

fn number(found: &[Found]) -> u64 {
    u64::try_from(found.len()).unwrap_or(u64::MAX)
}
