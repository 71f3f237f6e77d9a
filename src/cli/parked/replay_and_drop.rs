//! How messages leave the parking lot: `overdue parked replay` and `overdue parked drop`.
//!
//! A replay goes through the confirmed publisher, and a message is acked after the confirm. Stopped anywhere it loses
//! nothing; at worst a message is both published and still parked, and the next replay finds its order final. What is
//! dropped is recorded in the database first.

use std::{fmt, num::NonZeroU32};

use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;

use super::{
    super::{
        exit::Failure,
        output::{Confirm, Output, report},
        pace::{Pace, Progress},
        setup,
    },
    Batch, Found, Lots, Select,
};
use crate::{
    config::Settings,
    messaging::{PublishError, Publisher, parking_lot::Place},
    parking::{Fate, Reasons, Totals, fate},
    shutdown::Stop,
    store::{Store, history::DroppedMessage},
    text::{counted, error_chain, one_line},
    wire::Message,
};

/// Messages on their way at once.
const IN_FLIGHT: usize = 64;
/// Reasons that the preview of a drop names.
const REASONS: usize = 20;

/// Put messages back whose orders are not final; shows what it would do, and asks
#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    confirm: Confirm,
    /// Messages per second, at the most
    #[arg(long, default_value = "1000", value_name = "N")]
    rate: NonZeroU32,
    #[command(flatten)]
    output: Output,
}

/// Take messages out for good, and record them in the database; shows them, and asks
#[derive(Debug, Args)]
pub(in crate::cli) struct DropMessages {
    #[command(flatten)]
    select: Select,
    /// Why; it is recorded with each message in the table dropped_messages
    #[arg(long, value_name = "TEXT")]
    because: String,
    /// Everything that is in the parking lot, if no other option says which messages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

/// What became of the messages.
#[derive(Serialize)]
struct Replayed<'a> {
    version: u32,
    queues: &'a [String],
    #[serde(flatten)]
    totals: &'a Totals,
}

impl fmt::Display for Replayed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "done in {}:\n{}", self.queues.join(", "), self.totals)
    }
}

/// What was dropped.
#[derive(Serialize)]
struct Dropped<'a> {
    version: u32,
    queues: &'a [String],
    dropped: u64,
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = counted(self.dropped, "message");
        write!(f, "{messages} dropped, and recorded in the table dropped_messages")
    }
}

/// What is done with a parking lot.
struct Replaying<'a> {
    lots: &'a Lots,
    publisher: Publisher,
    pace: Pace,
    stop: Stop,
    progress: Progress,
    totals: Totals,
    first_failure: Option<PublishError>,
}

impl Replay {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let lots = Lots::open(settings).await?;
        let mut expected = None;
        if !self.confirm.yes {
            let totals = self.preview(&lots).await?;
            if totals.leaving() == 0 {
                return self.answer(&lots, &totals);
            }
            self.output.preview(format!("in {}:\n{totals}", lots.names()))?;
            self.confirm.ask(&format!(
                "take {} out of the parking lot at {}?",
                counted(totals.leaving(), "message"),
                lots.services.address
            ))?;
            expected = Some(totals.total());
        }
        let lock = lots.lock().await?;
        let done = self.carry_out(&lots, expected).await;
        lock.release().await;
        done
    }

    fn answer(&self, lots: &Lots, totals: &Totals) -> Result<(), Failure> {
        self.output.print(&Replayed { version: 1, queues: &lots.queues, totals })
    }

    /// Reads everything and puts it back.
    async fn preview(&self, lots: &Lots) -> Result<Totals, Failure> {
        let mut totals = Totals::default();
        let mut progress = Progress::new("messages looked at", None);
        lots.read(&self.select.filter(), &Stop::new(), async |batch| {
            fates(lots, &batch.found).await?.iter().for_each(|fate| totals.add(fate));
            progress.add(number(&batch.found));
            Ok(())
        })
        .await?;
        Ok(totals)
    }

    async fn carry_out(&self, lots: &Lots, expected: Option<u64>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let address = &lots.services.address;
        let mut replaying = Replaying {
            lots,
            publisher: Publisher::connect(address, "overdue parked replay").await?,
            pace: Pace::new(self.rate),
            stop: stop.clone(),
            progress: Progress::new("messages done", expected),
            totals: Totals::default(),
            first_failure: None,
        };
        let ended = lots
            .read(&self.select.filter(), &stop, async |batch| replaying.take(batch).await)
            .await;
        let Replaying { totals, first_failure, progress, .. } = replaying;
        drop(progress);
        // A failure before the first message has no answer.
        if ended.is_ok() || totals.total() > 0 {
            self.answer(lots, &totals)?;
        }
        note_of_stop(&stop);
        match first_failure {
            Some(error) => {
                let Failure { code, text } = error.into();
                let count = counted(totals.unconfirmed, "message");
                Err(Failure { code, text: format!("{count} not confirmed: {text}") })
            }
            None => ended.map(drop),
        }
    }
}

