//! The report of the doctor, and which facts make which check an error or a warning.

use std::collections::BTreeSet;

use overdue::internals::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    doctor::{AmqpConnection, ApiFacts, CHECKS, Facts, Gap, Session, diagnose},
    topology::Topology,
};

use super::facts::{silent, table, well};
use crate::samples::{DELAYED, two_timeouts};

#[test]
fn all_is_well() {
    insta::assert_snapshot!(diagnose(&well()));
}

#[test]
fn nothing_answers() {
    let diagnosis = diagnose(&silent());
    assert!(!diagnosis.ok);
    insta::assert_snapshot!(diagnosis);
}

/// Said once, where it is an error; what follows from it is one short line each.
#[test]
fn only_the_management_api_is_unavailable() {
    let mut facts = well();
    facts.broker.api = ApiFacts::unknown(
        "overdue".to_owned(),
        Gap::new(
            "the management API at http://mq.example:15672 gives no answer (connection refused)",
            "correct broker.management_url, or: rabbitmq-plugins enable rabbitmq_management",
        ),
    );
    let report = diagnose(&facts).to_string();
    assert_eq!(report.matches("connection refused").count(), 1, "{report}");
    insta::assert_snapshot!(report);
}

/// What `overdue verify` finds is a check like the others; what `overdue apply` puts right is one of them.
#[test]
fn what_verify_finds_is_said_by_the_doctor() {
    let finding = |rule, severity, subject: Subject, message: &str, fix| Diagnostic {
        rule,
        severity,
        subject,
        message: message.to_owned(),
        reason: None,
        fix: Some(fix),
    };
    let mut facts = well();
    let policy = || Fix::Policies { policy: Some("short".to_owned()), operator: None };
    let queue = |name: &str| Subject::Queue(name.to_owned());
    facts.verified = Ok(vec![
        finding(
            "policy",
            Severity::Error,
            Subject::Policy("short".to_owned()),
            "it has max-length 10",
            policy(),
        ),
        finding(
            "missing-queue",
            Severity::Error,
            queue("orders.unpaid"),
            "it does not exist",
            Fix::Apply,
        ),
        finding(
            "stuck",
            Severity::Warning,
            queue("orders.parked"),
            "it is full",
            Fix::Text("drain it".to_owned()),
        ),
    ]);
    let report = diagnose(&facts);
    assert!(!report.ok);
    let text = report.to_string();
    let (_, topology) = text.split_once("Topology\n").unwrap();
    insta::assert_snapshot!(topology.split("Database\n").next().unwrap());
}

/// The least rights: a worker may do without the management API, so there is no error.
#[test]
fn a_worker_without_a_tag() {
    let mut facts = well();
    let gap = Gap::denied("user overdue may not read it", "ask somebody");
    facts.broker.api = ApiFacts::unknown("overdue".to_owned(), gap);
    let diagnosis = diagnose(&facts);
    assert!(diagnosis.ok);
    insta::assert_snapshot!(diagnosis);
}

/// The database has no tables yet: that is an error twice, and what follows says no more than that.
#[test]
fn tables_and_effects_that_are_missing() {
    let mut facts = well();
    let gap = Gap::new("relation outbox does not exist", "see docs/effects.md");
    facts.database.tables = Ok(vec![table("outbox", false, &[])]);
    facts.database.outbox = Err(gap.clone());
    facts.database.effects = vec![("close".to_owned(), Err(gap.clone()))];
    facts.database.obstacles = Vec::new();
    facts.database.sweeps = vec![("close".to_owned(), Err(gap))];
    let report = diagnose(&facts).to_string();
    assert_eq!(report.matches("does not exist").count(), 1, "{report}");
    for follows in [
        "not known: effect close does not fit\n                                 fix: see effects",
        "not known: there is no outbox\n                                 fix: see tables",
    ] {
        assert!(report.contains(follows), "{report}");
    }
}

