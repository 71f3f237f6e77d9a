//! A proposal as the text of `overdue.toml` and `topology.toml`.

use super::{Ask, Point, Proposal};
use crate::{
    effect::description::ReleaseKeys,
    text::{duration, one_line},
};

/// The beginning of `overdue.toml`.
pub const SETTINGS: &str = "\
# overdue.toml: the settings. Every key: docs/settings.md; `overdue config` shows the values in effect.

# [broker]
# url = \"amqp://user:password@host:5672/%2f\"
#
# [database]
# url = \"postgres://user:password@host:5432/database\"
# search_path = \"overdue,public\"   # the first schema is for the tables of overdue; yours are looked for in all of them
";

/// Delays of every topology, for retries.
const RETRIES: [u64; 2] = [5_000, 60_000];

impl Proposal {
    /// `[effects.NAME]` with its releases.
    pub fn description(&self) -> String {
        let Self { effect, table, notes, points, .. } = self;
        let title =
            format!("# Rows of {} that are overdue. Every key: docs/effects.md", one_line(table));
        let mut lines = vec![title];
        lines.extend(notes.iter().map(|it| format!("# note: {}", one_line(it))));
        lines.push(format!("[effects.{}]", key(effect)));
        for Point { key: name, lines: of_point, asks } in points {
            let is_release = *name == "release";
            lines.extend(is_release.then(String::new));
            lines.extend(asks.iter().map(remark));
            lines.extend(is_release.then(|| format!("[[effects.{}.release]]", key(effect))));
            // A release without its amount is invalid, so the effect does not run before the team has chosen the sign.
            let is_needed = asks.iter().any(|it| it.is_needed);
            let is_left_out = |it: &str| is_needed && (!is_release || it.starts_with("add = "));
            let mark = |it: &String| if is_left_out(it) { format!("# {it}") } else { it.clone() };
            lines.extend(of_point.iter().map(mark));
        }
        lines.join("\n") + "\n"
    }

    /// A complete `topology.toml`; `name` is the prefix of every exchange and queue.
    pub fn topology(&self, name: &str) -> String {
        let mut levels: Vec<u64> = RETRIES.into_iter().chain([self.after.0]).collect();
        levels.sort_unstable();
        levels.dedup();
        let levels: Vec<String> =
            levels.into_iter().map(|it| format!("\"{}\"", duration(it))).collect();
        format!(
            "\
# topology.toml: the delays, and the effects after them. Every key: docs/topology.md
name = \"{name}\"  # prefix of every exchange and queue; nothing outside it is ever touched

[delay]
strategy = \"levels\"  # one queue per level, on every RabbitMQ since 4.0
levels = [{levels}]  # the delays that there are; retries and longer waits use them too

{timeout}
[retry]
after = [\"5s\", \"1m\"]  # an order that fails is tried again after these, then its message is parked
",
            levels = levels.join(", "),
            timeout = self.timeout_section(name),
        )
    }

    /// `[[timeout]]`.
    pub fn timeout_section(&self, topology: &str) -> String {
        let Self { timeout, effect, after: (after, why), points, .. } = self;
        let after = duration(*after);
        let why = why.as_ref().map_or_else(String::new, |why| {
            format!("# guess: {}; or: --after 2h, and a level of this length\n", one_line(why))
        });
        let deletes = points.iter().any(|point| point.key == "delete");
        let gone = if deletes {
            "gone = \"ack\"  # a message whose row was deleted before is acked after one retry\n"
        } else {
            ""
        };
        format!(
            "\
[[timeout]]
name = \"{timeout}\"  # queue {topology}.{timeout}; publish with the routing key {after}.{timeout}
{why}after = \"{after}\"  # the delay where the publisher names no other
effect = {quoted}  # [effects.{key}] in overdue.toml
{gone}",
            quoted = quoted(effect),
            key = key(effect),
        )
    }
}

fn remark(ask: &Ask) -> String {
    let why = one_line(&ask.why);
    if ask.is_needed {
        return format!("# needs an answer: {why}; {}", one_line(ask.options().join(", or ")));
    }
    let choices = [why]
        .into_iter()
        .chain(ask.choices.iter().skip(1).map(|it| format!("or: {}", one_line(it))));
    format!("# guess: {}", choices.collect::<Vec<_>>().join("; "))
}

/// The keys of a release as lines of TOML.
pub(super) fn release(keys: &ReleaseKeys) -> Vec<String> {
    let ReleaseKeys { table, delete, add, set, from, condition } = keys;
    let text = |name: &str, value: &Option<String>| {
        value.as_ref().map(|it| format!("{name} = {}", quoted(it)))
    };
    let pairs = |name: &str, values: &std::collections::BTreeMap<String, String>| {
        (!values.is_empty()).then(|| format!("{name} = {}", inline(values)))
    };
    let lines =
        [text("table", table), text("delete", delete), pairs("add", add), pairs("set", set)];
    lines.into_iter().chain([text("from", from), text("where", condition)]).flatten().collect()
}

/// Columns and values as an inline table of TOML.
pub(super) fn inline<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pair = |(column, value): (&String, &String)| format!("{} = {}", key(column), quoted(value));
    let pairs: Vec<String> = pairs.into_iter().map(pair).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// A string of TOML, on one line.
pub(super) fn quoted(text: &str) -> String {
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
