//! Settings: layers, mistakes, and passwords that are not shown.

use std::{
    fs::Permissions,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, chown},
    },
};

use crate::{
    runs::Runs,
    support::{Folder, process::finish},
};

const TOPOLOGY: &str = include_str!("../../topology.toml");

const CONFIG: &[&str] = &["config"];

/// A settings file, variables, and the report: the place, the mistake and the correction. Values are left out.
#[test]
fn what_cannot_be_used_is_reported_with_its_place() {
    let rows: &[(&str, &[(&str, &str)])] = &[
        ("[broker\nurl = 5\n", &[]),
        ("[worker]\nbatchsize = 5\n[brokers]\nurl = \"amqp://localhost\"\n", &[]),
        ("[worker]\nbatch_size = \"many\"\nin_flight = 65\n[log]\nformat = \"jsn\"\n", &[]),
        ("# soon\n[worker]\ndrain = \"20 s\"\n", &[]),
        ("[worker]\nhold = \"6m\"\n", &[]),
        ("[effects.cancel]\noverdue_sql = \"x.sql\"\n[[alert]]\nname = \"a\"\n", &[]),
        (
            "topolgy = \"orders.toml\"\n",
            &[
                ("OVERDUE_WORKR__BATCH_SIZE", "5"),
                ("OVERDUE_WORKER__BATCHSIZE", "5"),
                ("OVERDUE_WORKER__BATCH_SIZE", "many"),
                ("OVERDUE_WORKER__IN_FLIGHT", "0"),
                ("OVERDUE_EVENTS__PUBLISH", "yes"),
                ("OVERDUE_SCHEDULE__PUBLISH", "of"),
                ("OVERDUE_DATABASE_URL", "postgres://localhost/x"),
            ],
        ),
        ("", &[("OVERDUE_WORKER__SWEEP_EVERY", "0s")]),
        ("", &[("OVERDUE_EVENTS__LINGER", "11s")]),
        ("", &[("OVERDUE_WORKER__LISTEN", "9632")]),
        ("", &[("OVERDUE_EFFECTS__CANCEL__OVERDUE_SQL", "x.sql")]),
        // The usual spelling of Docker's secrets. Without an error, the URL would be used and the file never read.
        ("", &[("OVERDUE_BROKER__URL", "amqp://host"), ("OVERDUE_BROKER__URL__FILE", "/secret")]),
    ];
    let mut runs = Runs::default();
    for (file, environment) in rows {
        runs.on(&[("overdue.toml", file)], CONFIG, environment).exits(78);
    }
    runs.on(&[], &["--config", "elsewhere.toml", "config"], &[]);
    runs.on(&[("topology.toml", TOPOLOGY)], &["check"], &[("OVERDUE_LOG__FILTER", "overdue=loud")]);
    insta::assert_snapshot!(runs);
    // The value would be used with other characters.
    let folder = Folder::with(&[]);
    let mut command = folder.command(CONFIG);
    command.env("OVERDUE_BROKER__URL", std::ffi::OsStr::from_bytes(b"amqp://h\xf6st"));
    finish(command, None).exits(78).reports("OVERDUE_BROKER__URL: it is not UTF-8");
}

