//! Bindings to the old name of an exchange that was taken over: what is bound there gets messages before their delay.

use super::{Management, ManagementError, objects::BindingInfo};
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
        let path = ["exchanges", self.virtual_host(), &compat.exchange, "bindings", "source"];
        let bindings: Option<Vec<BindingInfo>> = self.find(&path, &[]).await?;
        let bindings = bindings.into_iter().flatten().map(Binding::from);
        Ok(bindings.filter(|it| topology.is_early(it)).collect())
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
