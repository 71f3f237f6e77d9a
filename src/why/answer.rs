//! The first line: whether the order was closed, is late or is not due, the reason, and what to type.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::reading::{Closure, OrderReading, Seen};
use crate::{
    condition::{self, ON_ITS_WAY, obstacle::Obstacle},
    order::Outcome,
    status::StatusLevel,
    text::{about, one_line, option},
};

/// The answer in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The answer in one line.
    pub text: String,
    /// The next step; `None` if nothing is wrong, or nothing helps.
    pub next: Option<String>,
}

/// The reason why an order is not closed, and the next step.
type Cause = (String, Option<String>);

impl Answer {
    /// Explains one reading.
    pub fn of(reading: &OrderReading) -> Self {
        let OrderReading { order, .. } = reading;
        let closed = reading.closures.get().and_then(|found| found.rows.first());
        let Some(seen) = reading.leading() else {
            return match closed {
                Some(closure) => Self::closed(reading, closure),
                None => Self::nobody_knows(reading),
            };
        };
        match seen.outcome.get() {
            Some(Outcome::NotDue { remaining }) if !remaining.is_zero() => {
                Self::not_due(reading, seen, *remaining)
            }
            // The row is locked, for example by a payment.
            Some(Outcome::Busy) if seen.due_at > reading.now => {
                let text = format!("{order} is not due yet; {}", lock_text(seen));
                Self { text, next: None }
            }
            Some(Outcome::AlreadyFinal) => match closed {
                Some(closure) => Self::closed(reading, closure),
                None if reading.closures.get().is_none() => Self {
                    text: format!("{order} is final; who has closed it cannot be read"),
                    next: None,
                },
                None => Self {
                    text: format!(
                        "{order} is final, and overdue has no record of closing it: it was paid, was changed by another program, or was \
                         closed longer ago than worker.keep_history"
                    ),
                    next: None,
                },
            },
            Some(Outcome::Unknown) | None => match closed {
                Some(closure) => {
                    let mut answer = Self::closed(reading, closure);
                    answer.text.push_str("; its row is gone since");
                    answer
                }
                None => Self::unknown(reading),
            },
            Some(_) => Self::late(reading, seen),
        }
    }

    fn closed(reading: &OrderReading, closure: &Closure) -> Self {
        let Closure { path, outcome, late_ms, .. } = closure;
        let by = match path.as_str() {
            "message" => "by its message".to_owned(),
            "burst" => "in a burst, ahead of its message".to_owned(),
            "sweep" => "by the sweep: no message had closed it".to_owned(),
            other => format!("by {}", one_line(other)),
        };
        let (order, outcome) = (&reading.order, one_line(outcome));
        let late = late_ms.map(Duration::from_millis);
        let text = match late {
            None => format!("{order} was {outcome}, {by}"),
            Some(late) if late <= condition::ON_TIME_WITHIN => {
                format!("{order} was {outcome} on time: {} after its deadline, {by}", time(late))
            }
            Some(late) => {
                let replayed = replay_before(reading, closure.closed_at);
                format!("{order} was {outcome} {} late, {by}{replayed}", time(late))
            }
        };
        Self { text, next: None }
    }

    fn not_due(reading: &OrderReading, seen: &Seen, remaining: Duration) -> Self {
        let at = seen.due_at.map_or_else(String::new, |at| format!(", at {at}"));
        let text =
            format!("{} is not due yet: its deadline is in {}{at}", reading.order, time(remaining));
        match without_notice(reading) {
            Some((why, next)) => Self { text: format!("{text}; {why}"), next },
            None => Self { text, next: None },
        }
    }

    fn late(reading: &OrderReading, seen: &Seen) -> Self {
        let order = &reading.order;
        let late = match seen.outcome.get() {
            Some(Outcome::Closed { late, .. }) => Some(*late),
            _ => reading.ago(seen.due_at),
        };
        let is = match late {
            Some(late) => format!("{order} is {} late", time(late)),
            None => format!("{order} is not closed"),
        };
        if let Some((why, next)) = own_cause(reading) {
            return Self { text: format!("{is}: {why}"), next };
        }
        if late.is_some_and(|late| late <= ON_ITS_WAY) {
            return Self {
                text: format!("{is}: closing an order can take {}", about(ON_ITS_WAY)),
                next: None,
            };
        }
        let general = reading.general.as_ref().filter(|state| state.word != StatusLevel::Ok);
        if let Some(state) = general {
            return Self { text: format!("{is}: {}", state.reason), next: state.next.clone() };
        }
        let grace = Duration::from_secs(reading.late_after_s);
        let text =
            format!("{is}, and nothing is known to be wrong: its message is on its way, or lost");
        match late.and_then(|late| grace.checked_sub(late)) {
            Some(rest) => {
                let rest = about(rest);
                Self { text: format!("{text}; the sweep looks for it in {rest}"), next: None }
            }
            None => Self { text, next: Some("overdue doctor".to_owned()) },
        }
    }

