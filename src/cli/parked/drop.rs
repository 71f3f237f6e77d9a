//! `overdue parked drop`: recorded in the database first, then taken out. Stopped in between, a message is recorded and
//! still parked.

use clap::Args;

use super::{
    super::{
        confirm::Confirm,
        exit::Failure,
        output::{print, report},
        progress::Progress,
        setup,
    },
    lot::{Batch, Found, Lots},
    select::Select,
};
use crate::{
    config::Settings,
    parking::Reasons,
    shutdown::Stop,
    store::{Store, dropped::DroppedMessage},
    text::{counted, one_line},
};

/// Reasons that the preview names.
const REASONS: usize = 20;

/// Take messages out for good, and record them in the database
#[derive(Debug, Args)]
pub(in crate::cli) struct DropMessages {
    #[command(flatten)]
    select: Select,
    /// Why; it is recorded with each message in the table dropped_messages
    #[arg(long, value_name = "TEXT")]
    because: String,
    /// Everything that is in the parking lot, where no other option says which messages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
}

impl DropMessages {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if self.because.trim().is_empty() {
            return Err(Failure::usage("--because is empty: say why these messages are dropped"));
        }
        if self.select.filter().is_open() && !self.all {
            return Err(Failure::usage(
                "say which messages (--reason, --timeout, --order, --older-than, --newer-than), or --all",
            ));
        }
        let lots = Lots::open(settings).await?;
        let mut expected = None;
        if !self.confirm.yes {
            let reasons = self.preview(&lots).await?;
            print(preview_text(&reasons))?;
            let total = reasons.total();
            let question =
                format!("drop {} of {} for good?", counted(total, "message"), lots.address);
            if total == 0 {
                return Ok(());
            }
            self.confirm.ask(&question)?;
            expected = Some(total);
        }
        let lock = lots.lock().await?;
        let done = self.carry_out(&lots, expected).await;
        lock.release().await;
        done
    }

    async fn preview(&self, lots: &Lots) -> Result<Reasons, Failure> {
        let mut reasons = Reasons::default();
        lots.read(&self.select.filter(), &Stop::new(), async |batch| {
            batch.found.iter().for_each(|found| reasons.add(&found.message.cause));
            Ok(())
        })
        .await?;
        Ok(reasons)
    }

    async fn carry_out(&self, lots: &Lots, expected: Option<u64>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let mut progress = Progress::new("dropped", expected);
        let mut dropped = 0_u64;
        let ended = lots
            .read(&self.select.filter(), &stop, async |batch| {
                let number = drop_batch(&lots.store, batch, &self.because).await?;
                dropped += number;
                progress.add(number);
                Ok(())
            })
            .await;
        std::mem::drop(progress);
        print(format!(
            "{} dropped, and recorded in the table dropped_messages",
            counted(dropped, "message")
        ))?;
        if stop.is_requested() {
            report("stopped: what was not looked at stays where it is");
        }
        ended.map(std::mem::drop)
    }
}

async fn drop_batch(store: &Store, batch: Batch<'_, '_>, because: &str) -> Result<u64, Failure> {
    let records: Vec<DroppedMessage> =
        batch.found.iter().map(|found| record(batch.queue, found)).collect();
    store.record_dropped(&records, because).await?;
    for found in &batch.found {
        batch.lot.ack(found.place).await?;
    }
    Ok(u64::try_from(batch.found.len()).unwrap_or(u64::MAX))
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

fn preview_text(reasons: &Reasons) -> String {
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