#[test]
fn no_mistake_shows_a_password() {
    let files = [
        "broker = \"amqp://worker:s3cret@host\"",
        "[broker]\nurl = \"amqp://worker:s3cret@host\n",
        "[broker]\nurl = amqp://worker:s3cret@host",
        "[broker]\nurl = [\"amqp://worker:s3cret@host\"]",
        "[broker]\nurl = [\n[\"s3cret\"],\n\"amqp://worker:s3cret@host\"]",
        "[broker]\nurll = \"amqp://worker:s3cret@host\"",
        "[broker]\npassword = \"s3cret\"",
        "[[broker]]\nurl = \"amqp://worker:s3cret@host\"",
        "[database]\nurl = { password = \"s3cret\" }",
        "[database]\nurl = \"\"\"\ns3cret",
        "[worker]\nbatch_size = \"postgres://worker:s3cret@host\"",
        "[worker]\ndrain = \"postgres://worker:s3cret@host\"",
        "[worker]\nlisten = \"postgres://worker:s3cret@host\"",
        "[log]\nformat = \"postgres://worker:s3cret@host\"",
        "[[alert]]\nname = \"a\"\nurl = \"https://s3cret\"\nurl_file = \"x\"",
    ];
    let mut runs = Runs::default();
    for file in files {
        assert_eq!(runs.on(&[("overdue.toml", file)], CONFIG, &[]).code, Some(78), "{file}");
    }
    let url = "postgres://worker:s3cret@host";
    for name in ["WORKER__BATCH_SIZE", "WORKER__DRAIN", "WORKER__LISTEN", "LOG__FORMAT", "LOG__X"] {
        let name = format!("OVERDUE_{name}");
        assert_eq!(runs.on(&[], CONFIG, &[(&name, url)]).code, Some(78), "{name}");
    }
    let topology = &[("topology.toml", TOPOLOGY)];
    for (name, command, url) in [
        ("BROKER__URL", &["apply"][..], "http://worker:s3cret@host"),
        ("BROKER__URL", &["apply"], "worker:s3cret@host"),
        ("BROKER__URL", &["apply"], "amqp://worker:s3cret@host:99999"),
        ("BROKER__MANAGEMENT_URL", &["apply"], "amqp://w:s3cret@host"),
        ("BROKER__MANAGEMENT_URL", &["apply"], "host s3cret"),
        ("DATABASE__URL", &["database", "init", "--yes"], "mysql://worker:s3cret@host/x"),
        ("DATABASE__URL", &["database", "init", "--yes"], "postgres://worker:s3cret@host:no/x"),
        ("DATABASE__URL", &["database", "init", "--yes"], "s3cret"),
    ] {
        let name = format!("OVERDUE_{name}");
        assert_eq!(runs.on(topology, command, &[(&name, url)]).code, Some(78), "{url}");
    }
    insta::assert_snapshot!(runs);
}

/// A path is relative to its settings file, wherever the program starts; a variable's path is relative to the shell's folder.
#[test]
fn what_a_settings_file_names_lies_beside_it() {
    let file = "[effects.mine]\nsql = \"mine.sql\"\noverdue_sql = \"/etc/other.sql\"\n";
    let folder = Folder::with(&[("overdue.toml", file)]);
    let below = folder.path("below");
    std::fs::create_dir(&below).unwrap();
    let paths = |arguments: &[&str], from: &str, environment: &[(&str, &str)]| {
        let run = folder.run_in(from, arguments, environment);
        let settings: toml::Table =
            run.stdout.parse().unwrap_or_else(|error| panic!("{error}: {run}"));
        let mine = &settings["effects"]["mine"];
        [&mine["sql"], &mine["overdue_sql"], &settings["topology"]]
            .map(|path| path.as_str().unwrap().to_owned())
    };
    let other = "/etc/other.sql";
    assert_eq!(paths(&["config"], "", &[]), ["mine.sql", other, "topology.toml"]);
    let [mine, topology] = ["mine.sql", "topology.toml"]
        .map(|name| folder.path("").canonicalize().unwrap().join(name).display().to_string());
    assert_eq!(paths(&["config"], "below", &[]), [&*mine, other, &topology]);
    let named = paths(&["--config", "../overdue.toml", "config"], "below", &[]);
    assert_eq!(named, ["../mine.sql", other, "../topology.toml"]);
    let variables = [("OVERDUE_EFFECTS__MINE__SQL", "here.sql"), ("OVERDUE_TOPOLOGY", "x.toml")];
    assert_eq!(paths(&["config"], "below", &variables), ["here.sql", other, "x.toml"]);
    let flag = paths(&["--topology", "x.toml", "config"], "below", &[]);
    assert_eq!(flag, [&*mine, other, "x.toml"]);
    std::fs::write(folder.path("overdue.toml"), format!("topology = \"shop.toml\"\n{file}"))
        .unwrap();
    assert!(paths(&["config"], "below", &[])[2].ends_with("/shop.toml"));
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
        // Variables of scripts, which are not settings.
        ("OVERDUE_PORT_AMQP", "1"),
        ("OVERDUE_PROJECT", "x"),
        ("OVERDUE_BROKER_RACK", "7"),
        ("OVERDUE_TEST_PYTHON", "x"),
    ];
    let run = folder.run(&["config", "--database-url", "postgres://flag/x"], &environment).exits(0);
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
    let settings = |text: &str| text.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(settings(&again.run(&["config"], &[]).stdout), settings(&defaults));
}

