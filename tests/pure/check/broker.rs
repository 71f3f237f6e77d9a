//! Features that a broker version lacks.

use std::fmt::Write;

use overdue::internals::topology::{
    check::{BrokerVersion, Surroundings},
    lint, report,
};

use crate::samples::{WITHOUT_FINDINGS, edited};

/// Rules with a finding in three files, version by version; then their texts.
#[test]
fn what_each_version_lacks() {
    let classic = edited("type = \"quorum\"\ndelivery_limit = 20", "type = \"classic\"");
    let plugin = edited("levels =", "strategy = \"delayed-exchange\"\nlevels =");
    let on = |text: &str, broker: &str| {
        let broker = Some(broker.parse().expect("a version"));
        lint(text, &Surroundings { broker, ..Surroundings::default() })
    };
    let mut page = String::new();
    for broker in [
        "3.7.28", "3.13.7", "4.0", "4.0.5", "4.1.0", "4.2.0", "4.2.6", "4.2.7", "4.2.9", "4.2",
        "4.3.0", "4.3.2", "4.3.3", "4.3.6", "4.3", "4.4.0", "5.0",
    ] {
        let rules = [WITHOUT_FINDINGS, &classic, &plugin].map(|text| {
            on(text, broker).iter().map(|found| found.rule).collect::<Vec<_>>().join(", ")
        });
        let [quorum, classic, plugin] = rules;
        writeln!(page, "{broker}: [{quorum}] classic: [{classic}] plugin: [{plugin}]").unwrap();
    }
    for (text, broker) in [
        (WITHOUT_FINDINGS, "3.13.7"),
        (WITHOUT_FINDINGS, "4.2.1"),
        (WITHOUT_FINDINGS, "4.3.2"),
        (WITHOUT_FINDINGS, "4.4"),
        (WITHOUT_FINDINGS, "5.0"),
        (&classic, "4.0"),
        (&plugin, "4.3"),
    ] {
        let report = report::render("topology.toml", text, &on(text, broker));
        writeln!(page, "\n# {broker}\n\n{report}").unwrap();
    }
    insta::assert_snapshot!(page);
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
