//! The topology as a picture: the model and Mermaid. Pure: the same topology gives the same bytes.

mod live;
pub(crate) mod mermaid;
mod model;

use std::fmt;

pub use live::Live;

/// Nodes, groups and edges, without coordinates and colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The topology's name.
    pub name: String,
    /// The topology in one line.
    pub summary: String,
    /// Queues and exchanges, each once, in the direction of the messages.
    pub nodes: Vec<Node>,
    /// Nodes in a common frame, whose edges differ only by the key.
    pub groups: Vec<Group>,
    /// Routes of messages.
    pub edges: Vec<Edge>,
    /// Whether the nodes have counts.
    pub live: bool,
}

/// A queue, an exchange or a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// A letter followed by letters, digits and underscores, which every format accepts; unique.
    pub id: String,
    /// Kind of the node.
    pub kind: Kind,
    /// Name on the broker, if the node is an object of the broker.
    pub name: String,
    /// Lines of phrases about the node.
    pub details: Vec<Vec<String>>,
    /// Messages in the node; `None` without counts.
    pub messages: Option<Count>,
    /// Whether the queue is retired: it drains, and nothing is routed to it.
    pub retired: bool,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Order services.
    Publisher,
    /// An exchange.
    Exchange,
    /// A delay queue.
    Delay,
    /// A business queue.
    Business,
    /// The parking lot.
    Parked,
    /// The worker.
    Worker,
    /// PostgreSQL.
    Database,
}

impl Kind {
    /// Class of the node in drawings.
    const fn class(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Exchange => "exchange",
            Self::Delay => "delay",
            Self::Business => "business",
            Self::Parked => "parked",
            Self::Worker => "worker",
            Self::Database => "database",
        }
    }
}

/// Messages in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// The queue does not exist on the broker.
    #[default]
    Absent,
    /// The broker does not report a count.
    Unknown,
    /// Count that the broker reported, up to ten seconds old.
    Messages(u64),
}

impl Count {
    /// Adds the known counts.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Messages(one), Self::Messages(other)) => {
                Self::Messages(one.saturating_add(other))
            }
            (Self::Messages(known), _) | (_, Self::Messages(known)) => Self::Messages(known),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Absent, Self::Absent) => Self::Absent,
        }
    }
}

impl fmt::Display for Count {
    /// Writes commas between the thousands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("not there"),
            Self::Unknown => f.write_str("?"),
            Self::Messages(count) => {
                let digits = count.to_string();
                for (at, digit) in digits.chars().enumerate() {
                    if at > 0 && (digits.len() - at).is_multiple_of(3) {
                        f.write_str(",")?;
                    }
                    write!(f, "{digit}")?;
                }
                Ok(())
            }
        }
    }
}

/// Nodes in one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Unique among nodes and groups.
    pub id: String,
    /// Common name of the nodes.
    pub title: String,
    /// Arguments of the nodes.
    pub details: String,
    /// Ids of the nodes, never empty.
    pub nodes: Vec<String>,
}

/// A route of messages from a node or group to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Id of a node or group.
    pub from: String,
    /// Id of a node or group.
    pub to: String,
    /// The routing keys on this route, or a description of its messages.
    pub label: String,
    /// Why messages take the route.
    pub flow: Flow,
}

/// Why a message takes a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// The usual route.
    Onward,
    /// No binding matches the routing key: alternate exchange.
    Unroutable,
    /// The message is parked.
    Parked,
    /// The message is retried, or came too early.
    Again,
    /// The message is an event.
    Event,
}

impl Node {
    /// All text of the node, line by line, for formats that place text themselves.
    fn lines(&self) -> Vec<String> {
        let ttl = if self.kind == Kind::Delay && !self.retired { "TTL " } else { "" };
        let details = self.details.iter().map(|line| format!("{ttl}{}", line.join(" · ")));
        let count = self.messages.map(|count| format!("messages: {count}"));
        std::iter::once(self.name.clone()).chain(details).chain(count).collect()
    }
}

impl Graph {
    /// The node called `id`.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The group called `id`.
    pub fn group(&self, id: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// The group that has the node called `id`.
    pub fn group_of(&self, id: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.nodes.iter().any(|node| node == id))
    }
}
