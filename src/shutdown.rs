//! Stopping: softly when asked, within a deadline, and hard at the second signal.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// What was in hand did not finish in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what was in hand did not finish within {deadline:?} (worker.drain); the broker gives it to another worker"
)]
pub struct DrainOverrun {
    deadline: Duration,
}

/// A request to stop, shared by everything that runs.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// Nothing asks to stop yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop; may be called more than once.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until somebody asks.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Waits for `time`, or until somebody asks; whether nobody has.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.requested() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    /// A stop of its own that this one brings with it, but not the other way round.
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs `work` to its end: after a request to stop no longer than `deadline`. `on_request` is called with it.
    ///
    /// # Errors
    /// `work` did not end in time and was dropped.
    pub async fn within<T>(
        &self,
        deadline: Duration,
        on_request: impl FnOnce(),
        work: impl Future<Output = T>,
    ) -> Result<T, DrainOverrun> {
        let overrun = async {
            self.requested().await;
            on_request();
            tokio::time::sleep(deadline).await;
        };
        tokio::select! {
            done = work => Ok(done),
            () = overrun => Err(DrainOverrun { deadline }),
        }
    }

    /// Takes SIGTERM, SIGINT and SIGHUP: the first is a request, a second SIGTERM or SIGINT ends the process with `code`, after
    /// `last`. A terminal that closes may send SIGHUP twice.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn on_signals(&self, code: i32, last: fn()) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let stop = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    _ = hangup.recv() => {
                        stop.request();
                        continue;
                    }
                }
                if stop.is_requested() {
                    last();
                    std::process::exit(code);
                }
                stop.request();
            }
        });
        Ok(())
    }
}
