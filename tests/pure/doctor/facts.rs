//! Facts for the checks: a healthy system, and one where nothing answers.

use std::collections::BTreeMap;

use overdue::internals::{
    doctor::{
        AmqpConnection, ApiFacts, BrokerFacts, DatabaseFacts, EffectPlan, Encryption, ExposedFile,
        Facts, Horizon, MachineFacts, Outbox, Overview, Permission, ProbeError, Replicas,
        Scheduled, Schema, Server, Session, Skew, Sweep, Table, User,
    },
    obstacle::Attempt,
    plan::{QueueStats, Snapshot},
};

use crate::samples::two_timeouts;

/// A healthy system with one active worker.
pub(super) fn well() -> Facts {
    Facts {
        topology: Ok(two_timeouts()),
        connections: 16,
        dead_letter_slots: 1_000,
        broker: BrokerFacts {
            address: "amqps://mq.example:5671 virtual host `shop`".to_owned(),
            user: "overdue".to_owned(),
            virtual_host: "shop".to_owned(),
            tls: Encryption::Verified,
            loopback: false,
            connection: AmqpConnection::Open { answers: true },
            api: api(),
        },
        verified: Ok(Vec::new()),
        database: DatabaseFacts {
            address: "db.example:5432 database `shop`".to_owned(),
            loopback: false,
            session: Session::Open(server()),
            tables: Ok(["closures", "outbox", "outbox_refused"]
                .map(|name| table(name, true, &[]))
                .to_vec()),
            schemas: Ok(vec![schema(true, &[])]),
            outbox: Ok(Outbox::default()),
            scheduled: Ok(Scheduled::default()),
            effects: vec![("close".to_owned(), Ok(EffectPlan::default()))],
            sweeps: vec![("close".to_owned(), Ok(Sweep::Planned { scans: Vec::new() }))],
            attempts: vec![("close".to_owned(), Ok(Attempt { orders: 3, obstacle: None }))],
            horizon: Ok(Horizon::default()),
            clock: Ok(Skew { ahead_ms: 4, margin_ms: 2 }),
        },
        machine: MachineFacts {
            open_files: Ok(65_536),
            cores: 4,
            secret_files: 2,
            exposed_files: Vec::new(),
        },
        alerts: Vec::new(),
    }
}

/// The schema of the search path.
pub(super) fn schema(may_use: bool, creators: &[&str]) -> Schema {
    let creators = creators.iter().map(|&who| who.to_owned()).collect();
    Schema { name: "overdue".to_owned(), may_use, creators }
}

fn api() -> ApiFacts {
    let all = || ".*".to_owned();
    let queues = two_timeouts().objects().queues;
    let stats = queues.keys().map(|name| {
        let numbers = QueueStats {
            name: name.clone(),
            messages: Some(0),
            messages_dlx: Some(0),
            consumers: Some(u64::from(name.starts_with("orders.un"))),
            ..QueueStats::default()
        };
        (name.clone(), numbers)
    });
    let nodes = ["rabbit@a", "rabbit@b", "rabbit@c"].map(str::to_owned).to_vec();
    let replicas = queues.keys().zip(nodes.iter().cycle()).map(|(queue, leader)| Replicas {
        queue: queue.clone(),
        leader: Some(leader.clone()),
        members: nodes.clone(),
        online: nodes.clone(),
    });
    ApiFacts {
        user: "overdue".to_owned(),
        overview: Ok(Overview {
            version: "4.3.6".to_owned(),
            exchange_types: vec!["direct".to_owned(), "topic".to_owned()],
        }),
        feature_flags_off: Ok(Vec::new()),
        deprecated: Ok(Vec::new()),
        plugins: Ok(vec!["rabbitmq_management".to_owned(), "rabbitmq_prometheus".to_owned()]),
        alarms: Ok(Vec::new()),
        permissions: Ok(vec![Permission {
            user: "overdue".to_owned(),
            virtual_host: "shop".to_owned(),
            configure: all(),
            write: all(),
            read: all(),
        }]),
        nodes: Some(nodes.len()),
        replicas: Ok(replicas.collect()),
        observed: Ok(Snapshot::of(&two_timeouts())),
        stats: Ok(stats.collect::<BTreeMap<_, _>>()),
        clock: Ok(Skew { ahead_ms: -640, margin_ms: 1_001 }),
    }
}

/// A server without a finding.
pub(super) fn server() -> Server {
    Server {
        user: User::Other("overdue".to_owned()),
        version_num: 180_006,
        tls: Encryption::Verified,
        standby: false,
        read_only: false,
        max_connections: 100,
        reserved: 3,
        used: 17,
        commit_timestamps: false,
        lock_timeout_ms: 50,
        behind_pooler: None,
    }
}

/// A table of ours.
pub(super) fn table(name: &str, exists: bool, lacks: &[&str]) -> Table {
    let lacks = lacks.iter().map(|right| (*right).to_owned()).collect();
    Table { name: name.to_owned(), exists, lacks }
}

/// A system without topology, broker and database.
pub(super) fn silent() -> Facts {
    let gap = |reason: &str| ProbeError::new(reason, "start it");
    let mut facts = well();
    facts.topology = Err(gap("cannot read the topology file topology.toml"));
    facts.verified = Err(ProbeError::after("management-api", "the management API does not answer"));
    facts.broker.connection = AmqpConnection::Unreachable("cannot reach the broker".to_owned());
    facts.broker.api =
        ApiFacts::unknown("overdue".to_owned(), gap("the management API gives no answer"));
    let session = Session::Unreachable("cannot connect to PostgreSQL".to_owned());
    facts.database = DatabaseFacts::unknown("db.example:5432".to_owned(), false, session);
    let exposed = |path: &str, mode, enough| ExposedFile { path: path.to_owned(), mode, enough };
    facts.machine = MachineFacts {
        open_files: Err(gap("no /proc")),
        cores: 1,
        secret_files: 3,
        exposed_files: vec![
            exposed("/etc/overdue/overdue.toml", 0o644, 0o640),
            exposed("my key.pem", 0o664, 0o600),
        ],
    };
    facts
}
