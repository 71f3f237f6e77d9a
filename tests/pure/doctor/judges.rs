//! Each judgement at its bounds.

use std::{collections::BTreeMap, time::Duration};

use overdue::internals::{
    diagnostic::{
        Draft, Fix,
        Severity::{Error, Note, Ok as Fine, Warning},
    },
    doctor::{
        Alarm, EffectPlan, Encryption, Gap, HeldBy, Holder, Horizon, Outbox, Permission,
        RefusedName, Replicas, Scan, Server, Skew, Sweep, Table, broker, database, diagnose,
        horizon::judge_horizon, is_loopback, machine, topology,
    },
    plan::{QueueStats, Snapshot},
    topology::Topology,
};

use super::facts::{schema, server, table};
use crate::samples::{dotted_compat, two_timeouts};

fn text(fix: Fix) -> String {
    match fix {
        Fix::Text(text) => text,
        fix => panic!("a command: {fix:?}"),
    }
}

#[test]
fn clocks_differ_only_by_more_than_the_reading_can_be_off() {
    let judge = |ahead_ms, margin_ms| {
        machine::judge_clock(Skew { ahead_ms, margin_ms }, "this machine's").severity.unwrap()
    };
    for (ahead_ms, margin_ms, severity) in [
        (0, 0, Fine),
        (1_000, 0, Fine),
        (1_001, 0, Warning),
        (-1_001, 0, Warning),
        (2_000, 1_000, Fine),
        (2_001, 1_000, Warning),
        (5_000, 0, Warning),
        (5_001, 0, Error),
        (-5_001, 0, Error),
        (6_000, 1_000, Warning),
        (i64::MIN, 0, Error),
        (i64::MAX, i64::MAX, Fine),
    ] {
        assert_eq!(judge(ahead_ms, margin_ms), severity, "{ahead_ms} ± {margin_ms}");
    }
    let (database, broker) =
        (Skew { ahead_ms: 300, margin_ms: 2 }, Skew { ahead_ms: -400, margin_ms: 500 });
    assert_eq!(machine::between(database, broker), Skew { ahead_ms: 700, margin_ms: 502 });
}

#[test]
fn versions() {
    for (version, severity) in [
        ("4.3.6", Fine),
        ("4.0.0", Fine),
        ("4.4.0", Note),
        ("5.0.0-beta.1", Note),
        ("3.13.7", Error),
        ("3.12.14", Error),
        ("latest", Warning),
    ] {
        assert_eq!(broker::judge_version(version).severity.unwrap(), severity, "{version}");
    }
    for (number, severity) in [
        (180_006, Fine),
        (140_000, Fine),
        (130_022, Error),
        (120_000, Error),
        (110_000, Error),
        (90_600, Error),
    ] {
        assert_eq!(database::judge_version(number).severity.unwrap(), severity, "{number}");
    }
}

