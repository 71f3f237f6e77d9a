//! The condition of open rows, and their change when they are overdue.

use super::{
    Ask, Point, Proposer,
    file::inline,
    found::{Column, Sample},
    words,
};
use crate::{order::FinalState, text::sql::identifier};

/// The condition of open rows, and their change.
pub(super) struct Life {
    pub(super) open: Point,
    /// `set` or `delete`.
    pub(super) change: Point,
    /// The event of a changed row.
    pub(super) event: Option<String>,
    /// Whether each sampled row is open.
    pub(super) is_open: Vec<bool>,
}

/// A column that shows whether a row is open.
struct Sign<'a> {
    column: &'a Column,
    /// States of open rows; in a column without states an open row has NULL or false.
    open: Option<Vec<String>>,
    /// Conditions, the most likely first.
    choices: Vec<String>,
    /// The reason why only the team can choose.
    doubt: Option<&'static str>,
}

/// New values of a closed row.
#[derive(Default)]
struct Change {
    set: Vec<(String, String)>,
    asks: Vec<Ask>,
}

impl<'a> Sign<'a> {
    /// A column with states is a sign if a known word shows which of its states wait.
    fn of_states(column: &'a Column, sample: &Sample) -> Option<Self> {
        let states = column.states(sample);
        let waiting: Vec<(&str, &str)> =
            states.iter().filter_map(|(it, _)| Some((it.as_str(), words::waiting(it)?))).collect();
        let mut families: Vec<&str> = waiting.iter().map(|(_, family)| *family).collect();
        families.sort_unstable();
        families.dedup();
        if families.contains(&words::FOR_PAYMENT) {
            families = vec![words::FOR_PAYMENT];
        }
        let of = |families: &[&str]| -> Vec<&str> {
            let is_of = |(_, family): &&(&str, &str)| families.contains(family);
            waiting.iter().filter(is_of).map(|(state, _)| *state).collect()
        };
        let open = of(&families);
        let every: Vec<&str> = waiting.iter().map(|(state, _)| *state).collect();
        let is_clear = families.len() < 2;
        let mut choices: Vec<String> = Vec::new();
        if !is_clear {
            choices.extend(families.iter().map(|it| column.is_one_of(&of(&[it]))));
        }
        choices.extend([column.is_one_of(&open), column.is_one_of(&every)]);
        choices.dedup();
        let doubt = "several states wait, and not all may have a deadline: ";
        let open = Some(open.into_iter().map(str::to_owned).collect());
        let sign = Self { column, open, choices, doubt: (!is_clear).then_some(doubt) };
        (!families.is_empty()).then_some(sign)
    }

    /// A column with states, none of which is a known word for waiting.
    fn unknown(column: &'a Column, sample: &Sample) -> Self {
        let states = column.states(sample);
        let open = column.default_value().or_else(|| states.first().map(|(it, _)| it.clone()));
        let choices = open.iter().map(|it| column.is_one_of(&[it])).collect();
        let doubt = Some("no word says which rows are open: ");
        Self { column, open: Some(open.into_iter().collect()), choices, doubt }
    }

    /// A column that is set when a row has ended.
    fn of_end(column: &'a Column) -> Self {
        Self { column, open: None, choices: vec![column.not_ended()], doubt: None }
    }

    fn is_open(&self, value: Option<&str>) -> bool {
        match (&self.open, value) {
            (Some(open), value) => value.is_some_and(|it| open.iter().any(|open| open == it)),
            (None, value) => value.is_none_or(|it| it == "false"),
        }
    }
}

