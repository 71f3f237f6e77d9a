//! What `overdue check` says about a topology that works, but not as one would expect.

use std::collections::BTreeSet;

use overdue::internals::{
    diagnostic::{Diagnostic, Severity, counts_by_severity},
    topology::{
        Topology,
        check::Surroundings,
        lint,
        report::{self, Report},
    },
};

use crate::samples::{WITHOUT_FINDINGS, edited};

fn findings(text: &str) -> Vec<Diagnostic> {
    lint(text, &Surroundings::default())
}

/// `case: "old" => "new", rule, severity, line, "offending text"`: that one finding, at that place.
macro_rules! remarks {
    ($($case:ident: $old:expr => $new:expr, $rule:literal, $severity:ident, $line:literal, $offending:expr;)*) => {
        $(#[test]
        fn $case() {
            let text = edited($old, $new);
            let findings = findings(&text);
            let report = report::render("topology.toml", &text, &findings);
            let [finding] = &findings[..] else { panic!("one finding, not:\n{report}") };
            assert_eq!((finding.rule, finding.severity), ($rule, Severity::$severity), "{report}");
            let reported = &Report::new(&text, &findings).findings[0];
            assert_eq!((reported.line, reported.text), ($line, $offending), "{report}");
            assert!(Topology::parse(&text).is_ok(), "only errors make a file unusable");
        })*

        /// All of them on one page, as a person reads them.
        #[test]
        fn every_remark() {
            let page: Vec<String> = [$((stringify!($case), edited($old, $new))),*]
                .iter()
                .map(|(case, text)| format!("# {case}\n\n{}\n", report::render("topology.toml", text, &findings(text))))
                .collect();
            insta::assert_snapshot!(page.join("\n"));
        }
    };
}

remarks! {
    level_unused: "[\"5s\", \"30s\", \"5m\", \"30m\"]" => "[\"5s\", \"30s\", \"5m\", \"15m\", \"30m\"]",
        "level-unused", Note, 4, "[\"5s\", \"30s\", \"5m\", \"15m\", \"30m\"]";
    levels_unused: "[\"5s\", \"30s\", \"5m\", \"30m\"]" => "[\"1s\", \"5s\", \"30s\", \"5m\", \"30m\", \"1d\"]",
        "level-unused", Note, 4, "[\"1s\", \"5s\", \"30s\", \"5m\", \"30m\", \"1d\"]";
    effect_unknown: "effect = \"close\"" => "effect = \"write_off\"", "effect-unknown", Note, 13, "\"write_off\"";
    category_missing: "[retry]" => "[[timeout]]\nname = \"unshipped\"\nafter = \"30m\"\nafter_by_category = { virtual = \"5m\", physical = \"30m\" }\n\n[retry]",
        "category-missing", Warning, 11, "\"unpaid\"";
    at_most_once: "type = \"quorum\"\ndelivery_limit = 20" => "type = \"classic\"", "at-most-once", Warning, 7, "\"classic\"";
    delivery_limit_low: "delivery_limit = 20" => "delivery_limit = 4", "delivery-limit-low", Warning, 8, "4";
    no_retry: "[\"5s\", \"30s\", \"5m\", \"30m\"]\n\n[queues]\ntype = \"quorum\"\ndelivery_limit = 20\n\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\nafter_by_category = { virtual = \"5m\" }\n\n[retry]\nafter = [\"5s\", \"30s\"]"
        => "[\"30m\"]\n\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"", "retry-missing", Warning, 1, "\"orders\"";
    empty_retry: "levels = [\"5s\", \"30s\", \"5m\", \"30m\"]\n\n[queues]\ntype = \"quorum\"\ndelivery_limit = 20\n\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\nafter_by_category = { virtual = \"5m\" }\n\n[retry]\nafter = [\"5s\", \"30s\"]"
        => "levels = [\"30m\"]\n\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n\n[retry]\nafter = []", "retry-missing", Warning, 11, "[]";
    retry_shrinks: "after = [\"5s\", \"30s\"]" => "after = [\"30s\", \"5s\"]", "retry-shrinks", Warning, 17, "\"5s\"";
    name_room: "\"orders\"\n\n[delay]\nlevels = [\"5s\", \"30s\", \"5m\", \"30m\"]\n\n[queues]\ntype = \"quorum\"\ndelivery_limit = 20\n\n[[timeout]]\nname = \"unpaid\""
        => &format!("\"{}\"\n\n[delay]\nlevels = [\"5s\", \"30s\", \"5m\", \"30m\"]\n\n[[timeout]]\nname = \"{}\"", "n".repeat(191), "u".repeat(62)),
        "name-room", Warning, 7, format!("\"{}\"", "u".repeat(62)).as_str();
}

