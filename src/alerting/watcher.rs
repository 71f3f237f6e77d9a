//! When a message is to be sent: something has been seen, or has not been seen for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{
    facts::Facts,
    kind::Kind,
    lot::Lot,
    notice::{Item, Notice},
};
use crate::text::counted;

/// What is so many times what was said of it is worth a message of its own.
const GREW: u64 = 10;
/// Who has put messages into the parking lot that this worker has not.
const BY_OTHERS: &str = "by the broker or another worker";

/// When one alert speaks.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it is about.
    pub kinds: BTreeSet<Kind>,
    /// Orders that are closed later than that are late.
    pub late_after: Duration,
    /// A worker that is not ready for so long is worth a message.
    pub not_ready_for: Duration,
    /// What was not seen for so long is over.
    pub over_after: Duration,
    /// The shortest time between two messages; what happens meanwhile is in the next one.
    pub at_most_every: Duration,
    /// What is still wrong after so long is said again.
    pub again_after: Duration,
}

/// What one alert knows, and has said.
#[derive(Debug)]
pub struct Watcher {
    rule: Rule,
    episodes: BTreeMap<Kind, Episode>,
    before: Facts,
    lot: Lot,
    not_ready_since: Option<Instant>,
    last_message: Option<Instant>,
}

/// Something that was seen, until a message has said that it is over.
#[derive(Debug)]
struct Episode {
    began: Instant,
    seen: Instant,
    over: bool,
    /// A message has said that it began, and how often it had been seen then.
    reported: Option<u64>,
    seen_so_far: Seen,
}

/// What was seen of one kind in one episode.
#[derive(Clone, Debug)]
enum Seen {
    /// The last words of what holds or does not.
    Now(String),
    /// The worst.
    Late { closed: Duration, overdue: Option<(String, Duration)> },
    /// How often, by what.
    Counted(BTreeMap<String, u64>),
}

impl Watcher {
    /// One that has seen nothing yet.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            episodes: BTreeMap::new(),
            before: Facts::default(),
            lot: Lot::default(),
            not_ready_since: None,
            last_message: None,
        }
    }

    /// One that begins at `now` with these facts: what was counted before is not new.
    #[must_use]
    pub fn beginning(rule: Rule, now: Instant, facts: &Facts) -> Self {
        let lot = Lot::beginning(now, facts.lot, facts.parked.values().sum());
        Self { before: facts.clone(), lot, ..Self::new(rule) }
    }

    /// Takes a reading. None of them is to be left out: some say what was since the one before.
    pub fn observe(&mut self, now: Instant, facts: &Facts) {
        self.not_ready_since = match facts.not_ready.as_slice() {
            [] => None,
            _ => self.not_ready_since.or(Some(now)),
        };
        let others = self.lot.observe(now, facts.lot, facts.parked.values().sum());
        for kind in self.rule.kinds.clone() {
            match self.seen(kind, now, facts, others) {
                Some(seen) => self.goes_on(kind, now, seen),
                None => self.may_be_over(kind, now),
            }
        }
        self.before = facts.clone();
    }

    /// `others` is what others have put into the parking lot.
    fn seen(&self, kind: Kind, now: Instant, facts: &Facts, others: u64) -> Option<Seen> {
        match kind {
            Kind::NotReady => {
                let since = self.not_ready_since?;
                let lasted = now.saturating_duration_since(since);
                let (name, reason) = facts.not_ready.first()?;
                (lasted >= self.rule.not_ready_for).then(|| Seen::Now(format!("{name}: {reason}")))
            }
            Kind::Late => {
                let bound = self.rule.late_after;
                let overdue = facts.overdue.iter().filter(|(_, overdue)| **overdue > bound);
                let overdue = overdue.max_by_key(|(_, overdue)| **overdue);
                let overdue = overdue.map(|(effect, overdue)| (effect.clone(), *overdue));
                let closed = if facts.latest > bound { facts.latest } else { Duration::ZERO };
                let is_late = overdue.is_some() || !closed.is_zero();
                is_late.then_some(Seen::Late { closed, overdue })
            }
            Kind::Parked => {
                let before = |key| self.before.parked.get(key).copied().unwrap_or(0);
                let each = facts.parked.iter().map(|(key, count)| {
                    (format!("{}, {}", key.0, key.1), count.saturating_sub(before(key)))
                });
                grown(each.chain([(BY_OTHERS.to_owned(), others)]))
            }
            Kind::Sweep => {
                let before = |key| self.before.swept.get(key).copied().unwrap_or(0);
                let each = facts.swept.iter();
                grown(each.map(|(key, count)| (key.clone(), count.saturating_sub(before(key)))))
            }
            Kind::Drift => {
                let findings = counted(facts.drift, "finding");
                (facts.drift > 0).then(|| {
                    Seen::Now(format!(
                        "the broker differs from the topology file: {findings} of `overdue verify`"
                    ))
                })
            }
        }
    }

    fn goes_on(&mut self, kind: Kind, now: Instant, seen: Seen) {
        match self.episodes.get_mut(&kind) {
            None => {
                let (over, reported) = (false, None);
                // It has lasted for a while when it is worth a message.
                let since = self.not_ready_since.filter(|_| kind == Kind::NotReady);
                let began = since.unwrap_or(now);
                let episode = Episode { began, seen: now, over, reported, seen_so_far: seen };
                self.episodes.insert(kind, episode);
            }
            Some(episode) => {
                episode.seen = now;
                episode.over = false;
                episode.seen_so_far.add(seen);
            }
        }
    }

    fn may_be_over(&mut self, kind: Kind, now: Instant) {
        if let Some(episode) = self.episodes.get_mut(&kind) {
            let unseen = now.saturating_duration_since(episode.seen);
            episode.over = unseen >= self.rule.over_after;
        }
    }

    /// The message that is due now, made of everything that is known now. Until [`Watcher::sent`] it stays due.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Notice> {
        let since = self.last_message.map(|last| now.saturating_duration_since(last));
        let may = since.is_none_or(|since| since >= self.rule.at_most_every);
        let news = self.episodes.values().any(Episode::is_news);
        let again = since.is_some_and(|since| since >= self.rule.again_after);
        if !may || self.episodes.is_empty() || !(news || again) {
            return None;
        }
        let items = self.episodes.iter().map(|(kind, episode)| Item {
            kind: *kind,
            over: episode.over,
            text: episode.seen_so_far.text(*kind, self.rule.late_after),
            count: episode.seen_so_far.count(),
            began_ago: now.saturating_duration_since(episode.began),
        });
        Some(Notice { items: items.collect() })
    }

    /// The other side has taken this message at `now`. What has changed since it was made is in the next one.
    pub fn sent(&mut self, now: Instant, notice: &Notice) {
        self.last_message = Some(now);
        for item in &notice.items {
            let Some(episode) = self.episodes.get_mut(&item.kind) else { continue };
            match (item.over, episode.over) {
                (true, true) => _ = self.episodes.remove(&item.kind),
                // It came again while it was said to be over.
                (true, false) => episode.reported = None,
                (false, _) => episode.reported = Some(item.count),
            }
        }
    }
}

