//! Which faults, in which order: all of it follows from the seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::kind::Kind;

/// Ordinary work between two strikes.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 500..=2_500;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// Which worker, or which node of a cluster; modulo their number.
    pub victim: usize,
    /// How long it lasts.
    pub hold: Duration,
    /// How many messages, or orders.
    pub size: usize,
}

/// Faults that begin together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Ordinary work before it.
    pub pause: Duration,
    pub faults: Vec<Fault>,
}

/// Strikes without end: in the first round each kind alone, in every other round two that act on different places.
pub struct Schedule {
    random: StdRng,
    kinds: Vec<Kind>,
    longest_hold: Duration,
    first_round: bool,
    round: Vec<Kind>,
}

impl Schedule {
    /// Of these kinds.
    pub fn new(seed: u64, kinds: &[Kind], longest_hold: Duration) -> Self {
        let mut schedule = Self {
            random: StdRng::seed_from_u64(seed),
            kinds: kinds.to_vec(),
            longest_hold,
            first_round: true,
            round: kinds.to_vec(),
        };
        schedule.round.shuffle(&mut schedule.random);
        schedule
    }

    fn fault(&mut self, kind: Kind) -> Fault {
        let hold = Duration::from_millis(self.random.random_range(kind.hold_ms()));
        Fault {
            kind,
            victim: self.random.random_range(0..1_000),
            hold: hold.min(self.longest_hold),
            size: self.random.random_range(kind.size()),
        }
    }

    /// A kind of this round that can be together with another.
    fn companion(&mut self, kind: Kind) -> Option<Kind> {
        let found = self.round.iter().position(|other| other.place() != kind.place())?;
        Some(self.round.remove(found))
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
        let pause = Duration::from_millis(self.random.random_range(PAUSE_MS));
        let kind = self.round.pop()?;
        let companion = if self.first_round { None } else { self.companion(kind) };
        let faults = [Some(kind), companion].into_iter().flatten();
        let faults = faults.map(|kind| self.fault(kind)).collect();
        Some(Strike { pause, faults })
    }
}

mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn strikes(seed: u64, count: usize) -> Vec<Strike> {
        Schedule::new(seed, &Kind::ALL, Duration::from_secs(10)).take(count).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(strikes(7, 100), strikes(7, 100));
        assert_ne!(strikes(7, 100), strikes(8, 100));
    }

    #[test]
    fn the_first_round_has_each_kind_once_and_alone() {
        let strikes = strikes(7, Kind::ALL.len());
        assert!(strikes.iter().all(|strike| strike.faults.len() == 1));
        let kinds: BTreeSet<Kind> = strikes.iter().map(|strike| strike.faults[0].kind).collect();
        assert_eq!(kinds, Kind::ALL.into_iter().collect());
    }

    #[test]
    fn later_rounds_have_pairs_that_act_on_different_places() {
        let strikes = strikes(7, 400).split_off(Kind::ALL.len());
        let pairs: Vec<_> = strikes.iter().filter(|strike| strike.faults.len() == 2).collect();
        assert!(pairs.len() > 100, "{} pairs", pairs.len());
        for pair in pairs {
            assert_ne!(pair.faults[0].kind.place(), pair.faults[1].kind.place());
        }
    }

    #[test]
    fn no_fault_lasts_longer_than_allowed() {
        let short = Duration::from_secs(2);
        let mut schedule = Schedule::new(7, &Kind::ALL, short).take(200);
        assert!(schedule.all(|strike| strike.faults.iter().all(|fault| fault.hold <= short)));
    }
}