    /// The order is in no table of an effect.
    fn unknown(reading: &OrderReading) -> Self {
        let text =
            format!("no effect knows {}: it is not in the tables that they ask", reading.order);
        match without_notice(reading) {
            Some((why, _)) => Self { text: format!("{text}; {why}"), next: None },
            None => Self { text, next: None },
        }
    }

    fn nobody_knows(reading: &OrderReading) -> Self {
        let why = reading.effects.first().map_or("there is no effect", |seen| &seen.means);
        let text = format!("the state of {} is unknown: {}", reading.order, one_line(why));
        Self { text, next: Some("overdue doctor".to_owned()) }
    }
}

/// The cause among the facts of the order itself, if there is one.
pub(super) fn own_cause(reading: &OrderReading) -> Option<Cause> {
    let seen = reading.leading()?;
    if let Some(pause) = reading.pause_of(seen) {
        let resume = || format!("overdue resume {}, when that is over", pause.timeout);
        return Some((pause.to_string(), pause.per_second.is_none().then(resume)));
    }
    match seen.outcome.get()? {
        Outcome::Busy => {
            let end = |pid: i32| {
                format!("wait until it ends, or end it: SELECT pg_terminate_backend({pid})")
            };
            return Some((lock_text(seen), seen.locked_by_pid.map(end)));
        }
        Outcome::Failed { reason, .. } | Outcome::Postponed { reason } => {
            let Obstacle { next, .. } = Obstacle::of_order(&seen.effect, &reading.order, reason);
            return Some((format!("its effect fails: {}", one_line(reason)), Some(next)));
        }
        Outcome::NotDue { remaining } if remaining.is_zero() => {
            let effect = &seen.effect;
            return Some((format!("a rule of effect `{effect}` keeps it open"), None));
        }
        _ => {}
    }
    without_notice(reading)
}

/// The reason why no notice arrives for the order, if it is known.
fn without_notice(reading: &OrderReading) -> Option<Cause> {
    if let Some(parked) = reading.parked.get().and_then(|parked| parked.first()) {
        let replay = format!("overdue parked replay{}", option(" --order", &reading.order));
        let why = format!("its notice is in the parking lot ({})", one_line(&parked.reason));
        return Some((why, Some(replay)));
    }
    let notices = &reading.notices.get()?.rows;
    let doctor = || Some("overdue doctor".to_owned());
    let waiting = notices.iter().filter(|notice| notice.refused.is_none());
    if let Some(waits) = waiting.filter_map(|notice| reading.ago(notice.since)).max() {
        let why = || format!("its notice has not been published for {}", about(waits));
        return (waits > ON_ITS_WAY).then(|| (why(), doctor()));
    }
    // A later notice may have been published, which deletes its row.
    let why = notices.iter().find_map(|notice| notice.refused.as_ref())?;
    Some((format!("an earlier notice of it could not be published: {}", one_line(why)), doctor()))
}

fn lock_text(seen: &Seen) -> String {
    let unseen = || "a lock that it needs was held, and is free again or not to be seen".to_owned();
    seen.locked.as_deref().map_or_else(unseen, one_line)
}

/// `, after a replay by alice`, if a person replayed the message before the closing.
fn replay_before(reading: &OrderReading, closed_at: Option<Timestamp>) -> String {
    let actions = reading.actions.get().into_iter().flatten();
    let mut replays = actions.filter(|it| it.action == "parked replay" && it.at <= closed_at);
    let by = |by: &str| format!(", after a replay by {}", one_line(by));
    replays.next().map_or_else(String::new, |it| by(&it.by))
}

/// A time with its unit, rounded for people.
fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..120 => format!("{:.1} s", time.as_secs_f64()),
        _ => about(time),
    }
}
