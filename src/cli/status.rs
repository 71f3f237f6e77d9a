//! `overdue status`: one screen for whoever is on call. Asks database and broker, and the worker at `worker.listen` where one is.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::{self, Display},
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use serde::Serialize;

use super::{
    exit::{self, Failure},
    output::{Output, print, print_line, write_control},
    parked,
    setup::{self, Services},
};
use crate::{
    administration::{Management, ManagementError},
    condition,
    config::Settings,
    diagnostic::{Severity, Target},
    listen::ask::{FAILING, ask},
    plan::{
        own_queues::{Hold, Kind, kind, message_ttl},
        snapshot::{QueueStats, Snapshot},
    },
    shutdown::Stop,
    status::{BrokerReading, BusinessQueue, Failing, Known, Level, Reading, State, Word, Wrong},
    text::{error_chain, one_line, printable},
    topology::{Timeout, Topology, level::Ttl},
    verify,
};

/// Parking lots with more messages are not looked into: `overdue parked list` does.
const LOOKED_INTO: u64 = 2_000;
/// A worker of this machine answers within milliseconds.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Reasons that are shown.
const REASONS: usize = 5;
/// The alternate screen, without a cursor (ECMA-48 and xterm); what was there before comes back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";

/// One screen: are orders closed on time, if not why, and what to type
#[derive(Debug, Args)]
pub(super) struct Status {
    /// Exit with 2 if the first word is not OK
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// Again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// With --watch: how often
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch")]
    every: Ttl,
    #[command(flatten)]
    output: Output,
}

/// Reasons and their messages, and how many messages lay there.
type ParkedReasons = (u64, Vec<(String, u64)>);

/// Whom to ask.
struct StatusQuestion<'a> {
    settings: &'a Settings,
    services: Services,
    /// As they were when the count of parked messages last changed: to look takes them out of sight for a moment.
    parked: RefCell<Option<ParkedReasons>>,
    late_after: Duration,
}

/// For programs: what was read, and what it comes to.
#[derive(Serialize)]
struct StatusAnswer<'a> {
    version: u32,
    state: State,
    #[serde(flatten)]
    reading: &'a Reading,
}

impl<'a> StatusAnswer<'a> {
    fn of(reading: &'a Reading) -> Self {
        Self { version: 1, state: State::of(reading), reading }
    }
}

impl Display for StatusAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reading.fmt(f)
    }
}

impl Status {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let asked = StatusQuestion {
            settings,
            services: Services::open(settings)?,
            parked: RefCell::default(),
            late_after: condition::late_after(settings.worker.sweep_grace.as_duration()),
        };
        if self.watch {
            return self.watch(&asked).await;
        }
        let reading = asked.read().await;
        let answer = StatusAnswer::of(&reading);
        self.output.print(&answer)?;
        if self.check && answer.state.word != Word::Ok {
            return Err(Failure { code: exit::FINDINGS, text: answer.state.reason });
        }
        Ok(())
    }

    async fn watch(&self, asked: &StatusQuestion<'_>) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let screen = Screen::open()?;
        let shown = self.redraw(asked, &screen, &stop).await;
        screen.close();
        shown
    }

    async fn redraw(
        &self,
        asked: &StatusQuestion<'_>,
        screen: &Screen,
        stop: &Stop,
    ) -> Result<(), Failure> {
        loop {
            let reading = tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                reading = asked.read() => reading,
            };
            if self.output.is_json() {
                print_line(&StatusAnswer::of(&reading))?;
            } else {
                screen.draw(&reading)?;
            }
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                () = tokio::time::sleep(self.every.as_duration()) => {}
            }
        }
    }
}

