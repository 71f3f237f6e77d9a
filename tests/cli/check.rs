//! `overdue check`, `schema` and `graph` as programs see them: exit codes, and what goes where.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::support::samples::{WITHOUT_FINDINGS, edited};

/// Runs `overdue` in `folder`, without settings of this machine.
fn overdue(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdue"));
    command.current_dir(folder).args(arguments);
    command.env_clear();
    command.output().expect("the program runs")
}

/// Runs it on a topology.toml; exit code, standard output and standard error.
fn on(topology: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("topology.toml"), topology).expect("the file");
    let output = overdue(folder.path(), arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_good_file() {
    let (code, out, err) = on(WITHOUT_FINDINGS, &["check"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(
        out,
        "topology `orders` is valid: strategy `levels`, 4 levels, 1 timeout, 2 retries\n"
    );
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
    assert_eq!(code, Some(1));
    assert!(out.starts_with("warning[delivery-limit-low]"), "{out}");
    assert_eq!(err, "error: topology.toml: 1 warning, and --deny-warnings is set\n");
}

#[test]
fn notes_are_no_warnings() {
    let text = edited("effect = \"close\"", "effect = \"cancel\"");
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
    assert_eq!(json["findings"][0]["rule"], "delivery-limit");
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
    assert!(err.contains("`latest` is no RabbitMQ version"), "{err}");
}

#[test]
fn the_effects_of_the_settings_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = edited("effect = \"close\"", "effect = \"cancel\"");
    fs::write(folder.path().join("topology.toml"), text).expect("the file");
    fs::write(folder.path().join("overdue.toml"), "[effects.cancel]\nsql = \"cancel.sql\"\n")
        .expect("the file");
    let output = overdue(folder.path(), &["check"]);
    let out = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(
        out,
        "topology `orders` is valid: strategy `levels`, 4 levels, 1 timeout, 2 retries\n"
    );
}

#[test]
fn the_schema_needs_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = overdue(folder.path(), &["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["title"], "topology.toml");
}

#[test]
fn a_picture_goes_where_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("topology.toml"), WITHOUT_FINDINGS).expect("the file");
    let printed = overdue(folder.path(), &["graph"]).stdout;
    let written = overdue(folder.path(), &["graph", "--out", "topology.svg"]);
    assert_eq!((written.status.code(), written.stdout), (Some(0), Vec::new()));
    assert_eq!(fs::read(folder.path().join("topology.svg")).expect("the picture"), printed);
    let nowhere = overdue(folder.path(), &["graph", "--out", "no/such/folder.svg"]);
    assert_eq!(nowhere.status.code(), Some(1));
}
