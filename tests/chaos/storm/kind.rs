//! The kinds of faults.

use std::{fmt, ops::RangeInclusive};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SIGKILL; another one is started.
    WorkerKilled,
    /// SIGKILL to every worker at once.
    WorkersKilled,
    /// SIGSTOP, later SIGCONT.
    WorkerStopped,
    /// SIGTERM; another one is started when it has ended.
    WorkerTerminated,
    /// SIGTERM and a new start.
    BrokerRestarted,
    /// SIGKILL, later a new start.
    BrokerKilled,
    /// Every process of it stands still, and the network goes on accepting.
    BrokerFrozen,
    /// Through the management API.
    BrokerConnectionsClosed,
    /// Publishers are blocked.
    MemoryAlarm,
    /// The workers' user may do nothing; its connections are closed, or it would not notice.
    BrokerRightsWithdrawn,
    /// A fast shutdown and a new start.
    DatabaseRestarted,
    /// SIGKILL, later a new start.
    DatabaseKilled,
    /// Every process of it stands still.
    DatabaseFrozen,
    /// `pg_terminate_backend`.
    DatabaseConnectionsClosed,
    /// New transactions are read-only; sessions are ended, like at a failover.
    DatabaseReadOnly,
    /// The workers' role may touch no table.
    DatabaseRightsWithdrawn,
    /// Somebody's open transaction holds the stock that half of the orders share.
    StockLocked,
    /// Somebody's open transaction holds orders that come due.
    OrdersLocked,
    /// Bodies that are not due notices, and routing keys that lead nowhere.
    Garbage,
    /// Notices of orders that do not exist.
    Ghosts,
    /// Notices long before the deadline.
    Early,
    /// Copies of notices.
    Duplicates,
    /// Headers and properties that only the broker or the worker may set.
    Forged,
    /// A node loses sight of the others, while its clients still reach it.
    NodeCutOff,
    /// Every quorum queue gets another leader.
    LeadersMoved,
}

/// What a fault acts on: two at once act on different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Workers,
    Broker,
    Database,
    Messages,
}

impl Kind {
    /// Those that one broker is enough for.
    pub const ALL: [Self; 23] = [
        Self::WorkerKilled,
        Self::WorkersKilled,
        Self::WorkerStopped,
        Self::WorkerTerminated,
        Self::BrokerRestarted,
        Self::BrokerKilled,
        Self::BrokerFrozen,
        Self::BrokerConnectionsClosed,
        Self::MemoryAlarm,
        Self::BrokerRightsWithdrawn,
        Self::DatabaseRestarted,
        Self::DatabaseKilled,
        Self::DatabaseFrozen,
        Self::DatabaseConnectionsClosed,
        Self::DatabaseReadOnly,
        Self::DatabaseRightsWithdrawn,
        Self::StockLocked,
        Self::OrdersLocked,
        Self::Garbage,
        Self::Ghosts,
        Self::Early,
        Self::Duplicates,
        Self::Forged,
    ];
    /// Those that need several nodes.
    pub const OF_A_CLUSTER: [Self; 2] = [Self::NodeCutOff, Self::LeadersMoved];

    /// What it acts on.
    pub const fn place(self) -> Place {
        match self {
            Self::WorkerKilled
            | Self::WorkersKilled
            | Self::WorkerStopped
            | Self::WorkerTerminated => Place::Workers,
            Self::BrokerRestarted
            | Self::BrokerKilled
            | Self::BrokerFrozen
            | Self::BrokerConnectionsClosed
            | Self::MemoryAlarm
            | Self::BrokerRightsWithdrawn
            | Self::NodeCutOff
            | Self::LeadersMoved => Place::Broker,
            Self::DatabaseRestarted
            | Self::DatabaseKilled
            | Self::DatabaseFrozen
            | Self::DatabaseConnectionsClosed
            | Self::DatabaseReadOnly
            | Self::DatabaseRightsWithdrawn
            | Self::StockLocked
            | Self::OrdersLocked => Place::Database,
            Self::Garbage | Self::Ghosts | Self::Early | Self::Duplicates | Self::Forged => {
                Place::Messages
            }
        }
    }

    /// How long it lasts, in ms; what is over at once has 0.
    pub const fn hold_ms(self) -> RangeInclusive<u64> {
        match self {
            Self::WorkerStopped
            | Self::BrokerKilled
            | Self::DatabaseKilled
            | Self::MemoryAlarm
            | Self::BrokerRightsWithdrawn
            | Self::DatabaseReadOnly
            | Self::DatabaseRightsWithdrawn => 1_000..=6_000,
            Self::BrokerFrozen | Self::DatabaseFrozen | Self::NodeCutOff => 2_000..=9_000,
            Self::StockLocked | Self::OrdersLocked => 2_000..=8_000,
            _ => 0..=0,
        }
    }

    /// How many of them, for what is counted: messages, or orders held.
    pub const fn size(self) -> RangeInclusive<usize> {
        match self {
            Self::OrdersLocked => 5..=20,
            Self::Garbage | Self::Ghosts | Self::Forged => 20..=60,
            Self::Early | Self::Duplicates => 50..=200,
            _ => 1..=1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerKilled => "worker killed",
            Self::WorkersKilled => "all workers killed",
            Self::WorkerStopped => "worker stopped and continued",
            Self::WorkerTerminated => "worker terminated",
            Self::BrokerRestarted => "broker restarted",
            Self::BrokerKilled => "broker killed",
            Self::BrokerFrozen => "broker frozen",
            Self::BrokerConnectionsClosed => "AMQP connections closed",
            Self::MemoryAlarm => "memory alarm",
            Self::BrokerRightsWithdrawn => "broker rights withdrawn",
            Self::DatabaseRestarted => "database restarted",
            Self::DatabaseKilled => "database killed",
            Self::DatabaseFrozen => "database frozen",
            Self::DatabaseConnectionsClosed => "database connections closed",
            Self::DatabaseReadOnly => "database read-only",
            Self::DatabaseRightsWithdrawn => "database rights withdrawn",
            Self::StockLocked => "hot stock locked",
            Self::OrdersLocked => "orders locked",
            Self::Garbage => "garbage",
            Self::Ghosts => "ghosts",
            Self::Early => "early notices",
            Self::Duplicates => "duplicated notices",
            Self::Forged => "forged notices",
            Self::NodeCutOff => "node partitioned",
            Self::LeadersMoved => "leaders moved",
        })
    }
}
