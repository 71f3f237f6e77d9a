//! The screen of `overdue status`: 80 columns, without colour, in characters that every terminal has.

use std::{fmt, time::Duration};

use super::{
    forecast::f64_of,
    reading::{
        BrokerReading, Closings, DatabaseReading, Due, Known, Level, Reading, WaitingNotices,
    },
    state::{State, StatusLevel, closed_ago, is_stuck},
};
use crate::text::{about, counted, one_line};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Characters of the longest bar.
const BAR: usize = 36;
/// Limit of the shown levels; a ladder has more, most of them empty.
const LEVELS: usize = 16;

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.database.get().map_or("", |database| database.clock.as_str());
        writeln!(f, "overdue status: {} {clock}", self.topology)?;
        state(f, &State::of(self))?;
        match &self.database {
            Known::Known(database) => database_lines(f, database)?,
            Known::Unknown(why) => writeln!(f, "\ndatabase    {}", fitted(why, 12))?,
        }
        match &self.pauses {
            Known::Known(pauses) => pauses.iter().try_for_each(|pause| {
                writeln!(f, "paused      {}", fitted(&pause.to_string(), 12))
            })?,
            Known::Unknown(_) if self.database.get().is_none() => {}
            Known::Unknown(why) => writeln!(f, "paused      {}", fitted(why, 12))?,
        }
        match &self.broker {
            Known::Known(broker) => broker_lines(f, broker, self.counts_age_s),
            Known::Unknown(why) => writeln!(f, "\nbroker      {}", fitted(why, 12)),
        }
    }
}

fn state(f: &mut fmt::Formatter<'_>, state: &State) -> fmt::Result {
    let word = match state.word {
        StatusLevel::Ok => "OK",
        StatusLevel::Look => "LOOK",
        StatusLevel::Late => "LATE",
        StatusLevel::Down => "DOWN",
    };
    // The reason is never cut, because it is the purpose of the screen.
    writeln!(f, "{word:<5} {}", one_line(&state.reason))?;
    state.next.iter().try_for_each(|next| writeln!(f, "      do: {next}"))
}

fn database_lines(f: &mut fmt::Formatter<'_>, database: &DatabaseReading) -> fmt::Result {
    let Closings { closed_per_s, due_last_minute, .. } = database.closings;
    let due = database.due.get();
    let due_per_s =
        due.map(|due| per_second(due_last_minute.saturating_add(due.overdue_last_minute), 60.0));
    let due_per_s = due_per_s.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.1}"));
    writeln!(f, "\nlast minute closed {closed_per_s:.1}/s   due and unpaid {due_per_s}/s")?;
    lateness(f, &database.closings)?;
    let outbox = database.outbox;
    let rest = waiting(outbox.events, outbox.oldest_s, outbox.refused);
    let more = more_than(outbox.more);
    writeln!(f, "outbox      {more}{}{rest}", counted(outbox.events, "event"))?;
    let scheduled = database.scheduled.unwrap_or_default();
    if scheduled != WaitingNotices::default() {
        let rest = waiting(scheduled.notices, scheduled.oldest_s, scheduled.refused);
        let more = more_than(scheduled.more);
        writeln!(f, "scheduled   {more}{}{rest}", counted(scheduled.notices, "notice"))?;
    }
    match &database.due {
        Known::Known(due) => due_lines(f, due, &database.closings),
        Known::Unknown(why) => writeln!(f, "due         {}", fitted(why, 12)),
    }
}

/// Text before a number that has reached its limit.
const fn more_than(is_more: bool) -> &'static str {
    if is_more { "more than " } else { "" }
}

/// Age and refused rows, after the number of waiting rows.
fn waiting(number: u64, oldest_s: u64, refused: u64) -> String {
    let age = about(Duration::from_secs(oldest_s));
    let age = if number > 0 { format!(", the oldest for {age}") } else { String::new() };
    let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
    format!("{age}{refused}")
}

fn lateness(f: &mut fmt::Formatter<'_>, closings: &Closings) -> fmt::Result {
    let window = about(Duration::try_from_secs_f64(closings.window_s).unwrap_or_default());
    if closings.closed == 0 {
        return writeln!(f, "lateness    nothing was closed in the last {window}");
    }
    let [p50, p99, max] = [closings.p50_s, closings.p99_s, closings.max_s].map(length);
    writeln!(f, "lateness    p50 {p50}   p99 {p99}   max {max}   of the last {window}")?;
    let Closings { closed, by_message, by_burst, by_sweep, .. } = closings;
    writeln!(f, "closed      {closed}: message {by_message}, burst {by_burst}, sweep {by_sweep}")
}