/// Each version at which something changes, with the sources of what it has and the version to go to.
#[test]
fn known_defects_by_version() {
    let (dlx, wrong_member) = ("rabbitmq-server#16652", "rabbitmq-server#16203");
    let (parted, replication) = ("rabbitmq-server#14589", "rabbitmq-server#13530");
    let (limit, candidate) = ("rabbitmq-server#12405", "rabbitmq-server#12727");
    let (optimistic, unclean) = ("rabbitmq/ra#637", "rabbitmq/ra#629");
    let (counts, checkpoint) = ("rabbitmq-server#16974", "rabbitmq-server#17012");
    let years = "docs/verify.md#a-queue-that-has-ended";
    let newest = "upgrade to RabbitMQ 4.3.5";
    let nothing = "nothing: no version without it is known, and overdue verify looks for it";
    let cases: &[(&str, &[&str], &str)] = &[
        // What was read begins with 4.0.
        ("3.13.7", &[], "see version"),
        ("4.0.0", &[dlx, wrong_member, parted, replication, candidate, limit], newest),
        ("4.0.2", &[dlx, wrong_member, parted, replication, candidate, limit], newest),
        ("4.0.3", &[dlx, wrong_member, parted, replication, candidate], newest),
        ("4.0.4", &[dlx, wrong_member, parted, replication], newest),
        ("4.0.7", &[dlx, wrong_member, parted, replication], newest),
        ("4.0.8", &[dlx, wrong_member, parted], newest),
        ("4.1.4", &[dlx, wrong_member, parted], newest),
        ("4.1.5", &[dlx, wrong_member], newest),
        ("4.2.6", &[dlx, wrong_member], newest),
        ("4.2.7", &[dlx], newest),
        ("4.2.9", &[dlx], newest),
        (
            "4.3.0-rc.1",
            &[optimistic, dlx, wrong_member, unclean, counts, checkpoint, years],
            newest,
        ),
        ("4.3.0", &[optimistic, dlx, wrong_member, unclean, counts, checkpoint, years], newest),
        ("4.3.1", &[optimistic, dlx, counts, checkpoint, years], newest),
        ("4.3.2", &[optimistic, dlx, counts, checkpoint, years], newest),
        ("4.3.3", &[counts, checkpoint, years], newest),
        ("4.3.4", &[checkpoint, years], newest),
        ("4.3.5", &[years], nothing),
        ("4.3.6", &[years], nothing),
        // Not tried on these, and not said to be corrected.
        ("4.3.7", &[years], nothing),
        ("4.4.0", &[years], nothing),
    ];
    for (version, sources, fix) in cases {
        let found = broker::judge_known_defects(version);
        let named = found
            .message
            .split("; ")
            .filter_map(|one| Some(one.strip_suffix(')')?.rsplit_once('(')?.1));
        assert_eq!(named.collect::<Vec<_>>(), *sources, "{version}");
        assert_eq!(found.fix.map(text).unwrap_or_default(), *fix, "{version}");
        let severity = match (sources.is_empty(), *fix == nothing) {
            (true, _) if fix.is_empty() => Fine,
            (_, true) => Note,
            (_, false) => Warning,
        };
        assert_eq!(found.severity.unwrap(), severity, "{version}");
    }
    assert_eq!(broker::judge_known_defects("latest").severity.unwrap(), Warning);
    insta::assert_snapshot!(broker::judge_known_defects("4.3.2").message);
}

#[test]
fn tls_is_wanted_where_the_wire_leaves_the_machine() {
    assert_eq!(broker::judge_tls(Encryption::None, false, ["", ""]).severity.unwrap(), Warning);
    assert_eq!(broker::judge_tls(Encryption::None, true, ["", ""]).severity.unwrap(), Fine);
    assert_eq!(broker::judge_tls(Encryption::Verified, false, ["", ""]).severity.unwrap(), Fine);
    assert_eq!(
        broker::judge_tls(Encryption::ChainVerified, false, ["", ""]).severity.unwrap(),
        Fine
    );
    assert_eq!(broker::judge_tls(Encryption::Unverified, true, ["", ""]).severity.unwrap(), Fine);
    assert_eq!(
        broker::judge_tls(Encryption::Unverified, false, ["", ""]).severity.unwrap(),
        Warning
    );
    for (host, here) in [
        ("localhost", true),
        ("127.0.0.1", true),
        ("[::1]", true),
        ("/run/postgresql", true),
        ("127.8.9.10", true),
        ("10.127.0.1", false),
        ("127.db.example.com", false),
        ("mq.example", false),
    ] {
        assert_eq!(is_loopback(host), here, "{host}");
    }
}