impl Episode {
    /// It began, it is over, or it is ten times what was said of it.
    fn is_news(&self) -> bool {
        let Some(said) = self.reported else { return true };
        self.over || (said > 0 && self.seen_so_far.count() >= said.saturating_mul(GREW))
    }
}

/// What has grown, if anything has.
fn grown(each: impl Iterator<Item = (String, u64)>) -> Option<Seen> {
    let grown: BTreeMap<String, u64> = each.filter(|(_, by)| *by > 0).collect();
    (!grown.is_empty()).then_some(Seen::Counted(grown))
}

impl Seen {
    fn add(&mut self, newer: Self) {
        match (self, newer) {
            (Self::Late { closed, overdue }, Self::Late { closed: later, overdue: now }) => {
                *closed = later.max(*closed);
                // One of the two is there.
                *overdue = now;
            }
            (Self::Counted(counts), Self::Counted(more)) => {
                for (what, by) in more {
                    *counts.entry(what).or_default() += by;
                }
            }
            (this, newer) => *this = newer,
        }
    }

    /// How often it was seen; 0 for what cannot be counted.
    fn count(&self) -> u64 {
        match self {
            Self::Counted(counts) => counts.values().sum(),
            Self::Now(_) | Self::Late { .. } => 0,
        }
    }

    fn text(&self, kind: Kind, bound: Duration) -> String {
        match self {
            Self::Now(text) => text.clone(),
            Self::Late { closed, overdue } => {
                let both = [overdue.as_ref().map(overdue_text), closed_text(*closed)];
                let both: Vec<String> = both.into_iter().flatten().collect();
                format!("{} (late_after is {} s)", both.join("; "), bound.as_secs_f64())
            }
            Self::Counted(counts) => {
                let each = counts.iter().map(|(what, count)| format!("{what}: {count}"));
                let each = each.collect::<Vec<_>>().join("; ");
                let count = self.count();
                match kind {
                    Kind::Sweep => format!(
                        "the sweep closed {} that no message came for ({each})",
                        counted(count, "order")
                    ),
                    _ => format!("{} put into the parking lot ({each})", counted(count, "message")),
                }
            }
        }
    }
}

fn overdue_text((effect, overdue): &(String, Duration)) -> String {
    format!(
        "an order of effect {effect} has been overdue for {} s and is not closed",
        overdue.as_secs()
    )
}

fn closed_text(latest: Duration) -> Option<String> {
    let text =
        || format!("orders were closed up to {:.1} s after their deadline", latest.as_secs_f64());
    (!latest.is_zero()).then(text)
}
