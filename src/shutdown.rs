//! Shutdown: graceful on request, within a deadline, and at once at the second signal.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Work in progress did not finish in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what was in hand did not finish within {deadline:?} (worker.drain); the broker gives it to another worker"
)]
pub struct DrainOverrun {
    deadline: Duration,
}

/// A request to stop, shared by all tasks.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// Creates a stop that is not requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the stop; may be called more than once.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the stop is requested.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Waits for `time`, or until the stop is requested. Returns whether `time` has passed.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.requested() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    /// A child: this stop also requests the child's stop, but not the other way round.
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs `work` to its end. After a request to stop, it calls `on_request` and waits at most `deadline`.
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

    /// Handles SIGTERM, SIGINT and SIGHUP. The first signal requests the stop. A second SIGTERM or SIGINT ends the process
    /// with `code`, after `last`. A terminal that closes may send SIGHUP twice.
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
