//! The findings about a `topology.toml`: the place, its content, the mistake, and the correction.

use std::{collections::BTreeSet, ops::Range};

use overdue::internals::{
    diagnostic::{Diagnostic, Severity, Subject, counts_by_severity},
    topology::{
        Topology,
        check::Surroundings,
        lint,
        report::{Report, render},
    },
};

use crate::samples::{WITHOUT_FINDINGS, edited};

fn findings(text: &str) -> Vec<Diagnostic> {
    lint(text, &Surroundings::default())
}

fn rules(text: &str) -> Vec<&'static str> {
    findings(text).iter().map(|finding| finding.rule).collect()
}

/// Each edit of the good file.
const EDITS: &[(&str, &str)] = &[
    ("\"orders\"", "\"orders"),
    ("[queues]", "[queues"),
    ("after = \"30m\"", "after = 30m"),
    ("type = \"quorum\"", "type = \"quorum\"\ntype = \"classic\""),
    ("delivery_limit = 20", "delivery_limit = \"20\""),
    ("delivery_limit = 20", "delivery_limit = 2.5"),
    ("delivery_limit = 20", "delivery_limit = 0"),
    ("delivery_limit = 20", "delivery_limit = 1000001"),
    ("delivery_limit = 20", "delivery_limit = 99999999999999999999"),
    ("[[timeout]]", "[timeout]"),
    ("[delay]", "[[delay]]"),
    ("\"5s\", \"30s\", \"5m\"", "\"5s\", 5, \"30s\", \"5m\""),
    ("after = \"30m\"", "after = 2026-01-01"),
    ("{ virtual = \"5m\" }", "\"5m\""),
    ("type = \"quorum\"", "type = \"quorom\""),
    ("levels =", "strategy = \"plugin\"\nlevels ="),
    ("[queues]", "[queue]"),
    ("levels =", "levles ="),
    ("effect =", "gone = \"forget\"\neffect ="),
    ("effect =", "owner = \"a team\"\neffect ="),
    ("effect =", "levels = [\"5m\"]\neffect ="),
    ("name = \"orders\"\n", ""),
    ("name = \"unpaid\"\n", ""),
    ("\"30m\"]", "\"30m\"]\nladder = { max = \"1h\", queues = 201 }"),
    ("levels =", "strategy = \"ladder\"\nladder = { max = \"1h\", queues = 28 }\nlevels ="),
    ("levels = [\"5s\", \"30s\", \"5m\", \"30m\"]\n", ""),
    (
        "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\nafter_by_category = { virtual = \"5m\" }\n",
        "",
    ),
    ("\"orders\"", "\"our orders\""),
    ("\"orders\"", "\"amq.orders\""),
    ("\"orders\"", "\"bestellungen-für-alle\""),
    ("\"orders\"", "\"orders.\""),
    ("\"30m\"]", "\"15m\", \"30m\"]"),
    ("\"30m\"]", "\"30m\", \"1d\", \"2d\"]"),
    ("\"30s\", \"5m\", \"30m\"]", "\"30s\", \"5m\", \"300s\", \"30m\"]"),
    ("\"5s\", \"30s\", \"5m\"", "\"30s\", \"5s\", \"5m\""),
    ("\"30m\"]", "\"30m\"]\nlead = \"3s\""),
    ("\"30m\"]", "\"30m\"]\nlead = \"2m\""),
    ("\"30m\"]", "\"30m\"]\nlead = \"soon\""),
    ("levels =", "strategy = \"ladder\"\nlevels ="),
    ("\"30m\"]", "\"30m\"]\nladder = { max = \"1h\" }"),
    ("\"unpaid\"", "\"un.paid\""),
    ("\"unpaid\"", "\"parked\""),
    ("after = \"30m\"", "after = \"1800s\""),
    ("virtual = \"5m\"", "virtual = \"2m\""),
    ("[\"5s\", \"30s\"]", "[\"5s\", \"30s\", \"3m\"]"),
    ("effect = \"close\"", "effect = \" \""),
    ("effect = \"close\"", "effect = \"write_off\""),
    ("virtual = \"5m\"", "\" \" = \"5m\""),
    (
        "[retry]",
        "[[timeout]]\nname = \"unshipped\"\nafter = \"30m\"\nafter_by_category = { physical = \"30m\", virtual = \"5m\" }\n\n[retry]",
    ),
    ("type = \"quorum\"\ndelivery_limit = 20", "type = \"classic\""),
    ("delivery_limit = 20", "delivery_limit = 11"),
    ("after = [\"5s\", \"30s\"]", "after = []"),
    ("[\"5s\", \"30s\"]", "[\"30s\", \"5s\"]"),
    ("[queues]", "[compat.x-delay]\nexchange = \"amq.x\"\n\n[queues]"),
    ("[queues]", "[compat.x-delay]\nexchange = \"\"\n\n[queues]"),
    ("[queues]", "[compat.x-delay]\nexchange = \"orders.x\"\n\n[queues]"),
];

