//! Where a worker's settings, topology and SQL come from, and whether that has changed.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use super::{
    files::{Files, Seen, see},
    prepare::Inputs,
    still::Still,
};
use crate::{
    cli::{
        exit::{self, Failure},
        global::Global,
    },
    config::Settings,
    telemetry::reload,
};

/// Settings name files, which may be others once the settings have been read.
const ROUNDS: usize = 3;

/// The files, and which content of them was tried last.
pub(super) struct Source {
    global: Global,
    files: Files,
    /// What the settings name that were read last.
    named: BTreeSet<PathBuf>,
    still: Still<Seen>,
    /// Why what is there could not be tried, and is tried again by itself: what was logged of it.
    postponed: BTreeSet<String>,
    /// They do not answer, and that has been logged.
    silent: bool,
}

impl Source {
    /// What changes from now on is seen.
    pub(super) async fn new(global: Global, settings: &Settings) -> Self {
        let named = settings.files().collect();
        let mut source = Self {
            global,
            files: Files::default(),
            named,
            still: Still::new(),
            postponed: BTreeSet::new(),
            silent: false,
        };
        if let Ok(seen) = source.look().await {
            source.still.tried(seen);
        }
        source
    }

    /// Waits until the files hold something that was not tried, and for one `interval` more; zero: for ever.
    pub(super) async fn changed(&mut self, interval: Duration) {
        if interval.is_zero() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(interval).await;
            match self.look().await {
                Ok(seen) => {
                    self.silent = false;
                    let others = self.others(&seen);
                    if self.still.look(seen) {
                        return reload::changed(&others);
                    }
                }
                Err(late) if !self.silent => {
                    self.silent = true;
                    reload::silent(&late.text);
                }
                Err(_) => {}
            }
        }
    }

    /// Reads everything.
    pub(super) async fn read(&mut self) -> Result<(Settings, Inputs), Failure> {
        let (global, mut named) = (self.global.clone(), self.named.clone());
        let reading = self.files.read(move || {
            let mut rounds = 0..ROUNDS;
            loop {
                let seen = see(&global.files(&named));
                let settings = global.settings();
                let known = match &settings {
                    Ok(settings) => std::mem::replace(&mut named, settings.files().collect()),
                    Err(_) => named.clone(),
                };
                if known == named || rounds.next().is_none() {
                    let read = settings.and_then(|it| Inputs::read(&it).map(|inputs| (it, inputs)));
                    return (seen, named, read);
                }
            }
        });
        let (seen, named, read) = reading.await?;
        self.still.tried(seen);
        self.named = named;
        read
    }

    /// What was read is not taken. Where somebody did not answer it is tried again, and each reason is logged once.
    pub(super) fn refused(&mut self, failure: &Failure) {
        let is_postponed = failure.code == exit::UNAVAILABLE;
        if is_postponed {
            self.still.forget();
        }
        if !is_postponed || self.postponed.insert(failure.text.clone()) {
            reload::refused(&failure.text);
        }
    }

    /// Somebody waits for an answer, also for the one that was given before; or it has been taken.
    pub(super) fn answers_anew(&mut self) {
        self.postponed.clear();
    }

    async fn look(&self) -> Result<Seen, Failure> {
        let (global, named) = (self.global.clone(), self.named.clone());
        self.files.read(move || see(&global.files(&named))).await
    }

    /// The files that do not hold what was tried last; none where nothing was tried.
    fn others(&self, seen: &Seen) -> Vec<String> {
        let Some(tried) = self.still.last_tried() else { return Vec::new() };
        let all: BTreeSet<&PathBuf> = tried.keys().chain(seen.keys()).collect();
        let others = all.into_iter().filter(|file| tried.get(*file) != seen.get(*file));
        others.map(|file| file.display().to_string()).collect()
    }
}
