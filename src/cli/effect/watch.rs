//! `overdue effect watch`: reports when rows are closed today, and when a described effect would have closed them.

use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;

use crate::{
    cli::{
        exit::Failure,
        output::{Output, print, report},
        setup,
    },
    config::Settings,
    effect::{self, Ended, Ending},
    store::{Store, StoreError, clock::DatabaseTime, effects::Effect},
    text::{counted, error_chain},
    topology::level::Interval,
};

/// Open rows that are kept in memory at the same time.
const MOST: usize = 100_000;
/// Reading the rows takes at most 1 / `PARTS` of the time.
const PARTS: u32 = 10;
/// Lines per second that a person can read.
const LINES_PER_SECOND: u64 = 50;

#[derive(Debug, Args)]
pub(in crate::cli) struct Watch {
    /// The effect, described in overdue.toml
    name: String,
    /// Time to watch, e.g. 1d; SIGINT ends it earlier, with the report
    #[arg(long = "for", value_name = "TIME")]
    lasts: Interval,
    /// Time between two reads of the rows; longer if a read takes more than a tenth of it
    #[arg(long, value_name = "TIME", default_value = "10s")]
    every: Interval,
    #[command(flatten)]
    output: Output,
}

/// The watched rows of an effect in the database.
struct Looked<'a> {
    store: &'a Store,
    effect: &'a Effect,
    /// The statement that reads the present state of rows.
    sql: String,
    until: DatabaseTime,
}

impl Watch {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self { name, lasts, every, output } = self;
        let effect = setup::named_effect(settings, &name)?;
        let Some(description) = effect.description() else {
            return Err(Failure::configuration(format!(
                "effect `{name}` is from a file, so nothing says which rows are open: describe it in [effects.{name}] (docs/effects.md)"
            )));
        };
        let store = setup::store(settings)?;
        let stop = setup::stop_on_signals()?;
        let sql = store.watched(&effect, description).await?;
        for table in store.hidden_tables(&effect).await? {
            report(format_args!(
                "row level security hides rows of {table} from this login: they are not watched"
            ));
        }
        let now = store.now().await?;
        let looked =
            Looked { store: &store, effect: &effect, sql, until: now.after(lasts.as_duration()) };
        let mut watch = effect::Watch::new(MOST, time(now));
        looked.look(&mut watch).await?;
        output.preview(format_args!(
            "watching {} of {} until {}; nothing is changed, and SIGINT ends it with the report",
            counted(watch.remembered(), "open row"),
            description.table.sql,
            looked.until.to_second(),
        ))?;
        let (mut last, mut took) = (Instant::now(), Duration::ZERO);
        let mut is_failing = false;
        loop {
            let left = store.now().await.map_or(every.as_duration(), |now| now.until(looked.until));
            let pause = every.as_duration().max(took * (PARTS - 1)).min(left);
            // The last look is at the end of `--for`, or when a stop is requested.
            let is_last = !stop.pause(pause).await || pause == left;
            let began = Instant::now();
            match looked.look(&mut watch).await {
                Ok(ended) => {
                    is_failing = false;
                    if !output.is_json() {
                        show(&ended, last.elapsed())?;
                    }
                }
                Err(error) if is_last => return Err(error.into()),
                Err(error) if !is_failing => {
                    report(format_args!(
                        "a look failed, the next one follows: {}",
                        error_chain(&error)
                    ));
                    is_failing = true;
                }
                Err(_) => {}
            }
            (last, took) = (began, began.elapsed());
            if is_last {
                break;
            }
        }
        let now = looked.overdue(&mut watch).await?;
        output.print(&watch.report(now))
    }
}

impl Looked<'_> {
    /// Reads the open rows; returns the rows that have ended since the last look.
    async fn look(&self, watch: &mut effect::Watch) -> Result<Vec<Ended>, StoreError> {
        let now = self.store.now().await?;
        let open = self.store.open_within(self.effect, now.until(self.until), MOST).await?;
        let missing = watch.open(time(now), &open);
        let found = self.store.watched_rows(&self.sql, &missing).await?;
        let now = self.store.now().await?;
        Ok(watch.found(time(now), &missing, &found))
    }

    /// Reads once more the rows that are open after their deadline: something else may keep a row open.
    async fn overdue(&self, watch: &mut effect::Watch) -> Result<Timestamp, StoreError> {
        let overdue = watch.overdue(time(self.store.now().await?));
        let found = self.store.watched_rows(&self.sql, &overdue).await?;
        let now = time(self.store.now().await?);
        watch.found(now, &overdue, &found);
        Ok(now)
    }
}

/// Prints a line per row, or one line for all.
fn show(ended: &[Ended], since: Duration) -> Result<(), Failure> {
    let most = since.as_secs().saturating_add(1).saturating_mul(LINES_PER_SECOND);
    if u64::try_from(ended.len()).is_ok_and(|lines| lines <= most) {
        return ended.iter().try_for_each(print);
    }
    let closed =
        ended.iter().filter(|it| matches!(it.ending, Ending::Closed | Ending::Deleted)).count();
    let others = ended.len() - closed;
    print(format_args!(
        "{} closed after their deadline, {others} others no longer open",
        counted(closed, "row")
    ))
}

/// A time of the database's clock, which is within the range of a timestamp.
fn time(at: DatabaseTime) -> Timestamp {
    at.timestamp().unwrap_or(Timestamp::MAX)
}
