//! What a broker version cannot do.

use overdue::internals::{
    diagnostic::Diagnostic,
    topology::{
        check::{BrokerVersion, Surroundings},
        lint, report,
    },
};

use crate::samples::{WITHOUT_FINDINGS, edited};

fn on(text: &str, broker: &str) -> Vec<Diagnostic> {
    let broker = broker.parse().expect("a version");
    lint(text, &Surroundings { broker: Some(broker), ..Surroundings::default() })
}

fn rules(text: &str, broker: &str) -> Vec<&'static str> {
    on(text, broker).iter().map(|finding| finding.rule).collect()
}

#[test]
fn nothing_is_said_about_the_versions_it_is_tested_with() {
    for broker in ["4.0", "4.0.1", "4.0.5", "4.1", "4.2", "4.2.7", "4.2.9", "4.3", "4.3.3", "4.3.6"]
    {
        assert_eq!(rules(WITHOUT_FINDINGS, broker), [""; 0], "on {broker}");
    }
}

#[test]
fn quorum_queues_need_4_0() {
    for broker in ["3.7.28", "3.8", "3.9.29", "3.10", "3.13", "3.13.7"] {
        assert_eq!(
            rules(WITHOUT_FINDINGS, broker),
            ["broker-untested", "broker-version"],
            "on {broker}"
        );
    }
    let said = |broker: &str| on(WITHOUT_FINDINGS, broker).pop().expect("a finding").message;
    for (broker, first_lacks) in [
        ("3.7", "has no quorum queues"),
        ("3.8", "refuses a message TTL on a quorum queue"),
        ("3.9.29", "refuses a message TTL on a quorum queue"),
        ("3.10", "the parking lot loses a message"),
        ("3.13", "the parking lot loses a message"),
    ] {
        assert!(said(broker).contains(first_lacks), "{}", said(broker));
    }
}

#[test]
fn classic_queues_are_only_untested() {
    let classic = edited("type = \"quorum\"\ndelivery_limit = 20", "type = \"classic\"");
    assert_eq!(rules(&classic, "3.8"), ["broker-untested", "at-most-once"]);
    assert_eq!(rules(&classic, "4.2.0"), ["at-most-once"]);
    let message = |broker: &str| on(&classic, broker).pop().expect("at-most-once").message;
    assert!(message("3.13").contains("replicated only by a policy"), "{}", message("3.13"));
    assert!(message("4.0").contains("are not replicated"), "{}", message("4.0"));
}

#[test]
fn faults_of_patches() {
    for (broker, hit) in [
        ("4.1.0", false),
        ("4.2.0", true),
        ("4.2.6", true),
        ("4.2.7", false),
        ("4.3.0", true),
        ("4.3.2", true),
        ("4.3.3", false),
        // The newest patch is meant.
        ("4.2", false),
        ("4.3", false),
    ] {
        assert_eq!(rules(WITHOUT_FINDINGS, broker) == ["broker-bug"], hit, "on {broker}");
    }
}

#[test]
fn the_plugin_runs_on_4_2_and_no_later_series() {
    let plugin = edited("levels =", "strategy = \"delayed-exchange\"\nlevels =");
    for (broker, runs) in [("4.1", true), ("4.2.9", true), ("4.3", false), ("4.4.0", false)] {
        assert_eq!(!rules(&plugin, broker).contains(&"broker-plugin"), runs, "on {broker}");
    }
}

#[test]
fn every_text() {
    let brokers = ["3.7.28", "3.9", "3.13.7", "4.2.1", "4.3.2", "4.4", "5.0"];
    let page: Vec<String> = brokers
        .iter()
        .map(|broker| {
            format!(
                "# {broker}\n\n{}\n",
                report::render("topology.toml", WITHOUT_FINDINGS, &on(WITHOUT_FINDINGS, broker))
            )
        })
        .collect();
    insta::assert_snapshot!(page.join("\n"));
}

#[test]
fn versions() {
    let parse = |text: &str| text.parse::<BrokerVersion>();
    for text in ["4.0", "4.3.2", "3.13.7", "10.20.30"] {
        assert_eq!(parse(text).expect("a version").to_string(), text);
    }
    for text in ["", "4", "4.", "v4.0", "4.0.1.2", "4.x", "4.-1", "4.99999999", " 4.0"] {
        let error = parse(text).expect_err(text).to_string();
        assert_eq!(
            error,
            format!("`{text}` is not a RabbitMQ version: write it like `4.3` or `4.3.2`")
        );
    }
    let version = |text: &str| parse(text).expect("a version");
    assert!(version("3.13.7") < version("4.0") && version("4.0") < version("4.0.1"));
    assert!(version("3.8") < version("3.10"), "numbers, not texts");
}
