//! How the last hour was, and what the next ones bring. To count that takes up to seconds: it is read seldom, and nobody waits for
//! it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::{chart::Chart, overview::number};
use crate::{
    oncall::services::Services,
    status::{ClosingRate, DueSoon, Known, LastHour, lateness},
    store::StoreError,
    text::{about, error_chain, one_line},
};

/// While somebody looks.
const EVERY: Duration = Duration::from_secs(30);
/// What is looked ahead.
const HOURS: u32 = 6;

/// One reading.
pub(super) struct Trend {
    last_hour: Result<LastHour, String>,
    due: Result<DueSoon, String>,
}

/// The newest one.
pub(super) struct Trends {
    services: Arc<Services>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    newest: Option<Arc<Trend>>,
    begun: Option<Instant>,
    reading: Option<JoinHandle<()>>,
}

impl Trends {
    pub(super) fn new(services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self { services, state: Mutex::default() })
    }

    /// The newest one, if there is any; another one is read meanwhile if it is old.
    pub(super) fn now(self: &Arc<Self>) -> Option<Arc<Trend>> {
        let mut state = self.state.lock();
        let is_old = state.begun.is_none_or(|begun| begun.elapsed() >= EVERY);
        if is_old && state.reading.as_ref().is_none_or(JoinHandle::is_finished) {
            state.begun = Some(Instant::now());
            let trends = Arc::clone(self);
            state.reading = Some(tokio::spawn(async move {
                let trend = Arc::new(trends.read().await);
                trends.state.lock().newest = Some(trend);
            }));
        }
        state.newest.clone()
    }

    async fn read(&self) -> Trend {
        let Services { store, effects, .. } = &*self.services;
        let why = |error: StoreError| one_line(error_chain(&error));
        let last_hour = store.last_hour().await.map_err(why);
        let rate = last_hour.as_ref().map_or_else(|_| ClosingRate::of(0, 0), |hour| hour.rate);
        let due = match store.due_soon(effects.values(), HOURS, rate).await.map_err(why) {
            Ok(Known::Known(due)) => Ok(due),
            Ok(Known::Unknown(why)) | Err(why) => Err(why),
        };
        Trend { last_hour, due }
    }
}

impl Trend {
    pub(super) fn closed(&self) -> Result<Chart, &str> {
        self.last_hour.as_ref().map(Chart::closed).map_err(String::as_str)
    }

    /// How late they were.
    pub(super) fn late(&self) -> Option<String> {
        let all = self.last_hour.as_ref().ok().map(|hour| hour.all).filter(|all| all.orders > 0)?;
        let [p50, p99, max] = [all.p50_s, all.p99_s, all.max_s].map(lateness);
        Some(format!("p50 {p50}, p99 {p99}, max {max}"))
    }

    pub(super) fn due(&self) -> Result<Chart, &str> {
        self.due.as_ref().map(Chart::due).map_err(String::as_str)
    }

    /// The largest burst, and how late the last of its orders will be closed.
    pub(super) fn burst(&self) -> Option<String> {
        let burst = self.due.as_ref().ok()?.bursts.first().filter(|burst| burst.orders > 1)?;
        let begins = about(Duration::from_secs(burst.in_s));
        let late = lateness(burst.late_s);
        Some(format!("in {begins}: {} orders, late by up to {late}", number(burst.orders)))
    }
}
