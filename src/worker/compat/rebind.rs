//! Queues that their consumers bind to the old name, moved to where messages come out when they are due.
//!
//! A consumer binds its queue when it starts, and at the old name it would get its messages early. So each such binding
//! is made where it belongs and taken away there, within about a second.

use std::{collections::BTreeSet, sync::Arc};

use super::super::{context::Worker, limits, session::SessionEnd};
use crate::{shutdown::Stop, telemetry, text::error_chain};

/// Looks until a stop is asked for. Without the management API, or without the rights, the log and `overdue verify`
/// say so.
pub(in crate::worker) async fn rebind(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let (Some(management), true) = (&worker.management, worker.topology.compat.is_some()) else {
        return Ok(());
    };
    let mut failed: BTreeSet<String> = BTreeSet::new();
    loop {
        // The session's own connection says whether the broker is there.
        let early = management.early_bindings(&worker.topology).await.unwrap_or_default();
        for binding in early {
            let result = management.bind_when_due(&worker.topology, &binding).await;
            let reason = result.err().map(|error| error_chain(&error));
            report(&mut failed, (&binding.destination, &binding.source), reason);
        }
        if !stop.pause(limits::LOOK_EVERY).await {
            return Ok(());
        }
    }
}

/// A failure is worth one line.
fn report(failed: &mut BTreeSet<String>, (queue, exchange): (&str, &str), reason: Option<String>) {
    match reason {
        None => {
            failed.remove(queue);
            telemetry::binding_moved(queue, exchange);
        }
        Some(reason) => {
            if failed.insert(queue.to_owned()) {
                telemetry::binding_not_moved(queue, exchange, &reason);
            }
        }
    }
}