#[test]
fn config_shows_no_password_wherever_it_stands() {
    let folder = Folder::with(&[]);
    let environment = [
        ("OVERDUE_BROKER__URL", "amqp://worker:s3cr%40t@host:5672/%2f"),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://worker:s3cr%40t@host:15672"),
        ("OVERDUE_DATABASE__URL", "postgres://worker:s3cr%40t@host/shop?sslmode=require"),
    ];
    let run = folder.run(CONFIG, &environment).exits(0);
    assert!(!run.stdout.contains("s3cr"), "{run}");
    assert!(run.stdout.contains("postgres://worker:***@host/shop?sslmode=require"), "{run}");
    for url in [
        "postgres://worker@host/shop?sslmode=require&password=s3cret&user=x",
        "host=localhost user=worker password=s3cret",
    ] {
        let run = folder.run(CONFIG, &[("OVERDUE_DATABASE__URL", url)]).exits(0);
        assert!(!run.stdout.contains("s3cret"), "{url}: {run}");
    }
}

#[test]
fn a_settings_file_in_a_folder_above_is_read() {
    let folder = Folder::with(&[("overdue.toml", "[worker]\nbatch_size = 7\n")]);
    std::fs::create_dir_all(folder.path("services/orders")).unwrap();
    let run = folder.run_in("services/orders", CONFIG, &[]).prints("batch_size = 7");
    let file = folder.path("overdue.toml").canonicalize().unwrap().display().to_string();
    assert_eq!(run.stdout.lines().next(), Some(&*format!("# settings file: {file}")), "{run}");
    let json = folder.run_in("services/orders", &["config", "-o", "json"], &[]).json();
    assert_eq!(json["settings_file"], *file);
    let none = Folder::with(&[]).run(&["config"], &[]);
    assert_eq!(none.stdout.lines().next(), Some("# no settings file"), "{none}");
    // In a container every command reads the worker's settings.
    let named = Folder::with(&[("worker.toml", "[worker]\nlisten = \"127.0.0.1:9700\"\n")]);
    let file = named.path("worker.toml").display().to_string();
    named.run(&["health"], &[("OVERDUE_CONFIG", &file)]).reports("127.0.0.1:9700");
    named.run(CONFIG, &[("OVERDUE_CONFIG", "missing.toml")]).exits(78);
}

