//! The text of `overdue explain --order`: the answer, then a line for each fact.

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

/// The subject of a line, and its text.
type Line = (&'static str, String);

impl fmt::Display for OrderReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { text, next } = Answer::of(self);
        writeln!(f, "{}", one_line(text))?;
        next.iter().try_for_each(|next| writeln!(f, "      do: {}", one_line(next)))?;
        writeln!(f)?;
        self.lines().iter().try_for_each(|(name, text)| writeln!(f, "{name:<10} {text}"))
    }
}

impl OrderReading {
    /// All facts, one line each, with the reason for each fact that is unknown.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for seen in &self.effects {
            let due = seen.due_at.map_or_else(String::new, |at| format!("; due at {at}"));
            let of = seen.timeouts.join(", ");
            add(&mut lines, "effect", format!("{} ({of}): {}{due}", seen.effect, seen.means));
            if let Some(lock) = &seen.locked {
                add(&mut lines, "lock", lock);
            }
            if let Some(pause) = self.pause_of(seen) {
                add(&mut lines, "pause", pause);
            }
        }
        if let Known::Unknown(why) = &self.pauses {
            add(&mut lines, "pause", format!("cannot be read: {why}"));
        }
        rows(&mut lines, "closed", &self.closures, |it| {
            let late = it.late_ms.map_or_else(String::new, |ms| format!(", {ms} ms late"));
            let closed_at = at(it.closed_at);
            format!("{} by effect {}, {}{late}, at {closed_at}", it.outcome, it.effect, it.path)
        });
        rows(&mut lines, "notice", &self.notices, |it| {
            self.unpublished(it.timeout.as_ref(), it.since, it.refused.as_ref())
        });
        list(&mut lines, "parked", &self.parked, |it| {
            let timeout = it.timeout.as_deref().unwrap_or("-");
            format!("{timeout}, {}: {}", self.since(it.since), it.reason)
        });
        rows(&mut lines, "event", &self.events, |it| {
            self.unpublished(it.event.as_ref(), it.since, it.refused.as_ref())
        });
        list(&mut lines, "action", &self.actions, |it| {
            let count = it.count.map_or_else(String::new, |count| format!(", {count} in all"));
            let why = it.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            let (action, what) = (&it.action, &it.what);
            format!("{action} by {} ({}) at {}, {what}{count}{why}", it.by, it.via, at(it.at))
        });
        lines
    }

    fn unpublished(
        &self,
        name: Option<&String>,
        since: Option<Timestamp>,
        refused: Option<&String>,
    ) -> String {
        let (name, since) = (name.map_or("-", String::as_str), self.since(since));
        match refused {
            Some(why) => format!("{name}, refused {since}: {why}"),
            None => format!("{name}, waits to be published, written {since}"),
        }
    }

    fn since(&self, since: Option<Timestamp>) -> String {
        let unknown = || "time unknown".to_owned();
        self.ago(since).map_or_else(unknown, |it| format!("{} ago", about(it)))
    }
}

fn at(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}

/// Adds a text of another program as one line.
fn add(lines: &mut Vec<Line>, name: &'static str, text: impl fmt::Display) {
    lines.push((name, one_line(text)));
}

fn rows<T>(
    lines: &mut Vec<Line>,
    name: &'static str,
    found: &Known<Found<T>>,
    text: impl Fn(&T) -> String,
) {
    match found {
        Known::Unknown(why) => add(lines, name, format!("cannot be read: {why}")),
        Known::Known(Found { rows, looked_at }) => {
            for it in rows {
                add(lines, name, text(it));
            }
            if let Some(most) = looked_at {
                add(lines, name, format!("only the first {most} rows were looked at"));
            }
        }
    }
}

fn list<T>(
    lines: &mut Vec<Line>,
    name: &'static str,
    found: &Known<Vec<T>>,
    text: impl Fn(&T) -> String,
) {
    match found {
        Known::Unknown(why) => add(lines, name, format!("cannot be read: {why}")),
        Known::Known(list) => {
            for it in list {
                add(lines, name, text(it));
            }
        }
    }
}
