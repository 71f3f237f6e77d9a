//! Files, read where a file system that does not answer holds up nobody else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

use crate::cli::exit::Failure;

/// Small files are read in microseconds, over a network in milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// One reader at a time: files that never answer keep one thread, however often they are tried again.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(Arc<Mutex<()>>);

impl Files {
    /// What `read` makes of them, on a thread that may wait.
    ///
    /// # Errors
    /// They could not be read in time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let alone = Arc::clone(&self.0);
        let reading = async {
            let alone = alone.lock_owned().await;
            let done = spawn_blocking(move || {
                let done = read();
                drop(alone);
                done
            });
            done.await
                .map_err(|panic| Failure::failed(format!("the files cannot be read: {panic}")))
        };
        let late = || {
            let within = PATIENCE.as_secs();
            let text = format!(
                "the files cannot be read within {within} s: does their file system answer?"
            );
            Err(Failure::unavailable(text))
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| late())
    }
}

/// What a file holds, as far as it has to be known whether it is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A secret is not kept for it.
    Hash(u64),
    /// It cannot be read.
    Unreadable(ErrorKind),
}

/// What files held at one moment. The content is compared, wherever a link leads and whatever time a file has.
pub(super) type Seen = BTreeMap<PathBuf, Content>;

/// Reads every file.
pub(super) fn see(files: &BTreeSet<PathBuf>) -> Seen {
    files.iter().map(|file| (file.clone(), content(file))).collect()
}

fn content(file: &Path) -> Content {
    match fs::read(file) {
        Ok(bytes) => {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            Content::Hash(hasher.finish())
        }
        Err(error) => Content::Unreadable(error.kind()),
    }
}
