//! Publishing rows and hearing what became of them: those of one order one after the other, those of different orders beside each
//! other. A destination that refuses, or does not answer, holds up only what is for it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::timeout_at;

use super::OutgoingError;
use crate::{
    decisions::destination_window::DestinationWindow,
    messaging::{
        PublishError,
        publish::publisher_pool::{PublisherPool, UNCONFIRMED},
    },
    shutdown::Stop,
    store::outgoing::Table,
    topology::route::Route,
    wire::Message,
    worker::context::Worker,
};

/// After this long what is left of a page is read again: the database ends a session that asks nothing for 30 s.
const PAGE: Duration = Duration::from_secs(10);
/// Why a row waits whose destination does not answer.
const NO_CONFIRM: &str = "the broker gives no confirm for it: a queue does not answer";

/// A row to publish.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: (Table, i64),
    /// It was never tried.
    pub(super) is_new: bool,
    /// If its rows are to go out one after the other.
    pub(super) order: Option<String>,
    /// The event, or the timeout.
    pub(super) name: String,
    /// What can refuse it, or not answer, and not the others: it has a channel of its own.
    pub(super) destination: Arc<str>,
    /// The destination that it waits for where it is set aside, or an earlier row of its order.
    pub(super) waits_for: Option<String>,
    /// The way that it takes, if the broker may return it.
    pub(super) route: Option<Route>,
}

impl Row {
    /// One that is not published.
    pub(super) fn of(table: Table, id: i64) -> Self {
        let (order, name, destination) = (None, String::new(), Arc::from(""));
        let key = (table, id);
        Self { key, is_new: false, order, name, destination, waits_for: None, route: None }
    }
}

/// What is known of a row.
#[derive(Clone, Debug)]
pub(super) enum RowFate {
    Confirmed,
    /// The row is tried later: its destination refuses it or does not answer, or an earlier row of its order waits for the destination.
    Waits {
        destination: Arc<str>,
        reason: String,
    },
    /// Its route leads nowhere: another one may.
    Returned,
    /// No client can send it.
    Never(String),
}

/// What became of rows; of those that are missing nothing is known, and they are read again.
#[derive(Default)]
pub(super) struct Published {
    pub(super) fates: Vec<(Row, RowFate)>,
    /// Some were not tried.
    pub(super) has_more: bool,
    pub(super) failure: Option<OutgoingError>,
}

/// A row that has no answer yet.
struct SentRow {
    row: Row,
    /// Its destination is known not to answer.
    is_silent: bool,
}

#[derive(Default)]
struct Destination {
    window: DestinationWindow,
    unanswered: usize,
    /// Why it did not take the last one.
    reason: String,
}

/// The way to the broker.
pub(super) struct Engine {
    publishers: Arc<PublisherPool>,
    silence: Duration,
    pauses: (Duration, Duration),
    destinations: BTreeMap<Arc<str>, Destination>,
    sent: BTreeMap<u64, SentRow>,
    count: u64,
    answers: FuturesUnordered<BoxFuture<'static, (u64, Result<(), PublishError>)>>,
}

impl Engine {
    pub(super) fn new(worker: &Worker, purpose: &'static str) -> Self {
        let timing = &worker.timing;
        Self {
            publishers: Arc::new(PublisherPool::new(worker.address.clone(), purpose)),
            silence: timing.destination_silence,
            pauses: (timing.destination_pause_first, timing.destination_pause_longest),
            destinations: BTreeMap::new(),
            sent: BTreeMap::new(),
            count: 0,
            answers: FuturesUnordered::new(),
        }
    }

    /// Whether answers are still to come. None come through a connection that is lost.
    pub(super) fn has_unanswered(&self) -> bool {
        !self.sent.is_empty() && self.publishers.is_connected()
    }

    /// Whether a row that waits for this destination may be tried again.
    pub(super) fn may_try(&self, destination: &str) -> bool {
        let state = self.destinations.get(destination);
        state.is_none_or(|state| state.window.available(state.unanswered, Instant::now()) > 0)
    }

    /// Rows have waited for this destination before anything was known of it here: one is tried first.
    pub(super) fn doubt(&mut self, destination: &str) {
        self.destinations.entry(Arc::from(destination)).or_insert_with(|| Destination {
            window: DestinationWindow::probing(),
            ..Destination::default()
        });
    }

    /// Rows are in another table now; by their former row.
    pub(super) fn moved(&mut self, from: Table, to: Table, rows: &BTreeMap<i64, i64>) {
        for SentRow { row, .. } in self.sent.values_mut().filter(|sent| sent.row.key.0 == from) {
            if let Some(moved) = rows.get(&row.key.1) {
                row.key = (to, *moved);
            }
        }
    }

