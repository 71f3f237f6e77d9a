//! `overdue status`: one screen for whoever is on call. Asks database and broker, and no worker.

mod broker;
mod redraw;

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use clap::Args;
use serde::Serialize;

use super::{
    exit::Failure,
    output::{Output, print, print_json, print_line},
    parked, setup,
};
use crate::{
    broker::Management,
    config::Settings,
    shutdown::Stop,
    status::{Known, Reading, State},
    store::{Store, orders::Effect},
    text::{error_chain, one_line},
    topology::{Topology, level::Ttl},
};
use redraw::Screen;

/// One screen: are orders closed on time, if not why, and what to type
#[derive(Debug, Args)]
pub(super) struct Status {
    /// Again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// With --watch: how often
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch")]
    every: Ttl,
    /// How it is shown; with --watch an object per line
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Parking lots with more messages are not looked into: `overdue parked list` does.
const LOOKED_INTO: u64 = 2_000;
/// Reasons that are shown.
const REASONS: usize = 5;

/// Reasons and their messages, and how many messages lay there.
type ParkedReasons = (u64, Vec<(String, u64)>);

/// Whom to ask.
struct Asked<'a> {
    settings: &'a Settings,
    /// As they were when the count of parked messages last changed: to look takes them out of sight for a moment.
    parked: RefCell<Option<ParkedReasons>>,
    topology: Topology,
    effects: BTreeMap<String, Effect>,
    store: Store,
    management: Management,
    late_after: Duration,
}

/// For programs: what was read, and what it comes to.
#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    state: State,
    #[serde(flatten)]
    reading: &'a Reading,
}

impl<'a> Answer<'a> {
    fn of(reading: &'a Reading) -> Self {
        Self { version: 1, state: State::of(reading), reading }
    }
}

impl Status {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let asked = Asked {
            settings,
            parked: RefCell::default(),
            effects: setup::effects(settings, &topology)?,
            store: setup::store(settings)?,
            management: setup::management(settings)?,
            late_after: settings.worker.sweep_grace.as_duration(),
            topology,
        };
        if self.watch {
            return self.watch(&asked).await;
        }
        let reading = asked.read().await;
        match self.output {
            Output::Text => print(&reading),
            Output::Json => print_json(&Answer::of(&reading)),
        }
    }

    async fn watch(&self, asked: &Asked<'_>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let screen = Screen::open()?;
        let shown = self.redraw(asked, &screen, &stop).await;
        screen.close();
        shown
    }

    async fn redraw(&self, asked: &Asked<'_>, screen: &Screen, stop: &Stop) -> Result<(), Failure> {
        loop {
            let reading = tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                reading = asked.read() => reading,
            };
            match self.output {
                Output::Text => screen.draw(&reading)?,
                Output::Json => print_line(&Answer::of(&reading))?,
            }
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                () = tokio::time::sleep(self.every.as_duration()) => {}
            }
        }
    }
}

impl Asked<'_> {
    /// One that is unavailable does not keep the other from being shown.
    async fn read(&self) -> Reading {
        let (database, broker) = tokio::join!(
            self.store.lately(self.effects.values()),
            broker::read(&self.topology, &self.management),
        );
        let mut broker = broker;
        if let Ok(broker) = &mut broker {
            broker.parked_reasons = self.parked_reasons(broker.parked.unwrap_or(0)).await;
        }
        let why = |error: &dyn std::error::Error| one_line(error_chain(error));
        Reading {
            topology: self.topology.name.clone(),
            database: database.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            broker: broker.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            counts_age_s: self.management.statistics_interval().oldest_count().as_secs(),
            late_after_s: self.late_after.as_secs(),
        }
    }

    /// None where it cannot be looked into, e.g. because this user may not read it.
    async fn parked_reasons(&self, parked: u64) -> Vec<(String, u64)> {
        if !(1..=LOOKED_INTO).contains(&parked) {
            return Vec::new();
        }
        let known = self.parked.borrow().clone();
        if let Some((count, reasons)) = known
            && count == parked
        {
            return reasons;
        }
        let Ok(found) = parked::reasons(self.settings).await else { return Vec::new() };
        let (reasons, _) = found.most_frequent(REASONS);
        let reasons: Vec<_> =
            reasons.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
        self.parked.replace(Some((parked, reasons.clone())));
        reasons
    }
}
