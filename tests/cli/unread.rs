//! Standard output that nobody reads, or that cannot be written: no panic, and the exit code means what it means.

use std::{
    fs::File,
    process::{Command, Stdio},
};

use crate::{
    support::Folder,
    support::{Run, World},
};

const TOPOLOGY: &str = include_str!("../../topology.toml");

/// Commands that print and ask nobody, with their exit codes.
const ALONE: [(&[&str], i32); 12] = [
    (&["check"], 0),
    (&["check", "-o", "json"], 0),
    (&["schema"], 0),
    (&["graph"], 0),
    (&["permissions"], 0),
    (&["permissions", "--format", "definitions"], 0),
    (&["export", "--format", "definitions"], 0),
    (&["export", "--format", "rabbitmqadmin"], 0),
    (&["export", "--format", "terraform"], 0),
    (&["export", "--format", "kubernetes"], 0),
    (&["config"], 0),
    (&["--help"], 0),
];

/// Commands that print and ask services, in an order in which all of them have something to say.
const ON_SERVICES: [(&[&str], i32); 13] = [
    (&["database", "init", "--reference-tables"], 0),
    (&["plan"], 0),
    (&["plan", "-o", "json"], 0),
    (&["apply", "--yes"], 0),
    (&["doctor"], 0),
    (&["doctor", "-o", "json"], 0),
    (&["verify"], 0),
    (&["verify", "-o", "json"], 0),
    (&["graph", "--live"], 0),
    (&["publish", "4711"], 0),
    (&["unblock", "orders.delay.30m"], 0),
    (&["demo", "--orders", "5", "--after", "500ms"], 0),
    (&["demo", "--remove", "demo-00000000"], 0),
];

/// A pipe whose reader has gone before the command starts, as in `overdue check | true`.
fn unread() -> Stdio {
    let (_reader, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn finish(mut command: Command, out: Stdio, err: Stdio) -> Run {
    let output = command.stdout(out).stderr(err).output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs it three times: nobody reads what it says, nobody reads its errors either, and the disk is full.
fn assert_unmoved(arguments: &[&str], code: i32, command: impl Fn() -> Command) {
    let run = finish(command(), unread(), Stdio::piped());
    assert_eq!(run.code, Some(code), "{arguments:?}: {run}");
    assert!(!run.stderr.contains("panicked") && !run.stderr.contains("Broken pipe"), "{run}");
    let run = finish(command(), unread(), unread());
    assert_eq!(run.code, Some(code), "{arguments:?} without standard error: {run}");
    // clap writes the help, and says nothing where it cannot.
    if arguments != ["--help"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = finish(command(), full.into(), Stdio::piped());
        assert_eq!(run.code, Some(1), "{arguments:?} on a full disk: {run}");
        assert!(run.stderr.contains("error: cannot write to standard output: No space"), "{run}");
    }
}

#[test]
fn commands_that_ask_nobody() {
    let folder = Folder::with(&[("topology.toml", TOPOLOGY)]);
    for (arguments, code) in ALONE {
        assert_unmoved(arguments, code, || folder.command(arguments));
    }
}

/// The findings go to standard output and the verdict is the exit code, whoever reads them.
#[test]
fn findings_that_nobody_reads() {
    let folder = Folder::with(&[("topology.toml", &TOPOLOGY.replace("30m", "31 m"))]);
    for arguments in [&["check"][..], &["check", "-o", "json"]] {
        assert_unmoved(arguments, 78, || folder.command(arguments));
    }
    // A file with errors is told on standard error.
    let run = finish(folder.command(&["graph"]), unread(), unread());
    assert_eq!(run.code, Some(78), "{run}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_ask_services() {
    let world = World::new().await;
    for (arguments, code) in ON_SERVICES {
        assert_unmoved(arguments, code, || world.command(arguments));
    }
}

/// A log that nobody reads does not stop a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_log_nobody_reads() {
    let world = World::new().await;
    let mut command = world.command(&["run"]);
    let mut worker = command.stdout(unread()).stderr(unread()).spawn().unwrap();
    let orders = world.orders("o", 3, 0).await;
    world.publish("100ms", &orders).await;
    world.publish("100ms", &["nobody".to_owned()]).await;
    world.until_closed(3).await;
    world.parked(1).await;
    let running = worker.try_wait().unwrap().is_none();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(running, "the worker has ended");
}
