//! `apply --wait`, decided: whether what was retired has drained, and when to give up.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    Change, Draining, Drains, Plan, RetiredExchange, count_of, counts::StatisticsInterval,
};

/// What has been seen so far.
#[derive(Clone, Debug)]
pub struct DrainWait {
    statistics: StatisticsInterval,
    within: Option<Duration>,
    most: u64,
    uncounted_since: Option<Duration>,
    fewest: u64,
    fell_at: Duration,
    /// What was carried out last.
    carried_out: Option<Vec<Change>>,
    /// Of each queue that is to be deleted and was left since it was not counted: when that was first so.
    not_counted: BTreeMap<String, Duration>,
    /// Of each queue that stays bound since a level may be blocked: since when that is so at each look.
    blocked: BTreeMap<String, Duration>,
    /// Of each queue with a TTL: within what time it was to be empty, and when that was said first.
    said: BTreeMap<String, (Duration, Duration)>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing drains any more, and nothing is to be done.
    Done,
    /// The plan has steps: carry them out, then look again.
    CarryOut,
    /// Look again in a while.
    Look(Progress),
    /// The plan is refused, or what drains does not end in time.
    GiveUp(GaveUp),
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Messages that have come out since waiting began; none is negative when more come in.
    pub drained: u64,
    /// The most messages that were waiting at once.
    pub most: u64,
    /// Each queue that drains, with its count.
    pub queues: Vec<Draining>,
    /// Exchanges that are still needed.
    pub exchanges: Vec<RetiredExchange>,
}

/// Why waiting ended before the queues were empty. Nothing is lost: a later apply deletes them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The plan is refused by now.
    #[error("the plan has become one that is refused\n{0}")]
    Refused(Box<Plan>),
    /// They are still draining.
    #[error(
        "not drained within {within:?}: {left}. Nothing is lost; a later `overdue apply` deletes what is empty"
    )]
    Late {
        /// How long it waited.
        within: Duration,
        /// How far it was.
        left: Progress,
    },
    /// There is always something to do: somebody else changes the same topology, or what feeds a queue.
    #[error("not at rest within {within:?}: {}", unfinished(plan))]
    Changing {
        /// How long it waited.
        within: Duration,
        /// What it would do next.
        plan: Box<Plan>,
    },
    /// What should have come out by now has not.
    #[error(
        "queue {queue} still holds {}, although the last of them was due {late:?} ago: no queue takes them. \
         `overdue verify` says which one blocks them; once that is fixed, the broker tries them again within three minutes. \
         Nothing is lost",
        count_of(*messages)
    )]
    Stuck {
        /// The queue.
        queue: String,
        /// What it holds.
        messages: Option<u64>,
        /// How long after the last of them was due.
        late: Duration,
    },
    /// A level may be blocked, and then what is for the queue may still be in it.
    #[error(
        "queue {queue} stays bound: for {for_s} s each look has found dead letters in all slots of a level, now of {level}, so it may \
         be blocked. `overdue verify` says by what; once that is fixed, the broker tries them again within three minutes. \
         Nothing is lost; a later `overdue apply` goes on"
    )]
    Blocked {
        /// The queue.
        queue: String,
        /// The level.
        level: String,
        /// Seconds.
        for_s: u64,
    },
    /// Nobody knows how much is left.
    #[error(
        "the broker has not counted the messages in {queues} for {for_s} s: are its statistics on, does every queue \
         have a leader (`overdue doctor`), and is `broker.statistics_interval` as long as the broker's own interval? \
         Nothing is lost; a later `overdue apply` deletes what is empty"
    )]
    Uncounted {
        /// The queues.
        queues: String,
        /// Seconds.
        for_s: u64,
    },
}