impl Replaying<'_> {
    async fn take(&mut self, batch: Batch<'_, '_>) -> Result<(), Failure> {
        let number = number(&batch.found);
        let fates = fates(self.lots, &batch.found).await?;
        let mut to_publish = Vec::new();
        for (found, fate) in batch.found.into_iter().zip(fates) {
            match fate {
                Fate::Replay(ref route) => {
                    let message = found.received.replayed(route.clone());
                    to_publish.push((found.place, message, fate));
                }
                Fate::Settle => {
                    batch.lot.ack(found.place).await?;
                    self.totals.add(&fate);
                }
                Fate::Stay(_) => self.totals.add(&fate),
            }
        }
        let (publisher, pace, stop) = (&self.publisher, &self.pace, &self.stop);
        let mut results = stream::iter(to_publish)
            .map(async |(place, message, fate): (Place, Message, Fate)| {
                let go = pace.wait(stop).await;
                (place, fate, if go { Some(publisher.publish(message).await) } else { None })
            })
            .buffer_unordered(IN_FLIGHT);
        while let Some((place, fate, result)) = results.next().await {
            match result {
                Some(Ok(())) => {
                    batch.lot.ack(place).await?;
                    self.totals.add(&fate);
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
        self.progress.add(number);
        match &self.first_failure {
            Some(error) if self.publisher.is_closed() => {
                Err(Failure::failed(one_line(error_chain(error))))
            }
            _ => Ok(()),
        }
    }
}

async fn fates(lots: &Lots, found: &[Found]) -> Result<Vec<Fate>, Failure> {
    let outcomes = lots.outcomes(found).await?;
    let topology = &lots.services.topology;
    let each = found.iter().zip(&outcomes);
    Ok(each.map(|(it, now)| fate(topology, &lots.routes, &it.message, now.as_ref())).collect())
}

impl DropMessages {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if self.because.trim().is_empty() {
            return Err(Failure::usage("--because is empty: say why these messages are dropped"));
        }
        let filter = self.select.filter();
        if filter.is_open() && !self.all {
            return Err(Failure::usage(
                "say which messages (--reason, --timeout, --order, --older-than, --newer-than), or --all",
            ));
        }
        let lots = Lots::open(settings).await?;
        let mut expected = None;
        if !self.confirm.yes {
            let reasons = lots.reasons(&filter).await?;
            self.output.preview(preview(&reasons))?;
            let total = reasons.total();
            if total == 0 {
                return self.answer(&lots, 0);
            }
            let address = &lots.services.address;
            self.confirm
                .ask(&format!("drop {} of {address} for good?", counted(total, "message")))?;
            expected = Some(total);
        }
        let lock = lots.lock().await?;
        let done = self.carry_out(&lots, expected).await;
        lock.release().await;
        done
    }

    fn answer(&self, lots: &Lots, dropped: u64) -> Result<(), Failure> {
        self.output.print(&Dropped { version: 1, queues: &lots.queues, dropped })
    }

    async fn carry_out(&self, lots: &Lots, expected: Option<u64>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let mut progress = Progress::new("messages dropped", expected);
        let mut dropped = 0_u64;
        let ended = lots
            .read(&self.select.filter(), &stop, async |batch| {
                let number = number(&batch.found);
                drop_batch(&lots.services.store, batch, &self.because).await?;
                dropped += number;
                progress.add(number);
                Ok(())
            })
            .await;
        drop(progress);
        if ended.is_ok() || dropped > 0 {
            self.answer(lots, dropped)?;
        }
        note_of_stop(&stop);
        ended.map(drop)
    }
}

async fn drop_batch(store: &Store, batch: Batch<'_, '_>, because: &str) -> Result<(), Failure> {
    let records: Vec<DroppedMessage> =
        batch.found.iter().map(|found| record(batch.queue, found)).collect();
    store.record_dropped(&records, because).await?;
    for found in &batch.found {
        batch.lot.ack(found.place).await?;
    }
    Ok(())
}

/// PostgreSQL's text has no NUL: what a terminal would act on is escaped.
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

fn preview(reasons: &Reasons) -> String {
    let (each, others) = reasons.most_frequent(REASONS);
    let mut lines: Vec<String> = each
        .into_iter()
        .map(|(reason, count)| format!("{count:>8}  {}", one_line(reason)))
        .collect();
    if others > 0 {
        lines.push(format!("{others:>8}  for other reasons"));
    }
    lines.push(format!("{:>8}  would be dropped", reasons.total()));
    lines.join("\n")
}

fn note_of_stop(stop: &Stop) {
    if stop.is_requested() {
        report("stopped: what was not looked at stays where it is");
    }
}

fn number(found: &[Found]) -> u64 {
    u64::try_from(found.len()).unwrap_or(u64::MAX)
}
