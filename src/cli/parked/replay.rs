//! `overdue parked replay`: through the confirmed publisher, acked after the confirm. Stopped anywhere it loses nothing; at
//! worst a message is both published and still parked, and the next replay finds its order final.

use std::num::NonZeroU32;

use clap::Args;
use futures_util::stream::{self, StreamExt};

use super::{
    super::{
        confirm::Confirm,
        exit::Failure,
        output::{print, report},
        pace::Pace,
        progress::Progress,
        setup,
    },
    lot::{Batch, Found, Lots},
    select::Select,
};
use crate::{
    broker::{PublishError, Publisher, parking_lot::Place},
    config::Settings,
    parking::{Fate, Totals, fate},
    shutdown::Stop,
    text::{counted, error_chain, one_line},
    wire::Message,
};

/// Messages on their way at once.
const IN_FLIGHT: usize = 64;

/// Put messages back whose orders are not final
#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    confirm: Confirm,
    /// Messages per second, at the most
    #[arg(long, default_value = "1000", value_name = "N")]
    rate: NonZeroU32,
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
            print(format!("in {}:\n{totals}", lots.queues.join(", ")))?;
            let question = format!(
                "take {} out of the parking lot at {}?",
                counted(totals.leaving(), "message"),
                lots.address
            );
            if totals.leaving() == 0 {
                return Ok(());
            }
            self.confirm.ask(&question)?;
            expected = Some(totals.total());
        }
        let lock = lots.lock().await?;
        let done = self.carry_out(&lots, expected).await;
        lock.release().await;
        done
    }

    /// Reads everything and puts it back.
    async fn preview(&self, lots: &Lots) -> Result<Totals, Failure> {
        let mut totals = Totals::default();
        let mut progress = Progress::new("looked at", None);
        lots.read(&self.select.filter(), &Stop::new(), async |batch| {
            for fate in fates(lots, &batch.found).await? {
                totals.add(&fate);
            }
            progress.add(u64::try_from(batch.found.len()).unwrap_or(u64::MAX));
            Ok(())
        })
        .await?;
        Ok(totals)
    }

    async fn carry_out(&self, lots: &Lots, expected: Option<u64>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let mut replaying = Replaying {
            lots,
            publisher: Publisher::connect(&lots.address, "overdue parked replay").await?,
            pace: Pace::new(self.rate),
            stop: stop.clone(),
            progress: Progress::new("done", expected),
            totals: Totals::default(),
            first_failure: None,
        };
        let ended = lots
            .read(&self.select.filter(), &stop, async |batch| replaying.take(batch).await)
            .await;
        let Replaying { totals, first_failure, progress, .. } = replaying;
        drop(progress);
        print(format!("done in {}:\n{totals}", lots.queues.join(", ")))?;
        if stop.is_requested() {
            report("stopped: what was not looked at stays where it is");
        }
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
        let number = u64::try_from(batch.found.len()).unwrap_or(u64::MAX);
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
    let outcomes = lots.outcomes(found.iter().map(|found| &found.message)).await?;
    let each = found.iter().zip(outcomes);
    let fates =
        each.map(|(found, now)| fate(&lots.topology, &lots.routes, &found.message, now.as_ref()));
    Ok(fates.collect())
}
