//! The outbox: events written with the effect, published afterwards, forgotten when confirmed; those that are set aside, and why.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    outgoing::{LeftRows, OutgoingSession, Table, isolate},
    pool::{StatementCall, TransactionLimits},
};
use crate::wire::Trace;

const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");
const REFUSE: &str = include_str!("../../sql/outbox_refuse.sql");
const NAMES: &str = include_str!("../../sql/outbox_retry_names.sql");
const RETRY: &str = include_str!("../../sql/outbox_retry_events.sql");
const RETRY_DONE: &str = include_str!("../../sql/outbox_retry_done.sql");
const REGROUP: &str = include_str!("../../sql/outbox_retry_regroup.sql");

/// What need not be read of the outbox.
#[derive(Clone, Debug, Default)]
pub struct PassedOver {
    /// The rows up to this one are gone.
    pub low_watermark: i64,
    /// Rows that are published, and cannot be deleted.
    pub undeleted: Vec<i64>,
}

/// Where the outbox is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// After this row.
    pub(crate) after: i64,
    /// From this row up to `after` some may be left; the later events of their orders wait for them.
    pub(crate) left: i64,
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) table: Table,
    /// The key of its row there.
    pub(crate) row: i64,
    /// Its id in the outbox; also part of the `message-id`, so that a subscriber can recognise a second copy.
    pub(crate) id: i64,
    /// What happened, and the routing key, e.g. `order.closed`.
    pub(crate) event: String,
    pub(crate) order_id: String,
    pub(crate) created_at: Timestamp,
    /// The event name that it waits for, or an earlier one of its order.
    pub(crate) waits_for: Option<String>,
    pub(crate) trace: Option<Trace>,
}

/// An event of the outbox that is to go out of the way of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its row in the outbox.
    pub(crate) row: i64,
    /// Its order, if the later events of that wait for it.
    pub(crate) order_id: Option<String>,
    /// The event name that is refused; without one the event can never be published.
    pub(crate) waits_for: Option<String>,
    /// Why it is not published.
    pub(crate) reason: String,
}

/// An order whose set-aside events wait for another event name from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regrouped {
    pub(crate) order_id: String,
    pub(crate) event: String,
    pub(crate) reason: String,
}

/// The oldest rows of the outbox.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// To be published, in the order of their ids.
    pub(crate) events: Vec<Event>,
    /// They can never be published.
    pub(crate) faulty: Vec<Refusal>,
    /// Its last row.
    pub(crate) last: Option<i64>,
    /// Whether there can be more than were asked for.
    pub(crate) is_full: bool,
}

impl Store {
    /// Whether the tables of the outbox have the columns they should, and may be changed; changes nothing.
    ///
    /// # Errors
    /// A table or a column is missing, or a permission is.
    pub async fn check_outbox(&self) -> Result<(), StoreError> {
        let (keys, texts): (&[i64], &[&str]) = (&[], &[]);
        self.explain("outbox_claim", CLAIM, &[&0_i64, &keys, &0_i64, &0_i64]).await?;
        self.explain("outbox_done", DONE, &[&keys]).await?;
        self.explain("outbox_refuse", REFUSE, &[&keys, &texts, &texts]).await?;
        self.explain("outbox_retry_names", NAMES, &[]).await?;
        self.explain("outbox_retry_events", RETRY, &[&texts, &0_i64, &keys, &0_i64, &0_i64])
            .await?;
        self.explain("outbox_retry_done", RETRY_DONE, &[&keys]).await?;
        self.explain("outbox_retry_regroup", REGROUP, &[&texts, &texts, &texts]).await
    }
}

/// Up to `limit` of the oldest events from there on, but `without`, and what waits for an earlier event.
pub(crate) async fn claim(
    session: &OutgoingSession,
    Reading { after, left }: Reading,
    limit: i64,
    without: &[i64],
) -> Result<Claim, StoreError> {
    let rows = session.rows("outbox_claim", CLAIM, &[&limit, &without, &after, &left]).await?;
    let mut claim = Claim {
        last: rows.last().map(|row| row.get("id")),
        is_full: i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit),
        ..Claim::default()
    };
    for row in &rows {
        let id = row.get("id");
        // A database that does not check its texts (SQL_ASCII) can have any bytes in them.
        let readable = match row.get("fault") {
            Some(fault) => Err(fault),
            None => event(Table::Outbox, id, row).map_err(|error| error.to_string()),
        };
        match readable {
            Ok(event) => claim.events.push(event),
            Err(reason) => {
                let (order_id, waits_for) = (None, None);
                claim.faulty.push(Refusal { row: id, order_id, waits_for, reason });
            }
        }
    }
    Ok(claim)
}

