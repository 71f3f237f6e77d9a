//! Clocks as a test sets them: the database's, so that no deadline has to be waited for, and the one of a worker's machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Services, World, world::CLASSIC};

/// Functions of these names in the schema take the place of the server's, which is looked up behind them.
const CLOCK: &str = "
    CREATE TABLE clock (ahead interval, stands timestamptz);
    INSERT INTO clock VALUES ('-1 h', NULL);
    CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql
        AS 'SELECT coalesce(stands, pg_catalog.now()) + ahead FROM clock';
    CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
        AS 'SELECT coalesce(stands, pg_catalog.clock_timestamp()) + ahead FROM clock'";

/// The clock of one world.
pub struct Clock<'a>(&'a World);

impl World {
    /// Like [`World::new`], with a database whose clock is an hour behind until it is set.
    pub async fn clocked() -> Self {
        Self::clocked_of(CLASSIC).await
    }

    /// Like [`World::clocked`], with another topology.
    pub async fn clocked_of(topology: &str) -> Self {
        Self::with(Services::main(), topology).await.clock_set_by_hand().await
    }

    /// The same world with a database whose clock is an hour behind until it is set.
    pub async fn clock_set_by_hand(mut self) -> Self {
        self.sql(CLOCK).await;
        self.search_path.push_str(",pg_catalog");
        self.store = self.patient_store();
        self
    }

    /// The clock of a [`World::clocked`].
    pub const fn clock(&self) -> Clock<'_> {
        Clock(self)
    }
}

impl Clock<'_> {
    /// From now on it goes only where it is set.
    pub async fn stop(&self) {
        self.0.sql("UPDATE clock SET stands = pg_catalog.clock_timestamp()").await;
    }

    /// Sets it forward, or back with a minus: `1 h`.
    pub async fn advance(&self, interval: &str) {
        self.0.sql(&format!("UPDATE clock SET ahead = ahead + interval '{interval}'")).await;
    }
}

/// A worker's clock, as libfaketime has it. What measures intervals goes on as it does on a machine whose clock is set:
/// `CLOCK_MONOTONIC` is never set. <https://man7.org/linux/man-pages/man3/clock_gettime.3.html>
#[derive(Clone)]
pub struct WorkerClock {
    library: PathBuf,
    /// Read at each look at the clock.
    file: PathBuf,
}

impl WorkerClock {
    /// In a file of this folder; none where the machine lacks the library.
    #[expect(clippy::print_stderr, reason = "what a test leaves out")]
    pub fn of(folder: &Path) -> Option<Self> {
        let folders = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
        let library =
            |folder| PathBuf::from(format!("/usr/lib/{folder}/faketime/libfaketimeMT.so.1"));
        let Some(library) = folders.into_iter().map(library).find(|library| library.exists())
        else {
            eprintln!(
                "LEFT OUT: workers with a wrong clock: libfaketime is not installed; `make test` installs it on Debian, as root"
            );
            return None;
        };
        let clock = Self { library, file: folder.join("clock") };
        clock.set(0);
        Some(clock)
    }

    /// Sets it so many minutes off.
    pub fn set(&self, minutes: i64) {
        // Renamed into its place: it is read all the time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{:+}\n", minutes * 60)).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// From its start on the worker has it.
    pub fn is_of(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
}
