//! The reading of the parking lot that is shown, and when it is renewed.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::{
    oncall::{
        parked::{Gathered, Lots},
        services::Services,
    },
    parking::Selection,
};

/// Age after which a request reads the parking lot again. Actions read it themselves.
const OLD: Duration = Duration::from_mins(1);
/// A page begins within 300 ms; after this time it reports that the parking lot is being read.
const WAIT: Duration = Duration::from_millis(150);
/// Time that an action waits for a reading.
const LONG: Duration = Duration::from_secs(20);

/// Questions whose messages are remembered.
const QUESTIONS: usize = 16;

/// State of the reading.
#[derive(Clone, Default)]
pub(in crate::ui) enum Known {
    #[default]
    Unread,
    Reading,
    Read(Arc<Lots>, Arc<Gathered>),
    Failed(String),
}

/// The newest reading, for all sessions.
pub(in crate::ui) struct Lot {
    services: Arc<Services>,
    known: watch::Sender<Known>,
    /// The last complete reading, also during the next one.
    last: Mutex<Option<(Arc<Lots>, Arc<Gathered>)>>,
    /// The last questions: the hash of each, and its messages.
    questions: Mutex<VecDeque<(String, Selection)>>,
    /// Lock for the decision to read, with the task of the last reading.
    turn: Mutex<Option<JoinHandle<()>>>,
    /// Whether an action has changed the parking lot since the reading began.
    is_outdated: AtomicBool,
}

impl Lot {
    pub(in crate::ui) fn new(services: Arc<Services>) -> Arc<Self> {
        let known = watch::Sender::new(Known::Unread);
        Arc::new(Self {
            services,
            known,
            last: Mutex::default(),
            questions: Mutex::default(),
            turn: Mutex::default(),
            is_outdated: AtomicBool::default(),
        })
    }

    /// The next request reads the parking lot again.
    pub(in crate::ui) fn forget(&self) {
        let _turn = self.turn.lock();
        self.is_outdated.store(true, Ordering::Relaxed);
    }

    pub(super) fn ask(&self, seen: &str, selected: &Selection) {
        let mut questions = self.questions.lock();
        questions.retain(|(word, _)| word != seen);
        questions.push_front((seen.to_owned(), selected.clone()));
        questions.truncate(QUESTIONS);
    }

    /// The messages of a question; none if `QUESTIONS` others followed.
    pub(super) fn asked(&self, seen: &str) -> Option<Selection> {
        let questions = self.questions.lock();
        questions.iter().find(|(word, _)| word == seen).map(|(_, selected)| selected.clone())
    }

    /// The newest reading, renewed if it is old; [`Known::Reading`] if that takes longer than a page may.
    pub(in crate::ui) async fn look(self: &Arc<Self>) -> Known {
        self.look_within(WAIT).await
    }

    /// The last complete reading, however old: after a pause a user still acts on what they have seen.
    pub(in crate::ui) async fn shown(self: &Arc<Self>) -> Known {
        let last = self.last.lock().clone();
        match last {
            Some((lots, gathered)) => Known::Read(lots, gathered),
            None => self.look_within(LONG).await,
        }
    }

    async fn look_within(self: &Arc<Self>, wait: Duration) -> Known {
        self.read_if_old();
        let mut changes = self.known.subscribe();
        let known = changes.wait_for(|known| !matches!(known, Known::Reading | Known::Unread));
        match timeout(wait, known).await {
            Ok(Ok(known)) => known.clone(),
            _ => Known::Reading,
        }
    }

    fn read_if_old(self: &Arc<Self>) {
        let mut turn = self.turn.lock();
        let is_reading = turn.as_ref().is_some_and(|reading| !reading.is_finished());
        let is_outdated = self.is_outdated.load(Ordering::Relaxed);
        match &*self.known.borrow() {
            Known::Reading if is_reading => return,
            Known::Read(_, gathered) if !is_outdated && gathered.at.elapsed() < OLD => return,
            _ => {}
        }
        self.known.send_replace(Known::Reading);
        let lot = Arc::clone(self);
        *turn = Some(tokio::spawn(async move {
            lot.is_outdated.store(false, Ordering::Relaxed);
            let mut read = lot.read().await;
            // An action has ended during the reading.
            while lot.is_outdated.swap(false, Ordering::Relaxed) {
                read = lot.read().await;
            }
            let known = match read {
                Ok((lots, gathered)) => {
                    let (lots, gathered) = (Arc::new(lots), Arc::new(gathered));
                    let last = Some((Arc::clone(&lots), Arc::clone(&gathered)));
                    *lot.last.lock() = last;
                    Known::Read(lots, gathered)
                }
                Err(failure) => Known::Failed(failure.text),
            };
            lot.known.send_replace(known);
        }));
    }

    async fn read(&self) -> Result<(Lots, Gathered), crate::oncall::failure::Failure> {
        let lots = Lots::open(Arc::clone(&self.services)).await?;
        let gathered = lots.gather().await?;
        Ok((lots, gathered))
    }
}
