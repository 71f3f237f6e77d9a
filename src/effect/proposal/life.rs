//! Which rows are open, and what becomes of those that are overdue.

use super::{Ask, Proposer, Remark, found::Column, grouped, words};
use crate::text::sql::identifier;

/// Which rows are open, and what becomes of them.
#[derive(Default)]
pub(super) struct Life {
    pub(super) open: Option<String>,
    pub(super) remark: Option<Remark>,
    /// Of each row that was looked at.
    pub(super) is_open: Vec<bool>,
    pub(super) set: Vec<(String, String)>,
    pub(super) set_remark: Option<Remark>,
    pub(super) is_deleted: Option<Remark>,
}

impl Proposer<'_> {
    /// The columns that rows are deleted by while they stay in the table.
    fn soft_deletion(&self) -> Option<(&Column, String)> {
        let column = self
            .table
            .columns
            .iter()
            .find(|it| words::is_deleted(&it.name) && (it.is_time() || it.is_flag()))?;
        Some((column, not_ended(column)))
    }

    pub(super) fn life(&self) -> Life {
        let with_states: Vec<&Column> =
            self.table.columns.iter().filter(|it| it.is_state()).collect();
        let states = |it: &&&Column| !it.states(&self.found.sample).is_empty();
        let with_states: Vec<&Column> = with_states.iter().filter(states).copied().collect();
        let is_ended = |it: &&Column| {
            let is_of_type = (it.is_time() && !it.is_not_null) || it.is_flag();
            is_of_type
                && words::is_ended(&it.name)
                && !(words::is_deadline(&it.name) && self.is_filled(it))
        };
        let mut ended: Vec<&Column> = self.table.columns.iter().filter(is_ended).collect();
        ended.sort_by_key(|it| !words::is_ended_in_time(&it.name));
        let mut life = if !with_states.is_empty() {
            self.by_states(&with_states)
        } else if !ended.is_empty() {
            self.by_ends(&ended)
        } else {
            self.by_deletion()
        };
        if let Some((column, condition)) = self.soft_deletion() {
            let kept =
                self.found.sample.values(&column.name).map(|it| it.is_none_or(|it| it == "false"));
            life.is_open =
                life.is_open.iter().zip(kept).map(|(open, kept)| *open && kept).collect();
            if let Some(open) = &mut life.open {
                *open = if open == "true" {
                    condition.clone()
                } else {
                    format!("{open} AND {condition}")
                };
            }
            if let Some(remark) = &mut life.remark {
                remark.choices =
                    remark.choices.iter().map(|it| format!("{it} AND {condition}")).collect();
            }
        }
        if let Some(open) = &self.answers.open {
            (life.open, life.remark) = (Some(open.clone()), None);
            // Which column closes a row follows from what is open.
            if life.is_deleted.is_none() && !self.answers.delete {
                let named: Vec<&Column> =
                    with_states.iter().filter(|it| mentions(open, &it.name)).copied().collect();
                let of = self.by_states(if named.is_empty() { &with_states } else { &named });
                (life.set, life.set_remark) = if with_states.is_empty() {
                    (life.set, life.set_remark)
                } else {
                    (of.set, of.set_remark)
                };
            }
        }
        if let Some(open) = &self.found.sample.open {
            life.is_open.clone_from(open);
        }
        self.add_changes(&mut life);
        life
    }

    /// Whether open rows have a value in it.
    fn is_filled(&self, column: &Column) -> bool {
        self.found.sample.values(&column.name).flatten().next().is_some()
    }

    /// A row is open while each of its states is one that waits.
    fn by_states(&self, columns: &[&Column]) -> Life {
        let sample = &self.found.sample;
        let mut life = Life { is_open: vec![true; sample.rows.len()], ..Life::default() };
        let mut conditions = Vec::new();
        let mut seen = Vec::new();
        let mut choices: Vec<String> = Vec::new();
        for column in columns {
            let states = column.states(sample);
            let waiting: Vec<(&str, &str)> = states
                .iter()
                .filter_map(|(state, _)| Some((state.as_str(), words::waiting(state)?)))
                .collect();
            let mut families: Vec<&str> = waiting.iter().map(|(_, family)| *family).collect();
            families.dedup();
            families.sort_unstable();
            families.dedup();
            if families.contains(&words::FOR_PAYMENT) {
                families = vec![words::FOR_PAYMENT];
            }
            seen.push(counts(column, &states));
            let of_family = |family: &str| -> Vec<&str> {
                waiting.iter().filter(|(_, of)| *of == family).map(|(state, _)| *state).collect()
            };
            let open: Vec<&str> = families.iter().flat_map(|family| of_family(family)).collect();
            if open.is_empty() {
                continue;
            }
            let is_open =
                sample.values(&column.name).map(|it| it.is_some_and(|it| open.contains(&it)));
            life.is_open =
                life.is_open.iter().zip(is_open).map(|(all, this)| *all && this).collect();
            if let [_, _, ..] = &families[..] {
                choices.extend(families.iter().map(|family| condition(column, &of_family(family))));
            }
            let all: Vec<&str> = waiting.iter().map(|(state, _)| *state).collect();
            conditions.push((condition(column, &open), condition(column, &all)));
            self.close(&mut life, column, &states);
        }
        let seen = format!("of {} rows looked at {}", grouped(sample.rows.len()), seen.join("; "));
        let join = |parts: Vec<String>| parts.join(" AND ");
        let narrow = join(conditions.iter().map(|(narrow, _)| narrow.clone()).collect());
        let wide = join(conditions.iter().map(|(_, wide)| wide.clone()).collect());
        if conditions.is_empty() {
            let main = columns
                .iter()
                .find(|it| ["status", "state"].contains(&it.name.as_str()))
                .or(columns.first());
            let Some(main) = main else { return life };
            let states = main.states(sample);
            let choice =
                main.default_value().or_else(|| states.first().map(|(state, _)| state.clone()));
            // The meaning of the choice.
            life.is_open = sample.values(&main.name).map(|it| it == choice.as_deref()).collect();
            let what = format!("no word says which rows are open: {seen}");
            let choices = choice.iter().map(|it| condition(main, &[it.as_str()])).collect();
            life.remark = Some(Remark::question(Ask::Open, what, choices));
            self.close(&mut life, main, &states);
        } else if choices.is_empty() {
            life.open = Some(narrow.clone());
            let mut choices = vec![narrow];
            choices.extend(Some(wide).filter(|it| *it != choices[0]));
            life.remark = Some(Remark::guess(Ask::Open, seen, choices));
        } else {
            choices.push(narrow);
            let what = format!("several states wait, and not all may have a deadline: {seen}");
            life.remark = Some(Remark::question(Ask::Open, what, choices));
        }
        life
    }

    /// The state of a closed row, if a word says it.
    fn close(&self, life: &mut Life, column: &Column, states: &[(String, usize)]) {
        if self.given(&column.name) {
            return;
        }
        let all: Vec<&str> = states.iter().map(|(state, _)| state.as_str()).collect();
        let ask = Ask::State(column.name.clone());
        let Some(closed) = words::closed(&all) else {
            // Another column may say it.
            if life.set.is_empty() && life.set_remark.is_none() {
                let known: Vec<String> = all.iter().map(|it| column.literal(it)).collect();
                let what = format!(
                    "no word says which {} a row has that was not done in time: there are {}",
                    column.name,
                    known.join(", ")
                );
                let choices = if column.is_number() {
                    Vec::new()
                } else {
                    vec![column.literal(&words::expired(&all))]
                };
                life.set_remark = Some(Remark::question(ask, what, choices));
            }
            return;
        };
        life.set.push((column.name.clone(), column.literal(closed)));
        let others = all.iter().filter(|it| **it != closed && words::closed(&[**it]).is_some());
        let choices = [closed].into_iter().chain(others.copied()).map(|it| column.literal(it));
        let what = format!(
            "{} of a row that was not done in time is {}",
            column.name,
            column.literal(closed)
        );
        life.set_remark = Some(Remark::guess(ask, what, choices.collect()));
    }

    /// A row is open while none of these columns is set.
    fn by_ends(&self, columns: &[&Column]) -> Life {
        let sample = &self.found.sample;
        let mut life = Life { is_open: vec![true; sample.rows.len()], ..Life::default() };
        for column in columns {
            let is_open = sample.values(&column.name).map(|it| it.is_none_or(|it| it == "false"));
            life.is_open =
                life.is_open.iter().zip(is_open).map(|(all, this)| *all && this).collect();
        }
        let open = columns.iter().map(|it| not_ended(it)).collect::<Vec<_>>().join(" AND ");
        let what = "no column has a state, so a row is open while nothing says that it has ended"
            .to_owned();
        life.remark = Some(Remark::guess(Ask::Open, what, vec![open.clone()]));
        life.open = Some(open);
        match columns.iter().find(|it| words::is_ended_in_time(&it.name)) {
            Some(column) if !self.given(&column.name) => {
                let value = self.ended(column);
                let what = format!("{} says that a row was not done in time", column.name);
                let ask = Ask::State(column.name.clone());
                life.set_remark = Some(Remark::guess(ask, what, vec![value.clone()]));
                life.set.push((column.name.clone(), value));
            }
            None if self.answers.set.is_empty() => {
                let what = "no column says that a row was not done in time".to_owned();
                let name = columns.first().map_or_else(String::new, |it| it.name.clone());
                life.set_remark = Some(Remark::question(Ask::State(name), what, Vec::new()));
            }
            _ => {}
        }
        life
    }

    /// Nothing but the deadline says that a row has ended, so it is deleted.
    fn by_deletion(&self) -> Life {
        let is_needed = !words::is_of_holds(&self.table.name);
        let what = if is_needed {
            "no column has a state: if overdue rows are deleted, say so; or write --open and --set"
        } else {
            "no column has a state, so a row that is overdue is deleted"
        };
        let choices = vec!["yes".to_owned()];
        let remark = Remark { is_needed, ..Remark::guess(Ask::Delete, what.to_owned(), choices) };
        let says = self.answers.delete || !self.answers.set.is_empty();
        Life {
            open: Some("true".to_owned()),
            is_open: vec![true; self.found.sample.rows.len()],
            is_deleted: (!says).then_some(remark),
            ..Life::default()
        }
    }

    fn given(&self, column: &str) -> bool {
        self.answers.set.iter().any(|(given, _)| given == column)
    }

    fn ended(&self, column: &Column) -> String {
        if column.is_flag() { "true".to_owned() } else { self.now(column) }
    }

    /// The present, as a column has it.
    fn now(&self, column: &Column) -> String {
        if column.kind.starts_with("timestamp without") {
            let zone = self.answers.zone.as_deref().unwrap_or("UTC");
            format!("now() AT TIME ZONE {}", crate::text::sql::literal(zone))
        } else {
            "now()".to_owned()
        }
    }

    /// Columns that change with the state.
    fn add_changes(&self, life: &mut Life) {
        let closed = life
            .set
            .iter()
            .chain(&self.answers.set)
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        for column in &self.table.columns {
            let is_there =
                life.set.iter().any(|(name, _)| *name == column.name) || self.given(&column.name);
            let value = if is_there {
                None
            } else if words::is_updated(&column.name) && column.is_time() {
                Some(self.now(column))
            } else if words::is_version(&column.name) && column.is_number() {
                Some(format!("{} + 1", identifier(&column.name)))
            } else if words::is_time_of(&column.name, &closed)
                && column.is_time()
                && !column.is_not_null
            {
                let mut open = self.found.sample.values(&column.name).zip(&life.is_open);
                let is_empty = open.all(|(value, open)| !open || value.is_none());
                is_empty.then(|| self.now(column))
            } else {
                None
            };
            life.set.extend(value.map(|it| (column.name.clone(), it)));
        }
        let given = self.answers.set.iter().filter(|(_, value)| !value.is_empty());
        life.set.extend(given.cloned());
    }
}

/// That a column does not say yet that a row has ended.
fn not_ended(column: &Column) -> String {
    let name = identifier(&column.name);
    if column.is_flag() { format!("NOT {name}") } else { format!("{name} IS NULL") }
}

fn condition(column: &Column, states: &[&str]) -> String {
    let name = identifier(&column.name);
    let values: Vec<String> = states.iter().map(|it| column.literal(it)).collect();
    match &values[..] {
        [value] => format!("{name} = {value}"),
        values => format!("{name} IN ({})", values.join(", ")),
    }
}

/// `status is 'open' (8), 'paid' (2), 'expired' (0)`
fn counts(column: &Column, states: &[(String, usize)]) -> String {
    let each = states
        .iter()
        .map(|(state, count)| format!("{} ({})", column.literal(state), grouped(*count)));
    format!("{} is {}", column.name, each.collect::<Vec<_>>().join(", "))
}

fn mentions(sql: &str, column: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    sql.split(|c| !is_word(c)).any(|it| it == column)
}
