//! What would be published.

use std::{fmt::Write, num::NonZeroU32, time::Duration};

use super::{super::exit::Failure, part::Part};
use crate::{
    store::{Store, open::OpenOrders},
    text::{about, counted},
};

/// The open orders of each part.
pub(super) struct Preview<'a>(Vec<(&'a str, OpenOrders)>);

impl<'a> Preview<'a> {
    pub(super) async fn read(store: &Store, parts: &[Part<'a>]) -> Result<Self, Failure> {
        let mut read = Vec::new();
        for Part { timeout, effect, overdue_sql, after } in parts {
            let open = store.open_orders(effect, overdue_sql, after).await?;
            read.push((timeout.name.as_str(), open));
        }
        Ok(Self(read))
    }

    pub(super) fn orders(&self) -> u64 {
        self.0.iter().map(|(_, open)| open.orders).sum()
    }

    pub(super) fn text(&self, rate: NonZeroU32) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(7);
        let mut text = format!(
            "{:<width$}  {:>10}  {:>10}  {:<20}  last due\n",
            "timeout", "open", "overdue", "first due"
        );
        for (name, OpenOrders { orders, overdue, due, .. }) in &self.0 {
            let (first, last) = due.map_or(("-".to_owned(), "-".to_owned()), |(first, last)| {
                (first.to_second(), last.to_second())
            });
            // Writing to a String cannot fail.
            let _infallible =
                writeln!(text, "{name:<width$}  {orders:>10}  {overdue:>10}  {first:<20}  {last}");
        }
        text.push_str(&self.left_out());
        let orders = self.orders();
        let time = match orders / u64::from(rate.get()) {
            0 => "a moment".to_owned(),
            seconds => format!("about {}", about(Duration::from_secs(seconds))),
        };
        if orders == 0 {
            let other = if self.left_out().is_empty() { "" } else { "other " };
            // Writing to a String cannot fail.
            let _infallible =
                writeln!(text, "no {other}order is open: there is nothing to publish");
        } else {
            let _infallible = writeln!(text, "{}, at {rate}/s: {time}", counted(orders, "notice"));
        }
        text
    }

    /// A line for each kind of orders that get no notice.
    fn left_out(&self) -> String {
        let sum = |of: fn(&OpenOrders) -> u64| self.0.iter().map(|(_, open)| of(open)).sum();
        let kinds: [(u64, &str); 2] = [
            (
                sum(|open| open.unusable),
                "whose id no message can carry: empty, over 200 bytes, or with white space",
            ),
            (sum(|open| open.far), "due in more than 100 years"),
        ];
        let mut text = String::new();
        for (count, why) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            let _infallible = writeln!(text, "left out: {} {why}", counted(count, "order"));
        }
        text
    }
}
