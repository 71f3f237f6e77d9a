//! Moves the bindings of consumers from the old exchange to the exchange that due messages are published to.
//!
//! A consumer binds its queue when it starts, and through the old exchange it would get messages early. Therefore the worker
//! makes each such binding at the new exchange and removes the old one, within about a second.

use std::{collections::BTreeSet, sync::Arc};

use super::super::{context::Worker, limits, session::SessionEnd};
use crate::{shutdown::Stop, telemetry, text::error_chain};

/// Lists bindings until a stop is requested. If the management API or the permissions are missing, the log and
/// `overdue verify` report it.
pub(in crate::worker) async fn rebind(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let (Some(management), true) = (&worker.management, worker.topology.compat.is_some()) else {
        return Ok(());
    };
    let mut failed: BTreeSet<String> = BTreeSet::new();
    loop {
        // The session's own connection shows whether the broker is there.
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

/// Logs each failure once.
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
