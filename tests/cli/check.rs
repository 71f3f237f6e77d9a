//! `overdue check`, and `generate schema` as programs see them: exit codes, and what goes where.

use crate::support::{
    Folder,
    samples::{WITHOUT_FINDINGS, edited},
};

/// Runs it on a topology.toml; exit code, standard output and standard error.
fn on(topology: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let run = Folder::with(&[("topology.toml", topology)]).run(arguments, &[]);
    (run.code, run.stdout, run.stderr)
}

#[test]
fn a_good_file() {
    let (code, out, err) = on(WITHOUT_FINDINGS, &["check"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(
        out,
        "topology `orders` is valid: strategy `levels`, 4 levels, 5s to 30m, let go up to 2s early, 1 timeout, 2 retries\n"
    );
}

/// Queues, hops and lateness, for the default and for a budget.
#[test]
fn a_ladder_says_what_it_costs() {
    let of = |ladder: &str| {
        let text = format!(
            "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\nladder = {{ {ladder} }}\n\
             [[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n[retry]\nafter = [\"1m\"]\n"
        );
        let (code, out, err) = on(&text, &["check"]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        out
    };
    let said = of("max = \"30d\"") + &of("max = \"1h\", queues = 74");
    insta::assert_snapshot!(said);
}

#[test]
fn warnings_are_printed_and_pass() {
    let text = edited("= 20", "= 2");
    let (code, out, err) = on(&text, &["check"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(out);
}

#[test]
fn warnings_can_be_denied() {
    let (code, out, err) = on(&edited("= 20", "= 2"), &["check", "--deny-warnings"]);
    assert_eq!(code, Some(2));
    assert!(out.starts_with("warning[delivery-limit-low]"), "{out}");
    assert_eq!(err, "error: topology.toml: 1 warning, and --deny-warnings is set\n");
}

#[test]
fn notes_are_no_warnings() {
    let text = edited("effect = \"close\"", "effect = \"write_off\"");
    assert_eq!(on(&text, &["check", "--deny-warnings"]).0, Some(0));
}

#[test]
fn errors_are_78() {
    let text = edited("= 20", "= 2").replace("after = \"30m\"", "after = \"31m\"");
    let (code, out, err) = on(&text, &["check", "--deny-warnings"]);
    assert_eq!(code, Some(78));
    assert!(
        out.contains("error[level-reference]") && out.contains("warning[delivery-limit-low]"),
        "{out}"
    );
    assert_eq!(err, "error: topology.toml: 1 error, 1 warning, 1 note\n");
}

#[test]
fn json_is_all_of_standard_output() {
    let (code, out, _) = on(&edited("= 20", "= 0"), &["check", "-o", "json"]);
    assert_eq!(code, Some(78));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["version"], 2);
    assert_eq!(json["findings"][0]["rule"], "syntax");
    let (code, out, _) = on(WITHOUT_FINDINGS, &["check", "-o", "json"]);
    assert_eq!(code, Some(0));
    assert_eq!(out, "{\n  \"version\": 2,\n  \"findings\": []\n}\n");
}

#[test]
fn the_broker_is_a_version() {
    assert_eq!(on(WITHOUT_FINDINGS, &["check", "--broker", "4.3"]).0, Some(0));
    assert_eq!(on(WITHOUT_FINDINGS, &["check", "--broker", "3.13"]).0, Some(78));
    let (code, _, err) = on(WITHOUT_FINDINGS, &["check", "--broker", "latest"]);
    assert_eq!(code, Some(64));
    assert!(err.contains("`latest` is not a RabbitMQ version"), "{err}");
}

#[test]
fn the_effects_of_the_settings_are_known() {
    let topology = edited("effect = \"close\"", "effect = \"write_off\"");
    let settings = "[effects.write_off]\nsql = \"write_off.sql\"\n";
    let folder = Folder::with(&[("topology.toml", &topology), ("overdue.toml", settings)]);
    let out = folder.run(&["check"], &[]).stdout;
    assert_eq!(
        out,
        "topology `orders` is valid: strategy `levels`, 4 levels, 5s to 30m, let go up to 2s early, 1 timeout, 2 retries\n"
    );
}

#[test]
fn the_schema_needs_no_file() {
    let run = Folder::with(&[]).run(&["generate", "schema"], &[]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.json()["title"], "topology.toml");
}
