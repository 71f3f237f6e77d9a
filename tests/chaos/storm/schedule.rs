//! The faults and their order; both follow from the seed.

use std::{ops::RangeInclusive, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL; another one is started.
    WorkerKilled,
    /// SIGKILL to every worker at once.
    WorkersKilled,
    /// SIGSTOP, later SIGCONT.
    WorkerStopped,
    /// SIGTERM; another one is started when it has ended.
    WorkerTerminated,
    /// The clocks of the workers' machine leap by minutes, and stay wrong.
    WorkerClocksLeapt,
    /// SIGTERM and a new start.
    BrokerRestarted,
    /// SIGKILL, later a new start.
    BrokerKilled,
    /// Every process stops, and the network still accepts connections.
    BrokerFrozen,
    /// Through the management API.
    BrokerConnectionsClosed,
    /// Publishers are blocked.
    MemoryAlarm,
    /// The workers' user loses all rights. Its connections are closed, so that it notices.
    BrokerRightsWithdrawn,
    /// Its clients lose it; its processes run on.
    BrokerCutOff,
    /// A node loses the other nodes, while its clients still reach it.
    NodeCutOff,
    /// Two nodes lose each other; the third sees both.
    LinkCut,
    /// No node sees another one.
    NodesCutOff,
    /// Every quorum queue gets another leader.
    LeadersMoved,
    /// A fast shutdown and a new start.
    DatabaseRestarted,
    /// SIGKILL, later a new start.
    DatabaseKilled,
    /// Every process stops.
    DatabaseFrozen,
    /// Its clients lose it; its processes run on.
    DatabaseCutOff,
    /// The clock leaps seconds forwards or backwards, for good.
    DatabaseClockLeapt,
    /// `pg_terminate_backend`.
    DatabaseConnectionsClosed,
    /// New transactions are read-only; sessions are ended, like at a failover.
    DatabaseReadOnly,
    /// The workers' role may touch no table.
    DatabaseRightsWithdrawn,
    /// An open transaction locks the stock rows of half of all items.
    StockLocked,
    /// An open transaction locks orders that will be due.
    OrdersLocked,
    /// Bodies that are not due notices, and routing keys without a binding.
    Garbage,
    /// Notices of orders that do not exist.
    Ghosts,
    /// Notices long before the deadline.
    Early,
    /// Copies of notices.
    Duplicates,
    /// Headers and properties that only the broker or the worker may set.
    Forged,
}

/// The target of a fault: two faults at once have different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Workers,
    Broker,
    Database,
    Messages,
}

/// Kind, place, duration in ms (0 for a momentary fault), and size: messages, locked orders, or seconds and minutes of a clock.
type Row = (Kind, Place, RangeInclusive<u64>, RangeInclusive<usize>);

static KINDS: [Row; 31] = {
    use Kind::*;
    use Place::*;
    [
        (WorkerKilled, Workers, 0..=0, 1..=1),
        (WorkersKilled, Workers, 0..=0, 1..=1),
        (WorkerStopped, Workers, 1_000..=6_000, 1..=1),
        (WorkerTerminated, Workers, 0..=0, 1..=1),
        (WorkerClocksLeapt, Workers, 0..=0, 1..=90),
        (BrokerRestarted, Broker, 0..=0, 1..=1),
        (BrokerKilled, Broker, 1_000..=6_000, 1..=1),
        (BrokerFrozen, Broker, 2_000..=9_000, 1..=1),
        (BrokerConnectionsClosed, Broker, 0..=0, 1..=1),
        (MemoryAlarm, Broker, 1_000..=6_000, 1..=1),
        (BrokerRightsWithdrawn, Broker, 1_000..=6_000, 1..=1),
        (BrokerCutOff, Broker, 2_000..=9_000, 1..=1),
        (NodeCutOff, Broker, 2_000..=9_000, 1..=1),
        (LinkCut, Broker, 2_000..=9_000, 1..=1),
        (NodesCutOff, Broker, 2_000..=9_000, 1..=1),
        (LeadersMoved, Broker, 0..=0, 1..=1),
        (DatabaseRestarted, Database, 0..=0, 1..=1),
        (DatabaseKilled, Database, 1_000..=6_000, 1..=1),
        (DatabaseFrozen, Database, 2_000..=9_000, 1..=1),
        (DatabaseCutOff, Database, 2_000..=9_000, 1..=1),
        (DatabaseClockLeapt, Database, 0..=0, 1..=5),
        (DatabaseConnectionsClosed, Database, 0..=0, 1..=1),
        (DatabaseReadOnly, Database, 1_000..=6_000, 1..=1),
        (DatabaseRightsWithdrawn, Database, 1_000..=6_000, 1..=1),
        (StockLocked, Database, 2_000..=9_000, 1..=1),
        (OrdersLocked, Database, 2_000..=9_000, 5..=20),
        (Garbage, Messages, 0..=0, 20..=60),
        (Ghosts, Messages, 0..=0, 20..=60),
        (Early, Messages, 0..=0, 50..=200),
        (Duplicates, Messages, 0..=0, 50..=200),
        (Forged, Messages, 0..=0, 20..=60),
    ]
};

