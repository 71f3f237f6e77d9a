//! One reading of database and broker, shared by all who look.

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

/// How old a reading may be that is shown to somebody else: the broker's counts are seconds old anyway.
pub(super) const FRESH: Duration = Duration::from_secs(2);

/// What was read, and what it comes to.
pub(super) struct Moment {
    pub(super) reading: Reading,
    pub(super) state: State,
    /// None if the broker says nothing.
    pub(super) queues: Option<Queues>,
    read_at: Instant,
}

/// The newest reading. Nobody reads unless somebody looks.
pub(super) struct Moments {
    question: StatusQuestion,
    newest: Mutex<Option<Arc<Moment>>>,
    /// Who reads; the others wait for what comes of it.
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

    /// The newest one, read now if it is not fresh.
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