/// The rule, the place and the correction of each finding, as people and programs read them.
#[test]
fn each_mistake_is_found_by_its_rule_at_its_place() {
    let mut reports = Vec::new();
    for (old, new) in EDITS {
        let text = WITHOUT_FINDINGS.replacen(old, new, 1);
        assert_ne!(text, WITHOUT_FINDINGS, "{old}");
        let findings = findings(&text);
        let is_error = findings.iter().any(|it| it.severity == Severity::Error);
        assert_eq!(Topology::parse(&text).is_err(), is_error, "only errors make it unusable");
        reports.push(render("topology.toml", &text, &findings));
    }
    insta::assert_snapshot!(reports.join("\n\n"));
}

#[test]
fn nothing_is_said_about_good_files() {
    assert_eq!(findings(WITHOUT_FINDINGS), []);
    let equal = edited("[\"5s\", \"30s\"]\n", "[\"5s\", \"30s\", \"30s\"]\n");
    assert_eq!(findings(&equal), []);
    // A timeout for orders of every category is no mistake, also next to timeouts with categories.
    let alike = edited("[retry]", "[[timeout]]\nname = \"unshipped\"\nafter = \"30m\"\n\n[retry]");
    assert_eq!(findings(&alike), []);
    let repository = findings(include_str!("../../../topology.toml"));
    assert!(repository.iter().all(|finding| finding.severity == Severity::Note));
}

#[test]
fn names_may_have_the_length_that_leaves_room() {
    let named = |topology: usize, timeout: usize| {
        let text = WITHOUT_FINDINGS.replace("\"orders\"", &format!("\"{}\"", "n".repeat(topology)));
        text.replace("\"unpaid\"", &format!("\"{}\"", "u".repeat(timeout)))
    };
    assert_eq!(rules(&named(191, 61)), [""; 0]);
    assert_eq!(rules(&named(191, 62)), ["name-room"]);
    assert_eq!(rules(&named(191, 64)), ["timeout-name"]);
    assert_eq!(rules(&named(190, 64)), ["timeout-name"]);
    assert_eq!(rules(&named(192, 6)), ["topology-name"]);
    let topology = Topology::parse(&named(191, 63)).expect("at the limit, not over it");
    assert_eq!(topology.objects().queues.keys().map(String::len).max(), Some(255));
    let sharded = |timeout| named(191, timeout).replace("effect =", "shards = 11\neffect =");
    assert_eq!(rules(&sharded(52)), [""; 0]);
    assert_eq!(rules(&sharded(53)), ["name-room"]);
    assert_eq!(rules(&sharded(55)), ["shards"]);
    let topology = Topology::parse(&sharded(54)).expect("at the limit, not over it");
    assert_eq!(topology.objects().queues.keys().map(String::len).max(), Some(255));
}

#[test]
fn an_effect_of_the_settings_is_known() {
    let text = edited("effect = \"close\"", "effect = \"write_off\"");
    let effects = BTreeSet::from(["write_off".to_owned()]);
    assert_eq!(lint(&text, &Surroundings { effects, ..Surroundings::default() }), []);
}