impl Kind {
    /// Every kind that is possible with `nodes` nodes.
    pub fn all(nodes: usize) -> Vec<Self> {
        let several = [Self::NodeCutOff, Self::LinkCut, Self::NodesCutOff, Self::LeadersMoved];
        let all = KINDS.iter().map(|row| row.0);
        all.filter(|kind| nodes > 1 || !several.contains(kind)).collect()
    }

    pub fn place(self) -> Place {
        self.row().1
    }

    fn row(self) -> &'static Row {
        KINDS.iter().find(|row| row.0 == self).unwrap()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// Index of the worker or the node, modulo their number.
    pub victim: usize,
    pub hold: Duration,
    /// Number of messages or orders, or how far a clock leaps.
    pub size: usize,
}

impl Fault {
    /// How far a clock leaps: as often forwards as backwards.
    pub fn leap(&self) -> i64 {
        let size = i64::try_from(self.size).unwrap();
        if self.victim.is_multiple_of(2) { size } else { -size }
    }
}

/// Faults that begin together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Time without a fault before this strike.
    pub pause: Duration,
    pub faults: Vec<Fault>,
}

/// Endless strikes. In the first round each kind strikes alone (optional), in later rounds two kinds with different places.
pub struct Schedule {
    random: StdRng,
    kinds: Vec<Kind>,
    longest_hold: Duration,
    pause_ms: RangeInclusive<u64>,
    first_round: bool,
    round: Vec<Kind>,
}

impl Schedule {
    /// A schedule of `kinds`, with `pause` between two strikes.
    pub fn new(
        seed: u64,
        kinds: &[Kind],
        longest_hold: Duration,
        pause_ms: RangeInclusive<u64>,
        alone_first: bool,
    ) -> Self {
        let (mut random, mut round) = (StdRng::seed_from_u64(seed), kinds.to_vec());
        round.shuffle(&mut random);
        let (kinds, first_round) = (kinds.to_vec(), alone_first);
        Self { random, kinds, longest_hold, pause_ms, first_round, round }
    }

    fn fault(&mut self, kind: Kind) -> Fault {
        let (_, _, hold_ms, size) = kind.row().clone();
        let hold = Duration::from_millis(self.random.random_range(hold_ms));
        Fault {
            kind,
            victim: self.random.random_range(0..1_000),
            hold: hold.min(self.longest_hold),
            size: self.random.random_range(size),
        }
    }
}

impl Iterator for Schedule {
    type Item = Strike;

    fn next(&mut self) -> Option<Strike> {
        if self.round.is_empty() {
            self.first_round = false;
            self.round.clone_from(&self.kinds);
            self.round.shuffle(&mut self.random);
        }
        let pause = Duration::from_millis(self.random.random_range(self.pause_ms.clone()));
        let kind = self.round.pop()?;
        let mut faults = vec![self.fault(kind)];
        let other = self.round.iter().position(|other| other.place() != kind.place());
        if let Some(other) = other.filter(|_| !self.first_round) {
            let other = self.round.remove(other);
            faults.push(self.fault(other));
        }
        Some(Strike { pause, faults })
    }
}

#[test]
#[ignore = "tests the storm itself: `make chaos`"]
fn the_seed_decides_and_each_kind_comes_alone_first_and_then_in_pairs() {
    let longest = Duration::from_secs(2);
    let kinds = Kind::all(1);
    let strikes =
        |seed| Schedule::new(seed, &kinds, longest, 1..=9, true).take(400).collect::<Vec<_>>();
    let (mut first, again, other) = (strikes(7), strikes(7), strikes(8));
    assert!(first == again && first != other);
    assert!(first.iter().flat_map(|strike| &strike.faults).all(|fault| fault.hold <= longest));
    let pairs = first.split_off(kinds.len());
    assert!(first.iter().all(|strike| strike.faults.len() == 1));
    let mut alone: Vec<Kind> = first.iter().map(|strike| strike.faults[0].kind).collect();
    alone.sort();
    let mut all = kinds.clone();
    all.sort();
    assert_eq!(alone, all);
    let pairs: Vec<_> = pairs.iter().filter(|strike| strike.faults.len() == 2).collect();
    assert!(pairs.len() > 100, "{} pairs", pairs.len());
    let places = |strike: &Strike| (strike.faults[0].kind.place(), strike.faults[1].kind.place());
    assert!(pairs.iter().all(|pair| places(pair).0 != places(pair).1));
}