    /// Publishes rows until each has an answer, or its destination has given none for long; also what was heard of earlier ones.
    pub(super) async fn publish(&mut self, rows: Vec<(Row, Message)>, stop: &Stop) -> Published {
        let mut page = PageCall::new(stop);
        self.hear(&mut page);
        if !rows.is_empty() && self.is_connected(&mut page).await {
            self.line_up(rows, &mut page);
        }
        while let Some(since) = self.first_without_answer(&mut page) {
            match timeout_at((since + self.silence).into(), self.answers.next()).await {
                Ok(Some((number, answer))) => self.heard(number, answer, &mut page),
                _ if stop.is_requested() => break,
                _ => match self.publishers.answers().await {
                    Ok(()) => self.give_up(&mut page),
                    Err(reason) => {
                        page.published.failure = Some(OutgoingError::Elsewhere(reason));
                        break;
                    }
                },
            }
        }
        if let Some(error) = page.not_sent.take()
            && self.publishers.answers().await.is_err()
        {
            page.fail(error);
        }
        self.end(page)
    }

    async fn is_connected(&mut self, page: &mut PageCall<'_>) -> bool {
        tokio::select! {
            biased;
            // What connects may take long.
            () = page.stop.requested() => false,
            connected = self.publishers.connect() => {
                page.published.failure = connected.err().map(OutgoingError::Elsewhere);
                page.published.failure.is_none()
            }
        }
    }

    /// Hands over as many as their destinations take.
    fn line_up(&mut self, rows: Vec<(Row, Message)>, page: &mut PageCall<'_>) {
        let keys: BTreeMap<_, u64> = self.sent.iter().map(|(n, sent)| (sent.row.key, *n)).collect();
        let by_order = |(n, sent): (&u64, &SentRow)| Some((sent.row.order.clone()?, *n));
        let orders: BTreeMap<String, u64> = self.sent.iter().filter_map(by_order).collect();
        let heard = page.published.fates.iter();
        let confirmed: BTreeSet<_> = heard
            .filter(|(_, fate)| matches!(fate, RowFate::Confirmed))
            .map(|(row, _)| row.key)
            .collect();
        for (row, message) in rows.into_iter().filter(|(row, _)| !confirmed.contains(&row.key)) {
            let of_order = || orders.get(row.order.as_ref()?);
            match keys.get(&row.key).or_else(of_order).and_then(|number| self.sent.get(number)) {
                None => page.add(row, message),
                Some(SentRow { row: before, is_silent: true }) => {
                    let destination = Arc::clone(&before.destination);
                    page.leave(row, &destination, self.reason(&destination));
                }
                // It is heard of in this page; what is behind it in its order is read again.
                Some(sent) => page.published.has_more |= sent.row.key != row.key,
            }
        }
        let waiting = self.sent.iter().filter(|(_, sent)| !sent.is_silent);
        page.sent.extend(waiting.map(|(number, _)| (page.began, *number)));
        for order in page.orders.keys().cloned().collect::<Vec<_>>() {
            page.next_of(&order);
        }
        for destination in page.destinations.keys().cloned().collect::<BTreeSet<_>>() {
            self.hand_over(&destination, page);
        }
    }

    fn hand_over(&mut self, destination: &Arc<str>, page: &mut PageCall<'_>) {
        let Some(queue) = page.destinations.get_mut(destination) else { return };
        let state = self.destinations.entry(Arc::clone(destination)).or_default();
        while page.published.failure.is_none()
            && page.not_sent.is_none()
            && !page.stop.is_requested()
        {
            let (now, unanswered) = (Instant::now(), state.unanswered);
            if unanswered >= UNCONFIRMED || now >= page.began + PAGE {
                return;
            }
            let (new, any) =
                (state.window.takes_untried(), state.window.available(unanswered, now) > 0);
            let first = queue.iter().position(|(row, _)| any || new && row.is_new);
            let Some((row, message)) = first.and_then(|first| queue.remove(first)) else { return };
            state.unanswered += 1;
            self.count += 1;
            let (number, publishers, to) =
                (self.count, Arc::clone(&self.publishers), Arc::clone(destination));
            let publishing = async move { (number, publishers.publish(&to, message).await) };
            self.answers.push(Box::pin(publishing));
            self.sent.insert(number, SentRow { row, is_silent: false });
            page.sent.push_back((now, number));
        }
    }