#[test]
fn nodes() {
    assert_eq!(broker::judge_feature_flags(&["khepri_db".to_owned()]).severity.unwrap(), Warning);
    assert_eq!(broker::judge_plugins(true, &Ok(Vec::new())).severity.unwrap(), Warning);
    let delayed = |there, held| broker::judge_delayed_exchange(there, "4.2.1", held);
    assert_eq!(delayed(false, None).severity.unwrap(), Error);
    assert_eq!(delayed(true, Some(1)).severity.unwrap(), Warning);
    let expected = "rabbitmq_delayed_message_exchange holds 1 message in memory of one node, in one copy; \
                    RabbitMQ 4.2.1 cannot be upgraded to 4.3 with it";
    assert_eq!(delayed(true, Some(1)).message, expected);
    assert!(delayed(true, None).message.contains("an unknown number of messages"));
    let unknown = Err(Gap::denied("", ""));
    assert_eq!(broker::judge_plugins(false, &unknown).severity.unwrap(), Fine);
    let alarm = Alarm { node: "rabbit@a".to_owned(), resource: "disk space".to_owned() };
    let alarms = [alarm];
    assert_eq!(broker::judge_alarms(&alarms, "memory", "").severity.unwrap(), Fine);
    assert_eq!(broker::judge_alarms(&alarms, "disk", "").severity.unwrap(), Error);
}

#[test]
fn copies_of_a_queue() {
    let queue = |leader: Option<&str>, online: usize| Replicas {
        queue: "orders.unpaid".to_owned(),
        leader: leader.map(str::to_owned),
        members: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        online: ["a", "b", "c"][..online].iter().map(|node| (*node).to_owned()).collect(),
    };
    let severity = |queue: &Replicas| broker::judge_replicas(&[queue], Some(3)).severity.unwrap();
    assert_eq!(severity(&queue(Some("a"), 3)), Fine);
    assert_eq!(severity(&queue(Some("a"), 2)), Warning);
    assert_eq!(severity(&queue(None, 3)), Error);
    assert_eq!(severity(&queue(Some("c"), 2)), Error, "its leader is away");
    assert_eq!(broker::judge_replicas(&[], Some(3)).severity.unwrap(), Fine);
}

/// Of two copies one is no majority: the queue stops with either node. There can be no more copies than nodes.
#[test]
fn three_copies_are_enough() {
    let queue = |copies: usize| {
        let nodes: Vec<String> =
            ["a", "b", "c"][..copies].iter().map(|node| (*node).to_owned()).collect();
        Replicas {
            queue: "orders.unpaid".to_owned(),
            leader: Some("a".to_owned()),
            members: nodes.clone(),
            online: nodes,
        }
    };
    for (copies, nodes, severity) in [
        (1, None, Fine),
        (1, Some(1), Fine),
        (1, Some(2), Warning),
        (1, Some(3), Warning),
        (2, None, Note),
        (2, Some(2), Note),
        (2, Some(3), Warning),
        (3, None, Fine),
        (3, Some(3), Fine),
        (3, Some(5), Fine),
    ] {
        let judged = broker::judge_replicas(&[&queue(copies)], nodes);
        assert_eq!(judged.severity.unwrap(), severity, "{copies} of {nodes:?}");
    }
    let Draft { message, fix, .. } = broker::judge_replicas(&[&queue(2), &queue(3)], Some(3));
    insta::assert_snapshot!(message, @"fewer than three copies, so it stops with a node of it: orders.unpaid");
    assert!(text(fix.unwrap()).contains("rabbitmq-queues grow"));
}

/// Two nodes cannot have more copies: that is a note, and hides no warning.
#[test]
fn leaders_are_judged_on_two_nodes_as_well() {
    let nodes = ["rabbit@a", "rabbit@b"].map(str::to_owned);
    let line = |leaders: &[String]| {
        let mut facts = super::facts::well();
        facts.broker.api.nodes = Some(2);
        let queues = facts.broker.api.replicas.as_mut().unwrap();
        for (queue, leader) in queues.iter_mut().zip(leaders.iter().cycle()) {
            queue.leader = Some(leader.clone());
            queue.members = nodes.to_vec();
            queue.online = nodes.to_vec();
        }
        let report = diagnose(&facts).to_string();
        let line = report.lines().find(|line| line.contains("  replicas  ")).unwrap();
        line.trim_start().to_owned()
    };
    let spread = line(&nodes);
    assert!(spread.starts_with("note") && spread.contains("on two nodes"), "{spread}");
    let uneven = line(&nodes[..1]);
    assert!(uneven.starts_with("warning") && uneven.contains("not spread"), "{uneven}");
}

