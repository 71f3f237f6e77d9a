//! Taking a whole topology away, messages and all: only for one that was temporary from the start.

use std::time::{Duration, Instant};

use super::{Management, ManagementError};

/// Until the broker has noticed that a connection is gone.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection that was closed is gone by then.
const PATIENCE: Duration = Duration::from_secs(30);

impl Management {
    /// Deletes every exchange and queue of the virtual host whose name begins with `<topology>.`. While somebody is
    /// changing this topology it waits, for half a minute at the most.
    ///
    /// # Errors
    /// See [`ManagementError`]; what was deleted before is gone, and it can be called again.
    pub(crate) async fn remove_topology(&self, topology: &str) -> Result<(), ManagementError> {
        let prefix = format!("{topology}.");
        let vhost = self.virtual_host();
        let began = Instant::now();
        loop {
            let objects = self.observe().await?.objects;
            let ours = |name: &&String| name.starts_with(&prefix);
            let exchanges: Vec<&String> = objects.exchanges.keys().filter(ours).collect();
            let queues: Vec<&String> = objects.queues.keys().filter(ours).collect();
            // Looks again after each round: the broker may still have been busy with a call that was given up.
            if exchanges.is_empty() && queues.is_empty() {
                return Ok(());
            }
            // Exchanges first, so that nothing more comes into the queues.
            for name in exchanges {
                let deleted =
                    self.call(|client| Box::pin(client.delete_exchange(vhost, name, true))).await;
                deleted.map_err(|error| self.explain(&format!("delete exchange {name}"), error))?;
            }
            for name in queues {
                if objects.queues[name].exclusive {
                    // Only its connection may delete it, and it goes with that: the lock of a change that was given up.
                    if began.elapsed() > PATIENCE {
                        return Err(ManagementError::Refused {
                            address: self.address.management_display(),
                            step: format!("delete queue {name}"),
                            reason: "another connection still holds it exclusively".to_owned(),
                        });
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                let deleted =
                    self.call(|client| Box::pin(client.delete_queue(vhost, name, true))).await;
                deleted.map_err(|error| self.explain(&format!("delete queue {name}"), error))?;
            }
        }
    }
}