#[test]
fn nothing_is_said_about_the_file_the_cases_start_from() {
    assert_eq!(findings(WITHOUT_FINDINGS), []);
}

/// A short level, used as a retry, and listed: only the retry is the mistake.
#[test]
fn a_short_retry() {
    let text = WITHOUT_FINDINGS.replace("[\"5s\", \"30s\"", "[\"999ms\", \"5s\", \"30s\"");
    let findings = findings(&text);
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["retry-short"]);
    insta::assert_snapshot!(report::render("topology.toml", &text, &findings));
}

#[test]
fn equal_retries_are_fine() {
    assert_eq!(
        findings(&edited("after = [\"5s\", \"30s\"]", "after = [\"5s\", \"30s\", \"30s\"]")),
        []
    );
}

#[test]
fn a_delivery_limit_on_classic_queues() {
    let findings = findings(&edited("\"quorum\"", "\"classic\""));
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["at-most-once", "delivery-limit-unused"]);
    assert!(findings[1].message.contains("have no delivery limit"), "{}", findings[1].message);
}

#[test]
fn a_low_limit_on_classic_queues_is_only_unused() {
    let text = edited("\"quorum\"", "\"classic\"").replace("= 20", "= 1");
    let rules: Vec<&str> = findings(&text).iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["at-most-once", "delivery-limit-unused"]);
}

#[test]
fn an_effect_of_the_settings_is_known() {
    let text = edited("effect = \"close\"", "effect = \"write_off\"");
    let surroundings = Surroundings {
        effects: BTreeSet::from(["write_off".to_owned()]),
        ..Surroundings::default()
    };
    assert_eq!(lint(&text, &surroundings), []);
}

/// A timeout that treats all orders alike is no mistake, whatever others do.
#[test]
fn a_timeout_without_categories_lacks_none() {
    let text = edited("[retry]", "[[timeout]]\nname = \"unshipped\"\nafter = \"30m\"\n\n[retry]");
    assert_eq!(findings(&text), []);
}

#[test]
fn the_longest_name_with_room_is_fine() {
    let text = WITHOUT_FINDINGS.replace("\"orders\"", &format!("\"{}\"", "n".repeat(191)));
    assert_eq!(findings(&text.replace("\"unpaid\"", &format!("\"{}\"", "u".repeat(61)))), []);
}

/// Errors and warnings come in one list, in the order of the file.
#[test]
fn errors_do_not_hide_warnings() {
    let text =
        WITHOUT_FINDINGS.replace("= 20", "= 2").replace("after = \"30m\"", "after = \"31m\"");
    let text = text.replace("after = [\"5s\", \"30s\"]", "after = [\"30s\", \"5s\"]");
    let findings = findings(&text);
    let found: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.severity)).collect();
    assert_eq!(
        found,
        [
            ("level-unused", Severity::Note),
            ("delivery-limit-low", Severity::Warning),
            ("level-reference", Severity::Error),
            ("retry-shrinks", Severity::Warning),
        ]
    );
    assert_eq!(
        counts_by_severity(findings.iter().map(|finding| finding.severity)),
        "1 error, 2 warnings, 1 note"
    );
    let errors = Topology::parse(&text).expect_err("one error");
    assert_eq!(errors.len(), 1, "the parser tells errors only");
}

#[test]
fn a_file_that_is_not_toml_has_one_finding() {
    let found = findings("name = \"orders\"\n[delay\nlevels = 5");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].rule, found[0].severity), ("syntax", Severity::Error));
}

#[test]
fn the_repository_has_no_warnings() {
    let text = include_str!("../../../topology.toml");
    let found = findings(text);
    assert!(found.iter().all(|finding| finding.severity == Severity::Note), "{found:#?}");
}

#[test]
fn json_counts_as_editors_do() {
    let text =
        WITHOUT_FINDINGS.replace("= 20", "= 2").replace("\"orders\"", "\"orders\" # für alle");
    for text in [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let findings = findings(&text);
        let report = Report::new(&text, &findings);
        let reported = &report.findings[0];
        assert_eq!((reported.line, reported.column, reported.text), (8, 18, "2"));
    }
    let text = edited("delivery_limit = 20", "delivery_limit = 2");
    let findings = findings(&text);
    let json = serde_json::to_string_pretty(&Report::new(&text, &findings)).expect("JSON");
    insta::assert_snapshot!(json);
}
