//! Whether a worker is ready, from its state: the conditions of `/readyz`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Last answer of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// The worker has not queried the database yet.
    #[default]
    NotAsked,
    /// The database answered at this instant.
    Given(Instant),
    /// The database does not answer.
    Failed {
        /// When the database failed to answer for the first time.
        since: Instant,
        /// Error text.
        reason: String,
    },
}

/// State of the session with the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// The first session is being opened.
    #[default]
    Opening,
    /// The session is open.
    Open,
    /// The last session ended, and the next one is not open yet.
    Ended {
        /// When the outage began; later failed attempts do not change it.
        since: Instant,
        /// Error text.
        reason: String,
    },
}

/// State of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerState {
    /// Last answer of the database.
    pub database: Answer,
    /// Session with the broker.
    pub session: Session,
    /// Timeouts that have no consumer.
    pub unconsumed: Vec<String>,
    /// Whether the management API listed the queues when it was last asked.
    pub lists_queues: bool,
    /// Queues that do not answer, or whose copies the broker does not accept: timeout and start of the silence.
    pub silent: BTreeMap<String, (String, Instant)>,
    /// Routing keys of the timeouts' delays that lead to no level.
    pub unrouted: Vec<String>,
    /// Levels that the broker has and the topology lacks.
    pub other_levels: Vec<String>,
    /// How long an order has been overdue, for each effect that is stuck.
    pub stuck: BTreeMap<String, Duration>,
    /// Whether the worker was asked to stop.
    pub stopping: bool,
}

/// A condition of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// `database`, `broker`, `consuming`, `closing`, `levels`.
    pub name: &'static str,
    /// Why the condition is not met; none if it is met.
    pub failure: Option<String>,
}

impl WorkerState {
    /// The state of each condition. `silent` is how long an answer of the database is valid.
    pub fn conditions(&self, now: Instant, silent: Duration) -> Vec<ReadyCondition> {
        let broker = if self.stopping {
            Some("the worker is stopping".to_owned())
        } else {
            self.broker(now)
        };
        vec![
            ReadyCondition { name: "database", failure: self.database(now, silent) },
            ReadyCondition { name: "broker", failure: broker },
            ReadyCondition { name: "consuming", failure: self.consuming() },
            ReadyCondition { name: "closing", failure: self.closing() },
            ReadyCondition { name: "levels", failure: self.levels() },
        ]
    }

    fn database(&self, now: Instant, silent: Duration) -> Option<String> {
        match &self.database {
            Answer::NotAsked => Some("it has not been asked yet".to_owned()),
            Answer::Failed { since, reason } => {
                let seconds = now.saturating_duration_since(*since).as_secs();
                Some(format!("it has not answered for {seconds} s: {reason}"))
            }
            Answer::Given(at) => {
                let age = now.saturating_duration_since(*at);
                (age > silent).then(|| format!("its last answer is {} s old", age.as_secs()))
            }
        }
    }

    /// Whether no messages of these timeouts arrive. The first session and the first search for queues may take a while: they
    /// count only with `opens_for_long`.
    pub fn is_away(&self, timeouts: &[&str], opens_for_long: bool) -> bool {
        let are_of = |timeout: &String| timeouts.contains(&timeout.as_str());
        match self.session {
            Session::Opening => opens_for_long,
            Session::Ended { .. } => true,
            Session::Open => {
                opens_for_long && self.unconsumed.iter().any(are_of)
                    || self.silent.values().any(|(timeout, _)| are_of(timeout))
            }
        }
    }

    /// Why no messages arrive, since when, and what happens to orders meanwhile.
    pub fn away(&self, now: Instant) -> Option<String> {
        let (since, text, reason) = match &self.session {
            Session::Opening => return None,
            Session::Open => {
                let (queue, (_, since)) = self.silent.iter().min_by_key(|(_, (_, since))| since)?;
                (since, format!("RabbitMQ does not answer for queue {queue}"), String::new())
            }
            Session::Ended { since, reason } => {
                (since, "not connected".to_owned(), format!(": {reason}"))
            }
        };
        let seconds = now.saturating_duration_since(*since).as_secs();
        Some(format!(
            "{text} (since {seconds} s); orders are closed on time from the table; retries, parking and events wait{reason}"
        ))
    }

    fn broker(&self, now: Instant) -> Option<String> {
        match self.session {
            Session::Opening => Some("the connection is being opened".to_owned()),
            _ => self.away(now),
        }
    }

    fn consuming(&self) -> Option<String> {
        if self.session != Session::Open {
            return Some("nothing is consumed".to_owned());
        }
        let timeouts = &self.unconsumed;
        let help = if self.lists_queues {
            ""
        } else {
            ". The management API does not list its queues, so only those that the topology file names are consumed, and the next \
             generation of each: run `overdue apply`, or give the worker's user the tag `management`"
        };
        (!timeouts.is_empty())
            .then(|| format!("nothing is consumed for timeout {}{help}", timeouts.join(", ")))
    }

    fn closing(&self) -> Option<String> {
        let (effect, overdue) = self.stuck.iter().max_by_key(|(_, overdue)| **overdue)?;
        Some(format!(
            "effect {effect}: an order has been overdue for {} s, and since its deadline this worker has closed none",
            overdue.as_secs()
        ))
    }

    fn levels(&self) -> Option<String> {
        let Self { unrouted, other_levels, .. } = self;
        if unrouted.is_empty() {
            return None;
        }
        let unrouted = format!(
            "the broker has no level for {}: messages that are published there are parked",
            unrouted.join(", ")
        );
        Some(if other_levels.is_empty() {
            format!("{unrouted}; run `overdue apply`")
        } else {
            format!(
                "{unrouted}. It has {}, which the topology file of this worker lacks: run `overdue apply` if that file is the \
                 newer one, otherwise start the worker with the one that was applied",
                other_levels.join(", ")
            )
        })
    }
}

/// When an effect last closed an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The worker has closed no order since it began, at this instant.
    Expected(Instant),
    /// The worker closed its last order at this instant.
    Closed(Instant),
}

/// Which overdue orders prove that the worker closes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCheck {
    /// No orders: a worker that has just begun had no time to close one.
    None,
    /// Orders whose deadline came after the last closing, this long ago.
    Since(Duration),
    /// All overdue orders.
    All,
}

impl Progress {
    /// The orders that prove at `now` that the worker closes nothing, if an order may be overdue for `bound`.
    pub fn suspect(self, now: Instant, bound: Duration) -> StallCheck {
        match self {
            Self::Closed(at) => StallCheck::Since(now.saturating_duration_since(at)),
            Self::Expected(since) if now.saturating_duration_since(since) < bound => {
                StallCheck::None
            }
            Self::Expected(_) => StallCheck::All,
        }
    }
}
