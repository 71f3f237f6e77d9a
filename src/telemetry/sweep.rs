//! Sweeps that do not get through.

use std::time::Duration;

use tracing::error;

use super::metrics::METRICS;

/// A sweep did not get through; the next one is tried at its time.
pub(crate) fn failed(effect: &str, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(effect, reason, "the sweep failed; it is tried again at the next interval");
}

/// None of the orders of a page could be closed; the sweep goes on behind them.
pub(crate) fn passed_over(effect: &str, orders: usize, reason: &str) {
    METRICS.sweep_failures.add([effect], 1);
    error!(
        effect,
        orders, reason, "none of these overdue orders can be closed; the sweep goes on behind them"
    );
}

/// All sweeps have ended, by a defect of ours; they begin again after `pause`.
pub(crate) fn ended(reason: &str, pause: Duration) {
    error!(
        reason,
        ?pause,
        "the sweep ended and begins again; this is a defect of overdue: keep the log"
    );
}
