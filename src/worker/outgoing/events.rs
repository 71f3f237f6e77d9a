//! Events of the outbox. What cannot be published goes out of the way of the others (`outbox_refused`): an event that the broker
//! refuses, or does not confirm, is tried again after a while, with what is behind it in its order; one that can never be published
//! stays there with its reason.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    IDLE, Leader, OutgoingError, PAGE, PARTS, Passed, Row, RowFate, RowsRead, Source,
    unmoved::Unmoved,
};
use crate::{
    shutdown::Stop,
    store::{
        StoreError,
        outbox::{self, Event, PassedOver, Reading, Refusal, Regrouped},
        outgoing::{LeftRows, Table},
    },
    telemetry,
    text::error_chain,
    wire::Message,
    worker::{
        context::Worker,
        health::{ALIVE_WITHIN, Work},
        session::SessionEnd,
    },
};

/// Event names that are tried again with one page, and events of each.
const NAMES: usize = 8;
const RETRIED: i64 = 256;
/// Events of a burst wait no longer than this for its end: what they cost would make the closing of 100,000 orders last
/// twice as long.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Publishes what is in the outbox until a stop is asked for.
pub(crate) async fn publish(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    if worker.events_settings.publish {
        let alive = worker.health.task("relay", "", ALIVE_WITHIN);
        let exchange = worker.topology.events_exchange();
        let (refused, unmoved, left) = (BTreeMap::new(), Unmoved::default(), None);
        let events = Events { worker: &worker, exchange, refused, unmoved, left };
        super::publish(&worker, events, &alive, &stop).await;
    }
    Ok(())
}

struct Events<'a> {
    worker: &'a Worker,
    exchange: String,
    /// The names that events wait for.
    refused: BTreeMap<String, RefusedName>,
    unmoved: Unmoved,
    /// Why some could not be put aside the last time.
    left: Option<String>,
}

/// An event name that the broker refuses, or does not confirm.
struct RefusedName {
    since: Instant,
    /// Published since then.
    events: usize,
}

