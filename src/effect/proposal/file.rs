//! A proposal as the text of `overdue.toml` and `topology.toml`.

use std::fmt::Write as _;

use super::{Point, Proposal, ReleasePoint, Remark, Value};
use crate::{
    effect::description::ReleaseKeys,
    text::{duration, one_line},
};

/// The beginning of `overdue.toml`.
pub const SETTINGS: &str = "\
# overdue.toml: the settings. Every key: docs/settings.md; `overdue config` shows those in effect.

# [broker]
# url = \"amqp://user:password@host:5672/%2f\"
#
# [database]
# url = \"postgres://user:password@host:5432/database\"
# search_path = \"overdue,public\"   # the first schema is for the tables of overdue; yours are looked for in all of them
";

/// Delays that each topology has: retries use them.
const RETRIES: [u64; 2] = [5_000, 60_000];

impl Proposal {
    /// `[effects.NAME]` with its releases.
    pub fn description(&self) -> String {
        let mut text = String::new();
        line(
            &mut text,
            &format!(
                "# Rows of {} that are overdue. Every key: docs/effects.md",
                one_line(&self.table)
            ),
        );
        for note in &self.notes {
            line(&mut text, &format!("# note: {}", one_line(note)));
        }
        line(&mut text, &format!("[effects.{}]", key(&self.effect)));
        self.points.iter().for_each(|point| point_lines(&mut text, point));
        for release in &self.releases {
            release_lines(&mut text, &self.effect, release);
        }
        text
    }

    /// A whole `topology.toml`; `name` is the prefix of every exchange and queue.
    pub fn topology(&self, name: &str) -> String {
        let mut levels: Vec<u64> = RETRIES.into_iter().chain([self.after.0]).collect();
        levels.sort_unstable();
        levels.dedup();
        let levels: Vec<String> =
            levels.into_iter().map(|it| format!("\"{}\"", duration(it))).collect();
        let timeout = self.timeout_section(name);
        format!(
            "\
# topology.toml: the delays, and what happens after them. Every key: docs/topology.md
name = \"{name}\"  # prefix of every exchange and queue; nothing outside it is ever touched

[delay]
strategy = \"levels\"  # one queue per level, on every RabbitMQ since 4.0
levels = [{}]  # the delays that there are; retries and longer waits use them too

{timeout}
[retry]
after = [\"5s\", \"1m\"]  # an order that fails is tried again after these, then its message is parked
",
            levels.join(", ")
        )
    }

    /// `[[timeout]]`.
    pub fn timeout_section(&self, topology: &str) -> String {
        let (after, why) = &self.after;
        let after = duration(*after);
        let Self { timeout, effect, .. } = self;
        let mut text = String::new();
        line(&mut text, "[[timeout]]");
        line(
            &mut text,
            &format!(
                "name = \"{timeout}\"  # queue {topology}.{timeout}; publish with the routing key {after}.{timeout}"
            ),
        );
        if let Some(why) = why {
            line(
                &mut text,
                &format!("# guess: {}; or: --after 2h, and a level of this length", one_line(why)),
            );
        }
        line(
            &mut text,
            &format!("after = \"{after}\"  # the delay where the publisher names no other"),
        );
        line(
            &mut text,
            &format!(
                "effect = {}  # what happens then: [effects.{}] in overdue.toml",
                quoted(effect),
                key(effect)
            ),
        );
        if self.points.iter().any(|point| point.key == "delete") {
            line(
                &mut text,
                "gone = \"ack\"  # a message whose row was deleted before is acked after one retry",
            );
        }
        text
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _written = writeln!(text, "{line}");
}

fn point_lines(text: &mut String, point: &Point) {
    let Point { key: name, value, remark } = point;
    if let Some(remark) = remark {
        line(text, &remark_line(remark));
    }
    let Some(value) = value else {
        let Some(remark) = remark else { return };
        match (*name, &remark.line, remark.choices.first()) {
            ("set", Some(shown), _) => line(text, &format!("# set = {}", one_line(shown))),
            ("open" | "deadline" | "zone", Some(shown), _)
            | ("open" | "deadline" | "zone", None, Some(shown)) => {
                line(text, &format!("# {name} = {}", one_line(quoted(shown))));
            }
            _ => {}
        }
        return;
    };
    let value = match value {
        Value::Text(value) => quoted(value),
        Value::Set(assignments) => {
            inline(assignments.iter().map(|(column, value)| (column, value)))
        }
        Value::True => "true".to_owned(),
    };
    let why = if *name == "since" && value != "\"all\"" {
        "  # rows that were due earlier stay open, until somebody moves this"
    } else {
        ""
    };
    line(text, &format!("{name} = {value}{why}"));
}

fn remark_line(remark: &Remark) -> String {
    let Remark { what, choices, is_needed, .. } = remark;
    let what = one_line(what);
    if *is_needed {
        return format!("# needs an answer: {what}; {}", one_line(remark.options().join(", or ")));
    }
    let others: Vec<&str> = choices.iter().skip(1).map(String::as_str).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; or: {}", one_line(others.join("; or: ")))
    };
    format!("# guess: {what}{others}")
}

fn release_lines(text: &mut String, effect: &str, release: &ReleasePoint) {
    let mut block = String::new();
    line(&mut block, &format!("[[effects.{}.release]]", key(effect)));
    let ReleaseKeys { table, delete, add, set, from, condition } = &release.keys;
    for (name, value) in [("table", table), ("delete", delete)] {
        if let Some(value) = value {
            line(&mut block, &format!("{name} = {}", quoted(value)));
        }
    }
    for (name, values) in [("add", add), ("set", set)] {
        if !values.is_empty() {
            line(&mut block, &format!("{name} = {}", inline(values)));
        }
    }
    for (name, value) in [("from", from), ("where", condition)] {
        if let Some(value) = value {
            line(&mut block, &format!("{name} = {}", quoted(value)));
        }
    }
    line(text, "");
    let Some(remark) = &release.remark else {
        text.push_str(&block);
        return;
    };
    line(text, &remark_line(remark));
    // A block without its amount is refused, so nothing runs before the team has chosen the sign.
    for it in block.lines() {
        let is_left_out = remark.is_needed && it.starts_with("add = ");
        line(text, &if is_left_out { format!("# {it}") } else { it.to_owned() });
    }
}

/// Columns and values as an inline table of TOML.
pub(super) fn inline<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs = pairs.into_iter();
    let pairs: Vec<String> =
        pairs.map(|(column, value)| format!("{} = {}", key(column), quoted(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// A text of TOML, in one line.
fn quoted(text: &str) -> String {
    if text.contains(char::is_control) {
        return toml::Value::String(text.to_owned()).to_string();
    }
    if text.contains(['"', '\\']) && !text.contains('\'') {
        return format!("'{text}'");
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A key of TOML.
fn key(text: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.chars().all(is_bare) { text.to_owned() } else { quoted(text) }
}
