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

impl Overview {
    fn has(&self, kind: &str) -> bool {
        self.exchange_types.iter().any(|known| known.name == kind)
    }
}

impl Management {
    async fn exchange_types(&self) -> Result<Overview, ManagementError> {
        self.get(&["overview"], &[("columns", "rabbitmq_version,exchange_types")]).await
    }

    /// Fails where the topology needs an exchange type of a plugin that the broker does not have.
    ///
    /// # Errors
    /// [`ManagementError::NoExchangeType`], or the broker cannot be asked.
    pub(crate) async fn has_exchange_types(
        &self,
        topology: &Topology,
    ) -> Result<(), ManagementError> {
        let Some(needed) = topology.strategy.needs_exchange_type() else { return Ok(()) };
        let overview = self.exchange_types().await?;
        if overview.has(needed) {
            return Ok(());
        }
        let version = overview.rabbitmq_version;
        let cannot = version.parse().is_ok_and(|it: BrokerVersion| it.series() >= CANNOT.series());
        let fix = if cannot {
            "that plugin was archived in January 2026 and cannot run on RabbitMQ 4.3 and later: write strategy = \
             \"levels\" with the delays that are needed, or \"ladder\" for any delay, which need no plugin \
             (docs/leaving-the-delayed-message-plugin.md)"
        } else {
            "enable that plugin (rabbitmq-plugins/README.md), or write strategy = \"levels\" with the delays that are \
             needed, or \"ladder\" for any delay, which need no plugin (docs/topology.md)"
        };
        Err(ManagementError::NoExchangeType {
            broker: format!("RabbitMQ {version} at {}", self.displayed()),
            kind: needed,
            strategy: topology.strategy.as_str(),
            fix,
        })
    }
}
