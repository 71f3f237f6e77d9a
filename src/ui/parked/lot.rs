//! What was read of the parking lot, and when it is read again.

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

/// Older ones are read again when somebody looks. Actions read the parking lot themselves.
const OLD: Duration = Duration::from_mins(1);
/// A page begins within 300 ms; then it says that it is being read.
const WAIT: Duration = Duration::from_millis(150);
/// What cannot go on without it waits longer.
const LONG: Duration = Duration::from_secs(20);

/// Questions whose answers are awaited.
const QUESTIONS: usize = 16;

/// What is known of the parking lot.
#[derive(Clone, Default)]
pub(in crate::ui) enum Known {
    #[default]
    Unread,
    Reading,
    Read(Arc<Lots>, Arc<Gathered>),
    Failed(String),
}

/// The newest reading, for all who look.
pub(in crate::ui) struct Lot {
    services: Arc<Services>,
    known: watch::Sender<Known>,
    /// What was shown last, also while it is read again.
    last: Mutex<Option<(Arc<Lots>, Arc<Gathered>)>>,
    /// What the last questions have shown: the word of each, and its messages.
    questions: Mutex<VecDeque<(String, Selection)>>,
    /// Whoever decides to read is alone; what reads, or has read.
    turn: Mutex<Option<JoinHandle<()>>>,
    /// Whether what is being read was changed meanwhile.
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

    /// It is read when somebody looks next.
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

    /// What a question has shown, unless many were asked since.
    pub(super) fn asked(&self, seen: &str) -> Option<Selection> {
        let questions = self.questions.lock();
        questions.iter().find(|(word, _)| word == seen).map(|(_, selected)| selected.clone())
    }

    /// What lies there; [`Known::Reading`] if that takes longer than a page may.
    pub(in crate::ui) async fn look(self: &Arc<Self>) -> Known {
        self.look_within(WAIT).await
    }

    /// What was shown last, however old it is: whoever has thought for a while acts on what they saw.
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
            // An action has ended meanwhile.
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
