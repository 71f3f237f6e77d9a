//! Values of labels: few, and known when the worker starts.

use super::metrics::METRICS;
use crate::{decisions::disposition::ParkReason, order::Outcome};

/// `path`: the reason why an order was tried, as in `closures.path`.
pub(super) const PATHS: &[&str] = &["message", "burst", "sweep"];
/// `closed_by`: the paths, and open orders.
pub(super) const CLOSED_BY: &[&str; 4] = &["message", "burst", "sweep", "nobody"];
/// `outcome`
pub(super) const OUTCOMES: &[&str] =
    &["closed", "already_final", "not_due", "guarded", "unknown", "busy", "failed", "postponed"];
/// `cause`
pub(super) const CAUSES: &[&str] = &["connect", "consume", "database", "panic"];
/// `at`
pub(super) const LOOKED_AT: &[&str] = &["database", "broker", "topology"];

/// `result`
pub(super) const RESULTS: &[&str] = &["taken", "failed"];

/// Every label with its values.
pub fn described() -> Vec<(&'static str, String)> {
    let listed = |values: &[&str]| {
        values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
    };
    let reasons: Vec<&str> = ParkReason::ALL.iter().map(|reason| reason.name()).collect();
    vec![
        ("version", "of the program".to_owned()),
        (
            "timeout",
            "a timeout of the topology file; where `path` is not `message`, all timeouts of the effect, joined with `+`"
                .to_owned(),
        ),
        ("path", listed(PATHS)),
        ("outcome", listed(OUTCOMES)),
        ("reason", listed(&reasons)),
        ("cause", listed(CAUSES)),
        ("effect", "an effect that the topology file names".to_owned()),
        ("closed_by", format!("{} (counted up to 1,000)", listed(CLOSED_BY))),
        ("retried", listed(&["yes", "no"])),
        ("queue", "a queue of the topology file, or one that is retired and not yet deleted".to_owned()),
        ("holds", listed(&["level", "due", "parked"])),
        ("severity", listed(&["error", "warning", "note"])),
        ("at", listed(LOOKED_AT)),
        ("condition", listed(&["database", "broker", "consuming", "closing", "levels"])),
        ("alert", "the name of an alert in the settings".to_owned()),
        ("result", listed(RESULTS)),
    ]
}

/// The value of the label `outcome`.
pub(crate) const fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Closed { .. } => "closed",
        Outcome::AlreadyFinal => "already_final",
        Outcome::NotDue { remaining } if remaining.is_zero() => "guarded",
        Outcome::NotDue { .. } => "not_due",
        Outcome::Unknown => "unknown",
        Outcome::Busy => "busy",
        Outcome::Failed { .. } => "failed",
        Outcome::Postponed { .. } => "postponed",
    }
}

/// Counts each outcome that occurs.
pub(super) fn counted(outcomes: &[Outcome]) -> impl Iterator<Item = (&'static str, usize)> {
    let mut counts = [0; OUTCOMES.len()];
    for outcome in outcomes {
        let name = self::outcome(outcome);
        if let Some(place) = OUTCOMES.iter().position(|known| *known == name) {
            counts[place] += 1;
        }
    }
    OUTCOMES.iter().copied().zip(counts).filter(|(_, orders)| *orders > 0)
}

/// Creates the counters of a worker with zero, so that an event that never happened is shown, and its rate begins with the first
/// one. `timeouts` are labels of messages, `groups` are labels of queries for all orders of an effect.
pub(crate) fn prepare(timeouts: &[&str], groups: &[&str], effects: &[&str]) {
    METRICS.build_info.set([env!("CARGO_PKG_VERSION")], 1.0);
    for timeout in timeouts {
        prepare_outcomes(timeout, PATHS[0]);
        let each = [
            &METRICS.closing_failures,
            &METRICS.held,
            &METRICS.put_back,
            &METRICS.retried,
            &METRICS.gone,
            &METRICS.ignored_hints,
            &METRICS.copy_failures,
            &METRICS.scheduled,
        ];
        for counter in each {
            counter.add([timeout], 0);
        }
        for reason in ParkReason::ALL {
            METRICS.parked.add([timeout, reason.name()], 0);
        }
    }
    for group in groups {
        for path in &PATHS[1..] {
            prepare_outcomes(group, path);
        }
    }
    for effect in effects {
        METRICS.sweep_failures.add([effect], 0);
        METRICS.sweep_refused.set([effect], 0.0);
    }
    for cause in CAUSES {
        METRICS.session_ends.add([cause], 0);
    }
    for at in LOOKED_AT {
        METRICS.look_failures.add([at], 0);
    }
    let events = [
        &METRICS.sessions,
        &METRICS.queue_losses,
        &METRICS.relay_failures,
        &METRICS.event_refusals,
        &METRICS.unpublishable,
        &METRICS.schedule_failures,
        &METRICS.schedule_refused,
    ];
    for counter in events {
        counter.add([], 0);
    }
}

/// Creates the counters for the alerts of the settings with zero.
pub(crate) fn prepare_alerts<'a>(names: impl Iterator<Item = &'a str>) {
    for name in names {
        for result in RESULTS {
            METRICS.alert_messages.add([name, result], 0);
        }
    }
}

fn prepare_outcomes(timeout: &str, path: &str) {
    METRICS.lateness.observe([timeout, path], []);
    METRICS.batch_orders.observe([timeout, path], []);
    METRICS.batch_duration.observe([timeout, path], []);
    for outcome in OUTCOMES {
        METRICS.outcomes.add([timeout, path, outcome], 0);
    }
}
