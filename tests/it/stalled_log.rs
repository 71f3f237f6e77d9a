//! Nobody takes what a worker logs: a terminal that was stopped with Ctrl-S, a collector that is stuck.

use std::{
    io::{BufRead, BufReader, PipeReader},
    net::SocketAddr,
    process::{Child, Command, ExitStatus},
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

/// A worker of which nobody takes what it says on standard error once it works; what it says on standard output goes the
/// same way.
struct Stalled {
    process: Started,
    _log: PipeReader,
    address: SocketAddr,
}

fn stalled(mut command: Command) -> Stalled {
    command.env("OVERDUE_WORKER__LISTEN", "127.0.0.1:0").env("OVERDUE_LOG__FILTER", "debug");
    command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h").env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
    let (log, end) = std::io::pipe().unwrap();
    command.stdout(end.try_clone().unwrap()).stderr(end);
    let process = Started(command.spawn().unwrap());
    // Otherwise its own end would keep the pipe open.
    drop(command);
    let (mut seen, mut lines) = (String::new(), BufReader::new(log));
    while !(seen.contains("worker ready") && seen.contains("serving /metrics")) {
        assert_ne!(lines.read_line(&mut seen).unwrap(), 0, "it has ended: {seen}");
    }
    let (_, address) = seen.split_once("address=").unwrap();
    let address = address.trim_matches('"').split(['"', ' ', '\n']).next().unwrap();
    let address = address.parse().unwrap();
    Stalled { process, _log: lines.into_inner(), address }
}

impl Stalled {
    /// Begins, and waits until nothing more fits into the pipe and before it.
    async fn of(world: &World, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = world.command(&["run"]);
        change(&mut command);
        let stalled = tokio::task::block_in_place(|| stalled(command));
        // Each is tried again and parked, with a line each time.
        let mut rounds = 0_u32..;
        let lost = async || {
            let unknown = ids(&format!("nobody-{}", rounds.next().unwrap()), 1_000);
            world.publish("100ms", &unknown).await;
            sum(&metrics(stalled.address).await, "overdue_log_lines_lost_total", &[])
        };
        until("lost lines", lost, |lost| *lost > 0.0).await;
        // With many in hand it would close what comes next ahead of its message, and that is given up when it stops.
        let parked = async || sum(&metrics(stalled.address).await, "overdue_parked_total", &[]);
        let all = f64::from(rounds.start * 1_000);
        until("each parked", parked, |parked| *parked >= all).await;
        stalled
    }

    /// Sends a signal, and perhaps others, and waits for its end.
    async fn stopped(mut self, again: bool) -> ExitStatus {
        let id = self.process.0.id();
        send_signal(id, "TERM");
        let look = async || {
            let ended = self.process.0.try_wait().unwrap();
            if again && ended.is_none() {
                send_signal(id, "TERM");
            }
            ended
        };
        wait::within(Duration::from_mins(2), "its end", look, Option::is_some).await.unwrap()
    }
}

/// Its lines wait, then they are lost and counted; orders are closed, and it stops when it is asked to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_takes_stops_nothing() {
    let world = World::new().await;
    let stalled = Stalled::of(&world, |_| {}).await;
    let orders = world.orders("o", 50, 0).await;
    world.publish("100ms", &orders).await;
    world.until_closed(50).await;
    let status = stalled.stopped(false).await;
    assert_eq!(status.code(), Some(0), "{status}");
}

/// With an order in hand that it cannot finish.
async fn asked_to_stop(drain: &str, again: bool) -> ExitStatus {
    let world = World::new().await;
    let drain = |command: &mut Command| {
        command.env("OVERDUE_WORKER__DRAIN", drain);
    };
    let stalled = Stalled::of(&world, drain).await;
    world.orders("o", 1, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    world.publish("100ms", &ids("o", 1)).await;
    world.until_stalled().await;
    let status = stalled.stopped(again).await;
    held.rollback().await.unwrap();
    status
}

/// The error line has nowhere to go either, and nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_nobody_is_told_of_ends_with_its_code() {
    let status = asked_to_stop("500ms", false).await;
    assert_eq!(status.code(), Some(1), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_worker_whose_log_nobody_takes() {
    let status = asked_to_stop("5m", true).await;
    assert_eq!(status.code(), Some(130), "{status}");
}