#[test]
fn as_json() {
    let json = serde_json::to_value(diagnose(&silent())).unwrap();
    assert_eq!(json["version"], 2);
    assert_eq!(json["ok"], false);
    let first = serde_json::to_string_pretty(&json["checks"][0]).unwrap();
    insta::assert_snapshot!(first);
}

#[test]
fn there_are_more_than_twenty_and_each_has_a_name_of_its_own() {
    let names: BTreeSet<_> = CHECKS.iter().map(|check| (check.area, check.name)).collect();
    assert_eq!(names.len(), CHECKS.len());
    assert!(CHECKS.len() >= 30);
}

/// Whatever is wrong comes with what to do, in one line.
#[test]
fn whatever_is_not_ok_has_a_fix() {
    for facts in [well(), silent()] {
        for check in diagnose(&facts).checks {
            let fix = check.fix.unwrap_or_default();
            assert_eq!(check.severity == Severity::Ok, fix.is_empty(), "{}", check.rule);
            assert!(!fix.contains('\n') && !check.message.contains('\n'), "{}", check.rule);
        }
    }
}

fn severity(facts: &Facts, area: &'static str, name: &str) -> Severity {
    let checks = diagnose(facts).checks;
    let check =
        checks.into_iter().find(|check| check.subject == Subject::Area(area) && check.rule == name);
    check.unwrap_or_else(|| panic!("no check {area} {name}")).severity
}

#[test]
fn a_refused_login_is_not_an_unreachable_broker() {
    let mut facts = well();
    facts.broker.connection = AmqpConnection::LoginRefused("no".to_owned());
    assert_eq!(severity(&facts, "Broker", "reachable"), Severity::Ok);
    assert_eq!(severity(&facts, "Broker", "login"), Severity::Error);
    assert_eq!(severity(&facts, "Broker", "virtual-host"), Severity::Warning);
    facts.broker.connection = AmqpConnection::NoVirtualHost("no".to_owned());
    assert_eq!(severity(&facts, "Broker", "login"), Severity::Ok);
    assert_eq!(severity(&facts, "Broker", "virtual-host"), Severity::Error);
    facts.broker.connection = AmqpConnection::Open { answers: false };
    assert_eq!(severity(&facts, "Broker", "publishing"), Severity::Error);
    facts.database.session = Session::LoginRefused("no".to_owned());
    assert_eq!(severity(&facts, "Database", "reachable"), Severity::Ok);
    assert_eq!(severity(&facts, "Database", "login"), Severity::Error);
}

/// A worker does without the management API; what is missing is a right, not the broker.
#[test]
fn a_missing_right_is_a_warning() {
    let mut facts = well();
    facts.broker.api.overview = Err(Gap::denied("user overdue may not", "give it the tag"));
    assert_eq!(severity(&facts, "Broker", "management-api"), Severity::Warning);
    facts.broker.api.overview = Err(Gap::new("no answer", "start it"));
    assert_eq!(severity(&facts, "Broker", "management-api"), Severity::Error);
    facts.broker.api.permissions = Err(Gap::denied("it takes the administrator tag", "ask"));
    assert_eq!(severity(&facts, "Topology", "worker-rights"), Severity::Warning);
}

/// Whoever has the plugin is told what it costs, and whoever needs it that it is off.
#[test]
fn the_plugin_of_delayed_messages_shows_by_its_exchange_type() {
    let judged = |topology: Topology, kind: &str| {
        let mut facts = well();
        facts.topology = Ok(topology);
        facts.broker.api.overview.as_mut().unwrap().exchange_types.push(kind.to_owned());
        let report = diagnose(&facts).to_string();
        let line = report.lines().find(|line| line.contains("plugins")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let needs_it = || Topology::parse(DELAYED).unwrap();
    assert_eq!(judged(needs_it(), "x-delayed-message"), "warning");
    assert_eq!(judged(needs_it(), "headers"), "error");
    assert_eq!(judged(two_timeouts(), "x-delayed-message"), "warning");
    assert_eq!(judged(two_timeouts(), "headers"), "ok");
}
