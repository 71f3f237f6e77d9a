//! What a run left in the database, read in one snapshot: the facts that checks and report rest on.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::{ending::Ending, payments::Payment, script::Script};
use crate::store::{Store, StoreError};

/// How long the parts of a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the first order created to the last one published.
    pub creating: Duration,
    /// From the start to the last order being final.
    pub running: Duration,
}

/// One order as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderState {
    /// Its id.
    pub id: String,
    /// `unpaid`, `paid`, `closed`, …
    pub status: String,
    /// Its deadline.
    pub due_at: Timestamp,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Whether its deadline has passed.
    pub overdue: bool,
    /// How often it was closed.
    pub closures: i64,
    /// What made it close: `message` or `sweep`.
    pub path: Option<String>,
    /// When the closure was committed, or else written: see [`Evidence::commit_times`].
    pub final_at: Option<Timestamp>,
}

/// One SKU of the run as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// Which.
    pub sku: String,
    /// To be sold.
    pub available: i64,
    /// For unpaid orders.
    pub reserved: i64,
    /// Paid.
    pub sold: i64,
    /// What the unpaid orders of the run hold of it.
    pub in_unpaid: i64,
    /// What the paid orders of the run hold of it.
    pub in_paid: i64,
}

/// All facts about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// How many orders of the script were created, from its beginning.
    pub created: usize,
    /// Each of them that is still there.
    pub orders: Vec<OrderState>,
    /// Every SKU.
    pub shelves: Vec<Shelf>,
    /// Every payment that was sent.
    pub payments: Vec<Payment>,
    /// Orders of the run in the parking lot.
    pub parked: Vec<String>,
    /// Messages that came early and wait again; known only of a worker in this process.
    pub put_back: Option<u64>,
    /// Whether `final_at` is the time of the commit, which the server keeps with `track_commit_timestamp = on`.
    pub commit_times: bool,
    /// How long it took.
    pub timing: Timing,
    /// How it ended.
    pub ending: Ending,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}

impl Evidence {
    /// Reads what the database has of the first `created` orders of the script.
    pub(super) async fn gather(
        store: &Store,
        script: &Script,
        created: usize,
        payments: Vec<Payment>,
        timing: Timing,
        ending: Ending,
    ) -> Result<Self, StoreError> {
        let commit_times = keeps_commit_times(store).await?;
        let ids: Vec<&str> = (0..created).map(|index| script.id(index).as_str()).collect();
        Ok(Self {
            created,
            orders: orders(store, &ids, commit_times).await?,
            shelves: shelves(store, script).await?,
            payments,
            commit_times,
            timing,
            ending,
            ..Self::default()
        })
    }
}

async fn keeps_commit_times(store: &Store) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT current_setting('track_commit_timestamp')::boolean";
    let client = store.client().await?;
    Ok(store.named("commit_times", client.query_one(SQL, &[]).await)?.get(0))
}

async fn orders(
    store: &Store,
    ids: &[&str],
    commit_times: bool,
) -> Result<Vec<OrderState>, StoreError> {
    const SQL: &str = include_str!("../../sql/demo_states.sql");
    let client = store.client().await?;
    let rows = store.named("demo_states", client.query(SQL, &[&ids, &commit_times]).await)?;
    let state = |row: &Row| OrderState {
        id: row.get("order_id"),
        status: row.get("status"),
        due_at: row.get("due_at"),
        paid_at: row.get("paid_at"),
        closed_at: row.get("closed_at"),
        overdue: row.get("overdue"),
        closures: row.get("closures"),
        path: row.get("path"),
        final_at: row.get("final_at"),
    };
    Ok(rows.iter().map(state).collect())
}

async fn shelves(store: &Store, script: &Script) -> Result<Vec<Shelf>, StoreError> {
    const SQL: &str = include_str!("../../sql/demo_shelves.sql");
    let skus: Vec<String> =
        (0..script.shelves().len()).map(|index| script.run.sku(index)).collect();
    let client = store.client().await?;
    let rows = store.named("demo_shelves", client.query(SQL, &[&skus]).await)?;
    let shelf = |row: &Row| Shelf {
        sku: row.get("sku"),
        available: row.get("available"),
        reserved: row.get("reserved"),
        sold: row.get("sold"),
        in_unpaid: row.get("in_unpaid"),
        in_paid: row.get("in_paid"),
    };
    Ok(rows.iter().map(shelf).collect())
}