/// A file in /tmp, where any user can create one.
#[test]
fn a_settings_file_of_somebody_else_is_used_only_if_it_is_named() {
    let folder = Folder::with(&[("overdue.toml", "[database]\nsearch_path = \"mallory\"\n")]);
    let file = folder.path("overdue.toml").canonicalize().unwrap();
    std::fs::create_dir(folder.path("work")).unwrap();
    let ci_job = |from: &str| folder.run_in(from, CONFIG, &[("CI", "true")]);
    let mode = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    let name = file.display().to_string();
    let refused = |reason: &str| {
        for from in ["work", "."] {
            let config = folder.run_in(from, CONFIG, &[]).exits(78);
            let said = format!(
                "the settings file {name} is not used: {reason}. Look at it; then name it, with --config {name} or \
                 OVERDUE_CONFIG={name}, or name another one"
            );
            assert!(config.stderr.contains(&said), "{config}");
            assert!(!config.to_string().contains("mallory"), "{config}");
        }
        let flag = folder.run_in("work", &["--config", &name, "config"], &[]);
        let variable = folder.run_in("work", CONFIG, &[("OVERDUE_CONFIG", &name)]);
        for named in [flag, variable] {
            assert!(named.stdout.contains("search_path = \"mallory\""), "{named}");
        }
    };
    mode(0o666);
    refused("everybody can write it");
    assert_eq!(ci_job(".").code, Some(78));
    mode(0o664);
    folder.run_in("work", CONFIG, &[]).exits(0);
    // Only root can change the owner.
    if chown(&file, Some(4_711), None).is_err() {
        return;
    }
    let of_another = "it belongs to user 4711, who is neither you nor root";
    refused(of_another);
    // Another user owns a CI job's workspace and all files in it.
    assert!(ci_job(".").stderr.contains(of_another), "{}", ci_job("."));
    for folder in [folder.path("."), folder.path("work")] {
        chown(folder, Some(4_711), None).unwrap();
    }
    refused(of_another);
    assert!(ci_job(".").stdout.contains("search_path = \"mallory\""), "{}", ci_job("."));
    assert!(ci_job("work").stderr.contains(of_another), "{}", ci_job("work"));
    // The mode of /tmp.
    std::fs::set_permissions(folder.path("."), Permissions::from_mode(0o1777)).unwrap();
    assert!(ci_job(".").stderr.contains(of_another), "{}", ci_job("."));
}

#[test]
fn files_with_secrets_that_others_can_read_are_reported() {
    let file = "[broker]\nurl = \"amqp://u:s3cret@127.0.0.1:1\"\n[[alert]]\nname = \"a\"\nurl_file = \"hook.url\"\n";
    let database = "postgres://u:s3cret@127.0.0.1:1/x?sslkey=client.key";
    let folder = Folder::with(&[
        ("overdue.toml", file),
        ("hook.url", "http://127.0.0.1:1/s3cret"),
        ("client.key", ""),
        ("topology.toml", TOPOLOGY),
    ]);
    let says = |open: &[(&str, u32)]| {
        for name in ["overdue.toml", "hook.url", "client.key"] {
            let mode = open.iter().find(|(it, _)| *it == name).map_or(0o600, |(_, mode)| *mode);
            std::fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let environment = [("OVERDUE_DATABASE__URL", database)];
        let doctor = folder.run(&["doctor", "-o", "json"], &environment).json();
        let checks = doctor["checks"].as_array().unwrap();
        let check = checks.iter().find(|it| it["rule"] == "secret-files").unwrap().clone();
        let worker = folder.run(&["run"], &environment).stderr;
        let file = folder.path("overdue.toml").canonicalize().unwrap().display().to_string();
        let first = worker.lines().next().unwrap_or_default();
        assert!(first.contains("starting") && first.contains(&file), "{worker}");
        assert_eq!(worker.matches("others can read or write this file").count(), open.len());
        [check["message"].clone(), check["fix"].clone()]
            .map(|it| it.as_str().unwrap_or_default().to_owned())
    };
    let [closed, _] = says(&[]);
    assert_eq!(closed, "3 files with a password or a key, closed to others");
    let root_may_share = [("overdue.toml", 0o644), ("client.key", 0o604)];
    let [open, fix] = says(&root_may_share);
    assert!(
        open.starts_with("others can read or write ") && open.contains("overdue.toml (0644), "),
        "{open}"
    );
    assert!(open.contains("client.key (0604)"), "{open}");
    assert!(fix.starts_with("chmod 6") && fix.contains("; chmod 600 client.key"), "{fix}");
}