impl Proposer<'_> {
    pub(super) fn life(&self) -> Life {
        let Self { table, found, answers } = self;
        let (sample, columns) = (&found.sample, || table.columns.iter());
        let has_states = |it: &&Column| it.is_state() && !it.states(sample).is_empty();
        let states: Vec<&Column> = columns().filter(has_states).collect();
        let mut signs: Vec<Sign> =
            states.iter().filter_map(|it| Sign::of_states(it, sample)).collect();
        let main = states.iter().find(|it| it.is("status state")).or(states.first());
        if signs.is_empty() {
            signs.extend(main.map(|it| Sign::unknown(it, sample)));
        }
        let mut ended: Vec<&Column> =
            columns().filter(|it| states.is_empty() && self.is_end(it)).collect();
        ended.sort_by_key(|it| !it.has(words::ENDED_IN_TIME));
        signs.extend(ended.iter().map(|it| Sign::of_end(it)));
        let is_deleted = answers.delete || (signs.is_empty() && answers.set.is_empty());

        let of_open = |open: &str| -> Vec<&Column> {
            states.iter().copied().filter(|it| mentions(open, &it.name)).collect()
        };
        // The columns to change follow from the condition of open rows.
        let named = answers.open.as_deref().map(of_open).filter(|it| !it.is_empty());
        let signed = || signs.iter().filter(|it| it.open.is_some()).map(|it| it.column).collect();
        let mut closing: Vec<&Column> = named.unwrap_or_else(signed);
        closing.sort_by_key(|it| main.is_none_or(|main| main.name != it.name));
        let mut change = Change::default();
        for column in closing {
            self.close(column, &mut change);
        }
        if let Some(column) = ended.first() {
            self.end(column, &mut change);
        }

        let deleted_at =
            columns().find(|it| it.is(words::DELETED) && (it.is_time() || it.is_flag()));
        let says_nothing = signs.is_empty();
        signs.extend(deleted_at.map(Sign::of_end));
        let mut is_open = vec![true; sample.rows.len()];
        for sign in &signs {
            let values = is_open.iter_mut().zip(sample.values(&sign.column.name));
            values.for_each(|(open, value)| *open &= sign.is_open(value));
        }
        if let Some(open) = &sample.open {
            is_open.clone_from(open);
        }
        self.add_changes(&is_open, &mut change);
        let (change, event) = if is_deleted {
            let ask = says_nothing.then(|| self.deletion()).filter(|_| !answers.delete);
            (Point::new("delete", "delete = true".to_owned(), ask), None)
        } else {
            let Change { set, asks } = change;
            let line = format!("set = {}", inline(set.iter().map(|(one, other)| (one, other))));
            (Point::new("set", line, asks), Some(self.event(&set)))
        };
        Life { open: self.open(&signs, &states), change, event, is_open }
    }

    fn open(&self, signs: &[Sign<'_>], states: &[&Column]) -> Point {
        if let Some(open) = &self.answers.open {
            return Point::text("open", open, []);
        }
        let longest = signs.iter().map(|it| it.choices.len()).max().unwrap_or_default();
        // A column with fewer conditions uses its last one.
        let choice = |at: usize| {
            let each = signs.iter().filter_map(|it| it.choices.get(at).or(it.choices.last()));
            each.cloned().collect::<Vec<_>>().join(" AND ")
        };
        let choices: Vec<String> = (0..longest).map(choice).collect();
        let open = choices.first().cloned().unwrap_or_else(|| "true".to_owned());
        let sample = &self.found.sample;
        let rows = sample.rows.len();
        let seen: Vec<String> = states.iter().map(|it| counts(it, sample)).collect();
        let why = match &seen[..] {
            [] if self.table.columns.iter().any(|it| self.is_end(it)) => {
                "no column has a state, so a row is open while nothing says that it has ended"
                    .to_owned()
            }
            [] => return Point::text("open", &open, []),
            seen => format!("of {rows} rows looked at {}", seen.join("; ")),
        };
        let ask = match signs.iter().find_map(|it| it.doubt) {
            Some(doubt) => Ask::question("open", format!("{doubt}{why}"), choices),
            None => Ask::guess("open", why, choices),
        };
        Point::text("open", &open, [ask])
    }

    /// Whether the column is set when a row has ended.
    fn is_end(&self, column: &Column) -> bool {
        let is_of_type = (column.is_time() && !column.is_not_null) || column.is_flag();
        let is_filled = || self.found.sample.values(&column.name).flatten().next().is_some();
        is_of_type
            && words::is_ended(&column.name)
            && !(words::is_deadline(&column.name) && is_filled())
    }

    /// Proposes the state of a closed row.
    fn close(&self, column: &Column, change: &mut Change) {
        if self.answers.sets(&column.name) {
            return;
        }
        let states = column.states(&self.found.sample);
        let all: Vec<&str> = states.iter().map(|(state, _)| state.as_str()).collect();
        let known: Vec<String> = all.iter().map(|it| column.literal(it)).collect();
        let (name, known) = (&column.name, known.join(", "));
        let free = all.iter().find(|it| words::has(it, words::FREE)).map(|it| column.literal(it));
        let expired = || (!column.is_number()).then(|| column.literal(&words::expired(&all)));
        let is_state = |name: &String| self.table.column(name).is_some_and(Column::is_state);
        let is_first =
            change.set.is_empty() && !self.answers.set.iter().any(|(name, _)| is_state(name));
        let ask = match words::closed(&all) {
            // Another column may have the state.
            None if !is_first => return,
            None => {
                let why = format!(
                    "no word says which {name} a row has that was not done in time: there are {known}"
                );
                Ask::question("set", why, free.into_iter().chain(expired()).collect())
            }
            Some(closed) => {
                let others =
                    all.iter().filter(|it| **it != closed && words::closed(&[**it]).is_some());
                let choices = [closed].into_iter().chain(others.copied());
                let mut choices: Vec<String> = choices.map(|it| column.literal(it)).collect();
                // A column of any text can have states that no row has yet.
                let is_known = column.declares(closed) || words::is_timed_out(closed);
                let closed = &choices[0];
                if is_first && !is_known {
                    let why = format!(
                        "{name} is {closed} where a person cancelled, and may be another one in a row that was not done in time: there are {known}"
                    );
                    choices.extend(expired());
                    Ask::question("set", why, choices)
                } else {
                    let why = format!("{name} of a row that was not done in time is {closed}");
                    Ask::guess("set", why, choices)
                }
            }
        };
        change.set.push((name.clone(), ask.first()));
        change.asks.push(ask.about(name));
    }

    /// Proposes a value for a column that marks an ended row. The caller prefers columns for rows that were not done in time.
    fn end(&self, column: &Column, change: &mut Change) {
        let name = &column.name;
        let ask = if column.has(words::ENDED_IN_TIME) {
            let value = if column.is_flag() {
                "true".to_owned()
            } else {
                column.now(self.answers.zone.as_deref())
            };
            let why = format!("{name} says that a row was not done in time");
            Ask::guess("set", why, vec![value])
        } else {
            Ask::question("set", "no column says that a row was not done in time", Vec::new())
        };
        let is_answered =
            if ask.is_needed { !self.answers.set.is_empty() } else { self.answers.sets(name) };
        if !is_answered {
            change.set.push((name.clone(), ask.first()));
            change.asks.push(ask.about(name));
        }
    }

    /// The question whether overdue rows are deleted, if only the deadline ends a row.
    fn deletion(&self) -> Ask {
        let choices = vec!["yes".to_owned()];
        if words::has(&self.table.name, words::HOLDS) {
            let why = "no column has a state, so a row that is overdue is deleted";
            return Ask::guess("delete", why, choices);
        }
        let why =
            "no column has a state: if overdue rows are deleted, say so; or write --open and --set";
        Ask::question("delete", why, choices)
    }

    /// Adds columns that change with the state.
    fn add_changes(&self, is_open: &[bool], change: &mut Change) {
        let values = change.set.iter().chain(&self.answers.set).map(|(_, value)| value.as_str());
        let closed = values.collect::<Vec<_>>().join(" ");
        for column in &self.table.columns {
            let name = &column.name;
            let is_set = change.set.iter().any(|(set, _)| set == name) || self.answers.sets(name);
            // Open rows have no value in this column.
            let is_empty = || {
                let mut rows = self.found.sample.values(name).zip(is_open);
                !column.is_not_null && rows.all(|(value, open)| !open || value.is_none())
            };
            let value = if is_set {
                None
            } else if column.is(words::UPDATED) && column.is_time() {
                Some(column.now(self.answers.zone.as_deref()))
            } else if column.is(words::VERSION) && column.is_number() {
                Some(format!("{} + 1", identifier(name)))
            } else if words::is_time_of(name, &closed) && column.is_time() && is_empty() {
                Some(column.now(self.answers.zone.as_deref()))
            } else if column.is_cause() && is_empty() {
                let why = format!(
                    "{name} says why a row has ended, and an overdue row has no value yet; `--set {name}=` leaves it empty"
                );
                let states = column.states(&self.found.sample);
                let choices = states.iter().map(|(it, _)| column.literal(it)).collect();
                let ask = Ask::question("set", why, choices).about(name);
                let first = ask.first();
                change.asks.push(ask);
                Some(first)
            } else {
                None
            };
            change.set.extend(value.map(|it| (name.clone(), it)));
        }
        let given = self.answers.set.iter().filter(|(_, value)| !value.is_empty());
        change.set.extend(given.cloned());
    }

    /// `order.expired`: the singular of the table, and the new state.
    fn event(&self, set: &[(String, String)]) -> String {
        let literals = set.iter().filter_map(|(_, it)| it.strip_prefix('\'')?.strip_suffix('\''));
        let states: Vec<&str> = literals.collect();
        let word = words::closed(&states).map(|it| words::parts(it).join("_"));
        let word = word.filter(|it| FinalState::of_outcome(&format!("done:{it}")).is_some());
        format!("{}.{}", words::one_of(&self.table.name), word.as_deref().unwrap_or("expired"))
    }
}

/// `status is 'open' (8), 'paid' (2), 'expired' (0)`
fn counts(column: &Column, sample: &Sample) -> String {
    let states = column.states(sample);
    let each = states.iter().map(|(it, rows)| format!("{} ({})", column.literal(it), rows));
    format!("{} is {}", column.name, each.collect::<Vec<_>>().join(", "))
}

fn mentions(sql: &str, column: &str) -> bool {
    sql.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == column)
}
