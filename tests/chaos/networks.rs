//! The networks of a container, and partitions. A container that is taken off a network loses every packet there, and its processes run on.
//!
//! A node of a cluster has one network for its clients and one for each other node (`docker/cluster`): a single link can be
//! cut. Every other container has one.

use crate::containers::docker;

/// Prints the project, the node of the cluster (or nothing), and the networks of a container.
const SEEN: &str = r#"{{index .Config.Labels "com.docker.compose.project"}};{{index .Config.Labels "overdue.node"}};{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"#;
/// `rabbit1` to `rabbit3`.
const NODES: usize = 3;

/// The networks of one container.
pub struct Networks {
    container: String,
    /// The node's number, and its name for the other nodes.
    node: Option<(usize, String)>,
    project: String,
    connected: Vec<String>,
}

impl Networks {
    /// Reads the current networks of a container.
    pub async fn of(container: &str) -> Self {
        let seen = docker(&["inspect", "--format", SEEN, container]).await.unwrap();
        let [project, name, connected] = seen.split(';').collect::<Vec<_>>()[..] else {
            panic!("docker inspect: {seen}")
        };
        let number = name.strip_prefix("rabbit").and_then(|number| number.parse().ok());
        Self {
            container: container.to_owned(),
            node: number.map(|number| (number, name.to_owned())),
            project: project.to_owned(),
            connected: connected.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Disconnects the container from its clients, not from the other nodes.
    pub async fn cut_off_from_clients(&self) {
        self.disconnect(&[self.clients()]).await;
    }

    /// Disconnects the node from all other nodes, not from its clients.
    pub async fn cut_off_from_nodes(&self) {
        self.disconnect(&self.links()).await;
    }

    /// Cuts the link to one other node; the third node sees both.
    pub async fn cut_one_link(&self) {
        self.disconnect(&self.links()[..1]).await;
    }

    /// Connects the container to all its networks again.
    pub async fn join(&self) {
        for network in self.links().iter().chain([&self.clients()]) {
            if self.connected.contains(network) {
                continue;
            }
            let mut command = vec!["network", "connect"];
            if let Some((_, name)) = &self.node {
                command.extend(["--alias", name]);
            }
            command.extend([network, self.container.as_str()]);
            docker(&command).await.unwrap();
        }
    }

    async fn disconnect(&self, networks: &[String]) {
        for network in networks {
            docker(&["network", "disconnect", network, &self.container]).await.unwrap();
        }
    }

    fn clients(&self) -> String {
        format!("{}_default", self.project)
    }

    /// The link to the next node is the first.
    fn links(&self) -> Vec<String> {
        let Some((number, _)) = self.node else { return Vec::new() };
        let others = (0..NODES - 1).map(|step| (number + step) % NODES + 1);
        let link = |other: usize| {
            format!("{}_link{}{}", self.project, number.min(other), number.max(other))
        };
        others.map(link).collect()
    }
}
