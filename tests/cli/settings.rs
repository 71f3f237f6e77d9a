//! Settings: layers, mistakes, and passwords that are not shown.

use crate::support::Folder;

const TOPOLOGY: &str = include_str!("../../topology.toml");

#[test]
fn a_settings_file_that_is_no_toml() {
    let folder = Folder::with(&[("overdue.toml", "[broker\nurl = 5\n")]);
    insta::assert_snapshot!(without(&folder, &folder.run(&["config"], &[])));
}

#[test]
fn an_unknown_key_in_the_file() {
    let folder = Folder::with(&[("overdue.toml", "[worker]\nbatchsize = 5\n")]);
    insta::assert_snapshot!(without(&folder, &folder.run(&["config"], &[])));
}

#[test]
fn an_unknown_section_in_the_file() {
    let folder = Folder::with(&[("overdue.toml", "[brokers]\nurl = \"amqp://localhost\"\n")]);
    insta::assert_snapshot!(without(&folder, &folder.run(&["config"], &[])));
}

#[test]
fn a_value_of_the_wrong_type_in_the_file() {
    let folder = Folder::with(&[("overdue.toml", "[worker]\nbatch_size = \"many\"\n")]);
    insta::assert_snapshot!(without(&folder, &folder.run(&["config"], &[])));
}

#[test]
fn a_duration_that_is_none() {
    let folder = Folder::with(&[("overdue.toml", "[worker]\nbatch_age = \"20 ms\"\n")]);
    insta::assert_snapshot!(without(&folder, &folder.run(&["config"], &[])));
}

#[test]
fn an_unknown_key_in_the_environment() {
    let folder = Folder::with(&[]);
    let run = folder.run(&["config"], &[("OVERDUE_WORKER__BATCHSIZE", "5")]);
    insta::assert_snapshot!(without(&folder, &run));
}

#[test]
fn a_value_of_the_wrong_type_in_the_environment() {
    let folder = Folder::with(&[]);
    let run = folder.run(&["config"], &[("OVERDUE_WORKER__BATCH_SIZE", "many")]);
    insta::assert_snapshot!(without(&folder, &run));
}

#[test]
fn a_value_out_of_its_range() {
    let folder = Folder::with(&[]);
    let cases = [
        (
            "OVERDUE_WORKER__BATCH_SIZE",
            "0",
            "`worker.batch_size` is 0: it has to be between 1 and 2000",
        ),
        ("OVERDUE_WORKER__BATCH_SIZE", "2001", "`worker.batch_size` is 2001"),
        (
            "OVERDUE_WORKER__IN_FLIGHT",
            "65",
            "`worker.in_flight` is 65: it has to be between 1 and 64",
        ),
        ("OVERDUE_WORKER__SWEEP_EVERY", "0s", "`0s` is too short: it has to be 1ms or more"),
        ("OVERDUE_DATABASE__CONNECTIONS", "1", "`database.connections` is 1"),
        (
            "OVERDUE_WORKER__LISTEN",
            "9632",
            "`9632` is not an address with a port: write 127.0.0.1:9632",
        ),
    ];
    for (name, value, expected) in cases {
        let run = folder.run(&["config"], &[(name, value)]);
        assert_eq!(run.code, Some(78), "{name}={value}: {run}");
        assert!(run.stderr.contains(expected), "{run}");
    }
}

#[test]
fn a_settings_file_that_was_named_and_is_not_there() {
    let folder = Folder::with(&[]);
    insta::assert_snapshot!(folder.run(&["--config", "elsewhere.toml", "config"], &[]));
}

/// Wherever the program is started; from a variable it is as the shell that sets it sees it.
#[test]
fn the_sql_of_an_effect_lies_beside_the_settings_file_that_names_it() {
    let file = "[effects.mine]\nsql = \"mine.sql\"\noverdue_sql = \"/etc/other.sql\"\n";
    let folder = Folder::with(&[("overdue.toml", file)]);
    let below = folder.path("below");
    std::fs::create_dir(&below).unwrap();
    let paths = |arguments: &[&str], from: &std::path::Path, environment: &[(&str, &str)]| {
        let mut command = folder.command(arguments);
        command.current_dir(from).envs(environment.iter().copied());
        let run = crate::support::process::finish(command, None);
        let settings: toml::Table =
            run.stdout.parse().unwrap_or_else(|error| panic!("{error}: {run}"));
        let mine = &settings["effects"]["mine"];
        ["sql", "overdue_sql"].map(|key| mine[key].as_str().unwrap().to_owned())
    };
    let other = "/etc/other.sql".to_owned();
    let here = folder.path("");
    assert_eq!(paths(&["config"], &here, &[]), ["mine.sql".to_owned(), other.clone()]);
    let beside = below.parent().unwrap().canonicalize().unwrap().join("mine.sql");
    let beside = beside.display().to_string();
    assert_eq!(paths(&["config"], &below, &[]), [beside, other.clone()]);
    let named = paths(&["--config", "../overdue.toml", "config"], &below, &[]);
    assert_eq!(named, ["../mine.sql".to_owned(), other.clone()]);
    let variable = [("OVERDUE_EFFECTS__MINE__SQL", "here.sql")];
    assert_eq!(paths(&["config"], &below, &variable), ["here.sql".to_owned(), other]);
}

