//! The messages that a page or a form is about.

use std::time::Duration;

use url::form_urlencoded::Serializer;

use super::super::page::Fields;
use crate::{
    oncall::parked::{Gathered, Kept},
    order::OrderId,
    parking::{Filter, Selection},
    topology::level::Ttl,
};

/// A filter as typed, and as parsed.
#[derive(Clone, Default)]
pub(super) struct Asked {
    pub(super) reason: String,
    pub(super) timeout: String,
    pub(super) order: String,
    pub(super) older: String,
    pub(super) newer: String,
    /// Messages that were selected one by one.
    pub(super) selected: Selection,
    pub(super) filter: Filter,
    /// Why the filter cannot be parsed.
    pub(super) wrong: Option<String>,
}

impl Asked {
    pub(super) fn of(fields: &Fields) -> Self {
        let text = |name: &str| fields.get(name).unwrap_or_default().to_owned();
        let print = |id: &str| u64::from_str_radix(id, 16).ok();
        let mut asked = Self {
            reason: text("reason"),
            timeout: text("timeout"),
            order: text("order"),
            older: text("older"),
            newer: text("newer"),
            selected: fields.all("message").filter_map(print).collect(),
            ..Self::default()
        };
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        asked.filter = Filter {
            reason: some(&asked.reason),
            timeout: some(&asked.timeout),
            orders: OrderId::parse(&asked.order).map_or_else(
                |_| some(&asked.order).into_iter().collect(),
                |id| id.spellings().into_iter().collect(),
            ),
            older_than: asked.age(&asked.older.clone()),
            newer_than: asked.age(&asked.newer.clone()),
            selected: Selection::default(),
        };
        asked
    }

    fn age(&mut self, text: &str) -> Option<Duration> {
        if text.is_empty() {
            return None;
        }
        match text.parse::<Ttl>() {
            Ok(age) => Some(age.as_duration()),
            Err(error) => {
                self.wrong = Some(error.to_string());
                None
            }
        }
    }

    /// A filter for the selected messages only.
    pub(super) fn only_selected(&self) -> Filter {
        Filter { selected: self.selected.clone(), ..Filter::default() }
    }

    /// Messages that the filter takes, newest first.
    pub(super) fn matching<'a>(&self, gathered: &'a Gathered) -> Vec<&'a Kept> {
        taken(gathered, &self.filter)
    }

    /// The filter as a query, with `more` appended.
    pub(super) fn query(&self, more: &[(&str, &str)]) -> String {
        let fields = [
            ("reason", &self.reason),
            ("timeout", &self.timeout),
            ("order", &self.order),
            ("older", &self.older),
            ("newer", &self.newer),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        Serializer::new(String::new()).extend_pairs(fields).extend_pairs(more).finish()
    }

    pub(super) fn query_alone(&self) -> String {
        self.query(&[])
    }

    pub(super) fn with_reason(&self, reason: &str) -> String {
        Self { reason: reason.to_owned(), ..self.clone() }.query(&[])
    }
}

/// Messages of a reading that the filter takes, newest first. The result for one reading is always the same.
pub(super) fn taken<'a>(gathered: &'a Gathered, filter: &Filter) -> Vec<&'a Kept> {
    let mut left = filter.selected.clone();
    let is_taken = |kept: &&Kept| filter.takes_next(&kept.message, gathered.now, &mut left);
    let mut taken: Vec<&Kept> = gathered.kept.iter().filter(is_taken).collect();
    taken.sort_by_key(|kept| std::cmp::Reverse(kept.message.parked_at));
    taken
}