/// Moves events out of the way of the others: the rows in the outbox and those where they are now, and what could not be moved,
/// e.g. since somebody has locked it. If it fails, the session has ended and some may be moved.
pub(crate) async fn refuse(
    session: &OutgoingSession,
    refusals: &[Refusal],
) -> Result<(BTreeMap<i64, i64>, LeftRows), StoreError> {
    let by_row: BTreeMap<i64, &Refusal> = refusals.iter().map(|it| (it.row, it)).collect();
    let rows: Vec<i64> = refusals.iter().map(|it| it.row).collect();
    let moved = Mutex::new(BTreeMap::<i64, i64>::new());
    let move_some = |part: Vec<i64>| {
        let (by_row, moved) = (&by_row, &moved);
        async move {
            let waits_for: Vec<_> = part.iter().map(|row| &by_row[row].waits_for).collect();
            let reasons: Vec<_> = part.iter().map(|row| &by_row[row].reason).collect();
            let parameters: [&(dyn ToSql + Sync); 3] = [&part, &waits_for, &reasons];
            let question = StatementCall::new("outbox_refuse", REFUSE, &parameters);
            let rows = session.run(question, TransactionLimits::DELETION).await?;
            let answered: BTreeMap<i64, Option<i64>> =
                rows.iter().map(|row| (row.get("id"), row.get("refused_id"))).collect();
            moved.lock().extend(answered.iter().filter_map(|(id, to)| Some((*id, (*to)?))));
            Ok(part.into_iter().filter(|row| !answered.contains_key(row)).collect())
        }
        .boxed()
    };
    let left = isolate(&rows, move_some).await?;
    Ok((moved.into_inner(), left))
}

/// The event names that set-aside events wait for.
pub(crate) async fn refused_names(session: &OutgoingSession) -> Result<Vec<String>, StoreError> {
    let rows = session.rows("outbox_retry_names", NAMES, &[]).await?;
    Ok(rows.iter().map(|row| row.get("name")).collect())
}

/// The oldest `limit` events that wait for each of these event names, but the rows `without`, and what waits for an earlier event, also
/// one that the outbox has.
pub(crate) async fn refused_events(
    session: &OutgoingSession,
    Reading { after, left }: Reading,
    (names, limit): (&[&str], i64),
    without: &[i64],
) -> Result<Vec<Event>, StoreError> {
    let parameters: [&(dyn ToSql + Sync); 5] = [&names, &limit, &without, &after, &left];
    let rows = session.rows("outbox_retry_events", RETRY, &parameters).await?;
    // What cannot be read was never moved there with a name.
    Ok(rows
        .iter()
        .filter_map(|row| event(Table::Refused, row.get("refused_id"), row).ok())
        .collect())
}

/// Lets orders wait for another event name.
pub(crate) async fn regroup(
    session: &OutgoingSession,
    orders: &[Regrouped],
) -> Result<(), StoreError> {
    let ids: Vec<_> = orders.iter().map(|order| &order.order_id).collect();
    let events: Vec<_> = orders.iter().map(|order| &order.event).collect();
    let reasons: Vec<_> = orders.iter().map(|order| &order.reason).collect();
    let parameters: [&(dyn ToSql + Sync); 3] = [&ids, &events, &reasons];
    let question = StatementCall::new("outbox_retry_regroup", REGROUP, &parameters);
    session.run(question, TransactionLimits::DELETION).await.map(drop)
}

fn event(table: Table, key: i64, row: &Row) -> Result<Event, tokio_postgres::Error> {
    Ok(Event {
        table,
        row: key,
        id: row.try_get("id")?,
        event: row.try_get("event")?,
        order_id: row.try_get("order_id")?,
        created_at: row.try_get("created_at")?,
        waits_for: row.try_get("waits_for")?,
        trace: trace(row),
    })
}

/// What cannot be read is none.
pub(super) fn trace(row: &Row) -> Option<Trace> {
    let text = |column| row.try_get::<_, Option<&str>>(column).ok().flatten();
    Trace::parse(text("traceparent")?, text("tracestate"))
}
