//! Each judgement at its bounds.

use std::collections::BTreeMap;

use overdue::{
    doctor::{
        Colour::{Amber, Green, Red},
        Verdict, broker, clocks, cluster, database,
        facts::{Alarm, Gap, Outbox, Permission, Replicas, Skew, Sweep, is_loopback},
        machine, rights, tables, work,
    },
    plan::{snapshot::Snapshot, stats::QueueStats},
};

use super::facts::{server, table};
use crate::samples::two_timeouts;

#[test]
fn clocks_differ_only_by_more_than_the_reading_can_be_off() {
    let judge = |ahead_ms, margin_ms| {
        clocks::judge_clock(Skew { ahead_ms, margin_ms }, "this machine's").colour
    };
    for (ahead_ms, margin_ms, colour) in [
        (0, 0, Green),
        (1_000, 0, Green),
        (1_001, 0, Amber),
        (-1_001, 0, Amber),
        (2_000, 1_000, Green),
        (2_001, 1_000, Amber),
        (5_000, 0, Amber),
        (5_001, 0, Red),
        (-5_001, 0, Red),
        (6_000, 1_000, Amber),
        (i64::MIN, 0, Red),
        (i64::MAX, i64::MAX, Green),
    ] {
        assert_eq!(judge(ahead_ms, margin_ms), colour, "{ahead_ms} ± {margin_ms}");
    }
    let (database, broker) =
        (Skew { ahead_ms: 300, margin_ms: 2 }, Skew { ahead_ms: -400, margin_ms: 500 });
    assert_eq!(clocks::between(database, broker), Skew { ahead_ms: 700, margin_ms: 502 });
}

#[test]
fn versions() {
    for (version, colour) in [
        ("4.3.6", Green),
        ("4.0.0", Green),
        ("5.0.0-beta.1", Green),
        ("3.13.7", Amber),
        ("3.12.14", Red),
        ("latest", Amber),
    ] {
        assert_eq!(broker::judge_version(version).colour, colour, "{version}");
    }
    for (number, colour) in [
        (180_006, Green),
        (140_000, Green),
        (130_022, Amber),
        (120_000, Amber),
        (110_000, Red),
        (90_600, Red),
    ] {
        assert_eq!(database::judge_version(number).colour, colour, "{number}");
    }
}

#[test]
fn tls_is_wanted_where_the_wire_leaves_the_machine() {
    assert_eq!(broker::judge_tls(false, false, "").colour, Amber);
    assert_eq!(broker::judge_tls(false, true, "").colour, Green);
    assert_eq!(broker::judge_tls(true, false, "").colour, Green);
    for (host, here) in [
        ("localhost", true),
        ("127.0.0.1", true),
        ("[::1]", true),
        ("/run/postgresql", true),
        ("10.127.0.1", false),
        ("mq.example", false),
    ] {
        assert_eq!(is_loopback(host), here, "{host}");
    }
}

#[test]
fn nodes() {
    assert_eq!(cluster::judge_feature_flags(&["khepri_db".to_owned()]).colour, Amber);
    assert_eq!(cluster::judge_plugins(true, &Ok(Vec::new())).colour, Amber);
    let unknown = Err(Gap::denied("", ""));
    assert_eq!(cluster::judge_plugins(false, &unknown).colour, Green);
    let alarm = Alarm { node: "rabbit@a".to_owned(), resource: "disk space".to_owned() };
    let alarms = [alarm];
    assert_eq!(cluster::judge_alarms(&alarms, "memory", "").colour, Green);
    assert_eq!(cluster::judge_alarms(&alarms, "disk", "").colour, Red);
}

