//! What is shown: the answer, then a line for each thing that is known.

use std::fmt;

use jiff::Timestamp;

use super::{
    answer::Answer,
    reading::{Found, OrderReading},
};
use crate::{
    status::Known,
    text::{about, one_line},
};

impl fmt::Display for OrderReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { text, next } = Answer::of(self);
        writeln!(f, "{}", one_line(text))?;
        next.iter().try_for_each(|next| writeln!(f, "      do: {}", one_line(next)))?;
        writeln!(f)?;
        for seen in &self.effects {
            let due = seen.due_at.map_or_else(String::new, |at| format!("; due at {at}"));
            let of = seen.timeouts.join(", ");
            row(f, "effect", &format!("{} ({of}): {}{due}", seen.effect, seen.means))?;
            seen.locked.iter().try_for_each(|lock| row(f, "lock", lock))?;
        }
        rows(f, "closed", &self.closures, |it| {
            let late = it.late_ms.map_or_else(String::new, |ms| format!(", {ms} ms late"));
            format!(
                "{} by effect {}, {}{late}, at {}",
                it.outcome,
                it.effect,
                it.path,
                at(it.closed_at)
            )
        })?;
        rows(f, "notice", &self.notices, |it| {
            let timeout = it.timeout.as_deref().unwrap_or("-");
            match &it.refused {
                Some(why) => format!("{timeout}, refused {}: {why}", self.since(it.since)),
                None => {
                    format!("{timeout}, waits to be published, written {}", self.since(it.since))
                }
            }
        })?;
        list(f, "parked", &self.parked, |it| {
            let timeout = it.timeout.as_deref().unwrap_or("-");
            format!("{timeout}, {}: {}", self.since(it.since), it.reason)
        })?;
        rows(f, "event", &self.events, |it| {
            let event = it.event.as_deref().unwrap_or("-");
            match &it.refused {
                Some(why) => format!("{event}, refused {}: {why}", self.since(it.since)),
                None => format!("{event}, waits to be published, written {}", self.since(it.since)),
            }
        })?;
        list(f, "action", &self.actions, |it| {
            let count = it.count.map_or_else(String::new, |count| format!(", {count} in all"));
            let why = it.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            let (action, what) = (&it.action, &it.what);
            format!("{action} by {} ({}) at {}, {what}{count}{why}", it.by, it.via, at(it.at))
        })
    }
}

impl OrderReading {
    fn since(&self, since: Option<Timestamp>) -> String {
        self.ago(since)
            .map_or_else(|| "nobody wrote when".to_owned(), |it| format!("{} ago", about(it)))
    }
}

fn at(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}

/// Of others, in one line.
fn row(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:<10} {}", one_line(text))
}

fn rows<T>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    found: &Known<Found<T>>,
    text: impl Fn(&T) -> String,
) -> fmt::Result {
    match found {
        Known::Unknown(why) => row(f, name, &format!("cannot be read: {why}")),
        Known::Known(Found { rows, looked_at }) => {
            rows.iter().try_for_each(|it| row(f, name, &text(it)))?;
            let cut =
                |most: &u64| row(f, name, &format!("only the first {most} rows were looked at"));
            looked_at.iter().try_for_each(cut)
        }
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    found: &Known<Vec<T>>,
    text: impl Fn(&T) -> String,
) -> fmt::Result {
    match found {
        Known::Unknown(why) => row(f, name, &format!("cannot be read: {why}")),
        Known::Known(list) => list.iter().try_for_each(|it| row(f, name, &text(it))),
    }
}
