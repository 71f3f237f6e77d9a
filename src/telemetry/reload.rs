//! Events of files that are read again: after SIGHUP, or because they have changed.

use tracing::{error, info, warn};

use super::metrics::METRICS;

/// These files do not hold what was read of them last; none: what was there is tried again.
pub(crate) fn changed(files: &[String]) {
    if !files.is_empty() {
        info!(files = files.join(", "), "files have changed: they are checked");
    }
}

/// Nobody knows whether the files have changed.
pub(crate) fn silent(reason: &str) {
    warn!(
        reason,
        "not known whether files have changed (worker.reload_on_change); closing goes on"
    );
}

/// The files were read again, and everything in them is in effect.
pub(crate) fn reloaded() {
    METRICS.reloads.add([], 1);
    info!("reloaded: settings, topology and effects are those of the files now");
}

/// The files were read again, and cannot take the place of what is in effect. `reason` may have several lines.
pub(crate) fn refused(reason: &str) {
    METRICS.reload_refusals.add([], 1);
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    error!(reason, "not reloaded: everything goes on as before");
}

/// The worker that was replaced has given the rest back.
pub(crate) fn not_drained(reason: &str) {
    warn!(reason, "the worker with the settings of before was ended");
}