#[test]
fn a_log_filter_that_cannot_be_read() {
    let folder = Folder::with(&[("topology.toml", TOPOLOGY)]);
    insta::assert_snapshot!(folder.run(&["check"], &[("OVERDUE_LOG__FILTER", "overdue=loud")]));
}

#[test]
fn flags_beat_the_environment_which_beats_the_file_which_beats_the_defaults() {
    let file = "topology = \"file.toml\"\n[worker]\nbatch_size = 7\nin_flight = 3\n\
                [database]\nurl = \"postgres://file/x\"\n";
    let folder = Folder::with(&[("overdue.toml", file)]);
    let environment = [
        ("OVERDUE_TOPOLOGY", "environment.toml"),
        ("OVERDUE_WORKER__IN_FLIGHT", "5"),
        ("OVERDUE_DATABASE__URL", "postgres://environment/x"),
        // Variables of scripts, which are no settings.
        ("OVERDUE_PORT_AMQP", "1"),
        ("OVERDUE_PROJECT", "x"),
        ("OVERDUE_TEST_PYTHON", "x"),
    ];
    let run = folder.run(&["config", "--database-url", "postgres://flag/x"], &environment);
    assert_eq!(run.code, Some(0), "{run}");
    let settings: toml::Table = run.stdout.parse().unwrap();
    assert_eq!(settings["topology"].as_str(), Some("environment.toml"));
    assert_eq!(settings["worker"]["batch_size"].as_integer(), Some(7));
    assert_eq!(settings["worker"]["in_flight"].as_integer(), Some(5));
    assert_eq!(settings["worker"]["batch_age"].as_str(), Some("50ms"));
    assert_eq!(settings["database"]["url"].as_str(), Some("postgres://flag/x"));
}

#[test]
fn what_config_shows_can_be_used_as_a_settings_file() {
    let folder = Folder::with(&[]);
    let defaults = folder.run(&["config"], &[]).stdout;
    let again = Folder::with(&[("overdue.toml", &defaults.replace("***", "guest"))]);
    assert_eq!(again.run(&["config"], &[]).stdout, defaults);
}

#[test]
fn a_password_in_the_wrong_place_of_the_file_is_not_quoted() {
    for file in [
        "broker = \"amqp://worker:s3cret@host\"",
        "[broker]\nurl = \"amqp://worker:s3cret@host",
        "[broker]\nurl = [\"amqp://worker:s3cret@host\"]",
        "[broker]\nurl = amqp://worker:s3cret@host",
        "[worker]\nbatch_size = \"postgres://worker:s3cret@host\"",
        "[broker]\npassword = \"s3cret\"",
    ] {
        let run = Folder::with(&[("overdue.toml", file)]).run(&["config"], &[]);
        assert_eq!(run.code, Some(78), "{file}: {run}");
        assert!(!run.stderr.contains("s3cret"), "{file}: {run}");
    }
}

#[test]
fn config_shows_no_password_wherever_it_stands() {
    let folder = Folder::with(&[]);
    let environment = [
        ("OVERDUE_BROKER__URL", "amqp://worker:s3cr%40t@host:5672/%2f"),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://worker:s3cr%40t@host:15672"),
        ("OVERDUE_DATABASE__URL", "postgres://worker:s3cr%40t@host/shop?sslmode=require"),
    ];
    let run = folder.run(&["config"], &environment);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stdout.contains("s3cr"), "{run}");
    assert!(run.stdout.contains("postgres://worker:***@host/shop?sslmode=require"), "{run}");
    let elsewhere = [
        "postgres://worker@host/shop?password=s3cret",
        "postgres://worker@host/shop?sslmode=require&password=s3cret&user=x",
        "host=localhost user=worker password=s3cret",
        "s3cret",
    ];
    for url in elsewhere {
        let run = folder.run(&["config"], &[("OVERDUE_DATABASE__URL", url)]);
        assert_eq!(run.code, Some(0), "{run}");
        assert!(!run.stdout.contains("s3cret"), "{url}: {run}");
    }
}

