//! Whether a broker has the exchange type that a topology needs.

use serde::Deserialize;

use super::{Management, ManagementError};
use crate::topology::{Topology, check::BrokerVersion};

/// The plugin's last release is for the series before.
const CANNOT: BrokerVersion = BrokerVersion::new(4, 3);

#[derive(Deserialize)]
struct Overview {
    rabbitmq_version: String,
    exchange_types: Vec<ExchangeType>,
}

#[derive(Deserialize)]
struct ExchangeType {
    name: String,
}

impl Management {
    /// Fails where the topology needs an exchange type of a plugin that the broker does not have.
    ///
    /// # Errors
    /// [`ManagementError::NoExchangeType`], or the broker cannot be asked.
    pub(super) async fn has_exchange_types(
        &self,
        topology: &Topology,
    ) -> Result<(), ManagementError> {
        let Some(needed) = topology.strategy.needs_exchange_type() else { return Ok(()) };
        let query = [("columns", "rabbitmq_version,exchange_types")];
        let overview: Overview = self.get(&["overview"], &query).await?;
        if overview.exchange_types.iter().any(|known| known.name == needed) {
            return Ok(());
        }
        let version = overview.rabbitmq_version;
        let cannot = version.parse().is_ok_and(|it: BrokerVersion| it.series() >= CANNOT.series());
        let fix = if cannot {
            "that plugin was archived in January 2026 and cannot run on RabbitMQ 4.3 and later: write strategy = \
             \"levels\" with the delays that are needed, it needs no plugin (docs/topology.md)"
        } else {
            "enable that plugin (rabbitmq-plugins/README.md), or write strategy = \"levels\" with the delays that are \
             needed, it needs no plugin (docs/topology.md)"
        };
        Err(ManagementError::NoExchangeType {
            broker: format!("RabbitMQ {version} at {}", self.displayed()),
            kind: needed,
            strategy: topology.strategy.as_str(),
            fix,
        })
    }
}
