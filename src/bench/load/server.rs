//! What of the database's settings the figures depend on.

use std::fmt;

use serde::Serialize;

use crate::store::{Store, StoreError};

/// Settings and versions that the figures depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Server {
    /// Of PostgreSQL.
    pub version: String,
    /// `fsync`.
    pub fsync: bool,
    /// `synchronous_commit`.
    pub synchronous_commit: String,
    /// `track_commit_timestamp`: whether lateness ends with the commit.
    pub commit_times: bool,
    /// Cores of this machine that the program may use.
    pub cores: usize,
}

impl Server {
    /// Asks the database.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn read(store: &Store) -> Result<Self, StoreError> {
        const SQL: &str = "SELECT current_setting('server_version') AS version, current_setting('fsync')::boolean AS fsync, \
                           current_setting('synchronous_commit') AS synchronous_commit, \
                           current_setting('track_commit_timestamp')::boolean AS commit_times";
        let client = store.client().await?;
        let row = store.named("bench_server", client.query_one(SQL, &[]).await)?;
        Ok(Self {
            version: row.get("version"),
            fsync: row.get("fsync"),
            synchronous_commit: row.get("synchronous_commit"),
            commit_times: row.get("commit_times"),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        })
    }

    /// What lateness means with these settings.
    pub(crate) const fn lateness(&self) -> &'static str {
        if self.commit_times {
            "lateness by commit time stamps"
        } else {
            "lateness to the statement, not to its commit: track_commit_timestamp is off"
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, fsync, synchronous_commit, cores, .. } = self;
        let fsync = if *fsync { "on" } else { "off" };
        write!(
            f,
            "{cores} cores, PostgreSQL {version}, fsync {fsync}, synchronous_commit {synchronous_commit}"
        )
    }
}