#[test]
fn an_error_about_a_url_shows_no_password() {
    let folder = Folder::with(&[("topology.toml", TOPOLOGY)]);
    let cases = [
        ("OVERDUE_BROKER__URL", "http://worker:s3cret@host", "broker.url is not an AMQP URI"),
        ("OVERDUE_BROKER__URL", "worker:s3cret@host", "broker.url is not an AMQP URI"),
        ("OVERDUE_BROKER__URL", "amqp://worker:s3cret@host:99999", "broker.url is not an AMQP URI"),
        (
            "OVERDUE_BROKER__MANAGEMENT_URL",
            "amqp://w:s3cret@host",
            "broker.management_url is not an http(s) URL",
        ),
        (
            "OVERDUE_BROKER__MANAGEMENT_URL",
            "host s3cret",
            "broker.management_url is not an http(s) URL",
        ),
    ];
    for (name, url, expected) in cases {
        let run = folder.run(&["apply"], &[(name, url)]);
        assert_eq!(run.code, Some(78), "{url}: {run}");
        assert!(run.stderr.contains(expected), "{url}: {run}");
        assert!(!run.stderr.contains("s3cret"), "{url}: {run}");
    }
    for url in ["mysql://worker:s3cret@host/x", "postgres://worker:s3cret@host:no/x", "s3cret"] {
        let run = folder.run(&["database", "init"], &[("OVERDUE_DATABASE__URL", url)]);
        assert_eq!(run.code, Some(78), "{url}: {run}");
        assert!(run.stderr.contains("database.url cannot be used"), "{url}: {run}");
        assert!(!run.stderr.contains("s3cret"), "{url}: {run}");
    }
}

fn without(folder: &Folder, run: &crate::support::Run) -> String {
    let file = folder.path("overdue.toml").display().to_string();
    run.to_string().replace(&file, "<folder>/overdue.toml")
}

/// It would be ignored, and the default broker be used instead.
#[test]
fn one_underscore_where_two_belong() {
    let folder = Folder::with(&[]);
    let run = folder.run(&["config"], &[("OVERDUE_BROKER_MANAGEMENT_URL", "http://other:15672")]);
    assert_eq!(run.code, Some(78), "{run}");
    let said = "OVERDUE_BROKER_MANAGEMENT_URL is not read: write OVERDUE_BROKER__MANAGEMENT_URL, with two \
                underscores between the parts";
    assert!(run.stderr.contains(said), "{run}");
    // Variables of scripts are left alone.
    let run = folder.run(&["config"], &[("OVERDUE_PROJECT", "x"), ("OVERDUE_BROKER_RACK", "7")]);
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn every_mistake_in_file_and_environment_is_reported_at_once() {
    let file = "topolgy = \"orders.toml\"\n[worker]\nbatchsize = 5\nin_flight = 65\ndrain = \"soon\"\n\
                [log]\nformat = \"jsn\"\n[database]\nurl = 5432\n[effects.cancel]\nsqll = \"x.sql\"\n";
    let folder = Folder::with(&[("overdue.toml", file)]);
    let environment = [
        ("OVERDUE_WORKR__BATCH_SIZE", "5"),
        ("OVERDUE_WORKER__DRAIN", "20 s"),
        ("OVERDUE_WORKER__SWEEP_EVERY", "0s"),
        ("OVERDUE_DATABASE_URL", "postgres://localhost/x"),
    ];
    let run = folder.run(&["config"], &environment);
    assert_eq!(run.code, Some(78), "{run}");
    insta::assert_snapshot!(without(&folder, &run));
}

/// The line of a mistake is named and not shown: it may hold a password.
#[test]
fn a_mistake_in_the_file_shows_no_password() {
    let lines = [
        "[broker]\nurl = \"amqp://u:s3cret@host\n",
        "[broker]\nurl = amqp://u:s3cret@host\n",
        "[broker]\nurll = \"amqp://u:s3cret@host\"\n",
        "[broker]\nuri = \"amqp://u:s3cret@host\"\n",
        "[broker]\nurl = [\"amqp://u:s3cret@host\"]\n",
        "broker = \"amqp://u:s3cret@host\"\n",
        "[[broker]]\nurl = \"amqp://u:s3cret@host\"\n",
        "database = \"postgres://u:s3cret@host/x\"\n",
        "[database]\nurl = { password = \"s3cret\" }\n",
        "[database]\nconnections = \"postgres://u:s3cret@host/x\"\n",
    ];
    for line in lines {
        let folder = Folder::with(&[("overdue.toml", line)]);
        let run = folder.run(&["config"], &[]);
        assert_eq!(run.code, Some(78), "{line}: {run}");
        assert!(!run.stderr.contains("s3cret"), "{line}: {run}");
    }
}

#[test]
fn a_settings_file_in_a_folder_above_is_read() {
    let folder = Folder::with(&[("overdue.toml", "[worker]\nbatch_size = 7\n")]);
    std::fs::create_dir_all(folder.path("services/orders")).unwrap();
    let mut command = folder.command(&["config"]);
    command.current_dir(folder.path("services/orders"));
    let run = crate::support::process::finish(command, None);
    assert!(run.stdout.contains("batch_size = 7"), "{run}");
}
