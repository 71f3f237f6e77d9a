//! What waits in the queues, and what policies make of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Management, ManagementError,
    management::{Named, Nodes, Overview, reading},
};
pub(crate) use crate::plan::snapshot::QueueStats;
use crate::{
    messaging::large_bodies::OUR_TAGS,
    objects::{Exchange, mark::mark},
    plan::{
        counts::CountReport,
        own_queues::queues_of,
        snapshot::{Policy, Snapshot, settings},
    },
    topology::{Topology, strategy::DELAYED_EXCHANGE_TYPE},
};

const COLUMNS: &str = "name,type,messages,messages_ready,messages_unacknowledged,messages_dlx,\
                       messages_delayed,next_delayed_at,last_delayed_at,\
                       message_bytes,consumers,policy,operator_policy,effective_policy_definition,\
                       message_stats.publish_details.rate,message_stats.ack_details.rate";

/// The largest page size that the management API accepts (`rabbit_mgmt_util`, `MAX_PAGE_SIZE`).
const PAGE_SIZE: &str = "500";

#[derive(Deserialize)]
struct Consumed {
    /// Missing where the broker takes no statistics.
    consumer_details: Option<Vec<ConsumerDetails>>,
}

#[derive(Deserialize)]
struct ConsumerDetails {
    consumer_tag: String,
}

#[derive(Deserialize)]
struct Bound {
    destination: String,
    routing_key: String,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    page_count: u32,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(rename = "type")]
    kind: Option<String>,
    leader: Option<String>,
    reductions: Option<u64>,
}

#[derive(Deserialize)]
struct Delayed {
    name: String,
    /// Only the delayed message plugin has it.
    messages_delayed: Option<u64>,
}

/// What the plugin holds for one exchange on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DelayedOnNode {
    /// The node.
    pub node: String,
    /// Messages; `None` where that node was not asked, or does not say.
    pub messages: Option<u64>,
}

#[derive(Deserialize)]
struct Held {
    messages_delayed: Option<u64>,
}

/// What applies to a queue, read from the broker's own tables, not from its statistics.
#[derive(Debug, Deserialize)]
struct Applied {
    name: String,
    policy: Option<String>,
    operator_policy: Option<String>,
    /// 4.0 has no policies in this answer.
    effective_policy_definition: Option<Value>,
}

impl Management {
    /// What the delayed message plugin holds in each of its exchanges. Empty on a cluster, where each node counts its own
    /// and this API asks one of them, and where this user may not list the nodes (tag `monitoring`).
    pub(super) async fn delayed(
        &self,
        exchanges: &[Exchange],
    ) -> Result<BTreeMap<String, u64>, ManagementError> {
        if !exchanges.iter().any(|exchange| exchange.kind == DELAYED_EXCHANGE_TYPE) {
            return Ok(BTreeMap::new());
        }
        let nodes = self.get::<Vec<Named>>(&["nodes"], &[("columns", "name")]).await;
        if nodes.map_or(0, |nodes| nodes.len()) != 1 {
            return Ok(BTreeMap::new());
        }
        let query = [("columns", "name,messages_delayed")];
        let exchanges: Vec<Delayed> = self.get(&["exchanges", self.virtual_host()], &query).await?;
        let counted = exchanges.into_iter().filter_map(|it| Some((it.name, it.messages_delayed?)));
        Ok(counted.collect())
    }

    /// The names of the queues below the prefix of `topology`, without asking for any statistics; changes nothing.
    pub async fn queue_names(&self, topology: &str) -> Result<BTreeSet<String>, ManagementError> {
        let query = [("disable_stats", "true"), ("columns", "name")];
        let queues: Vec<Named> = self.queues_below(topology, &query).await?;
        Ok(queues.into_iter().map(|queue| queue.name).collect())
    }

