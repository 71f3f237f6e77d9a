//! Bindings to the old name of an exchange that was taken over: what is bound there gets messages before their delay.

use rabbitmq_http_client::error::Error as ApiError;

use super::{Management, ManagementError, objects::binding_of};
use crate::{objects::Binding, plan::Change, topology::Topology};

impl Management {
    /// Bindings that somebody else has made to the exchange with the old name.
    ///
    /// # Errors
    /// See [`ManagementError`]. Where there is no such exchange there are no bindings.
    pub async fn early_bindings(
        &self,
        topology: &Topology,
    ) -> Result<Vec<Binding>, ManagementError> {
        let Some(compat) = &topology.compat else { return Ok(Vec::new()) };
        let vhost = self.virtual_host();
        let bindings = self
            .call(|client| {
                Box::pin(client.list_exchange_bindings_with_source(vhost, &compat.exchange))
            })
            .await;
        match bindings {
            Ok(bindings) => {
                let bindings = bindings.into_iter().map(binding_of);
                Ok(bindings.filter(|it| topology.is_early(it)).collect())
            }
            Err(ApiError::NotFound) => Ok(Vec::new()),
            Err(error) => Err(self.explain("list the bindings of the old exchange", error)),
        }
    }

    /// Makes a binding where messages come out, and takes it away at the old name.
    ///
    /// # Errors
    /// See [`ManagementError`]; then it is at the old name still.
    pub async fn bind_when_due(
        &self,
        topology: &Topology,
        early: &Binding,
    ) -> Result<(), ManagementError> {
        let source = topology.compat_due_exchange();
        self.apply(&Change::Bind(Binding { source, ..early.clone() })).await?;
        self.apply(&Change::Unbind(early.clone())).await
    }
}