    /// Since when the oldest has had no answer.
    fn first_without_answer(&self, page: &mut PageCall<'_>) -> Option<Instant> {
        while let Some((at, number)) = page.sent.front() {
            if self.sent.contains_key(number) {
                return Some(*at);
            }
            page.sent.pop_front();
        }
        None
    }

    /// What has come by now.
    fn hear(&mut self, page: &mut PageCall<'_>) {
        while let Some(Some((number, answer))) = self.answers.next().now_or_never() {
            self.heard(number, answer, page);
        }
    }

    fn heard(&mut self, number: u64, answer: Result<(), PublishError>, page: &mut PageCall<'_>) {
        let Some(SentRow { row, .. }) = self.sent.remove(&number) else { return };
        let destination = Arc::clone(&row.destination);
        let state = self.destinations.entry(Arc::clone(&destination)).or_default();
        state.unanswered = state.unanswered.saturating_sub(1);
        let mut refused = |harms, error: &PublishError, row, page: &mut PageCall<'_>| {
            state.window.refused(harms, Instant::now(), self.pauses);
            state.reason = error.to_string();
            page.leave(row, &destination, state.reason.clone());
        };
        let mut next = None;
        match answer {
            Ok(()) => {
                state.window.confirmed();
                next = page.pass(row, RowFate::Confirmed);
            }
            Err(error @ PublishError::Refused { .. }) => refused(false, &error, row, page),
            Err(PublishError::Returned { .. }) => next = page.pass(row, RowFate::Returned),
            Err(error @ PublishError::RoutingKeyNotPermitted { .. }) => {
                refused(true, &error, row, page);
            }
            // Nothing else is on its channel.
            Err(error) if error.ended_channel() => refused(true, &error, row, page),
            Err(PublishError::Unencodable { reason, .. }) => {
                next = page.pass(row, RowFate::Never(reason));
            }
            // Its channel or its connection had ended before.
            Err(error @ PublishError::Disconnected { .. }) => {
                page.published.has_more = true;
                page.not_sent.get_or_insert(error);
            }
            Err(error) => page.fail(error),
        }
        self.hand_over(&destination, page);
        if let Some(next) = next.filter(|next| *next != destination) {
            self.hand_over(&next, page);
        }
    }

    /// The destinations of what has waited for long do not answer.
    fn give_up(&mut self, page: &mut PageCall<'_>) {
        self.hear(page);
        let now = Instant::now();
        while let Some((at, number)) = page.sent.front().copied() {
            if at + self.silence > now {
                break;
            }
            page.sent.pop_front();
            let Some(sent) = self.sent.get_mut(&number) else { continue };
            sent.is_silent = true;
            let (row, destination) = (sent.row.clone(), Arc::clone(&sent.row.destination));
            let state = self.destinations.entry(Arc::clone(&destination)).or_default();
            state.window.confirm_timed_out();
            NO_CONFIRM.clone_into(&mut state.reason);
            page.leave(row, &destination, NO_CONFIRM.to_owned());
        }
    }

    fn end(&mut self, mut page: PageCall<'_>) -> Published {
        let is_cut = page.published.failure.is_some()
            || page.published.has_more
            || page.stop.is_requested()
            || page.began.elapsed() >= PAGE;
        for (destination, rows) in std::mem::take(&mut page.destinations) {
            page.published.has_more |= is_cut && !rows.is_empty();
            for (row, _) in rows.into_iter().filter(|_| !is_cut) {
                page.leave(row, &destination, self.reason(&destination));
            }
        }
        self.destinations.retain(|_, state| state.unanswered > 0 || !state.window.is_open());
        page.published
    }

    fn reason(&self, destination: &str) -> String {
        self.destinations.get(destination).map_or_else(String::new, |state| state.reason.clone())
    }
}

/// The rows of one call.
struct PageCall<'a> {
    began: Instant,
    stop: &'a Stop,
    /// By order: those behind the one that is tried.
    orders: BTreeMap<String, VecDeque<(Row, Message)>>,
    /// By destination: those whose turn it is.
    destinations: BTreeMap<Arc<str>, VecDeque<(Row, Message)>>,
    /// When each was handed over, the oldest first; also those that are answered.
    sent: VecDeque<(Instant, u64)>,
    /// The first that was not sent since its channel had ended.
    not_sent: Option<PublishError>,
    published: Published,
}

impl<'a> PageCall<'a> {
    fn new(stop: &'a Stop) -> Self {
        let (orders, destinations, sent) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let published = Published::default();
        Self { began: Instant::now(), stop, orders, destinations, sent, not_sent: None, published }
    }

