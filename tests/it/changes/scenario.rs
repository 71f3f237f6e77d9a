//! The changes: each as two topologies, and what is published before, meanwhile and afterwards.

use overdue::internals::topology::{
    Topology,
    level::{Level, Ttl},
};

/// A change of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `after` and the levels change, and classic queues become quorum queues, in one plan.
    Combined,
    /// A level goes, and `after` names another one that was there.
    LevelRemoved,
    /// A level gets another TTL, so it is another level.
    LevelTtl,
    /// Every queue is replaced.
    ClassicToQuorum,
    /// Every queue is replaced, while quorum queues dead-letter at least once.
    QuorumToClassic,
    /// The business queues are replaced.
    DeliveryLimit,
    /// A timeout comes.
    TimeoutAdded,
    /// A timeout goes, while messages wait for it.
    TimeoutRemoved,
    /// Several queues take the place of one.
    Sharded,
    /// There are fewer of them.
    FewerShards,
    /// One takes their place.
    Unsharded,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Combined,
        Self::LevelRemoved,
        Self::LevelTtl,
        Self::ClassicToQuorum,
        Self::QuorumToClassic,
        Self::DeliveryLimit,
        Self::TimeoutAdded,
        Self::TimeoutRemoved,
        Self::Sharded,
        Self::FewerShards,
        Self::Unsharded,
    ];
}

/// A change that is made while messages wait.
pub struct Scenario {
    pub kind: Kind,
    /// The topology that the messages are published into.
    pub before: Topology,
    /// The topology that is applied while they wait.
    pub after: Topology,
    /// How the messages that wait are published.
    pub waiting: MessageRoute,
    /// How an order service publishes before it knows of the change.
    pub old: Vec<MessageRoute>,
    /// How it publishes when it knows.
    pub new: Vec<MessageRoute>,
}

/// How a message is published.
#[derive(Clone)]
pub struct MessageRoute {
    /// `<level>.<timeout>`.
    pub key: String,
    /// The TTL of the level.
    pub ttl: Ttl,
    /// Whether the topology still has level and timeout after the change; otherwise it is parked.
    pub stays: bool,
}

impl Scenario {
    /// The change of `kind`, in a topology called `name`. Messages wait in the first level; the second one is about half as
    /// long.
    pub fn new(kind: Kind, name: &str, [level, half]: [&str; 2]) -> Self {
        let plain = Draft {
            name,
            levels: vec![level],
            after: level,
            queue_type: "quorum",
            delivery_limit: 20,
            timeouts: &["unpaid"],
            shards: None,
        };
        let shorter = Draft { levels: vec![half], after: half, ..plain.clone() };
        let classic = Draft { queue_type: "classic", ..plain.clone() };
        let sharded = |shards| Draft { shards: Some(shards), ..plain.clone() };
        let [four, two_shards] = [sharded(4), sharded(2)];
        let two = Draft { timeouts: &["unpaid", "unshipped"], ..plain.clone() };
        let (before, after) = match kind {
            Kind::Combined => (classic, shorter),
            Kind::LevelRemoved => (Draft { levels: vec![half, level], ..plain }, shorter),
            Kind::LevelTtl => (plain, shorter),
            Kind::ClassicToQuorum => (classic, plain),
            Kind::QuorumToClassic => (plain, classic),
            Kind::DeliveryLimit => (plain.clone(), Draft { delivery_limit: 50, ..plain }),
            Kind::TimeoutAdded => (plain, two),
            Kind::Sharded => (plain, four),
            Kind::FewerShards => (four, two_shards),
            Kind::Unsharded => (four, plain),
            Kind::TimeoutRemoved => {
                let levels = vec!["100ms", level];
                (Draft { levels: levels.clone(), ..two }, Draft { levels, ..plain })
            }
        };
        Self::between(kind, before.topology(), after.topology())
    }

    fn between(kind: Kind, before: Topology, after: Topology) -> Self {
        let route = |level: &Level, timeout: &str| MessageRoute {
            key: format!("{}.{timeout}", level.name()),
            ttl: level.ttl(),
            stays: after.levels.contains(level) && after.timeout(timeout).is_some(),
        };
        let routes = |topology: &Topology| -> Vec<MessageRoute> {
            topology.timeouts.iter().map(|timeout| route(&timeout.after, &timeout.name)).collect()
        };
        let (old, new) = (routes(&before), routes(&after));
        // The first timeout is in both topologies.
        Self { kind, waiting: old[0].clone(), before, after, old, new }
    }

    /// The base names of every business queue, before or after.
    pub fn business_queues(&self) -> impl Iterator<Item = String> {
        [&self.before, &self.after].into_iter().flat_map(|topology| {
            topology.timeouts.iter().flat_map(|timeout| topology.business_queues(timeout))
        })
    }
}

/// What the topologies of the scenarios differ in.
#[derive(Clone)]
struct Draft<'a> {
    name: &'a str,
    levels: Vec<&'a str>,
    after: &'a str,
    queue_type: &'a str,
    delivery_limit: u32,
    timeouts: &'a [&'a str],
    shards: Option<u16>,
}

impl Draft<'_> {
    fn topology(self) -> Topology {
        let Self { name, levels, after, queue_type, delivery_limit, timeouts, shards } = self;
        let limit = if queue_type == "quorum" {
            format!("delivery_limit = {delivery_limit}")
        } else {
            String::new()
        };
        let shards = shards.map(|shards| format!("shards = {shards}\n")).unwrap_or_default();
        let timeout =
            |name: &&str| format!("[[timeout]]\nname = \"{name}\"\nafter = \"{after}\"\n{shards}");
        let timeouts: String = timeouts.iter().map(timeout).collect();
        let text = format!(
            "name = \"{name}\"\n[delay]\nlevels = {levels:?}\nlead = \"0s\"\n\
             [queues]\ntype = \"{queue_type}\"\n{limit}\n{timeouts}"
        );
        Topology::parse(&text).unwrap()
    }
}
