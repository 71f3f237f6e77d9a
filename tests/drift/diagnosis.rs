//! The report of the doctor, and which facts make which check red or amber.

use std::collections::BTreeSet;

use overdue::doctor::{
    CHECKS, Colour, diagnose,
    facts::{AmqpConnection, Facts, Gap, Session},
};

use super::facts::{silent, well};

#[test]
fn all_is_well() {
    insta::assert_snapshot!(diagnose(&well()));
}

#[test]
fn nothing_answers() {
    let diagnosis = diagnose(&silent());
    assert!(!diagnosis.works);
    insta::assert_snapshot!(diagnosis);
}

#[test]
fn as_json() {
    let json = serde_json::to_value(diagnose(&silent())).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["works"], false);
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
fn every_colour_but_green_has_a_fix() {
    for facts in [well(), silent()] {
        for check in diagnose(&facts).checks {
            let fix = check.verdict.fix.unwrap_or_default();
            assert_eq!(check.verdict.colour == Colour::Green, fix.is_empty(), "{}", check.name);
            assert!(!fix.contains('\n') && !check.verdict.finding.contains('\n'), "{}", check.name);
        }
    }
}

fn colour(facts: &Facts, area: &str, name: &str) -> Colour {
    let checks = diagnose(facts).checks;
    let check = checks.into_iter().find(|check| check.area == area && check.name == name);
    check.unwrap_or_else(|| panic!("no check {area} {name}")).verdict.colour
}

#[test]
fn a_refused_login_is_not_an_unreachable_broker() {
    let mut facts = well();
    facts.broker.connection = AmqpConnection::LoginRefused("no".to_owned());
    assert_eq!(colour(&facts, "Broker", "reachable"), Colour::Green);
    assert_eq!(colour(&facts, "Broker", "login"), Colour::Red);
    assert_eq!(colour(&facts, "Broker", "virtual-host"), Colour::Amber);
    facts.broker.connection = AmqpConnection::NoVirtualHost("no".to_owned());
    assert_eq!(colour(&facts, "Broker", "login"), Colour::Green);
    assert_eq!(colour(&facts, "Broker", "virtual-host"), Colour::Red);
    facts.broker.connection = AmqpConnection::Open { answers: false };
    assert_eq!(colour(&facts, "Broker", "publishing"), Colour::Red);
    facts.database.session = Session::LoginRefused("no".to_owned());
    assert_eq!(colour(&facts, "Database", "reachable"), Colour::Green);
    assert_eq!(colour(&facts, "Database", "login"), Colour::Red);
}

/// A worker does without the management API; what is missing is a right, not the broker.
#[test]
fn a_missing_right_is_amber() {
    let mut facts = well();
    facts.broker.api.overview = Err(Gap::denied("user overdue may not", "give it the tag"));
    assert_eq!(colour(&facts, "Broker", "management-api"), Colour::Amber);
    facts.broker.api.overview = Err(Gap::new("no answer", "start it"));
    assert_eq!(colour(&facts, "Broker", "management-api"), Colour::Red);
    facts.broker.api.permissions = Err(Gap::denied("it takes the administrator tag", "ask"));
    assert_eq!(colour(&facts, "Topology", "worker-rights"), Colour::Amber);
}
