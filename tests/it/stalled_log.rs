//! A worker's log has no reader: a terminal that was stopped with Ctrl-S, a stuck collector.

use std::{
    io::{BufRead, BufReader, PipeReader},
    net::SocketAddr,
    process::{Child, Command, ExitStatus},
};

use crate::support::{
    World, ids,
    pages::{metrics, sum},
    process::send_signal,
    until,
};

/// A process; drop kills it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // Fails if the test has ended the process.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A worker whose standard error has no reader once the worker is ready; its standard output goes to the
/// same pipe.
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
    // Otherwise this process would keep the pipe open.
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
    /// Starts a worker, and waits until the pipe and the worker's buffer are full.
    async fn of(world: &World) -> Self {
        let command = world.command(&["run"]);
        let stalled = tokio::task::block_in_place(|| stalled(command));
        // The worker retries and parks each order, with a log line each time.
        let mut rounds = 0_u32..;
        let lost = async || {
            let unknown = ids(&format!("nobody-{}", rounds.next().unwrap()), 1_000);
            world.publish("100ms", &unknown).await;
            sum(&metrics(stalled.address).await, "overdue_log_lines_lost_total", &[])
        };
        until("lost lines", lost, |lost| *lost > 0.0).await;
        // With many unacked messages, the worker would close further orders ahead of their messages, which a stop interrupts.
        let parked = async || sum(&metrics(stalled.address).await, "overdue_parked_total", &[]);
        let all = f64::from(rounds.start * 1_000);
        until("each parked", parked, |parked| *parked >= all).await;
        stalled
    }

    /// Sends SIGTERM, and waits for the end.
    async fn stopped(mut self) -> ExitStatus {
        send_signal(self.process.0.id(), "TERM");
        let look = async || self.process.0.try_wait().unwrap();
        until("its end", look, Option::is_some).await.unwrap()
    }
}

/// The log lines wait, then they are lost and counted; orders are closed, and the worker stops on SIGTERM.
#[apply(world_test)]
async fn a_log_that_nobody_takes_stops_nothing() {
    let world = World::new().await;
    let stalled = Stalled::of(&world).await;
    world.publish_orders("100ms", "o", 50, 0).await;
    world.until_closed(50).await;
    let status = stalled.stopped().await;
    assert_eq!(status.code(), Some(0), "{status}");
}
