//! Nobody takes what a worker logs: a terminal that was stopped with Ctrl-S, a collector that stands still.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use crate::support::{
    World, ids,
    pages::{metrics, sum},
    process::send_signal,
    until, wait,
};

/// Killed when it goes.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // Gone already where the test ended it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a worker, and gives what it says on standard error from then on.
fn started(mut command: Command) -> (Started, BufReader<ChildStderr>, String) {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = Started(command.spawn().unwrap());
    let mut log = BufReader::new(process.0.stderr.take().unwrap());
    let mut seen = String::new();
    while !(seen.contains("worker ready") && seen.contains("serving /metrics")) {
        assert_ne!(log.read_line(&mut seen).unwrap(), 0, "it has ended: {seen}");
    }
    (process, log, seen)
}

/// Its lines wait, then they are lost and counted; orders are closed, and it stops when it is asked to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_takes_stops_nothing() {
    let world = World::new().await;
    let mut command = world.command(&["run"]);
    command.env("OVERDUE_WORKER__LISTEN", "127.0.0.1:0").env("OVERDUE_LOG__FILTER", "debug");
    let (mut process, log, seen) = tokio::task::block_in_place(|| started(command));
    let (_, address) = seen.split_once("address=").unwrap();
    let address =
        address.trim_matches('"').split(['"', ' ', '\n']).next().unwrap().parse().unwrap();
    // Each is tried again and parked, with a line each time: more than the pipe and what waits before it take.
    let unknown = ids("nobody", 3_000);
    world.publish("100ms", &unknown).await;
    let lost = async || sum(&metrics(address).await, "overdue_log_lines_lost_total", &[]);
    until("lost lines", lost, |lost| *lost > 0.0).await;
    let orders = world.orders("o", 50, 0).await;
    world.publish("100ms", &orders).await;
    world.until_closed(50).await;
    send_signal(process.0.id(), "TERM");
    let look = async || process.0.try_wait().unwrap();
    let ended = wait::within(Duration::from_mins(2), "its end", look, Option::is_some).await;
    assert!(ended.unwrap().success(), "{ended:?}");
    drop(log);
}
