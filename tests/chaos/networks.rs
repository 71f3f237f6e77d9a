//! The networks of a container, and partitions: one that is taken off a network loses every packet there, and its processes go on.
//!
//! A node of a cluster has one network for its clients and one for each other node (`docker/cluster`), so that a single link can be
//! cut; every other container has one.

use crate::containers::docker;

/// Project, node of a cluster if it is one, and the networks that it is on.
const SEEN: &str = r#"{{index .Config.Labels "com.docker.compose.project"}};{{index .Config.Labels "overdue.node"}};{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"#;
/// `rabbit1` to `rabbit3`.
const NODES: usize = 3;

/// Of one container.
pub struct Networks {
    container: String,
    /// Its number, and what the other nodes call it.
    node: Option<(usize, String)>,
    project: String,
    connected: Vec<String>,
}

impl Networks {
    /// As they are at the moment.
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

    /// Its clients lose it; the other nodes do not.
    pub async fn cut_off_from_clients(&self) {
        self.disconnect(&[self.clients()]).await;
    }

    /// No other node sees it; its clients still reach it.
    pub async fn cut_off_from_nodes(&self) {
        self.disconnect(&self.links()).await;
    }

    /// One other node does not see it; the third sees both.
    pub async fn cut_one_link(&self) {
        self.disconnect(&self.links()[..1]).await;
    }

    /// Brings it back to whatever it was taken off.
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

    /// The one to the next node first.
    fn links(&self) -> Vec<String> {
        let Some((number, _)) = self.node else { return Vec::new() };
        let others = (0..NODES - 1).map(|step| (number + step) % NODES + 1);
        let link = |other: usize| {
            format!("{}_link{}{}", self.project, number.min(other), number.max(other))
        };
        others.map(link).collect()
    }
}