    /// The numbers of the queues below the prefix of `topology`, by name; changes nothing.
    pub async fn queue_stats_of(
        &self,
        topology: &str,
    ) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        let queues = self.queues_below(topology, &[("columns", COLUMNS)]).await?;
        Ok(by_name(queues))
    }

    /// The broker chooses: workers ask every few seconds, and a virtual host may have ten thousand queues of others.
    async fn queues_below<T: DeserializeOwned>(
        &self,
        topology: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, ManagementError> {
        let name = format!("^{}\\.", topology.replace('.', "\\."));
        self.pages(&[query, &[("name", &*name), ("use_regex", "true")]].concat()).await
    }

    /// Queues page by page: the broker looks up the numbers of a page, and not of all that there are, which may take longer
    /// than a call may. One that moves to another page while others are deleted may be missing.
    async fn pages<T: DeserializeOwned>(
        &self,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, ManagementError> {
        let path = ["queues", self.virtual_host()];
        let (mut found, mut number) = (Vec::new(), 1);
        loop {
            let page = number.to_string();
            let query = [query, &[("page", &*page), ("page_size", PAGE_SIZE)]].concat();
            let page: Page<T> = match self.ask(&path, &query).await {
                // So many were deleted meanwhile that there is no such page any more.
                Err(error) if number > 1 && error.is(400) => return Ok(found),
                page => page.map_err(|error| self.explain(&reading(&path), error))?,
            };
            found.extend(page.items);
            if number >= page.page_count {
                return Ok(found);
            }
            number += 1;
        }
    }

    /// Counts who else consumes from the queues of `topology`: nobody but workers should.
    pub(crate) async fn add_foreign_consumers(
        &self,
        topology: &Topology,
        observed: &mut Snapshot,
        stats: &BTreeMap<String, QueueStats>,
    ) -> Result<(), ManagementError> {
        let is_consumed =
            |queue: &String| stats.get(queue).is_some_and(|it| it.consumers.unwrap_or(0) > 0);
        for queue in queues_of(topology, &observed.objects).into_iter().filter(is_consumed) {
            let consumers = self.foreign_consumers(&queue).await?;
            if consumers > 0 {
                observed.foreign_consumers.insert(queue, consumers);
            }
        }
        Ok(())
    }

    /// How many consumers of `queue` are not workers of ours; none where there is no such queue.
    ///
    /// The list of all consumers shows a user without the tag `monitoring` only its own; this shows all.
    /// What is not known is an error, and not taken for none: the queue may be deleted for it.
    pub(super) async fn foreign_consumers(&self, queue: &str) -> Result<u64, ManagementError> {
        let path = ["queues", self.virtual_host(), queue];
        let found: Option<Consumed> = self.find(&path, &[("columns", "consumer_details")]).await?;
        let Some(Consumed { consumer_details }) = found else { return Ok(0) };
        let consumers = consumer_details.ok_or_else(|| self.no_consumers_listed(queue))?;
        let foreign = consumers.iter().filter(|it| !OUR_TAGS.contains(&it.consumer_tag.as_str()));
        Ok(u64::try_from(foreign.count()).unwrap_or(u64::MAX))
    }

    fn no_consumers_listed(&self, queue: &str) -> ManagementError {
        ManagementError::Refused {
            address: self.displayed().to_owned(),
            step: format!("list the consumers of {queue}"),
            reason: "its answer does not say; are its statistics on (management_agent.disable_metrics_collector)?"
                .to_owned(),
        }
    }

    /// The queues that have the mark of `topology`; `None` where its exchange of marks is not there.
    pub async fn marked_queues(
        &self,
        topology: &Topology,
    ) -> Result<Option<BTreeSet<String>>, ManagementError> {
        let exchange = topology.mark_exchange();
        let path = ["exchanges", self.virtual_host(), &exchange, "bindings", "source"];
        let bindings: Option<Vec<Bound>> = self.find(&path, &[]).await?;
        let is_mark = |it: &Bound| {
            mark(&topology.name, &it.destination)
                .is_some_and(|mark| mark.routing_key == it.routing_key)
        };
        let marked = |bindings: Vec<Bound>| {
            bindings.into_iter().filter(is_mark).map(|it| it.destination).collect()
        };
        Ok(bindings.map(marked))
    }

    /// The numbers of every queue of the virtual host, by name; changes nothing.
    pub async fn queue_stats(&self) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        Ok(by_name(self.pages(&[("columns", COLUMNS)]).await?))
    }

    /// The numbers of one queue, from no cache; changes nothing.
    pub(crate) async fn stats_of(
        &self,
        queue: &str,
    ) -> Result<Option<QueueStats>, ManagementError> {
        self.find(&["queues", self.virtual_host(), queue], &[("columns", COLUMNS)]).await
    }

    /// Which report its counts come from, of a quorum queue; `None` for another one, and where there is no report yet.
    ///
    /// Asks for this queue alone, because the broker answers for a list of them from a cache.
    pub(crate) async fn count_report(
        &self,
        queue: &str,
    ) -> Result<Option<CountReport>, ManagementError> {
        let columns = [("columns", "type,leader,reductions")];
        let reported: Option<Reported> =
            self.find(&["queues", self.virtual_host(), queue], &columns).await?;
        let Some(Reported { kind, leader, reductions }) = reported else { return Ok(None) };
        // A classic queue does not report while nothing happens in it.
        if kind.as_deref() != Some("quorum") {
            return Ok(None);
        }
        Ok(leader.zip(reductions).map(|(leader, reductions)| CountReport { leader, reductions }))
    }

    /// What the plugin holds for `exchange` on each node of the cluster. Only nodes whose management API is among the
    /// URLs can be asked.
    ///
    /// Permission needed: the tag `monitoring`, to list the nodes.
    pub async fn delayed_on_each_node(
        &self,
        exchange: &str,
    ) -> Result<Vec<DelayedOnNode>, ManagementError> {
        let nodes: Vec<Named> = self.get(&["nodes"], &[("columns", "name")]).await?;
        let mut counted = Vec::new();
        for node in self.nodes.each() {
            counted.extend(self.held_by(&node, exchange).await);
        }
        let on_node = |Named { name: node }| {
            let messages = counted.iter().find(|(name, _)| *name == node);
            DelayedOnNode { messages: messages.and_then(|(_, messages)| *messages), node }
        };
        Ok(nodes.into_iter().map(on_node).collect())
    }

    /// The name of a node and what it holds; none where it does not answer.
    async fn held_by(&self, node: &Nodes, exchange: &str) -> Option<(String, Option<u64>)> {
        let overview: Overview = node.ask(&["overview"], &Overview::QUERY).await.ok()?;
        let held: Option<Held> =
            node.ask(&["exchanges", self.virtual_host(), exchange], &[]).await.ok();
        Some((overview.node?, held.and_then(|held| held.messages_delayed)))
    }

    /// How many queues the virtual host takes; `None` without a limit, and where this user may not see it.
    pub(super) async fn queue_limit(&self) -> Result<Option<u64>, ManagementError> {
        #[derive(Deserialize)]
        struct Limits {
            vhost: String,
            value: BTreeMap<String, i64>,
        }
        let path = ["vhost-limits", self.virtual_host()];
        let limits: Vec<Limits> = match self.ask(&path, &[]).await {
            Err(error) if error.is(401) || error.is(403) || error.is(404) => return Ok(None),
            limits => limits.map_err(|error| self.explain(&reading(&path), error))?,
        };
        let ours = limits.into_iter().filter(|it| it.vhost == self.virtual_host());
        // A negative one is none.
        let limit = ours.filter_map(|it| it.value.get("max-queues").copied());
        Ok(limit.filter_map(|limit| u64::try_from(limit).ok()).min())
    }

    /// The policies of the virtual host. Needs no more than the `management` tag; changes nothing.
    pub async fn policies(&self) -> Result<Vec<Policy>, ManagementError> {
        self.get(&["policies", self.virtual_host()], &[]).await
    }

    /// The operator policies of the virtual host; none where this user may not see them.
    pub(super) async fn operator_policies(&self) -> Result<Vec<Policy>, ManagementError> {
        let path = ["operator-policies", self.virtual_host()];
        match self.ask(&path, &[]).await {
            Err(error) if error.is(401) || error.is(403) || error.is(404) => Ok(Vec::new()),
            policies => policies.map_err(|error| self.explain(&reading(&path), error)),
        }
    }

    /// [`Management::queue_stats`] with the policies that apply at this moment, where the broker says so: the
    /// statistics have those of five seconds ago, and RabbitMQ 4.0 has no others.
    pub async fn stats_and_policies(
        &self,
    ) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        // Without statistics the answer is made from the broker's tables.
        let query = [
            ("disable_stats", "true"),
            ("columns", "name,policy,operator_policy,effective_policy_definition"),
        ];
        let applied: Vec<Applied> = self.get(&["queues", self.virtual_host()], &query).await?;
        let mut stats = self.queue_stats().await?;
        for Applied { name, policy, operator_policy, effective_policy_definition } in applied {
            let Some(definition) = effective_policy_definition else { continue };
            let queue = stats.entry(name.clone()).or_default();
            queue.name = name;
            queue.policy = policy;
            queue.operator_policy = operator_policy;
            queue.effective_policy_definition = settings(definition);
        }
        Ok(stats)
    }
}

fn by_name(queues: Vec<QueueStats>) -> BTreeMap<String, QueueStats> {
    queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect()
}
