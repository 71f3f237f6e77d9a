//! Clocks that a test sets: the database's clock, so that no test waits for a deadline, and the clock of a worker's machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Services, World, world::CLASSIC};

/// These functions hide the server's functions of the same name: `pg_catalog` is the last schema of the search path.
const CLOCK: &str = "
    CREATE TABLE clock (ahead interval, stands timestamptz);
    INSERT INTO clock VALUES ('-1 h', NULL);
    CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql
        AS 'SELECT coalesce(stands, pg_catalog.now()) + ahead FROM clock';
    CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
        AS 'SELECT coalesce(stands, pg_catalog.clock_timestamp()) + ahead FROM clock'";

pub struct Clock<'a>(&'a World);

impl World {
    /// Like [`World::new`], with a database clock that starts an hour behind.
    pub async fn clocked() -> Self {
        Self::clocked_of(CLASSIC).await
    }

    /// Like [`World::clocked`], with another topology.
    pub async fn clocked_of(topology: &str) -> Self {
        Self::with(Services::main(), topology).await.clock_set_by_hand().await
    }

    /// Changes the database clock of a world: it starts an hour behind.
    pub async fn clock_set_by_hand(mut self) -> Self {
        self.sql(CLOCK).await;
        self.search_path.push_str(",pg_catalog");
        self.store = self.patient_store();
        self
    }

    pub const fn clock(&self) -> Clock<'_> {
        Clock(self)
    }
}

impl Clock<'_> {
    /// Stops the clock; [`Clock::advance`] still moves it.
    pub async fn stop(&self) {
        self.0.sql("UPDATE clock SET stands = pg_catalog.clock_timestamp()").await;
    }

    /// Moves the clock forward, or back with a minus: `1 h`.
    pub async fn advance(&self, interval: &str) {
        self.0.sql(&format!("UPDATE clock SET ahead = ahead + interval '{interval}'")).await;
    }
}

/// A worker's clock, through libfaketime. Intervals are not affected, as on a machine whose clock is set:
/// `CLOCK_MONOTONIC` is never set. <https://man7.org/linux/man-pages/man3/clock_gettime.3.html>
#[derive(Clone)]
pub struct WorkerClock {
    library: PathBuf,
    /// The library reads this file whenever the program reads the clock.
    file: PathBuf,
}

impl WorkerClock {
    /// Creates the clock's file in a folder; `None` if the machine lacks the library.
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

    /// Sets the clock `minutes` off.
    pub fn set(&self, minutes: i64) {
        // Renamed, because programs read the file all the time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{:+}\n", minutes * 60)).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// Gives the clock to a command, from its start.
    pub fn is_of(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
}
