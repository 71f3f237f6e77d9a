//! What the database holds of a run, as data.

use jiff::Timestamp;

/// The orders and the stock of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Each order that was asked for and is still there.
    pub orders: Vec<OrderState>,
    /// Every SKU of the run.
    pub stock: Vec<StockLevel>,
    /// Whether `final_at` is the time of the commit, which the server keeps with `track_commit_timestamp = on`.
    pub commit_times: bool,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderState {
    /// It begins with the id of the run.
    pub id: String,
    /// `unpaid`, `paid`, `closed`, …
    pub status: String,
    /// All times are by the database's clock.
    pub due_at: Timestamp,
    /// `None` unless it was paid.
    pub paid_at: Option<Timestamp>,
    /// `None` unless it was closed.
    pub closed_at: Option<Timestamp>,
    /// Whether its deadline has passed.
    pub overdue: bool,
    /// How often it was closed.
    pub closures: i64,
    /// What made overdue close it: `message` or `sweep`.
    pub path: Option<String>,
    /// When the closure was committed, or otherwise written: see [`Facts::commit_times`].
    pub final_at: Option<Timestamp>,
}

/// The stock of one SKU, in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StockLevel {
    /// It begins with the id of the run.
    pub sku: String,
    /// Not in any order.
    pub available: i64,
    /// In unpaid orders, as `stock` says.
    pub reserved: i64,
    /// In paid orders, as `stock` says.
    pub sold: i64,
    /// In unpaid orders, as `order_items` says.
    pub in_unpaid: i64,
    /// In paid orders, as `order_items` says.
    pub in_paid: i64,
}
