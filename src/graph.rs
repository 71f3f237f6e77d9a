//! The topology as a picture: what is drawn, and Mermaid. Pure: the same topology, the same bytes.

mod live;
pub(crate) mod mermaid;
mod model;

use std::fmt;

pub use live::Live;

/// What a picture shows, without places and colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The topology's name.
    pub name: String,
    /// What it is, in one line.
    pub summary: String,
    /// In the order in which messages pass them; each queue and exchange once.
    pub nodes: Vec<Node>,
    /// Nodes that are drawn in one frame, as their edges differ only by the key.
    pub groups: Vec<Group>,
    /// Ways of messages.
    pub edges: Vec<Edge>,
    /// Whether the nodes have counts.
    pub live: bool,
}

/// Something messages come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique, a letter followed by letters, digits and underscores: every format can have it.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// On the broker, where it is there.
    pub name: String,
    /// What is to be known of it: lines of phrases.
    pub details: Vec<Vec<String>>,
    /// What waits in it; `None` where nothing was counted.
    pub messages: Option<Count>,
    /// Out of use: nothing comes in, what waits comes out.
    pub retired: bool,
}

/// What a node is.
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
    /// What drawings call it.
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
    /// The queue is not on the broker.
    #[default]
    Absent,
    /// The broker does not say.
    Unknown,
    /// As the broker says, up to ten seconds ago.
    Messages(u64),
}

impl Count {
    /// Both together, as far as they are known.
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
    /// With commas between the thousands.
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
    /// What they are.
    pub title: String,
    /// How they work.
    pub details: String,
    /// Ids of its nodes, never empty.
    pub nodes: Vec<String>,
}

/// A way of messages from a node or group to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Id of a node or group.
    pub from: String,
    /// Id of a node or group.
    pub to: String,
    /// What takes this way.
    pub label: String,
    /// Why it takes it.
    pub flow: Flow,
}

/// Why a message takes a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// All is well.
    Onward,
    /// Nothing is bound for its routing key: alternate exchange.
    Unroutable,
    /// It was given up.
    Parked,
    /// It is tried again, or came too early.
    Again,
    /// It says what happened.
    Event,
}

impl Node {
    /// Everything written on it, line by line, for formats that place texts themselves.
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