fn due_lines(f: &mut fmt::Formatter<'_>, due: &Due, closings: &Closings) -> fmt::Result {
    let oldest = about(Duration::from_secs(due.oldest_s));
    let oldest = if due.overdue > 0 { format!(", the oldest by {oldest}") } else { String::new() };
    let more = more_than(due.more);
    writeln!(f, "overdue     {more}{}{oldest}", counted(due.overdue, "order"))?;
    let next = due.next_s.map(|next| about(Duration::from_secs(next)));
    let next = next.map_or_else(String::new, |next| format!(", the next in {next}"));
    let coming = counted(due.coming(), "order");
    writeln!(f, "\nnext hour   {more}{coming}{next}; by minute:")?;
    let Some((minute, orders)) = due.busiest() else { return Ok(()) };
    writeln!(f, "            |{}|", profile(&due.minutes))?;
    let needed = per_second(orders, 60.0);
    writeln!(f, "busiest     in {minute}m: {}, {needed:.1}/s", counted(orders, "order"))?;
    writeln!(f, "            closed at best {}", judged(closings, needed, due))
}

/// Compares the best rate of the last minutes with the rate that is needed.
fn judged(closings: &Closings, needed: f64, due: &Due) -> String {
    let best_per_s = closings.best_per_s;
    if closings.closed == 0 {
        return "?/s: nothing was closed lately".to_owned();
    }
    if is_stuck(due, closings) {
        return format!("{best_per_s}/s, and nothing {}", closed_ago(closings));
    }
    let judged = match (f64_of(best_per_s) >= needed, due.overdue > 0) {
        (true, _) => "which suffices",
        (false, true) => "which does not suffice",
        (false, false) => "more was not needed lately",
    };
    format!("{best_per_s}/s: {judged}")
}

fn broker_lines(f: &mut fmt::Formatter<'_>, broker: &BrokerReading, age_s: u64) -> fmt::Result {
    writeln!(f, "\nwaiting on the broker (counted up to {age_s} s ago)")?;
    let most = broker.levels.iter().filter_map(|level| level.waiting).max().unwrap_or(0);
    let is_shown = |level: &&Level| broker.levels.len() <= LEVELS || level.waiting != Some(0);
    let shown: Vec<&Level> = broker.levels.iter().filter(is_shown).collect();
    for level in &shown {
        let retry = if level.retry { "retry" } else { "" };
        let count = count(level.waiting);
        let bar = bar(level.waiting.unwrap_or(0), most, BAR);
        let line = format!("  {:<16} {retry:<5} {count:>10}  {bar}", fitted(&level.name, 64));
        writeln!(f, "{}", cut(line.trim_end()))?;
    }
    if shown.len() < broker.levels.len() {
        writeln!(f, "  {} empty queues", broker.levels.len() - shown.len())?;
    }
    for queue in &broker.business {
        let [ready, in_hand, consumers] = [queue.ready, queue.in_hand, queue.consumers].map(count);
        let name = fitted(&queue.name, 58);
        let line = format!("  {name:<22} {ready:>10}  unacked {in_hand}, consumers {consumers}");
        writeln!(f, "{}", cut(&line))?;
    }
    writeln!(f, "  {:<22} {:>10}", "parked", count(broker.parked))?;
    for (reason, messages) in &broker.parked_reasons {
        let line = format!("  {:<22} {messages:>10}  {}", "", fitted(reason, 37));
        writeln!(f, "{}", cut(&line))?;
    }
    Ok(())
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

/// Cuts a line at the width of the screen: a number of more than ten digits would make it longer.
fn cut(line: &str) -> String {
    line.chars().take(WIDTH).collect()
}

/// A text of another program in one line, cut to the columns after `from`.
fn fitted(text: &str, from: usize) -> String {
    let text = one_line(text);
    let room = WIDTH - from;
    if text.chars().count() <= room {
        return text;
    }
    let cut: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{cut}~")
}

/// A time with its unit, rounded for people.
pub(crate) fn length(seconds: f64) -> String {
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1_000.0);
    }
    if seconds < 120.0 {
        return format!("{seconds:.1} s");
    }
    about(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn per_second(orders: u64, seconds: f64) -> f64 {
    f64_of(orders) / seconds
}

/// Shades from zero to the highest value.
const SHADES: [char; 8] = [' ', '.', ':', '-', '=', '+', '*', '#'];

/// `value` of `most` as a bar of at most `width` characters; a value above zero has at least one.
pub(super) fn bar(value: u64, most: u64, width: usize) -> String {
    "#".repeat(share(value, most, width))
}

/// A line with a character per value, the darkest for the highest value.
pub(super) fn profile(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| SHADES[share(*value, most, SHADES.len() - 1)]).collect()
}

fn share(value: u64, most: u64, parts: usize) -> usize {
    if value == 0 || most == 0 {
        return 0;
    }
    let parts = u128::try_from(parts).unwrap_or(u128::MAX);
    let share = (u128::from(value) * parts).div_ceil(u128::from(most));
    usize::try_from(share.min(parts)).unwrap_or(0)
}
