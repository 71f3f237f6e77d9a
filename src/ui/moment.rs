//! The reading of database and broker that all sessions share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    config::Settings,
    oncall::{
        services::Services,
        status::{Queues, StatusQuestion},
    },
    status::{Reading, State},
};

/// Age below which a reading is shown again: the broker's counts are seconds old anyway.
pub(super) const FRESH: Duration = Duration::from_secs(2);

/// A reading, and the state that follows from it.
pub(super) struct Moment {
    pub(super) reading: Reading,
    pub(super) state: State,
    /// None if the broker does not answer.
    pub(super) queues: Option<Queues>,
    read_at: Instant,
}

/// The newest reading. Without a request, nothing is read.
pub(super) struct Moments {
    question: StatusQuestion,
    newest: Mutex<Option<Arc<Moment>>>,
    /// Held by the request that reads; others wait for its reading.
    turn: tokio::sync::Mutex<()>,
}

impl Moments {
    pub(super) fn new(settings: &Settings, services: Arc<Services>) -> Self {
        Self {
            question: StatusQuestion::new(settings, services),
            newest: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The newest reading, or a new one if it is not fresh.
    pub(super) async fn now(&self) -> Arc<Moment> {
        if let Some(moment) = self.fresh() {
            return moment;
        }
        let _turn = self.turn.lock().await;
        if let Some(moment) = self.fresh() {
            return moment;
        }
        let (reading, queues) = self.question.read_with_queues().await;
        let state = State::of(&reading);
        let moment = Arc::new(Moment { reading, state, queues, read_at: Instant::now() });
        *self.newest.lock() = Some(Arc::clone(&moment));
        moment
    }

    fn fresh(&self) -> Option<Arc<Moment>> {
        let newest = self.newest.lock().clone();
        newest.filter(|moment| moment.read_at.elapsed() < FRESH)
    }
}