/// Rules that see each other: one mistake is one finding.
#[test]
fn rules_that_meet() {
    let with = |strategy: &str| edited("levels =", &format!("strategy = \"{strategy}\"\nlevels ="));
    let compat = |text: &str, exchange: &str| {
        let section = format!("[compat.x-delay]\nexchange = \"{exchange}\"\n\n[queues]");
        text.replace("[queues]", &section)
    };
    let sharded = |text: &str| text.replace("effect =", "shards = 12\neffect =");
    let acked = |text: &str| text.replace("effect =", "gone = \"ack\"\neffect =");
    let (levels, plugin) = (with("levels"), with("delayed-exchange"));
    let ladder = with("ladder").replace("levels = [\"5s\", \"30s\", \"5m\", \"30m\"]\n", "");
    let ladder = ladder.replace("[queues]", "[delay.ladder]\nmax = \"10m\"\n\n[queues]");
    for (text, expected) in [
        // A short level that is listed and used as a retry: only the retry is the mistake.
        (levels.replace("[\"5s\", \"30s\"", "[\"999ms\", \"5s\", \"30s\""), &["retry-short"][..]),
        (
            levels.replace("\"quorum\"", "\"classic\"").replace("= 20", "= 1"),
            &["at-most-once", "delivery-limit-unused"],
        ),
        (plugin.clone(), &["level-unused"]),
        (compat(&plugin, "x"), &["level-unused", "compat-strategy"]),
        (sharded(&plugin), &["level-unused", "shards"]),
        (sharded(WITHOUT_FINDINGS), &[]),
        (compat(&levels, "x").replace("unpaid", "compat"), &["compat-ladder", "compat-word"]),
        (compat(&levels, &"n".repeat(255)), &["compat-ladder"]),
        (compat(&levels, &"n".repeat(256)), &["compat-exchange", "compat-ladder"]),
        (compat(&ladder.replace("10m", "1h"), "x"), &[]),
        (ladder.clone(), &["ladder-short"]),
        (acked(&levels), &[]),
        (
            acked(&levels.replace("[\"5s\", \"30s\"]\n", "[]\n")),
            &["level-unused", "gone", "retry-missing"],
        ),
        (ladder.replace("after = \"30m\"", "after = \"30 m\""), &["level-reference"]),
    ] {
        assert_eq!(rules(&text), expected, "{text}");
    }
}

/// Unknown and missing keys, other types, unknown words: the findings before the rules.
#[test]
fn every_key_and_value_that_cannot_be_used_is_reported_at_once() {
    let text = r#"nmae = "orders"
owner = "team checkout"

[delay]
strategy = "level"
levels = ["1m", 30, "5 m"]

[queue]
type = "quorom"

[timeout]
after = "30m"

[retry]
after = "1m"
"#;
    let findings = findings(text);
    assert_eq!(findings.len(), 7);
    insta::assert_snapshot!(render("topology.toml", text, &findings));
}

#[test]
fn every_violation_of_a_rule_is_reported_in_the_order_of_the_file() {
    let text = r#"name = "our orders"

[delay]
levels = ["5m", "1m", "60s", "1.5h"]

[queues]
delivery_limit = 1

[[timeout]]
name = "un.paid"
after = "31m"
after_by_category = { virtual = "2m", physical = "3m" }

[[timeout]]
name = "parked"
after = "5m"

[retry]
after = ["4m", "5m"]
"#;
    let findings = findings(text);
    let place = |finding: &Diagnostic| match &finding.subject {
        Subject::File(Range { start, .. }) => *start,
        subject => panic!("not a place in the file: {subject}"),
    };
    assert!(findings.iter().map(place).is_sorted());
    assert_eq!(
        counts_by_severity(findings.iter().map(|finding| finding.severity)),
        "10 errors, 1 warning, 1 note"
    );
    let errors = Topology::parse(text).expect_err("errors");
    assert_eq!(errors.len(), 10, "the parser reports errors only");
    insta::assert_snapshot!(render("topology.toml", text, &findings));
}

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(render("topology.toml", "", &findings("")));
}

#[test]
fn places_are_counted_as_editors_do() {
    let text =
        WITHOUT_FINDINGS.replace("= 20", "= 2").replace("\"orders\"", "\"orders\" # für alle");
    for text in [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let findings = findings(&text);
        let report = Report::new(&text, &findings);
        let reported = &report.findings[0];
        assert_eq!((reported.line, reported.column, reported.text), (8, 18, "2"));
        assert!(render("topology.toml", &text, &findings).contains("topology.toml:8:18"));
    }
    let json = serde_json::to_string_pretty(&Report::new(&text, &findings(&text))).expect("JSON");
    insta::assert_snapshot!(json);
}
