//! The objects of a ladder on a broker.

use super::{Ladder, Place};
use crate::objects::{Exchange, Objects, Queue};

/// What a ladder leads to; both are exchanges that somebody else declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<'a> {
    /// Where messages go after their last hold, with their routing key.
    pub due_exchange: &'a str,
    /// Where messages go whose routing key is not one of this ladder.
    pub park_exchange: &'a str,
    /// Quorum queues that dead-letter at least once; else classic queues.
    pub quorum: bool,
}

impl Ladder {
    /// Its exchanges, queues and bindings.
    ///
    /// Each place has an exchange. It binds the queue of each digit, and with the digit 0 the exchange of the next
    /// smaller place, so that 0 costs no hop. Each queue dead-letters there too. After the smallest comes the due exchange.
    #[must_use]
    pub fn objects(&self, ends: &Ends<'_>) -> Objects {
        let mut objects = Objects::default();
        let mut next = ends.due_exchange.to_owned();
        for (index, place) in self.places.iter().enumerate() {
            let exchange = self.exchange(*place);
            let declared = Exchange::topic_with_alternate(exchange.clone(), ends.park_exchange);
            objects.exchanges.insert(exchange.clone(), declared);
            objects.bind_exchange(&exchange, &next, &pattern(index, 0));
            for digit in 1..=place.highest {
                let queue = self.delay_queue(*place, digit, &next, ends.quorum);
                objects.bind_queue(&exchange, &queue.name, &pattern(index, digit));
                objects.queues.insert(queue.name.clone(), queue);
            }
            next = exchange;
        }
        objects
    }

    fn delay_queue(&self, place: Place, digit: u32, next: &str, quorum: bool) -> Queue {
        let ttl_ms = i64::try_from(place.hold_ms(digit)).unwrap_or(i64::MAX);
        Queue::delaying(self.queue(place, digit), ttl_ms, next, quorum)
    }
}

/// `*.*.3.#`: the third word is 3, whatever the others are.
fn pattern(index: usize, digit: u32) -> String {
    format!("{}{digit}.#", "*.".repeat(index))
}
