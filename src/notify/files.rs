//! The files of an alert, read where a file system that does not answer holds up nobody else.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

use crate::config::AlertSettings;

/// A file of a line is read in microseconds, over a network in milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads the files of one alert. One that never answers keeps one thread, however often it is tried again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(Arc<Mutex<()>>);

impl Files {
    /// What `read` makes of them, on a thread that may wait.
    ///
    /// # Errors
    /// What `read` says, or that they could not be read in time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        alert: &AlertSettings,
        read: impl FnOnce(&AlertSettings) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (alert, alone) = (alert.clone(), Arc::clone(&self.0));
        let reading = async {
            let alone = alone.lock_owned().await;
            let done = spawn_blocking(move || {
                let done = read(&alert);
                drop(alone);
                done
            });
            done.await.map_err(|panic| format!("its files cannot be read: {panic}"))?
        };
        let late = || {
            let within = PATIENCE.as_secs();
            Err(format!("url_file, secret_file or ca_file cannot be read within {within} s"))
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| late())
    }
}
