//! What every node is asked for itself: the delayed message plugin counts per node.

use serde::{Deserialize, Serialize};

use super::{Management, nodes::Nodes};
use crate::administration::ManagementError;

/// What the plugin holds for one exchange on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DelayedOnNode {
    /// The node.
    pub node: String,
    /// Messages; `None` where that node was not asked, or does not say.
    pub messages: Option<u64>,
}

#[derive(Deserialize)]
struct Overview {
    node: String,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Held {
    messages_delayed: Option<u64>,
}

impl Management {
    /// What the plugin holds for `exchange` on each node of the cluster. Only nodes whose management API is among the
    /// URLs can be asked.
    ///
    /// Permission needed: the tag `monitoring`, to list the nodes.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn delayed_on_each_node(
        &self,
        exchange: &str,
    ) -> Result<Vec<DelayedOnNode>, ManagementError> {
        let nodes: Vec<Name> = self.get(&["nodes"], &[("columns", "name")]).await?;
        let mut counted = Vec::new();
        for node in self.nodes.each() {
            counted.extend(self.held_by(&node, exchange).await);
        }
        let on_node = |Name { name: node }| {
            let messages = counted.iter().find(|(name, _)| *name == node);
            DelayedOnNode { messages: messages.and_then(|(_, messages)| *messages), node }
        };
        Ok(nodes.into_iter().map(on_node).collect())
    }

    /// The name of a node and what it holds; none where it does not answer.
    async fn held_by(&self, node: &Nodes, exchange: &str) -> Option<(String, Option<u64>)> {
        let Overview { node: name } = node.ask(&["overview"], &[]).await.ok()?;
        let held: Option<Held> = node.ask(&["exchanges", &self.vhost, exchange], &[]).await.ok();
        Some((name, held.and_then(|held| held.messages_delayed)))
    }
}
