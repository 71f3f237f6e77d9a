//! Which quorum queues have a leader. Their members say so: the broker's tables name a leader and the state `running` also of a
//! queue whose processes have ended.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, stream};
use serde::Deserialize;

use super::{
    Management, ManagementError,
    management::{Named, reading},
};
use crate::{topology::check::BrokerVersion, verify::held_back::MemberState};

/// Between two looks at the members.
const ELECTION: Duration = Duration::from_secs(2);
/// Each question goes on to every member of its queue.
const AT_ONCE: usize = 8;

/// What a node says of its copy of a quorum queue.
#[derive(Deserialize)]
struct Member {
    #[serde(rename = "Node Name")]
    node: String,
    #[serde(rename = "Raft State")]
    state: String,
}

impl Member {
    fn leads(&self) -> bool {
        self.state == "leader"
    }
}

/// The answer of the health check.
#[derive(Deserialize)]
struct Checked {
    /// Missing where all have a leader.
    #[serde(default)]
    queues: Vec<Named>,
}

impl Management {
    /// The quorum queues of `topology` that none of their members leads, and what becomes of the members; empty on RabbitMQ
    /// 4.0, which has no such check, and where one before 4.3 refuses it. One call, and one more for each queue that is suspected:
    /// a node without a member of it does not know its leader.
    ///
    /// Permission needed: the `management` tag.
    pub async fn without_leader(
        &self,
        topology: &str,
    ) -> Result<BTreeMap<String, Vec<MemberState>>, ManagementError> {
        let vhost = self.virtual_host();
        // The broker's web server takes no path with a `^`, and the URL has it as it is.
        let pattern = format!("{}\\.", topology.replace('.', "\\."));
        let prefix = format!("{topology}.");
        let check = "quorum-queues-without-elected-leaders";
        let path = ["health", "checks", check, "vhost", vhost, "pattern", &pattern];
        let answer = self.ask::<Checked>(&path, &[]).await;
        let is_unknown = answer.as_ref().is_err_and(|failure| failure.is(404) || failure.is(400));
        if is_unknown && self.may_be_without_check().await? {
            return Ok(BTreeMap::new());
        }
        let checked = answer
            .or_else(|failure| failure.read(503))
            .map_err(|failure| self.explain(&reading(&path), failure))?;
        let ours = checked.queues.into_iter().filter(|queue| queue.name.starts_with(&prefix));
        let mut without = self.not_led(ours.map(|queue| queue.name).collect()).await;
        if !without.is_empty() {
            // An election takes a second or two.
            tokio::time::sleep(ELECTION).await;
            without = self.not_led(without.into_iter().map(|(name, _)| name).collect()).await;
        }
        let states = |members: Vec<Member>| {
            let members = members.into_iter();
            members.map(|Member { node, state }| MemberState { node, state }).collect()
        };
        Ok(without.into_iter().map(|(queue, members)| (queue, states(members))).collect())
    }

    /// 4.0 has no such check, and takes no path with an escaped slash or backslash. Whether 4.1 and 4.2 take one was not tried: a
    /// refusal of theirs is no reason for a warning with every `verify`. With a later broker it is a proxy that takes none, or
    /// the virtual host is hidden.
    async fn may_be_without_check(&self) -> Result<bool, ManagementError> {
        let version = self.overview().await?.rabbitmq_version;
        Ok(!version.parse().is_ok_and(|it: BrokerVersion| it.series() >= (4, 3)))
    }

    /// Of these queues those that no member leads, with the members.
    async fn not_led(&self, queues: Vec<String>) -> Vec<(String, Vec<Member>)> {
        let asked = stream::iter(queues).map(async |name| {
            let members = self.members(&name).await;
            (name, members)
        });
        let all: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        all.into_iter().filter(|(_, members)| !members.iter().any(Member::leads)).collect()
    }

    /// The members of a quorum queue; none where they are not known, and of a classic queue.
    async fn members(&self, queue: &str) -> Vec<Member> {
        let path = ["queues", "quorum", self.virtual_host(), queue, "status"];
        self.get(&path, &[]).await.unwrap_or_default()
    }
}
