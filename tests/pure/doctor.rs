//! `overdue doctor` on made-up facts: a healthy reading with one edit, and the checks that the edit changes.

mod facts;

use std::{
    collections::BTreeSet,
    fmt::{self, Display, Write},
    time::Duration,
};

use overdue::internals::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    doctor::{
        Alarm, AlertFacts, AmqpConnection, ApiFacts, CHECKS, DoctorReport, EffectPlan, Encryption,
        Facts, HeldBy, Holder, Outbox, Permission, ProbeError, RefusedName, Replicas, Scan,
        Scheduled, Server, Session, Skew, Sweep, User, ZonelessTrigger, diagnose, is_loopback,
    },
    obstacle::{Attempt, Kind, Obstacle},
    permissions::{Right, Role},
    plan::{QueueStats, Snapshot},
    topology::Topology,
};

use self::facts::{schema, silent, table, well};
use crate::samples::{DELAYED, TWO_TIMEOUTS, dotted_compat, two_timeouts};

/// Edits of a healthy reading, each with the checks that it changes.
struct Table {
    before: DoctorReport,
    text: String,
}

impl Default for Table {
    fn default() -> Self {
        Self { before: diagnose(&well()), text: String::new() }
    }
}

impl Table {
    fn row(&mut self, name: impl Display, edit: impl FnOnce(&mut Facts)) {
        let mut facts = well();
        edit(&mut facts);
        writeln!(self.text, "# {name}").unwrap();
        for check in diagnose(&facts).checks {
            let (rule, severity, subject) = (check.rule, check.severity, &check.subject);
            let (message, fix) = (&check.message, &check.fix);
            assert_eq!(severity == Severity::Ok, fix.is_none(), "a fix where one is needed");
            assert!(!format!("{message}{fix:?}").contains('\n'), "one line: {message}");
            if !self.before.checks.contains(&check) {
                writeln!(self.text, "{severity} {subject} {rule}: {message}").unwrap();
                if let Some(fix) = fix {
                    writeln!(self.text, "    {fix}").unwrap();
                }
            }
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn owned<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

#[test]
fn all_is_well() {
    insta::assert_snapshot!(diagnose(&well()));
}

#[test]
fn nothing_answers() {
    let report = diagnose(&silent());
    assert!(!report.ok);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["version"], &json["ok"]), (&2.into(), &false.into()));
    let first = serde_json::to_string_pretty(&json["checks"][0]).unwrap();
    insta::assert_snapshot!(format!("{report}\n\n{first}"));
}

#[test]
fn each_check_has_a_name_of_its_own() {
    let names: BTreeSet<_> = CHECKS.iter().map(|check| (check.area, check.name)).collect();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn connection_and_management_api() {
    let mut table = Table::default();
    let no = || "no".to_owned();
    table.row("AMQP login refused", |it| {
        it.broker.connection = AmqpConnection::LoginRefused(no());
    });
    table.row("no virtual host", |it| it.broker.connection = AmqpConnection::NoVirtualHost(no()));
    table.row("no AMQP address", |it| it.broker.connection = AmqpConnection::NoAddress(no()));
    table.row("a publish without an answer", |it| {
        it.broker.connection = AmqpConnection::Open { answers: false };
    });
    for tls in [Encryption::None, Encryption::Unverified, Encryption::ChainVerified] {
        for loopback in [true, false] {
            table.row(format!("{tls:?}, loopback {loopback}"), |it| {
                (it.broker.tls, it.broker.loopback) = (tls, loopback);
            });
        }
    }
    // The cause is an error once; each dependent check has a line.
    table.row("no management API", |it| {
        let gap = ProbeError::new("connection refused", "start it");
        it.broker.api = ApiFacts::unknown("overdue".to_owned(), gap);
    });
    // A worker does not need it.
    table.row("a worker without a tag", |it| {
        let gap = ProbeError::denied("user overdue may not read it", "ask an administrator");
        it.broker.api = ApiFacts::unknown("overdue".to_owned(), gap);
    });
    table.row("permissions need another tag", |it| {
        it.broker.api.permissions =
            Err(ProbeError::denied("it takes the tag administrator", "ask an administrator"));
    });
    insta::assert_snapshot!(table);
    for host in ["localhost", "127.0.0.1", "[::1]", "/run/postgresql", "127.8.9.10"] {
        assert!(is_loopback(host), "{host}");
    }
    for host in ["10.127.0.1", "127.db.example.com", "mq.example"] {
        assert!(!is_loopback(host), "{host}");
    }
}

/// Each version at which a defect begins or ends, with its sources and the version to upgrade to.
#[test]
fn versions_of_the_broker() {
    let mut table = Table::default();
    for version in [
        "3.12.14",
        "3.13.7",
        "4.0.0",
        "4.0.2",
        "4.0.3",
        "4.0.4",
        "4.0.7",
        "4.0.8",
        "4.1.4",
        "4.1.5",
        "4.2.6",
        "4.2.7",
        "4.2.9",
        "4.3.0-rc.1",
        "4.3.0",
        "4.3.1",
        "4.3.2",
        "4.3.3",
        "4.3.4",
        "4.3.5",
        "4.3.7",
        "4.4.0",
        "5.0.0-beta.1",
        "latest",
    ] {
        table.row(version, |it| {
            it.broker.api.overview.as_mut().unwrap().version = version.to_owned();
        });
    }
    insta::assert_snapshot!(table);
}

fn replicas(leader: Option<&str>, members: &[&str], online: &[&str]) -> Replicas {
    let nodes = |names: &[&str]| names.iter().map(|&node| node.to_owned()).collect();
    let (leader, queue) = (leader.map(str::to_owned), "orders.unpaid".to_owned());
    Replicas { queue, leader, members: nodes(members), online: nodes(online) }
}

#[test]
fn nodes_of_the_broker() {
    let mut table = Table::default();
    table.row("a feature flag is off", |it| {
        it.broker.api.feature_flags_off = Ok(owned(["khepri_db"]));
    });
    table.row("a deprecated feature", |it| {
        it.broker.api.deprecated = Ok(owned(["transient_nonexcl_queues"]));
    });
    for resource in ["memory", "disk space"] {
        let (node, resource) = ("rabbit@a".to_owned(), resource.to_owned());
        let alarm = Alarm { node, resource: resource.clone() };
        table.row(format!("alarm: {resource}"), |it| it.broker.api.alarms = Ok(vec![alarm]));
    }
    table.row("plugins not known", |it| {
        it.broker.api.plugins = Err(ProbeError::denied("no", "ask"));
    });
    let shards = TWO_TIMEOUTS.replacen("name = \"unpaid\"", "shards = 2\nname = \"unpaid\"", 1);
    for (name, topology, kind) in [
        ("the plugin without use", TWO_TIMEOUTS, "x-delayed-message"),
        ("the plugin in use", DELAYED, "x-delayed-message"),
        ("the plugin is missing", DELAYED, "headers"),
        ("shards without their plugin", &shards, "headers"),
        ("shards with it", &shards, "x-consistent-hash"),
    ] {
        table.row(name, |it| {
            let topology = Topology::parse(topology).unwrap();
            it.broker.api.observed = Ok(Snapshot::of(&topology));
            it.topology = Ok(topology);
            it.broker.api.overview.as_mut().unwrap().exchange_types.push(kind.to_owned());
        });
    }
    table.row("the plugin holds one message", |it| {
        it.topology = Ok(Topology::parse(DELAYED).unwrap());
        let api = &mut it.broker.api;
        api.overview.as_mut().unwrap().exchange_types.push("x-delayed-message".to_owned());
        api.observed.as_mut().unwrap().delayed.insert("orders.delayed".to_owned(), 1);
    });
    let (all, two) = (["a", "b", "c"], ["a", "b"]);
    for (name, nodes, queue) in [
        ("a member is offline", Some(3), replicas(Some("a"), &all, &two)),
        ("no leader", Some(3), replicas(None, &all, &all)),
        ("the leader is offline", Some(3), replicas(Some("c"), &all, &two)),
        ("1 copy, nodes not known", None, replicas(Some("a"), &all[..1], &all[..1])),
        ("1 copy, 1 node", Some(1), replicas(Some("a"), &all[..1], &all[..1])),
        ("1 copy, 2 nodes", Some(2), replicas(Some("a"), &all[..1], &all[..1])),
        ("2 copies, nodes not known", None, replicas(Some("a"), &two, &two)),
        ("2 copies, 2 nodes", Some(2), replicas(Some("a"), &two, &two)),
        ("2 copies, 3 nodes", Some(3), replicas(Some("a"), &two, &two)),
        ("3 copies, 5 nodes", Some(5), replicas(Some("a"), &all, &all)),
    ] {
        table.row(name, |it| {
            (it.broker.api.nodes, it.broker.api.replicas) = (nodes, Ok(vec![queue]));
        });
    }
    table.row("no queue yet", |it| it.broker.api.replicas = Ok(Vec::new()));
    // Two nodes cannot have more copies: this hides no warning.
    table.row("2 nodes, one leads all", |it| {
        it.broker.api.nodes = Some(2);
        for queue in it.broker.api.replicas.as_mut().unwrap() {
            *queue = Replicas { queue: queue.queue.clone(), ..replicas(Some("a"), &two, &two) };
        }
    });
    insta::assert_snapshot!(table);
}

/// The limit of the warning is one and a half times the fair share of a node, and one queue more.
#[test]
fn leaders_are_spread_over_the_nodes() {
    let nodes = ["a", "b", "c"];
    let is_spread = |led: [usize; 3]| {
        let text = format!("shards = {}\nname = \"unpaid\"", led.iter().sum::<usize>().max(2));
        let text = TWO_TIMEOUTS.replacen("name = \"unpaid\"", &text, 1);
        let topology = Topology::parse(&text).unwrap();
        let leaders = nodes.iter().zip(led).flat_map(|(node, led)| vec![*node; led]);
        let queue = |(shard, leader)| Replicas {
            queue: format!("orders.unpaid.shard-{shard}"),
            ..replicas(Some(leader), &nodes, &nodes)
        };
        let mut facts = well();
        facts.broker.api.observed = Ok(Snapshot::of(&topology));
        facts.broker.api.replicas = Ok(leaders.enumerate().map(queue).collect());
        facts.topology = Ok(topology);
        let checks = diagnose(&facts).checks;
        checks.iter().find(|it| it.rule == "replicas").unwrap().severity == Severity::Ok
    };
    for led in [[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1, 1], [2, 2, 1], [4, 2, 2], [20, 11, 14]] {
        assert!(is_spread(led), "{led:?}");
    }
    for led in [[3, 0, 0], [2, 1, 0], [4, 1, 1], [5, 2, 1], [8, 0, 0], [30, 5, 5]] {
        assert!(!is_spread(led), "{led:?}");
    }
}

#[test]
fn rights_on_the_broker() {
    let mut table = Table::default();
    let mut row = |name: &str, [configure, write, read]: [&str; 3]| {
        let own = Permission {
            user: "overdue".to_owned(),
            virtual_host: "shop".to_owned(),
            configure: configure.to_owned(),
            write: write.to_owned(),
            read: read.to_owned(),
        };
        table.row(name, |it| it.broker.api.permissions = Ok(vec![own]));
    };
    for role in Role::all(&two_timeouts()) {
        let own = [Right::Configure, Right::Write, Right::Read].map(|it| role.expression(it));
        let [configure, write, read] = own.each_ref().map(String::as_str);
        row(&format!("role {}", role.name), [configure, write, read]);
        row(&format!("role {} without write", role.name), [configure, "^$", read]);
    }
    row("the empty expression", ["", "", ""]);
    row("one queue", ["", ".*", r"^orders\.unpaid"]);
    // The broker accepts all of PCRE.
    row("an expression that cannot be read", ["", "(?(DEFINE)x)(", ".*"]);
    table.row("no rights", |it| it.broker.api.permissions = Ok(Vec::new()));
    insta::assert_snapshot!(table);
}

fn stats(facts: &mut Facts, queue: &str, edit: impl FnOnce(&mut QueueStats)) {
    let name = queue.to_owned();
    let stats = facts.broker.api.stats.as_mut().unwrap();
    let new = || QueueStats { name: name.clone(), ..QueueStats::default() };
    edit(stats.entry(name.clone()).or_insert_with(new));
}

/// A queue, and its number of consumers.
type Consumers<'a> = (&'a str, u64);

#[test]
fn queues_of_the_topology() {
    let mut table = Table::default();
    table.row("nothing is applied", |it| it.broker.api.observed = Ok(Snapshot::default()));
    for (queue, under_way, slots) in [
        ("orders.delay.1s", 31, 32),
        ("orders.delay.1s", 32, 32),
        ("other.delay", 99, 32),
        ("orders.delay.1s", 999, 1_000),
        ("orders.delay.1s", 1_000, 1_000),
    ] {
        table.row(format!("{under_way} dead letters in {queue}, {slots} slots"), |it| {
            it.dead_letter_slots = slots;
            stats(it, queue, |it| it.messages_dlx = Some(under_way));
        });
    }
    for (queue, messages) in [("orders.parked.2", Some(1)), ("orders.parked", None)] {
        table.row(format!("{messages:?} messages in {queue}"), |it| {
            stats(it, queue, |it| it.messages = messages);
        });
    }
    // Other consumers close no order; a queue that does not exist needs no worker.
    let (unpaid, second) = ("orders.unpaid", "orders.unpaid.2");
    let all: [(&str, &[Consumers<'_>], u64); 6] = [
        ("no queue", &[], 0),
        ("a second generation alone", &[(second, 0)], 0),
        ("a worker on it", &[(second, 1), ("orders.unshipped", 0)], 0),
        ("no worker", &[(second, 0), ("orders.unshipped", 0)], 0),
        ("a worker on each", &[(unpaid, 0), (second, 1), ("orders.unshipped", 2)], 0),
        ("only another consumer", &[(unpaid, 1), ("orders.unshipped", 2)], 1),
    ];
    for (name, queues, foreign) in all {
        table.row(name, |it| {
            it.broker.api.stats.as_mut().unwrap().clear();
            let observed = it.broker.api.observed.as_mut().unwrap();
            observed.foreign_consumers.insert(unpaid.to_owned(), foreign);
            for (queue, consumers) in queues {
                stats(it, queue, |it| it.consumers = Some(*consumers));
            }
        });
    }
    for compat in [0, 1] {
        table.row(format!("{compat} consumers on the queue of a taken-over exchange"), |it| {
            let topology = Topology::parse(&dotted_compat()).unwrap();
            it.broker.api.observed = Ok(Snapshot::of(&topology));
            it.topology = Ok(topology);
            for (queue, consumers) in
                [("a.b.unpaid", 1), ("a.b.un_shipped-2", 1), ("a.b.compat", compat)]
            {
                stats(it, queue, |it| it.consumers = Some(consumers));
            }
        });
    }
    let finding = |rule, severity, subject: Subject, message: &str, fix| Diagnostic {
        rule,
        severity,
        subject,
        message: message.to_owned(),
        reason: None,
        fix: Some(fix),
    };
    let queue = |name: &str| Subject::Queue(name.to_owned());
    let policy = || Fix::Policies { policy: Some("short".to_owned()), operator: None };
    let short = Subject::Policy("short".to_owned());
    let drain = Fix::Text("drain it".to_owned());
    // All findings that apply fixes are one check; each other finding is a check of its own.
    let found = vec![
        finding("policy", Severity::Error, short, "it has max-length 10", policy()),
        finding("missing-queue", Severity::Error, queue(unpaid), "it does not exist", Fix::Apply),
        finding("stuck", Severity::Warning, queue("orders.parked"), "it is full", drain),
        // The broker's tables name a leader even for a queue that has ended.
        finding("no-leader", Severity::Error, queue(unpaid), "no member leads it", policy()),
    ];
    table.row("findings of verify", |it| it.verified = Ok(found));
    insta::assert_snapshot!(table);
}

fn server(facts: &mut Facts) -> &mut Server {
    match &mut facts.database.session {
        Session::Open(server) => server,
        session => panic!("{session:?}"),
    }
}

#[test]
fn the_server_of_the_database() {
    let mut table = Table::default();
    table.row("login refused", |it| {
        it.database.session = Session::LoginRefused("no".to_owned());
    });
    table.row("a superuser", |it| server(it).user = User::Super("postgres".to_owned()));
    table.row("no TLS", |it| server(it).tls = Encryption::None);
    for number in [140_000, 130_022, 90_600] {
        table.row(number, |it| server(it).version_num = number);
    }
    table.row("a standby", |it| server(it).standby = true);
    table.row("read-only", |it| server(it).read_only = true);
    // A worker uses 16 connections; the server reserves 3.
    for (most, used) in [(100, 81), (100, 82), (100, 500), (18, 1)] {
        table.row(format!("{used} of {most} connections"), |it| {
            (server(it).max_connections, server(it).used) = (most, used);
        });
    }
    for ms in [0, 1, 300, 301] {
        table.row(format!("lock_timeout {ms} ms"), |it| server(it).lock_timeout_ms = ms);
    }
    let lacking: [&[(&str, &str)]; 3] =
        [&[], &[("jit", "off")], &[("search_path", "overdue,public"), ("jit", "off")]];
    for lacking in lacking {
        table.row(format!("a pooler, lacking {lacking:?}"), |it| {
            let lacking = lacking.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            server(it).behind_pooler = Some(lacking.collect());
        });
    }
    table.row("commit timestamps", |it| server(it).commit_timestamps = true);
    for (ahead_ms, margin_ms) in [
        (1_000, 0),
        (1_001, 0),
        (-1_001, 0),
        (2_000, 1_000),
        (2_001, 1_000),
        (5_000, 0),
        (5_001, 0),
        (-5_001, 0),
        (6_000, 1_000),
        (i64::MIN, 0),
        (i64::MAX, i64::MAX),
    ] {
        table.row(format!("clock {ahead_ms} ± {margin_ms} ms"), |it| {
            it.database.clock = Ok(Skew { ahead_ms, margin_ms });
        });
    }
    insta::assert_snapshot!(table);
}

#[test]
fn tables_and_effects() {
    let mut rows = Table::default();
    let gap = || ProbeError::new("relation outbox does not exist", "see docs/effects.md");
    rows.row("no outbox", |it| {
        let database = &mut it.database;
        database.tables = Ok(vec![table("outbox", false, &[])]);
        database.outbox = Err(gap());
        database.effects = vec![("close".to_owned(), Err(gap()))];
        database.attempts = Vec::new();
        database.sweeps = vec![("close".to_owned(), Err(gap()))];
    });
    rows.row("rights are missing", |it| {
        it.database.tables = Ok(vec![
            table("closures", true, &["DELETE"]),
            table("outbox", true, &["SELECT", "UPDATE"]),
        ]);
    });
    rows.row("a login that only reads", |it| {
        it.database.tables = Ok(vec![
            table("closures", true, &["DELETE"]),
            table("dropped_messages", true, &["DELETE", "SELECT"]),
            table("outbox_refused", true, &["DELETE", "INSERT", "UPDATE"]),
        ]);
    });
    rows.row("a closed schema", |it| {
        it.database.tables = Ok(vec![table("outbox", false, &[])]);
        it.database.schemas = Ok(vec![schema(false, &[])]);
    });
    rows.row("an open schema", |it| {
        it.database.schemas = Ok(vec![schema(true, &[]), schema(true, &["PUBLIC", "eve"])]);
    });
    rows.row("no effect", |it| it.database.effects.clear());
    for size in [None, Some(999), Some(1_000)] {
        rows.row(format!("an effect that reads a table of {size:?} rows"), |it| {
            let scans = vec![Scan { table: "Purchase".to_owned(), rows: size }];
            let plan = EffectPlan { scans, ..EffectPlan::default() };
            it.database.effects = vec![("close".to_owned(), Ok(plan))];
        });
    }
    for kind in [Kind::Lock, Kind::Right, Kind::Effect] {
        rows.row(format!("an obstacle: {kind:?}"), |it| {
            let (reason, next) = ("it closes nothing".to_owned(), "look".to_owned());
            let obstacle = Some(Obstacle { reason, next, kind });
            it.database.attempts = vec![("close".to_owned(), Ok(Attempt { orders: 1, obstacle }))];
        });
    }
    rows.row("no order is overdue", |it| {
        it.database.attempts = vec![("close".to_owned(), Ok(Attempt::default()))];
    });
    for sweep in [Sweep::None, Sweep::Planned { scans: owned(["Orders"]) }] {
        rows.row(format!("{sweep:?}"), |it| {
            it.database.sweeps = vec![("close".to_owned(), Ok(sweep))];
        });
    }
    insta::assert_snapshot!(rows);
}

#[test]
fn outbox_and_schedule() {
    let mut table = Table::default();
    for (events, oldest_ms) in [(1, 900), (5_000, 10_000), (1, 10_001), (2, 90_000)] {
        table.row(format!("{events} events, {oldest_ms} ms"), |it| {
            it.database.outbox = Ok(Outbox { events, oldest_ms, ..Outbox::default() });
        });
    }
    table.row("refused events", |it| {
        let longest = RefusedName {
            event: "order.closed".to_owned(),
            lasts_ms: 700_000,
            order_id: Some("o-7".to_owned()),
            reason: Some("it is full".to_owned()),
        };
        let outbox = Outbox { refused: 2, longest: Some(longest), ..Outbox::default() };
        it.database.outbox = Ok(outbox);
    });
    table.row("an event that can never be published", |it| {
        let reason = Some("it has no order id".to_owned());
        it.database.outbox =
            Ok(Outbox { unpublishable: 1, unpublishable_reason: reason, ..Outbox::default() });
    });
    let zoneless = |east_s| ZonelessTrigger {
        name: "made".to_owned(),
        table: "purchase".to_owned(),
        column: "pay_until".to_owned(),
        column_type: "timestamp without time zone".to_owned(),
        write: "CREATE OR REPLACE TRIGGER made …;".to_owned(),
        session_zone: "Z".to_owned(),
        east_s,
    };
    let lacks = |what: &str| Scheduled { lacks: Some(what.to_owned()), ..Scheduled::default() };
    for scheduled in [
        lacks("there is no table schedule_timeouts along database.search_path"),
        lacks("the user lacks DELETE on scheduled_notices"),
        Scheduled { notices: 5_000, oldest_ms: 10_000, ..Scheduled::default() },
        Scheduled { notices: 1, oldest_ms: 10_001, ..Scheduled::default() },
        Scheduled { refused: 1, reason: Some("no order".to_owned()), ..Scheduled::default() },
        Scheduled { zoneless: vec![zoneless(32_400), zoneless(-18_000)], ..Scheduled::default() },
        Scheduled { zoneless: vec![zoneless(0)], ..Scheduled::default() },
    ] {
        table.row("schedule", |it| it.database.scheduled = Ok(scheduled));
    }
    insta::assert_snapshot!(table);
}

/// Each cause that can hold back the xmin horizon, at its limit, with the command that ends it and the rights that it needs.
#[test]
fn the_xmin_horizon() {
    let mut table = Table::default();
    let session = |pid, state: &str| HeldBy::Session {
        pid,
        user: "shop".to_owned(),
        application: "reports".to_owned(),
        state: state.to_owned(),
    };
    let slot = |active, catalogs| HeldBy::Slot { name: "replica".to_owned(), active, catalogs };
    let prepared = || HeldBy::Prepared { gid: "o'clock".to_owned(), owner: "shop".to_owned() };
    let standby = HeldBy::Standby { name: "b".to_owned(), pid: 9 };
    let held = |by, seconds: Option<u64>, transactions| Holder {
        by,
        age: seconds.map(Duration::from_secs),
        transactions,
    };
    let many = (0..5).map(|pid| held(session(pid, "active"), Some(300), 1)).collect();
    for (hidden, holders) in [
        (0, vec![held(session(1, "active"), Some(299), 999_999)]),
        (0, vec![held(session(1, "idle in transaction"), Some(300), 4)]),
        (0, vec![held(session(1, "active"), Some(7_300), 4), held(prepared(), Some(400), 2)]),
        (0, vec![held(session(1, "active"), Some(20), 1_000_000)]),
        (0, many),
        (0, vec![held(prepared(), Some(86_400 * 3), 7)]),
        (0, vec![held(slot(false, false), Some(301), 1)]),
        (0, vec![held(slot(false, true), None, 2_000_000)]),
        (0, vec![held(slot(true, false), None, 2_000_000)]),
        (0, vec![held(slot(true, false), None, 999_999)]),
        (0, vec![held(standby, None, 1_000_000)]),
        (3, Vec::new()),
        (1, vec![held(session(1, "idle in transaction"), Some(300), 4)]),
    ] {
        table.row(format!("{hidden} hidden, {} in sight", holders.len()), |it| {
            let horizon = it.database.horizon.as_mut().unwrap();
            (horizon.hidden, horizon.holders) = (hidden, holders);
        });
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_machine_and_the_alerts() {
    let mut table = Table::default();
    for files in [1_023, 1_024, u64::MAX] {
        table.row(format!("{files} open files"), |it| it.machine.open_files = Ok(files));
    }
    for cores in [1, 2] {
        table.row(format!("{cores} cores"), |it| it.machine.cores = cores);
    }
    let (ok, no) = (|| Ok("https://example".to_owned()), || Err("it is no address".to_owned()));
    for (to, answer) in
        [(no(), None), (ok(), None), (ok(), Some(Ok("200".to_owned()))), (ok(), Some(no()))]
    {
        table.row("alert", |it| {
            it.alerts = vec![AlertFacts { alert: "oncall".to_owned(), to, answer }];
        });
    }
    insta::assert_snapshot!(table);
}