impl StatusQuestion<'_> {
    /// One that is unavailable does not keep the other from being shown.
    async fn read(&self) -> Reading {
        let Services { topology, effects, store, management, .. } = &self.services;
        let (database, broker) =
            tokio::join!(store.lately(effects.values()), read_broker(topology, management));
        let (failing, mut broker) = (self.failing().await, broker);
        if let Ok(broker) = &mut broker {
            broker.parked_reasons = self.parked_reasons(broker.parked.unwrap_or(0)).await;
        }
        let why = |error: &dyn std::error::Error| one_line(error_chain(error));
        Reading {
            topology: topology.name.clone(),
            failing,
            database: database.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            broker: broker.map_or_else(|error| Known::Unknown(why(&error)), Known::Known),
            counts_age_s: management.statistics_interval().oldest_count().as_secs(),
            late_after_s: self.late_after.as_secs(),
        }
    }

    /// What the worker at `worker.listen` says it fails at: it may be elsewhere, or serve nothing.
    async fn failing(&self) -> Vec<Failing> {
        let Some(address) = self.settings.worker.listen.address() else { return Vec::new() };
        let Ok((_, page)) = ask(address, "/readyz", ASK_TIMEOUT).await else { return Vec::new() };
        // Another topology may have its worker there.
        let begins = format!("{FAILING} {} ", self.services.topology.name);
        let line = |line: &str| {
            let (work, reason) = line.strip_prefix(&begins)?.split_once(": ")?;
            Some(Failing { work: work.to_owned(), reason: reason.to_owned() })
        };
        page.lines().filter_map(line).collect()
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

/// What the broker says, by its management API.
async fn read_broker(
    topology: &Topology,
    management: &Management,
) -> Result<BrokerReading, ManagementError> {
    let mut observed = management.observe().await?;
    let stats = management.stats_and_policies().await?;
    // Not everybody may see them, and all else is shown all the same.
    let _seen = management.add_foreign_consumers(topology, &mut observed, &stats).await;
    let wrong = wrong(topology, management.virtual_host(), &observed, &stats);
    let mut reading = BrokerReading { wrong, ..BrokerReading::default() };
    let mut levels = Vec::new();
    for queue in observed.objects.queues.values() {
        let Some(kind) = kind(topology, &observed.objects, queue) else { continue };
        let counts = stats.get(&queue.name);
        match kind {
            Kind::Delay(hold) => {
                let level = level(topology, &queue.name, hold, counts);
                levels.push((message_ttl(queue), level));
            }
            Kind::Business => reading.business.push(business(&queue.name, counts)),
            Kind::Parked => {
                let more = counts.and_then(|counts| counts.messages);
                reading.parked = reading.parked.into_iter().chain(more).reduce(u64::saturating_add);
            }
        }
    }
    levels.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    reading.levels = levels.into_iter().map(|(_, level)| level).collect();
    reading.levels.extend(plugin(topology, &observed.delayed));
    Ok(reading)
}

/// The worst, as `overdue verify` and `overdue doctor` have it.
fn wrong(
    topology: &Topology,
    virtual_host: &str,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Option<Wrong> {
    let found = verify::findings(topology, observed, stats);
    let worst = found.first().filter(|worst| worst.severity > Severity::Note)?;
    let rendered = worst.rendered(&Target { topology: &topology.name, virtual_host });
    Some(Wrong {
        is_error: worst.severity == Severity::Error,
        reason: format!("{}: {}", one_line(rendered.subject), one_line(rendered.message)),
        next: rendered.fix.unwrap_or_else(|| "overdue doctor".to_owned()),
    })
}

fn level(topology: &Topology, queue: &str, hold: Hold<'_>, counts: Option<&QueueStats>) -> Level {
    let waiting = counts.and_then(|counts| counts.messages);
    match hold {
        Hold::Level(name) => {
            let is_retry = topology.retry.iter().any(|level| level.name() == name);
            let mut first = topology.timeouts.iter().flat_map(Timeout::delays);
            let is_first = first.any(|level| level.name() == name);
            let generation = queue.rsplit('.').next().filter(|last| *last != name);
            let generation = generation.map_or_else(String::new, |last| format!(" ({last})"));
            Level { name: format!("{name}{generation}"), retry: is_retry && !is_first, waiting }
        }
        Hold::Digit(name) => Level { name: name.to_owned(), retry: false, waiting },
    }
}

fn business(queue: &str, counts: Option<&QueueStats>) -> BusinessQueue {
    BusinessQueue {
        name: queue.to_owned(),
        ready: counts.and_then(|counts| counts.messages_ready),
        in_hand: counts.and_then(|counts| counts.messages_unacknowledged),
        consumers: counts.and_then(|counts| counts.consumers),
    }
}

/// What the delayed message plugin holds, on the node that answered.
fn plugin(topology: &Topology, delayed: &BTreeMap<String, u64>) -> Option<Level> {
    let waiting = delayed.get(&topology.delayed_exchange()).copied()?;
    Some(Level { name: "plugin".to_owned(), retry: false, waiting: Some(waiting) })
}

/// A screen that is drawn over itself, so that nothing flickers: each line is written over the one that was there.
///
/// One screen follows the other if standard output is not a terminal.
struct Screen {
    terminal: bool,
}

impl Screen {
    fn open() -> Result<Self, Failure> {
        let terminal = io::stdout().is_terminal();
        if terminal {
            write_control(OPEN)?;
        }
        Ok(Self { terminal })
    }

    fn draw(&self, shown: &impl Display) -> Result<(), Failure> {
        let text = shown.to_string();
        if !self.terminal {
            return print(format!("{text}\n"));
        }
        let mut drawn = HOME.to_owned();
        for line in text.lines() {
            drawn.push_str(&printable(line));
            drawn.push_str(END_OF_LINE);
            drawn.push_str("\r\n");
        }
        drawn.push_str(BELOW);
        write_control(&drawn)
    }

    fn close(self) {
        if self.terminal {
            // Where it cannot be written, nobody looks any more.
            let _closed = write_control(CLOSE);
        }
    }
}