#[test]
fn leaders_are_spread_over_the_nodes() {
    let queues = |led: &[usize], nodes: usize| -> Vec<Replicas> {
        let names: Vec<String> =
            ["a", "b", "c"][..nodes].iter().map(|it| (*it).to_owned()).collect();
        let leaders = names.iter().zip(led).flat_map(|(node, count)| vec![node.clone(); *count]);
        let queue = |leader| Replicas {
            queue: "orders.unpaid.shard-0".to_owned(),
            leader: Some(leader),
            members: names.clone(),
            online: names.clone(),
        };
        leaders.map(queue).collect()
    };
    let judged = |levels: &[usize], shards: &[usize], nodes: usize| {
        let (levels, shards) = (queues(levels, nodes), queues(shards, nodes));
        let kinds = [
            ("delay queues", levels.iter().collect()),
            ("business queues", shards.iter().collect()),
        ];
        broker::judge_leaders(&kinds)
    };
    for even in [
        [0, 0, 0],
        [1, 0, 0],
        [2, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
        [2, 2, 1],
        [3, 3, 2],
        [4, 2, 2],
        [20, 11, 14],
    ] {
        assert_eq!(judged(&even, &even, 3), None, "{even:?}");
    }
    for uneven in [[3, 0, 0], [2, 1, 0], [4, 1, 1], [5, 2, 1], [8, 0, 0], [30, 5, 5]] {
        assert!(judged(&[0; 3], &uneven, 3).is_some(), "{uneven:?}");
        assert!(judged(&uneven, &[0; 3], 3).is_some(), "{uneven:?}");
    }
    assert_eq!(judged(&[6], &[9], 1), None, "one node leads all");
    let warning = judged(&[1, 2, 1], &[8, 0, 0], 3).unwrap();
    assert_eq!(warning.severity.unwrap(), Warning);
    insta::assert_snapshot!(warning.message, @"leaders are not spread over the nodes; of 8 business queues: a 8, b 0, c 0");
}

/// Turned off below a topology that needs it, its exchange routes nothing.
#[test]
fn shards_need_a_plugin() {
    let judged = |shards: &str, kind: &str| {
        let text = format!(
            "name = \"orders\"\ndelay.levels = [\"1s\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n{shards}"
        );
        let mut facts = super::facts::well();
        facts.topology = Ok(Topology::parse(&text).unwrap());
        let overview = facts.broker.api.overview.as_mut().unwrap();
        overview.exchange_types.push(kind.to_owned());
        let report = diagnose(&facts).to_string();
        let line = report.lines().find(|line| line.contains("plugins")).unwrap().to_owned();
        let enables = report.contains("rabbitmq-plugins enable rabbitmq_consistent_hash_exchange");
        (line.trim_start().starts_with("error"), enables)
    };
    assert_eq!(judged("", "headers"), (false, false));
    assert_eq!(judged("shards = 2", "x-consistent-hash"), (false, false));
    assert_eq!(judged("shards = 2", "headers"), (true, true));
}

#[test]
fn rights_are_those_that_permissions_prints() {
    let own = |configure: &str, write: &str, read: &str| Permission {
        user: "u".to_owned(),
        virtual_host: "/".to_owned(),
        configure: configure.to_owned(),
        write: write.to_owned(),
        read: read.to_owned(),
    };
    let judge = |role, own: Option<Permission>| {
        topology::judge_rights(&two_timeouts(), role, "u", own.as_ref(), Draft::error)
    };
    let roles = overdue::internals::permissions::Role::all(&two_timeouts());
    for role in roles.iter().filter(|role| role.name != "publisher") {
        use overdue::internals::permissions::Right::{Configure, Read, Write};
        let [configure, write, read] = [Configure, Write, Read].map(|right| role.expression(right));
        assert_eq!(judge(role.name, Some(own(&configure, &write, &read))).severity.unwrap(), Fine);
        assert_eq!(judge(role.name, Some(own(&configure, "^$", &read))).severity.unwrap(), Error);
    }
    assert_eq!(judge("worker", None).severity.unwrap(), Error);
    assert_eq!(judge("worker", Some(own("", "", ""))).severity.unwrap(), Error);
    let lacks = judge("worker", Some(own("", ".*", r"^orders\.unpaid")));
    assert_eq!(
        lacks.message,
        "user u lacks read on orders.unshipped (consume what is due), and 1 more"
    );
    // The broker takes all of PCRE; what cannot be read here is not called wrong.
    assert_eq!(judge("worker", Some(own("", "(?(DEFINE)x)(", ".*"))).severity.unwrap(), Warning);
}

#[test]
fn work_on_the_queues() {
    let stats = |queue: &str, dlx: u64, consumers: u64, messages: u64| {
        let numbers = QueueStats {
            name: queue.to_owned(),
            messages: Some(messages),
            messages_dlx: Some(dlx),
            consumers: Some(consumers),
            ..QueueStats::default()
        };
        BTreeMap::from([(queue.to_owned(), numbers)])
    };
    let topology = two_timeouts();
    let dead_letters = |queue, under_way, slots| {
        topology::judge_dead_letters(&topology, &stats(queue, under_way, 0, 0), slots)
            .severity
            .unwrap()
    };
    assert_eq!(dead_letters("orders.delay.1s", 31, 32), Note, "few slots");
    assert_eq!(dead_letters("orders.delay.1s", 32, 32), Warning);
    assert_eq!(dead_letters("other.delay", 99, 32), Note);
    assert_eq!(dead_letters("orders.delay.1s", 999, 1_000), Fine);
    assert_eq!(dead_letters("orders.delay.1s", 1_000, 1_000), Warning);
    assert_eq!(
        topology::judge_parked(&topology, &stats("orders.parked.2", 0, 0, 1)).severity.unwrap(),
        Warning
    );
    assert_eq!(
        topology::judge_parked(&topology, &stats("orders.unpaid", 0, 0, 1)).severity.unwrap(),
        Fine
    );
    let mut unknown = stats("orders.parked", 0, 0, 0);
    unknown.get_mut("orders.parked").unwrap().messages = None;
    assert_eq!(topology::judge_parked(&topology, &unknown).severity.unwrap(), Warning, "not known");
    assert_eq!(
        topology::judge_applied(&topology, &Snapshot::default(), &[]).severity.unwrap(),
        Warning
    );
}

/// A worker is no help where there is no queue.
#[test]
fn consumers_of_the_business_queues() {
    let judge = |queues: &[(&str, u64)]| {
        let stats = queues.iter().map(|(queue, consumers)| {
            let consumers = Some(*consumers);
            let name = (*queue).to_owned();
            (name.clone(), QueueStats { name, consumers, ..QueueStats::default() })
        });
        let judged = topology::judge_consumers(
            &two_timeouts(),
            &Snapshot::default(),
            &stats.collect::<BTreeMap<_, _>>(),
        );
        let Draft { severity, message, fix, .. } = judged;
        let fix = fix.map(text).unwrap_or_default();
        format!("{}: {message}\n  {fix}", severity.unwrap())
    };
    let judged = [
        judge(&[]),
        judge(&[("orders.unpaid.2", 0)]),
        judge(&[("orders.unpaid.2", 1)]),
        judge(&[("orders.unpaid.2", 0), ("orders.unshipped", 0)]),
        judge(&[("orders.unpaid.2", 1), ("orders.unshipped", 0)]),
        judge(&[("orders.unpaid", 0), ("orders.unpaid.2", 1), ("orders.unshipped", 2)]),
    ];
    insta::assert_snapshot!(judged.join("\n"));
}

/// Somebody who looks at what comes due closes no order.
#[test]
fn consumers_of_others_are_no_workers() {
    let topology = Topology::parse(&dotted_compat()).unwrap();
    let stats = ["a.b.unpaid", "a.b.un_shipped-2", "a.b.compat"].map(|name| {
        let numbers =
            QueueStats { name: name.to_owned(), consumers: Some(1), ..QueueStats::default() };
        (name.to_owned(), numbers)
    });
    let foreign_consumers = BTreeMap::from([("a.b.unpaid".to_owned(), 1)]);
    let observed = Snapshot { foreign_consumers, ..Snapshot::default() };
    let judged = topology::judge_consumers(&topology, &observed, &BTreeMap::from(stats));
    assert_eq!(judged.message, "none on a.b.unpaid");
}

/// A worker consumes from that queue as well.
#[test]
fn the_queue_of_a_taken_over_exchange_needs_a_consumer() {
    let topology = Topology::parse(&dotted_compat()).unwrap();
    let judge = |compat: u64| {
        let queues = [("a.b.unpaid", 1), ("a.b.un_shipped-2", 1), ("a.b.compat", compat)];
        let stats = queues.map(|(name, consumers)| {
            let consumers = Some(consumers);
            (
                name.to_owned(),
                QueueStats { name: name.to_owned(), consumers, ..QueueStats::default() },
            )
        });
        topology::judge_consumers(&topology, &Snapshot::default(), &BTreeMap::from(stats)).message
    };
    assert_eq!(judge(0), "none on a.b.compat");
    assert_eq!(judge(1), "3 on 3 queues");
}

#[test]
fn one_is_no_plural() {
    let replicas = Replicas {
        queue: "orders.unpaid".to_owned(),
        leader: Some("a".to_owned()),
        members: vec!["a".to_owned()],
        online: vec!["a".to_owned()],
    };
    let outbox = |events, oldest_ms| {
        database::judge_outbox(&Outbox { events, oldest_ms, ..Outbox::default() }).message
    };
    let found = [
        broker::judge_replicas(&[&replicas], None).message,
        broker::judge_replicas(&[&replicas, &replicas], None).message,
        outbox(1, 900),
        outbox(2, 1_000),
        outbox(1, 10_001),
        outbox(2, 90_000),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn connections_for_one_worker_more() {
    let free = |max_connections, used| {
        let server = Server { max_connections, used, ..server() };
        database::judge_connections(&server, 16).severity.unwrap()
    };
    assert_eq!(free(100, 17), Fine);
    assert_eq!(free(100, 81), Fine, "16 are left");
    assert_eq!(free(100, 82), Warning);
    assert_eq!(free(100, 500), Warning);
    assert_eq!(free(18, 1), Error, "3 are reserved: it never gets 16");
}

#[test]
fn what_closes_orders_waits_shortly_for_a_lock() {
    let judged = |ms| database::judge_lock_timeout(ms).severity.unwrap();
    assert_eq!([1, 50, 300].map(judged), [Fine; 3]);
    assert_eq!([0, 301, 5_000].map(judged), [Warning; 3]);
}

/// Each that can hold the horizon, at the limit: named, with what ends it and who may.
#[test]
fn who_holds_the_xmin_horizon() {
    let session = |pid, state: &str| HeldBy::Session {
        pid,
        user: "shop".to_owned(),
        application: "reports".to_owned(),
        state: state.to_owned(),
    };
    let slot = |active, catalogs| HeldBy::Slot { name: "replica".to_owned(), active, catalogs };
    let prepared = || HeldBy::Prepared { gid: "o'clock".to_owned(), owner: "shop".to_owned() };
    let held = |by, seconds: Option<u64>, transactions| Holder {
        by,
        age: seconds.map(Duration::from_secs),
        transactions,
    };
    let judged = |hidden, holders: Vec<Holder>| {
        let draft = judge_horizon(&Horizon { hidden, holders });
        let fix = draft.fix.map(text).unwrap_or_default();
        format!("{}: {}\n    {fix}", draft.severity.unwrap(), draft.message)
    };
    let many = |number| (0..number).map(|pid| held(session(pid, "active"), Some(300), 1)).collect();
    let found = [
        judged(0, vec![held(session(1, "active"), Some(299), 999_999)]),
        judged(0, vec![held(session(1, "idle in transaction"), Some(300), 4)]),
        judged(0, vec![held(session(1, "active"), Some(7_300), 4), held(prepared(), Some(400), 2)]),
        judged(0, vec![held(session(1, "active"), Some(20), 1_000_000)]),
        judged(0, many(5)),
        judged(0, vec![held(prepared(), Some(86_400 * 3), 7)]),
        judged(0, vec![held(slot(false, false), Some(301), 1)]),
        judged(0, vec![held(slot(false, true), None, 2_000_000)]),
        judged(0, vec![held(slot(true, false), None, 2_000_000)]),
        judged(0, vec![held(slot(true, false), None, 999_999)]),
        judged(0, vec![held(HeldBy::Standby { name: "b".to_owned(), pid: 9 }, None, 1_000_000)]),
        judged(3, Vec::new()),
        judged(1, vec![held(session(1, "idle in transaction"), Some(300), 4)]),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn behind_a_pooler_the_user_has_what_connections_are_opened_with() {
    let kept = |lacking: &[(&str, &str)]| {
        let lacking = lacking.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let behind_pooler = Some(lacking.collect());
        let draft = database::judge_pooler(&Server { behind_pooler, ..server() });
        let fix = draft.fix.map(text).unwrap_or_default();
        format!("{:?}: {} | {fix}", draft.severity.unwrap(), draft.message)
    };
    let jit = ("jit", "off");
    let found = [kept(&[]), kept(&[jit]), kept(&[("search_path", "overdue,public"), jit])];
    insta::assert_snapshot!(found.join("\n"));
    assert_eq!(database::judge_pooler(&server()).severity.unwrap(), Fine);
}

#[test]
fn scheduled_notices() {
    use overdue::internals::doctor::{Scheduled, database::judge_scheduled};
    let judged = |scheduled: Scheduled| judge_scheduled(&scheduled).severity.unwrap();
    let lacks = |lacks: &str| Scheduled { lacks: Some(lacks.to_owned()), ..Scheduled::default() };
    assert_eq!(
        judged(lacks("there is no table schedule_timeouts along database.search_path")),
        Fine
    );
    assert_eq!(judged(lacks("the user lacks DELETE on scheduled_notices")), Warning);
    assert_eq!(judged(Scheduled::default()), Fine);
    assert_eq!(
        judged(Scheduled { notices: 5_000, oldest_ms: 10_000, ..Scheduled::default() }),
        Fine
    );
    assert_eq!(
        judged(Scheduled { notices: 1, oldest_ms: 10_001, ..Scheduled::default() }),
        Warning
    );
    assert_eq!(judged(Scheduled { refused: 1, ..Scheduled::default() }), Warning);
}

#[test]
fn tables_effects_index_outbox() {
    let judged = |tables: &[Table]| {
        let Draft { severity, message, fix, .. } = database::judge_tables(tables, &[]);
        (severity.unwrap(), message, fix.map(text).unwrap_or_default())
    };
    assert_eq!(judged(&[table("outbox", false, &[])]).0, Error);
    let (severity, message, fix) = judged(&[
        table("closures", true, &["DELETE"]),
        table("outbox", true, &["SELECT", "UPDATE"]),
    ]);
    assert_eq!(severity, Error);
    // All at once, not one after the other.
    assert_eq!(message, "the user lacks DELETE on closures; SELECT, UPDATE on outbox");
    assert!(fix.contains("GRANT DELETE ON closures TO"), "{fix}");
    assert!(fix.contains("GRANT SELECT, UPDATE ON outbox TO"), "{fix}");
    // Whoever is on call.
    let reads = [
        table("closures", true, &["DELETE"]),
        table("dropped_messages", true, &["DELETE", "SELECT"]),
        table("outbox_refused", true, &["DELETE", "INSERT", "UPDATE"]),
    ];
    assert_eq!(judged(&reads).0, Fine);
    let closed = database::judge_tables(&[table("outbox", false, &[])], &[schema(false, &[])]);
    assert_eq!(
        closed.message,
        "the user lacks USAGE on schema overdue, and so does not find outbox"
    );
    assert!(text(closed.fix.unwrap()).starts_with("GRANT USAGE ON SCHEMA overdue TO"));
    let open = database::judge_search_path(&[schema(true, &[]), schema(true, &["PUBLIC", "eve"])]);
    assert_eq!(open.severity.unwrap(), Warning);
    assert_eq!(text(open.fix.unwrap()), "REVOKE CREATE ON SCHEMA overdue FROM PUBLIC, eve");
    let close = || "close".to_owned();
    let misfit = Err(Gap::new("column 2 is missing", "see docs/effects.md"));
    assert_eq!(
        database::judge_effects(&[(close(), Ok(EffectPlan::default())), (close(), misfit)])
            .severity
            .unwrap(),
        Error
    );
    assert_eq!(database::judge_effects(&[]).severity.unwrap(), Warning);
    // Never analysed, small, and large.
    for (rows, severity) in [(None, Warning), (Some(999), Fine), (Some(1_000), Warning)] {
        let scans = vec![Scan { table: "Purchase".to_owned(), rows }];
        let plan = EffectPlan { scans, ..EffectPlan::default() };
        let draft = database::judge_effects(&[(close(), Ok(plan))]);
        assert_eq!(draft.severity.unwrap(), severity);
        let fix = draft.fix.map(text);
        assert!(
            fix.is_none_or(|fix| fix.starts_with("CREATE INDEX CONCURRENTLY ON \"Purchase\" "))
        );
    }
    let scans = |scans: &[&str]| {
        let scans = scans.iter().map(|table| (*table).to_owned()).collect();
        database::judge_sweeps(&[(close(), Ok(Sweep::Planned { scans }))])
    };
    assert_eq!(scans(&[]).severity.unwrap(), Fine);
    let draft = scans(&["Orders"]);
    assert_eq!(draft.severity.unwrap(), Warning);
    assert!(text(draft.fix.unwrap()).starts_with("CREATE INDEX CONCURRENTLY ON \"Orders\" ("));
    assert_eq!(database::judge_sweeps(&[(close(), Ok(Sweep::None))]).severity.unwrap(), Warning);
    let outbox = |events, oldest_ms| {
        let outbox = Outbox { events, oldest_ms, ..Outbox::default() };
        database::judge_outbox(&outbox).severity.unwrap()
    };
    assert_eq!(outbox(0, 0), Fine);
    assert_eq!(outbox(5_000, 10_000), Fine);
    assert_eq!(outbox(1, 10_001), Warning);
    let refused = database::judge_outbox(&Outbox {
        refused: 2,
        longest: Some(RefusedName {
            event: "order.closed".to_owned(),
            lasts_ms: 700_000,
            order_id: Some("o-7".to_owned()),
            reason: Some("it is full".to_owned()),
        }),
        ..Outbox::default()
    });
    assert_eq!(refused.severity.unwrap(), Warning);
    assert_eq!(
        refused.message,
        "2 events refused or not confirmed by the broker; for the longest time order.closed (11m), the oldest of order o-7: it is full"
    );
    let bad = database::judge_outbox(&Outbox {
        unpublishable: 1,
        unpublishable_reason: Some("it has no order id".to_owned()),
        ..Outbox::default()
    });
    assert_eq!(bad.severity.unwrap(), Warning);
    assert_eq!(bad.message, "1 event can never be published: it has no order id");
}

#[test]
fn the_machine() {
    assert_eq!(machine::judge_open_files(1_023).severity.unwrap(), Warning);
    assert_eq!(machine::judge_open_files(1_024).severity.unwrap(), Fine);
    assert_eq!(machine::judge_open_files(u64::MAX).severity.unwrap(), Fine);
    assert_eq!(machine::judge_cores(1).severity.unwrap(), Warning);
    assert_eq!(machine::judge_cores(2).severity.unwrap(), Fine);
}