#[test]
fn copies_of_a_queue() {
    let queue = |leader: Option<&str>, online: usize| Replicas {
        queue: "orders.unpaid".to_owned(),
        leader: leader.map(str::to_owned),
        members: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        online: ["a", "b", "c"][..online].iter().map(|node| (*node).to_owned()).collect(),
    };
    let colour = |queue: &Replicas| cluster::judge_replicas(&[queue]).colour;
    assert_eq!(colour(&queue(Some("a"), 3)), Green);
    assert_eq!(colour(&queue(Some("a"), 2)), Amber);
    assert_eq!(colour(&queue(None, 3)), Red);
    assert_eq!(colour(&queue(Some("c"), 2)), Red, "its leader is away");
    assert_eq!(cluster::judge_replicas(&[]).colour, Green);
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
        rights::judge_rights(&two_timeouts(), role, "u", own.as_ref(), Verdict::red)
    };
    let roles = overdue::permissions::Role::all(&two_timeouts());
    for role in roles.iter().filter(|role| role.name != "publisher") {
        use overdue::permissions::Right::{Configure, Read, Write};
        let [configure, write, read] = [Configure, Write, Read].map(|right| role.expression(right));
        assert_eq!(judge(role.name, Some(own(&configure, &write, &read))).colour, Green);
        assert_eq!(judge(role.name, Some(own(&configure, "^$", &read))).colour, Red);
    }
    assert_eq!(judge("worker", None).colour, Red);
    assert_eq!(judge("worker", Some(own("", "", ""))).colour, Red);
    let lacks = judge("worker", Some(own("", ".*", r"^orders\.unpaid")));
    assert_eq!(
        lacks.finding,
        "user u lacks read on orders.unshipped (consume what is due), and 1 more"
    );
    // The broker takes all of PCRE; what cannot be read here is not called wrong.
    assert_eq!(judge("worker", Some(own("", "(?(DEFINE)x)(", ".*"))).colour, Amber);
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
    assert_eq!(
        work::judge_dead_letters(&topology, &stats("orders.delay.1s", 31, 0, 0)).colour,
        Green
    );
    assert_eq!(
        work::judge_dead_letters(&topology, &stats("orders.delay.1s", 32, 0, 0)).colour,
        Amber
    );
    assert_eq!(work::judge_dead_letters(&topology, &stats("other.delay", 99, 0, 0)).colour, Green);
    assert_eq!(work::judge_parked(&topology, &stats("orders.parked.2", 0, 0, 1)).colour, Amber);
    assert_eq!(work::judge_parked(&topology, &stats("orders.unpaid", 0, 0, 1)).colour, Green);
    assert_eq!(work::judge_applied(&topology, &Snapshot::default()).colour, Amber);
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
        let Verdict { colour, finding, fix } =
            work::judge_consumers(&two_timeouts(), &stats.collect::<BTreeMap<_, _>>());
        format!("{colour:?}: {finding}\n  {}", fix.unwrap_or_default())
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

#[test]
fn one_is_no_plural() {
    let replicas = Replicas {
        queue: "orders.unpaid".to_owned(),
        leader: Some("a".to_owned()),
        members: vec!["a".to_owned()],
        online: vec!["a".to_owned()],
    };
    let outbox = |events, oldest_ms| tables::judge_outbox(Outbox { events, oldest_ms }).finding;
    let found = [
        cluster::judge_replicas(&[&replicas]).finding,
        cluster::judge_replicas(&[&replicas, &replicas]).finding,
        outbox(1, 900),
        outbox(2, 1_000),
        outbox(1, 60_001),
        outbox(2, 90_000),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn connections_for_one_worker_more() {
    let free = |max_connections, used| {
        let server = overdue::doctor::facts::Server { max_connections, used, ..server() };
        database::judge_connections(&server, 16).colour
    };
    assert_eq!(free(100, 17), Green);
    assert_eq!(free(100, 81), Green, "16 are left");
    assert_eq!(free(100, 82), Amber);
    assert_eq!(free(100, 500), Amber);
    assert_eq!(free(18, 1), Red, "3 are reserved: it never gets 16");
}

#[test]
fn tables_effects_index_outbox() {
    assert_eq!(tables::judge_tables(&[table("outbox", false, &[])]).colour, Red);
    let denied = tables::judge_tables(&[table("outbox", true, &["DELETE", "UPDATE"])]);
    assert_eq!(denied.colour, Red);
    assert!(denied.fix.unwrap().starts_with("GRANT DELETE, UPDATE ON outbox"));
    let close = || "close".to_owned();
    let misfit = Err(Gap::new("column 2 is missing", "see docs/effects.md"));
    assert_eq!(tables::judge_effects(&[(close(), Ok(())), (close(), misfit)]).colour, Red);
    assert_eq!(tables::judge_effects(&[]).colour, Amber);
    let scans = |scans: &[&str]| {
        let scans = scans.iter().map(|table| (*table).to_owned()).collect();
        tables::judge_sweeps(&[(close(), Ok(Sweep::Planned { scans }))]).colour
    };
    assert_eq!(scans(&[]), Green);
    assert_eq!(scans(&["orders"]), Amber);
    assert_eq!(tables::judge_sweeps(&[(close(), Ok(Sweep::None))]).colour, Amber);
    let outbox = |events, oldest_ms| tables::judge_outbox(Outbox { events, oldest_ms }).colour;
    assert_eq!(outbox(0, 0), Green);
    assert_eq!(outbox(5_000, 60_000), Green);
    assert_eq!(outbox(1, 60_001), Amber);
}

#[test]
fn the_machine() {
    assert_eq!(machine::judge_open_files(1_023).colour, Amber);
    assert_eq!(machine::judge_open_files(1_024).colour, Green);
    assert_eq!(machine::judge_open_files(u64::MAX).colour, Green);
    assert_eq!(machine::judge_cores(1).colour, Amber);
    assert_eq!(machine::judge_cores(2).colour, Green);
}