    fn add(&mut self, row: Row, message: Message) {
        match row.order.clone() {
            Some(order) => self.orders.entry(order).or_default().push_back((row, message)),
            None => self.takes_turn(row, message),
        }
    }

    fn takes_turn(&mut self, row: Row, message: Message) {
        match (row.key.0, &row.waits_for) {
            (Table::Outbox, Some(earlier)) => {
                let destination = Arc::from(earlier.as_str());
                let reason = waits_until(&destination);
                self.leave(row, &destination, reason);
            }
            _ => self
                .destinations
                .entry(Arc::clone(&row.destination))
                .or_default()
                .push_back((row, message)),
        }
    }

    /// The next row of an order takes its turn; its destination.
    fn next_of(&mut self, order: &str) -> Option<Arc<str>> {
        let (row, message) = self.orders.get_mut(order)?.pop_front()?;
        let destination = Arc::clone(&row.destination);
        self.takes_turn(row, message);
        Some(destination)
    }

    /// A row is done with; the destination of the next one of its order.
    fn pass(&mut self, row: Row, fate: RowFate) -> Option<Arc<str>> {
        let next = row.order.as_ref().and_then(|order| self.next_of(order));
        self.published.fates.push((row, fate));
        next
    }

    /// A row waits, and those behind it.
    fn leave(&mut self, row: Row, destination: &Arc<str>, reason: String) {
        let behind = row.order.as_ref().and_then(|order| self.orders.remove(order));
        self.published
            .fates
            .push((row, RowFate::Waits { destination: Arc::clone(destination), reason }));
        for (row, _) in behind.into_iter().flatten() {
            let fate = RowFate::Waits {
                destination: Arc::clone(destination),
                reason: waits_until(destination),
            };
            self.published.fates.push((row, fate));
        }
    }

    fn fail(&mut self, error: PublishError) {
        let kept = match self.published.failure.take() {
            Some(OutgoingError::Publish(kept)) => Some(kept),
            None => None,
            other => return self.published.failure = other,
        };
        self.published.failure = Some(PublishError::that_says_why(kept, error).into());
    }
}

fn waits_until(destination: &str) -> String {
    format!("it waits until `{destination}` is published")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::messaging::address::BrokerAddress;

    fn event(id: i64) -> (Row, Message) {
        let destination = Arc::from("order.paid");
        let order = Some("o".to_owned());
        let row = Row { is_new: true, order, destination, ..Row::of(Table::Outbox, id) };
        let message =
            Message::event("events".to_owned(), "order.paid", id, "o", Timestamp::UNIX_EPOCH);
        (row, message)
    }

    /// One that has no answer yet.
    fn engine_that_sent(row: Row) -> Engine {
        let address = BrokerAddress::parse("amqp://localhost", None).unwrap();
        Engine {
            publishers: Arc::new(PublisherPool::new(address, "test")),
            silence: Duration::ZERO,
            pauses: (Duration::ZERO, Duration::ZERO),
            destinations: BTreeMap::new(),
            sent: BTreeMap::from([(1, SentRow { row, is_silent: false })]),
            count: 1,
            answers: FuturesUnordered::new(),
        }
    }

    #[test]
    fn what_a_lost_connection_had_does_not_keep_a_worker_that_cannot_publish() {
        assert!(!engine_that_sent(event(11).0).has_unanswered());
    }

    #[test]
    fn what_is_behind_a_row_that_has_no_answer_yet_is_read_again() {
        for (rows, has_more) in [(vec![11], false), (vec![11, 12], true), (vec![12], true)] {
            let mut engine = engine_that_sent(event(11).0);
            let stop = Stop::default();
            let mut page = PageCall::new(&stop);
            engine.line_up(rows.into_iter().map(event).collect(), &mut page);
            assert_eq!((page.published.has_more, engine.count), (has_more, 1));
        }
    }

    #[test]
    fn what_was_confirmed_after_it_was_read_is_not_published_again() {
        let mut engine = engine_that_sent(event(11).0);
        let stop = Stop::default();
        let mut page = PageCall::new(&stop);
        // However long this takes.
        page.began += 1_000 * PAGE;
        engine.heard(1, Ok(()), &mut page);
        engine.line_up(vec![event(11)], &mut page);
        assert_eq!(engine.count, 1);
        engine.line_up(vec![event(11), event(12)], &mut page);
        assert_eq!(engine.sent[&2].row.key, (Table::Outbox, 12));
    }
}