impl Source for Events<'_> {
    const TABLE: Table = Table::Outbox;
    const WORK: Work = Work::Relay;
    const PURPOSE: &'static str = "overdue worker: events";
    const IN_ORDER: bool = true;

    async fn begin(&mut self) -> Result<Vec<String>, OutgoingError> {
        self.refused.clear();
        self.unmoved = Unmoved::default();
        self.pass_over(PassedOver::default());
        Ok(vec![Table::Outbox.name().to_owned()])
    }

    async fn read(
        &mut self,
        session: &mut Leader<'_>,
        after: i64,
        is_look: bool,
    ) -> Result<RowsRead, OutgoingError> {
        let start = if is_look { 0 } else { session.low_watermark.row() };
        if is_look && after == start {
            self.unmoved.look_begins();
        }
        self.move_again(session).await?;
        let reading = Reading { after, left: start + 1 };
        let undeleted = session.undeleted.rows(Table::Outbox);
        let low_watermark =
            self.unmoved.first().map_or(i64::MAX, |row| row - 1).min(session.low_watermark.row());
        let passed_over = PassedOver { low_watermark, undeleted };
        if is_look {
            for name in outbox::refused_names(&session.database).await? {
                session.engine.doubt(&name);
                self.refused.entry(name).or_insert_with(RefusedName::now);
            }
        }
        let again = self.retried(session, reading).await?;
        let claim = outbox::claim(&session.database, reading, PAGE, &passed_over.undeleted).await?;
        self.pass_over(passed_over);
        let never = |refusal: Refusal| {
            (Row::of(Table::Outbox, refusal.row), RowFate::Never(refusal.reason))
        };
        // What of their orders is still in the outbox goes before them.
        let in_turn = |event: &Event| !claim.is_full || Some(event.id) <= claim.last;
        let mut events: Vec<Event> = again.into_iter().filter(in_turn).collect();
        events.extend(claim.events);
        let read = events.len();
        events.retain(|event| !self.unmoved.hold(event));
        events.sort_by_key(|event| event.id);
        Ok(RowsRead {
            holds: events.len() < read,
            rows: events.into_iter().map(|event| self.row(event)).collect(),
            decided: claim.faulty.into_iter().map(never).collect(),
            last: claim.last,
            is_full: claim.is_full,
        })
    }

    async fn settle(
        &mut self,
        session: &mut Leader<'_>,
        fates: Vec<(Row, RowFate)>,
        passed: &mut Passed,
    ) -> Result<(), StoreError> {
        let mut published: BTreeMap<Table, Vec<i64>> = BTreeMap::new();
        let (mut refusals, mut regrouped) = (Vec::new(), BTreeMap::new());
        for (row, fate) in fates {
            let (table, id) = row.key;
            match fate {
                RowFate::Confirmed => {
                    passed.published += 1;
                    published.entry(table).or_default().push(id);
                    if table == Table::Outbox && self.unmoved.remove(id) {
                        // Rows that waited for this one may be below the low watermark.
                        session.low_watermark.look_soon();
                    }
                    let name = row.waits_for.as_ref().and_then(|name| self.refused.get_mut(name));
                    if let Some(refused) = name {
                        refused.events += 1;
                    }
                }
                RowFate::Waits { destination, reason } if table == Table::Outbox => {
                    let waits_for = Some(destination.to_string());
                    refusals.push(Refusal { row: id, order_id: row.order, waits_for, reason });
                }
                // Its order waits for another name from now on.
                RowFate::Waits { destination, reason }
                    if row.waits_for.as_deref() != Some(&*destination) =>
                {
                    if let Some(order_id) = row.order {
                        let event = destination.to_string();
                        let regroup = Regrouped { order_id: order_id.clone(), event, reason };
                        regrouped.entry(order_id).or_insert(regroup);
                    }
                }
                RowFate::Never(reason) if table == Table::Outbox => {
                    refusals.push(Refusal { row: id, order_id: None, waits_for: None, reason });
                }
                // Events need no route, and were looked at when they were read first: this does not happen, and loses none.
                RowFate::Waits { .. } | RowFate::Returned | RowFate::Never(_) => {}
            }
        }
        // It was sent twice, and one of the two was confirmed.
        let done = published.get(&Table::Outbox);
        refusals.retain(|refusal| !done.is_some_and(|rows| rows.contains(&refusal.row)));
        for (table, rows) in published {
            session.undeleted.forget(&session.database, table, &rows).await?;
        }
        let (mut left, new): (Vec<_>, Vec<Refusal>) =
            refusals.into_iter().partition(|refusal| self.unmoved.contains(refusal.row));
        left.extend(self.put_aside(session, new.clone()).await?);
        if let Some(reason) = left.first().map(|refusal| refusal.reason.clone()) {
            passed.leave(left.len(), reason);
        }
        for refusal in left {
            self.unmoved.add(refusal);
        }
        let regrouped: Vec<Regrouped> = regrouped.into_values().collect();
        if !regrouped.is_empty() {
            match outbox::regroup(&session.database, &regrouped).await {
                Err(error) if error.is_answer() => {
                    passed.leave(regrouped.len(), error_chain(&error));
                }
                answer => answer?,
            }
        }
        self.report(&new, &regrouped);
        Ok(())
    }

    async fn rest(&mut self, session: &mut Leader<'_>, passed: &Passed, stop: &Stop) {
        let left = passed.left.as_ref().map(|left| &left.reason);
        let left = self.unmoved.reason().or(left);
        if let Some(reason) = left {
            if self.left.as_ref() != left {
                telemetry::relay_failed(reason);
            }
            self.worker.health.failed(Work::Relay, "", reason);
        } else if session.undeleted.is_empty() && self.worker.health.works(Work::Relay, "") {
            telemetry::relay_works();
        }
        self.left = left.cloned();
        tokio::select! {
            biased;
            () = stop.requested() => {}
            // The batches of this process notify; this finds what others have written.
            () = self.worker.events.notified() => {}
            () = tokio::time::sleep(IDLE) => {}
        }
        gather(self.worker, stop).await;
    }

    fn failed(&mut self, reason: &str) {
        telemetry::relay_failed(reason);
    }
}

