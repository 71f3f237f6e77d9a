//! What was read of the parking lot, and when it is read again.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use crate::oncall::{
    parked::{Gathered, Lots},
    services::Services,
};

/// Older ones are read again when somebody looks. Actions read the parking lot themselves.
const OLD: Duration = Duration::from_mins(1);
/// A page begins within 300 ms; then it says that it is being read.
const WAIT: Duration = Duration::from_millis(150);

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
    /// Whoever decides to read is alone.
    turn: Mutex<()>,
    /// Whether what is being read was changed meanwhile.
    is_outdated: AtomicBool,
}

impl Lot {
    pub(in crate::ui) fn new(services: Arc<Services>) -> Arc<Self> {
        let known = watch::Sender::new(Known::Unread);
        Arc::new(Self {
            services,
            known,
            turn: Mutex::default(),
            is_outdated: AtomicBool::default(),
        })
    }

    /// It is read when somebody looks next.
    pub(in crate::ui) fn forget(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_outdated.store(true, Ordering::Relaxed);
    }

    /// What lies there; [`Known::Reading`] if that takes longer than a page may.
    pub(in crate::ui) async fn look(self: &Arc<Self>) -> Known {
        self.read_if_old();
        let mut changes = self.known.subscribe();
        let known = changes.wait_for(|known| !matches!(known, Known::Reading | Known::Unread));
        match timeout(WAIT, known).await {
            Ok(Ok(known)) => known.clone(),
            _ => Known::Reading,
        }
    }

    fn read_if_old(self: &Arc<Self>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_outdated = self.is_outdated.load(Ordering::Relaxed);
        match &*self.known.borrow() {
            Known::Reading => return,
            Known::Read(_, gathered) if !is_outdated && gathered.at.elapsed() < OLD => return,
            _ => {}
        }
        self.is_outdated.store(false, Ordering::Relaxed);
        self.known.send_replace(Known::Reading);
        let lot = Arc::clone(self);
        tokio::spawn(async move {
            let known = match lot.read().await {
                Ok((lots, gathered)) => Known::Read(Arc::new(lots), Arc::new(gathered)),
                Err(failure) => Known::Failed(failure.text),
            };
            lot.known.send_replace(known);
        });
    }

    async fn read(&self) -> Result<(Lots, Gathered), crate::oncall::failure::Failure> {
        let lots = Lots::open(Arc::clone(&self.services)).await?;
        let gathered = lots.gather().await?;
        Ok((lots, gathered))
    }
}
