//! Findings about delayed messages in queues, and about queues without a leader: a delayed message can end its queue. These
//! messages have the header `x-opt-delivery-time` (RabbitMQ 4.4), or were requeued under a policy with delayed retry (4.3). AMQP
//! does not show them.
//!
//! The Erlang VM has no timer beyond 292 years after its start. If the next message of a queue is due later, the queue's process
//! ends on every member, and again after each restart, although the broker has confirmed the message (`tests/it/held_back.rs`
//! shows it on 4.3.6).

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    plan::{
        own_queues::{Kind, role},
        snapshot::{QueueStats, Snapshot},
    },
    text::counted,
    topology::{Topology, level::MAX_TTL_MS},
};

/// RabbitMQ's longest TTL, ten years: a longer delay of a message is a mistake of its publisher, e.g. a time in a wrong unit.
const FAR_MS: u64 = MAX_TTL_MS;

/// The rule for a queue without a leader.
pub(crate) const NO_LEADER: &str = "no-leader";

/// The state of a quorum queue's member, as one node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// The node.
    pub node: String,
    /// `follower`, `noproc`, `pre_vote`, …
    pub state: String,
}

/// Queues with delayed messages, from the statistics at `now`; a clock that is wrong by a day makes no difference.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
    now: Timestamp,
) -> Vec<Diagnostic> {
    let found = observed.objects.queues.values().filter_map(|queue| {
        let kind = role(topology, &observed.objects, queue)?;
        let stats = stats.get(&queue.name)?;
        for_years(kind, stats, now).or_else(|| held_back(kind, stats))
    });
    found.collect()
}

/// A finding about a message that a queue delays for more than ten years.
fn for_years(kind: Kind<'_>, stats: &QueueStats, now: Timestamp) -> Option<Diagnostic> {
    let now_ms = u64::try_from(now.as_millisecond()).unwrap_or_default();
    let last = stats.last_delayed_at.filter(|last| last.saturating_sub(now_ms) > FAR_MS)?;
    let shield = match stats.next_delayed_at.filter(|next| *next < last) {
        Some(next) => format!("an earlier one shields it until {}", time(next)),
        None => "no earlier one shields it".to_owned(),
    };
    let then = match kind {
        Kind::Delay(_) => "then publish its notices again: overdue rebuild",
        Kind::Business => "the sweep closes the orders of what was in it",
        Kind::Parked => "what can be read is taken out before that: overdue parked replay",
    };
    let text = format!("it holds a message back until {}; {shield}", time(last));
    let found = Diagnostic::new(
        "held-back-for-years",
        Severity::Error,
        Subject::Queue(stats.name.clone()),
        text,
    );
    let why = "more than 292 years away, it ends the queue on all nodes when it is the next one: only deleting the queue \
               helps then, with all that is in it";
    Some(found.because(why).fix(Fix::Purge { queue: stats.name.clone(), then }))
}

/// A finding about delayed messages in a delay queue or a parking lot. In a business queue they can be delayed retries.
fn held_back(kind: Kind<'_>, stats: &QueueStats) -> Option<Diagnostic> {
    let why = match kind {
        Kind::Business => return None,
        Kind::Delay(_) => {
            "each leaves when its TTL and its own time are both over: its order is closed late, or by the sweep"
        }
        Kind::Parked => "overdue parked sees them only then",
    };
    let held = stats.messages_delayed.filter(|held| *held > 0)?;
    let last = stats.last_delayed_at.map(|last| format!(", the last until {}", time(last)));
    let text = format!("it holds {} back{}", counted(held, "message"), last.unwrap_or_default());
    let found =
        Diagnostic::new("held-back", Severity::Warning, Subject::Queue(stats.name.clone()), text);
    let fix = "publish without the header x-opt-delivery-time";
    Some(found.because(why).fix(Fix::Text(fix.to_owned())))
}

/// The time to the second, as text; a time in a wrong unit may have no date.
fn time(ms: u64) -> String {
    let at = i64::try_from(ms / 1_000).ok().and_then(|s| Timestamp::from_second(s).ok());
    at.map_or_else(|| format!("{ms} ms after 1970"), |at| at.to_string())
}

/// A warning that the broker did not report which queues have no leader.
pub fn leaders_not_known(why: &str) -> Diagnostic {
    let text = format!("whether each queue has a leader is not known: {why}");
    Diagnostic::new(NO_LEADER, Severity::Warning, Subject::Area("Topology"), text)
        .fix(Fix::Text("overdue doctor, then run this again".to_owned()))
}

/// The queues of the topology without a leader.
pub fn no_leader(
    topology: &Topology,
    observed: &Snapshot,
    without: &BTreeMap<String, Vec<MemberState>>,
) -> Vec<Diagnostic> {
    let found = without.iter().filter_map(|(name, members)| {
        role(topology, &observed.objects, observed.objects.queues.get(name)?)?;
        let state = |MemberState { node, state }: &MemberState| format!("{node} is {state}");
        let states = members.iter().map(state).collect::<Vec<_>>();
        // The node that was asked first may know no leader because it has no member of the queue.
        let (severity, text) = if states.is_empty() {
            let text = "one node knows no leader of it, and its members do not answer";
            (Severity::Warning, text.to_owned())
        } else {
            (Severity::Error, format!("no member leads it: {}", states.join(", ")))
        };
        let found = Diagnostic::new(NO_LEADER, severity, Subject::Queue(name.clone()), text);
        let why = "nothing comes in or out, also where the broker says that it is running";
        let fix = "bring its nodes back (rabbitmqctl cluster_status); if none is missing, the queue has ended: \
                   docs/verify.md#a-queue-that-has-ended";
        Some(found.because(why).fix(Fix::Text(fix.to_owned())))
    });
    found.collect()
}