impl Events<'_> {
    /// Those who count the outbox need not read this either.
    fn pass_over(&self, rows: PassedOver) {
        let known = &self.worker.passed_over;
        *known.lock() = rows;
    }

    fn row(&self, event: Event) -> (Row, Message) {
        let Event { table, row, id, event, order_id, created_at, waits_for, trace } = event;
        let mut message = Message::event(self.exchange.clone(), &event, id, &order_id, created_at);
        if let Some(trace) = trace {
            trace.write(&mut message.headers);
        }
        let (key, destination) = ((table, row), Arc::from(event.as_str()));
        let order = Some(order_id);
        let is_new = table == Table::Outbox && !self.unmoved.contains(row);
        (Row { key, is_new, order, name: event, destination, waits_for, route: None }, message)
    }

    /// Moves events out of the way of the others; those that could not be moved, in the order of the next try.
    async fn put_aside(
        &mut self,
        session: &mut Leader<'_>,
        refusals: Vec<Refusal>,
    ) -> Result<Vec<Refusal>, StoreError> {
        if refusals.is_empty() {
            return Ok(refusals);
        }
        let began = Instant::now();
        let (moved, LeftRows { rows, reason }) =
            outbox::refuse(&session.database, &refusals).await?;
        session.engine.moved(Table::Outbox, Table::Refused, &moved);
        if !rows.is_empty() {
            self.unmoved.tried(reason, session.rest_after(began.elapsed(), PARTS), Instant::now());
        }
        let mut by_row: BTreeMap<i64, Refusal> =
            refusals.into_iter().map(|refusal| (refusal.row, refusal)).collect();
        Ok(rows.iter().filter_map(|row| by_row.remove(row)).collect())
    }

    /// Tries all of them together, apart from the others: those that stay locked are not to keep new ones from being moved.
    async fn move_again(&mut self, session: &mut Leader<'_>) -> Result<(), StoreError> {
        let refusals = self.unmoved.due(Instant::now());
        if refusals.is_empty() {
            return Ok(());
        }
        let left = self.put_aside(session, refusals).await?;
        let moved = self.unmoved.keep(&left);
        if !moved.is_empty() {
            session.low_watermark.look_soon();
        }
        self.report(&moved, &[]);
        Ok(())
    }

    /// Events that may be tried again. A name that nothing waits for any more is forgotten.
    async fn retried(
        &mut self,
        session: &mut Leader<'_>,
        reading: Reading,
    ) -> Result<Vec<Event>, StoreError> {
        let names = self.refused.keys().map(String::as_str);
        let due: Vec<&str> =
            names.filter(|name| session.engine.may_try(name)).take(NAMES).collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let without = session.undeleted.rows(Table::Refused);
        let events =
            outbox::refused_events(&session.database, reading, (&due, RETRIED), &without).await?;
        let ended = due
            .into_iter()
            .filter(|name| !events.iter().any(|event| event.waits_for.as_deref() == Some(*name)));
        for name in ended.map(str::to_owned).collect::<Vec<_>>() {
            if let Some(RefusedName { since, events: events @ 1.. }) = self.refused.remove(&name) {
                telemetry::event_accepted(&name, events, since.elapsed());
            }
        }
        Ok(events)
    }

    fn report(&mut self, refusals: &[Refusal], regrouped: &[Regrouped]) {
        let mut never = refusals.iter().filter(|refusal| refusal.waits_for.is_none());
        if let Some(Refusal { row, reason, .. }) = never.next() {
            telemetry::events_unpublishable(1 + never.count(), *row, reason);
        }
        let aside = refusals.iter().filter_map(|it| Some((it.waits_for.as_ref()?, &it.reason)));
        for (name, reason) in aside.chain(regrouped.iter().map(|it| (&it.event, &it.reason))) {
            self.refused.entry(name.clone()).or_insert_with(|| {
                telemetry::event_refused(name, reason);
                RefusedName::now()
            });
        }
    }
}

impl RefusedName {
    fn now() -> Self {
        Self { since: Instant::now(), events: 0 }
    }
}

/// Waits for `events.linger`, and in a burst for its end: so one look is for the events of many commits.
async fn gather(worker: &Worker, stop: &Stop) {
    let linger = worker.events_settings.linger.as_duration();
    let began = Instant::now();
    loop {
        let goes_on = stop.pause(linger).await;
        let in_burst = worker.bursts.values().any(|it| it.awaited(Instant::now()).is_some());
        if !goes_on || !in_burst || began.elapsed() >= LONGEST_WAIT {
            return;
        }
    }
}
