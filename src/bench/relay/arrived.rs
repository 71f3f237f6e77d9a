//! What became of the events: none lost, and those of each order in the order of their ids.

use std::collections::{BTreeMap, BTreeSet};

/// Events that have arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    seen: BTreeSet<u64>,
    last: BTreeMap<String, u64>,
    copies: usize,
    disordered: Vec<String>,
    unreadable: usize,
}

impl Arrived {
    /// The next one: its `message-id`, and its body.
    pub(super) fn add(&mut self, message_id: Option<&str>, body: &[u8]) {
        let id = message_id.and_then(|id| id.rsplit_once('/')?.1.parse::<u64>().ok());
        let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let order_id = body.as_ref().and_then(|body| body["order_id"].as_str());
        let (Some(id), Some(order_id)) = (id, order_id) else {
            self.unreadable += 1;
            return;
        };
        if !self.seen.insert(id) {
            // At least once: a subscriber knows it by its id.
            self.copies += 1;
            return;
        }
        let last = self.last.entry(order_id.to_owned()).or_insert(id);
        if id < *last {
            self.disordered.push(order_id.to_owned());
        }
        *last = id;
    }

    /// Second copies.
    pub(super) const fn copies(&self) -> usize {
        self.copies
    }

    /// What is wrong, where so many events were to arrive.
    pub(super) fn broken(&self, events: usize) -> Vec<String> {
        let mut broken = Vec::new();
        if self.seen.len() != events {
            broken.push(format!("{} of {events} events arrived", self.seen.len()));
        }
        if let Some(order_id) = self.disordered.first() {
            let orders = self.disordered.len();
            broken
                .push(format!("events of {orders} orders came in another order, e.g. {order_id}"));
        }
        if self.unreadable > 0 {
            broken.push(format!("{} messages are not events", self.unreadable));
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(events: &[(u64, &str)]) -> Arrived {
        let mut arrived = Arrived::default();
        for (id, order) in events {
            let body = format!("{{\"order_id\":\"{order}\"}}");
            arrived.add(Some(&format!("order.paid/{id}")), body.as_bytes());
        }
        arrived
    }

    #[test]
    fn events_of_different_orders_may_come_in_any_order_and_copies_are_counted() {
        let right = arrived(&[(7, "b"), (1, "a"), (2, "a"), (1, "a"), (9, "b")]);
        assert_eq!((right.broken(4), right.copies()), (vec![], 1));
    }

    #[test]
    fn what_is_lost_disordered_or_unreadable_is_named() {
        let mut wrong = arrived(&[(2, "a"), (1, "a")]);
        wrong.add(None, b"{}");
        wrong.add(Some("order.paid/3"), b"nonsense");
        insta::assert_snapshot!(wrong.broken(3).join("\n"), @r"
        2 of 3 events arrived
        events of 1 orders came in another order, e.g. a
        2 messages are not events
        ");
    }
}
