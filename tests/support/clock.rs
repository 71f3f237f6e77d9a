//! The database's clock as a test sets it: no deadline has to be waited for.

use super::{Services, World, world::TOPOLOGY};

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
        Self::clocked_of(TOPOLOGY).await
    }

    /// Like [`World::clocked`], with another topology.
    pub async fn clocked_of(topology: &str) -> Self {
        let mut world = Self::with(Services::main(), topology).await;
        world.sql(CLOCK).await;
        world.search_path.push_str(",pg_catalog");
        world.store = world.patient_store();
        world
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
