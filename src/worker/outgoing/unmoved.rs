//! Refused events that could not be put aside: somebody keeps their rows locked, or a trigger raises or keeps them. They stay in the
//! outbox, and are tried from there. The later events of their orders wait for them, and nothing else does.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::store::outbox::{Event, Refusal};

/// Those of one session.
#[derive(Debug, Default)]
pub(super) struct Unmoved {
    rows: BTreeMap<i64, Refusal>,
    /// In which order they are to be moved.
    in_turn: Vec<i64>,
    /// Of these, those that each order waits for.
    orders: BTreeMap<String, BTreeSet<i64>>,
    /// Orders that wait for none any more. What has waited may be below the low watermark, so more of them waits for the next look.
    released: BTreeSet<String>,
    /// Why the last one could not be moved.
    reason: Option<String>,
    next_try: Option<Instant>,
}

impl Unmoved {
    pub(super) fn contains(&self, row: i64) -> bool {
        self.rows.contains_key(&row)
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<i64> {
        self.rows.keys().next().copied()
    }

    /// Everything is read from its beginning on.
    pub(super) fn look_begins(&mut self) {
        self.released.clear();
    }

    /// Whether an event waits for an earlier one of its order.
    pub(super) fn hold(&self, event: &Event) -> bool {
        let first = self.orders.get(&event.order_id).and_then(BTreeSet::first);
        first.is_some_and(|first| *first < event.id) || self.released.contains(&event.order_id)
    }

    /// Why there are any.
    pub(super) fn reason(&self) -> Option<&String> {
        self.reason.as_ref().filter(|_| !self.rows.is_empty())
    }

    pub(super) fn add(&mut self, refusal: Refusal) {
        let row = refusal.row;
        if let Some(order) = &refusal.order_id {
            self.orders.entry(order.clone()).or_default().insert(row);
        }
        match self.rows.insert(row, refusal) {
            None => self.in_turn.push(row),
            // Somebody may have given it to another order.
            Some(before) if before.order_id != self.rows[&row].order_id => self.release(before),
            Some(_) => {}
        }
    }

    /// It is published, moved or gone; whether it was one of them.
    pub(super) fn remove(&mut self, row: i64) -> bool {
        let was_one = self.rows.remove(&row).map(|refusal| self.release(refusal)).is_some();
        if self.rows.is_empty() {
            self.in_turn.clear();
        }
        was_one
    }

    fn release(&mut self, refusal: Refusal) {
        let Some(order) = refusal.order_id else { return };
        if let Some(rows) = self.orders.get_mut(&order) {
            rows.remove(&refusal.row);
            if rows.is_empty() {
                self.orders.remove(&order);
            }
        }
        self.released.insert(order);
    }

    /// Those that are to be moved now.
    pub(super) fn due(&self, now: Instant) -> Vec<Refusal> {
        if self.next_try.is_some_and(|next| now < next) {
            return Vec::new();
        }
        self.in_turn.iter().filter_map(|row| self.rows.get(row)).cloned().collect()
    }

    /// Some could not be moved. The next try of all comes after `pause`, or sooner if it was to: each may take the time of a lock.
    pub(super) fn tried(&mut self, reason: String, pause: Duration, now: Instant) {
        self.reason = Some(reason);
        if self.next_try.is_none_or(|next| next <= now) {
            self.next_try = Some(now + pause);
        }
    }

    /// Of all these are left, in the order of the next try; those that are moved, or gone.
    pub(super) fn keep(&mut self, left: &[Refusal]) -> Vec<Refusal> {
        self.in_turn = left.iter().map(|refusal| refusal.row).collect();
        let left: BTreeSet<i64> = self.in_turn.iter().copied().collect();
        let moved = self.rows.values().filter(|refusal| !left.contains(&refusal.row));
        let moved: Vec<Refusal> = moved.cloned().collect();
        for refusal in &moved {
            self.remove(refusal.row);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::store::outgoing::Table;

    fn refusal(row: i64) -> Refusal {
        let order_id = Some(format!("o-{row}"));
        let waits_for = Some("order.closed".to_owned());
        Refusal { row, order_id, waits_for, reason: "full".to_owned() }
    }

    #[test]
    fn new_ones_that_cannot_be_moved_do_not_postpone_the_next_try_of_the_others() {
        let (mut unmoved, now, pause) =
            (Unmoved::default(), Instant::now(), Duration::from_secs(1));
        for (row, after) in [(1, 0), (2, 500), (3, 900)] {
            unmoved.add(refusal(row));
            unmoved.tried("locked".to_owned(), pause, now + Duration::from_millis(after));
        }
        assert!(unmoved.due(now + pause / 2).is_empty());
        assert_eq!(unmoved.due(now + pause), [refusal(1), refusal(2), refusal(3)]);
    }

    #[test]
    fn those_that_failed_alone_are_the_last_of_the_next_try() {
        let mut unmoved = Unmoved::default();
        (1..=4).for_each(|row| unmoved.add(refusal(row)));
        assert!(unmoved.remove(3));
        assert_eq!(unmoved.keep(&[refusal(4), refusal(1)]), [refusal(2)]);
        unmoved.add(refusal(5));
        assert_eq!(unmoved.due(Instant::now()), [refusal(4), refusal(1), refusal(5)]);
        assert_eq!(unmoved.first(), Some(1));
    }

    fn event(id: i64, order: &str) -> Event {
        Event {
            table: Table::Outbox,
            row: id,
            id,
            event: "order.paid".to_owned(),
            order_id: order.to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            waits_for: None,
            trace: None,
        }
    }

    #[test]
    fn what_has_waited_for_an_event_waits_for_the_next_look_when_that_is_gone() {
        let mut unmoved = Unmoved::default();
        unmoved.add(refusal(5));
        assert!(!unmoved.hold(&event(5, "o-5")) && unmoved.hold(&event(6, "o-5")));
        assert!(!unmoved.hold(&event(6, "o-6")));
        // It is refused once more.
        unmoved.add(refusal(5));
        assert!(!unmoved.hold(&event(5, "o-5")));
        assert!(unmoved.remove(5) && !unmoved.remove(5));
        assert!(unmoved.hold(&event(7, "o-5")));
        unmoved.look_begins();
        assert!(!unmoved.hold(&event(6, "o-5")));
    }

    #[test]
    fn a_row_that_is_another_orders_now_holds_that_and_not_the_first_one() {
        let mut unmoved = Unmoved::default();
        unmoved.add(refusal(5));
        unmoved.add(Refusal { order_id: Some("other".to_owned()), ..refusal(5) });
        unmoved.look_begins();
        assert!(unmoved.hold(&event(6, "other")) && !unmoved.hold(&event(6, "o-5")));
    }
}
