//! Standard output without a reader, or that cannot be written: no panic, and the usual exit codes.

use std::{
    fs::File,
    process::{Command, Stdio},
};

use crate::support::{Folder, Run, World, samples::WITHOUT_FINDINGS};

/// A pipe whose reader has closed before the command starts, as in `overdue check | true`.
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

/// Findings are printed to standard output, and the exit code is the verdict, with or without a reader. Every command prints through
/// one function.
#[test]
fn what_a_command_prints_is_not_read_or_cannot_be_written() {
    let broken = WITHOUT_FINDINGS.replace("30m", "31 m");
    for (topology, code) in [(WITHOUT_FINDINGS, 0), (&broken, 78)] {
        let folder = Folder::with(&[("topology.toml", topology)]);
        for arguments in [&["check"][..], &["check", "-o", "json"]] {
            let run = finish(folder.command(arguments), unread(), Stdio::piped()).exits(code);
            assert!(!run.stderr.contains("panicked") && !run.stderr.contains("Broken"), "{run}");
            finish(folder.command(arguments), unread(), unread()).exits(code);
            let full = File::options().write(true).open("/dev/full").unwrap();
            let run = finish(folder.command(arguments), full.into(), Stdio::piped()).exits(1);
            assert!(run.stderr.contains("cannot write to standard output: No space"), "{run}");
        }
    }
}

/// `overdue status --watch | head -1`: without a reader the command would never end.
#[apply(world_test)]
async fn what_is_watched_ends_with_its_reader() {
    let world = World::new().await;
    for form in ["text", "json"] {
        let mut command = world.command(&["status", "--watch", "--every", "50ms", "-o", form]);
        command.stdout(unread());
        let mut process = world.spawn_with_output(command);
        assert!(process.ended().await.success(), "{}", process.log());
    }
}

/// An unread log does not stop a worker.
#[apply(world_test)]
async fn a_worker_whose_log_nobody_reads() {
    let world = World::new().await;
    let mut command = world.command(&["run"]);
    let mut worker = command.stdout(unread()).stderr(unread()).spawn().unwrap();
    world.publish_orders("100ms", "o", 3, 0).await;
    world.publish("100ms", &["nobody".to_owned()]).await;
    world.until_closed(3).await;
    world.parked(1).await;
    let running = worker.try_wait().unwrap().is_none();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(running, "the worker has ended");
}
