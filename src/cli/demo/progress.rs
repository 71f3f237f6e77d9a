//! How far a run is: a bar where a person watches, otherwise a line now and then, on standard error.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    cli::output::report,
    demo::progress::{Progress, State},
    order_service::RunId,
};

/// How often the bar moves.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) fn announce(run: &RunId, title: &str) {
    report(format!("{run}: {title}"));
}

/// Shows the progress until it is dropped.
pub(super) async fn show(progress: &Progress, orders: usize) {
    if std::io::stderr().is_terminal() {
        bar(progress, orders).await;
    } else {
        lines(progress, orders).await;
    }
}

async fn bar(progress: &Progress, orders: usize) {
    let bar = Cleared(ProgressBar::new(u64::try_from(orders).unwrap_or(u64::MAX)));
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len} final · {msg} · {elapsed}")
    {
        bar.0.set_style(style);
    }
    let mut ticks = tokio::time::interval(BAR_EVERY);
    loop {
        ticks.tick().await;
        let state = progress.read();
        bar.0.set_message(describe(state));
        bar.0.set_position(u64::try_from(state.paid + state.closed).unwrap_or(u64::MAX));
    }
}

/// Leaves no half a bar on the screen, however the run ends.
struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

async fn lines(progress: &Progress, orders: usize) {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(LINE_EVERY);
    // The first one comes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let seconds = began.elapsed().as_secs();
        report(format!("{seconds} s: {} of {orders}", describe(progress.read())));
    }
}

fn describe(State { phase, created, paid, refused, closed, .. }: State) -> String {
    format!("{phase}: paid {paid}, closed {closed}, refused {refused}, created {created}")
}