impl DrainWait {
    /// Waits as long as it takes, or at most `within`, on a broker that takes its counts at this interval.
    pub fn new(within: Option<Duration>, statistics: StatisticsInterval) -> Self {
        Self {
            statistics,
            within,
            most: 0,
            uncounted_since: None,
            fewest: u64::MAX,
            fell_at: Duration::ZERO,
            carried_out: None,
            not_counted: BTreeMap::new(),
            blocked: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// What to do about `plan`, which was made `elapsed` after waiting began.
    pub fn next(&mut self, plan: &Plan, elapsed: Duration) -> Next {
        if !plan.refusals.is_empty() {
            return Next::GiveUp(GaveUp::Refused(Box::new(plan.clone())));
        }
        let blocked = self.blocked(plan, elapsed);
        if !plan.steps.is_empty() {
            let over = self.within.filter(|within| elapsed >= *within);
            return over.map_or(Next::CarryOut, |within| {
                Next::GiveUp(GaveUp::Changing { within, plan: Box::new(plan.clone()) })
            });
        }
        let queues: Vec<Draining> =
            plan.draining.iter().filter(|queue| queue.drains.ends()).cloned().collect();
        let exchanges = plan.retired_exchanges.iter().filter(|it| it.needed.ends(&queues));
        let exchanges: Vec<RetiredExchange> = exchanges.cloned().collect();
        if queues.is_empty() && exchanges.is_empty() {
            return Next::Done;
        }
        if let Some(gave_up) = self.uncounted(&queues, elapsed) {
            return Next::GiveUp(gave_up);
        }
        let delayed = exchanges.iter().filter_map(|it| it.needed.messages());
        let waiting: u64 = queues.iter().filter_map(|queue| queue.messages).chain(delayed).sum();
        if waiting < self.fewest {
            (self.fewest, self.fell_at) = (waiting, elapsed);
        }
        let still = elapsed.saturating_sub(self.fell_at) >= self.statistics.stuck_after();
        // Others may come to their end meanwhile.
        let blocked = blocked.filter(|_| {
            let is_blocked =
                |it: &Draining| matches!(it.drains, Drains::Leaving { blocked: Some(_), .. });
            queues.iter().all(is_blocked)
        });
        if let Some(gave_up) = self.stuck(&queues, elapsed).or(blocked).filter(|_| still) {
            return Next::GiveUp(gave_up);
        }
        // Nothing is to be deleted any more.
        self.not_counted.clear();
        self.most = self.most.max(waiting);
        let left = Progress { drained: self.most - waiting, most: self.most, queues, exchanges };
        match self.within {
            Some(within) if elapsed >= within => Next::GiveUp(GaveUp::Late { within, left }),
            _ => Next::Look(left),
        }
    }

    /// What becomes of `plan`, of which `done` steps were carried out by then, and these queues were not counted: whether it is what
    /// was carried out before.
    ///
    /// # Errors
    /// Nothing of it was done, and one of these was not counted for too long.
    pub fn carried_out(
        &mut self,
        plan: &Plan,
        elapsed: Duration,
        done: usize,
        uncounted: &[String],
    ) -> Result<bool, GaveUp> {
        let changes: Vec<Change> = plan.changes().cloned().collect();
        let again = self.carried_out.as_ref() == Some(&changes);
        self.carried_out = Some(changes);
        self.not_counted.retain(|queue, _| uncounted.contains(queue));
        for queue in uncounted {
            self.not_counted.entry(queue.clone()).or_insert(elapsed);
        }
        let at_most = self.statistics.uncounted_at_most();
        let too_long =
            |(_, since): &(&String, &Duration)| elapsed.saturating_sub(**since) >= at_most;
        let queues = self.not_counted.iter().filter(too_long).map(|(queue, _)| queue.as_str());
        let queues: Vec<&str> = queues.collect();
        if done > 0 || queues.is_empty() {
            return Ok(again);
        }
        Err(GaveUp::Uncounted { queues: queues.join(", "), for_s: at_most.as_secs() })
    }

    /// Nothing comes into a retired queue, so after its TTL it is empty, but for the time that counting takes. In a ladder
    /// that time begins again when a queue before it has become empty: then the last may have come into it.
    fn stuck(&mut self, queues: &[Draining], elapsed: Duration) -> Option<GaveUp> {
        let within = |it: &Draining| match it.drains {
            Drains::WhenDue { within } | Drains::AlongTheLadder { within } => {
                Some((it.queue.clone(), within.as_duration()))
            }
            _ => None,
        };
        let now: BTreeMap<String, Duration> = queues.iter().filter_map(within).collect();
        self.said.retain(|queue, (within, _)| now.get(queue) == Some(within));
        for (queue, within) in now {
            self.said.entry(queue).or_insert((within, elapsed));
        }
        let after = self.statistics.stuck_after();
        queues.iter().filter(|it| it.messages != Some(0)).find_map(|it| {
            let (within, said) = self.said.get(&it.queue)?;
            let late = elapsed.checked_sub(*within + *said)?;
            let late = Duration::from_secs(late.as_secs());
            let Draining { queue, messages, .. } = it.clone();
            (late >= after).then_some(GaveUp::Stuck { queue, messages, late })
        })
    }

    /// A queue that stays bound for a level that may be blocked, at each look: one may see a short burst.
    fn blocked(&mut self, plan: &Plan, elapsed: Duration) -> Option<GaveUp> {
        let blocked = |it: &Draining| match &it.drains {
            Drains::Leaving { blocked: Some(level), .. } => Some((it.queue.clone(), level.clone())),
            _ => None,
        };
        let now: BTreeMap<String, String> = plan.draining.iter().filter_map(blocked).collect();
        self.blocked.retain(|queue, _| now.contains_key(queue));
        now.into_iter().find_map(|(queue, level)| {
            let since = *self.blocked.entry(queue.clone()).or_insert(elapsed);
            let so_long = elapsed.saturating_sub(since);
            let for_s = so_long.as_secs();
            (so_long >= self.statistics.stuck_after()).then_some(GaveUp::Blocked {
                queue,
                level,
                for_s,
            })
        })
    }

    fn uncounted(&mut self, queues: &[Draining], elapsed: Duration) -> Option<GaveUp> {
        let names: Vec<&str> = queues
            .iter()
            .filter(|queue| queue.messages.is_none())
            .map(|queue| queue.queue.as_str())
            .collect();
        if names.is_empty() {
            self.uncounted_since = None;
            return None;
        }
        let since = *self.uncounted_since.get_or_insert(elapsed);
        let so_long = elapsed.saturating_sub(since);
        (so_long >= self.statistics.uncounted_at_most())
            .then(|| GaveUp::Uncounted { queues: names.join(", "), for_s: so_long.as_secs() })
    }
}

/// What is still to be done, and who may be the reason that it does not end.
fn unfinished(plan: &Plan) -> String {
    let steps = plan.steps.iter().map(|step| format!("\n  {}", step.change));
    let fed = plan.draining.iter().filter(|queue| matches!(queue.drains, Drains::Fed { .. }));
    let fed = fed.map(|queue| format!("\n  {queue}"));
    let lines: String = steps.chain(fed).collect();
    format!(
        "these steps are still to be done. Where they come back each time, somebody else changes the same topology, \
         or fills what is to be deleted. Nothing is lost; run `overdue apply` again to go on{lines}"
    )
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = |Draining { queue, messages, drains }: &Draining| {
            format!("{queue} has {} {drains}", count_of(*messages))
        };
        let exchange = |it: &RetiredExchange| format!("{}: {}", it.exchange, it.needed);
        let queues = self.queues.iter().map(queue);
        let all: Vec<String> = queues.chain(self.exchanges.iter().map(exchange)).collect();
        f.write_str(&all.join("; "))
    }
}
