//! How each fault is made, and undone.

use std::time::Duration;

use overdue::internals::store::{Connection, Store};
use tokio::time::{sleep, timeout};
use tokio_postgres::error::DbError;

use super::{
    fleet::Fleet,
    schedule::{Fault, Kind},
    service::Service,
    site::Site,
};
use crate::{
    containers::Container as _,
    support::{until, wait::PATIENCE},
};

/// The five SKUs of each shop that half of all items have (`sql/service_create.sql`).
const STOCK: &str = "SELECT sku FROM stock WHERE sku ~ '-sku-[0-4]$' ORDER BY sku FOR UPDATE";
const ORDERS: &str = "
    SELECT id FROM orders WHERE status = 'unpaid' AND due_at > now()
    ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED";

/// Makes the fault, waits for its duration, and undoes it; returns once the services are healthy.
///
/// # Errors
/// The fault could not be made.
pub async fn strike(
    site: &Site,
    fleet: &Fleet,
    service: &Service,
    fault: &Fault,
) -> Result<(), String> {
    let Fault { kind, victim, hold, size } = fault;
    let (victim, node, database) = (*victim, site.node(*victim), &site.database);
    match kind {
        Kind::WorkerKilled => fleet.kill(victim),
        Kind::WorkersKilled => fleet.kill_all(),
        Kind::WorkerStopped => {
            fleet.signal(victim, "STOP");
            sleep(*hold).await;
            fleet.signal(victim, "CONT");
        }
        Kind::WorkerTerminated => fleet.terminate(victim).await?,
        // Skipped if the machine has no libfaketime.
        Kind::WorkerClocksLeapt => {
            if let Some(clock) = &site.worker_clock {
                clock.set(fault.leap());
            }
        }
        Kind::BrokerRestarted => node.restart().await,
        Kind::BrokerKilled => node.kill_for(*hold).await,
        Kind::BrokerFrozen => node.freeze_for(*hold).await,
        Kind::BrokerConnectionsClosed => site.close_worker_connections().await?,
        Kind::MemoryAlarm => {
            node.raise_memory_alarm().await;
            sleep(*hold).await;
            node.clear_memory_alarm().await;
        }
        Kind::BrokerRightsWithdrawn => broker_rights(site, *hold).await?,
        Kind::DatabaseRestarted => database.restart().await,
        Kind::DatabaseKilled => database.kill_for(*hold).await,
        Kind::DatabaseFrozen => database.freeze_for(*hold).await,
        Kind::DatabaseCutOff => {
            database.cut_off().await;
            sleep(*hold).await;
            database.join().await;
        }
        Kind::DatabaseClockLeapt => site.leap(fault.leap()).await?,
        Kind::DatabaseConnectionsClosed => drop(site.terminate_sessions(true).await?),
        Kind::DatabaseReadOnly => {
            database.refuse_writes().await;
            site.terminate_sessions(false).await?;
            sleep(*hold).await;
            database.accept_writes().await;
        }
        Kind::DatabaseRightsWithdrawn => {
            site.revoke_database_rights().await;
            sleep(*hold).await;
            site.grant_database_rights().await;
        }
        Kind::StockLocked => locked(&site.store, STOCK, None, *hold).await?,
        Kind::OrdersLocked => locked(&site.store, ORDERS, Some(*size), *hold).await?,
        Kind::Garbage => service.publish_trash(*size, false).await,
        Kind::Ghosts => service.publish_trash(*size, true).await,
        Kind::Early => service.publish_again(*size, true).await,
        Kind::Duplicates => service.publish_again(*size, false).await,
        Kind::Forged => service.publish_forged(*size).await,
        Kind::BrokerCutOff | Kind::NodeCutOff | Kind::LinkCut => {
            let networks = node.networks().await;
            match kind {
                Kind::BrokerCutOff => networks.cut_off_from_clients().await,
                Kind::NodeCutOff => networks.cut_off_from_nodes().await,
                _ => networks.cut_one_link().await,
            }
            sleep(*hold).await;
            node.join().await;
        }
        Kind::NodesCutOff => {
            for node in &site.nodes {
                node.networks().await.cut_off_from_nodes().await;
            }
            sleep(*hold).await;
            for node in &site.nodes {
                node.networks().await.join().await;
            }
            node.join().await;
        }
        Kind::LeadersMoved => node.move_leaders(&site.world.vhost).await?,
    }
    Ok(())
}

async fn broker_rights(site: &Site, hold: Duration) -> Result<(), String> {
    site.set_broker_rights(false).await?;
    let closed = site.close_worker_connections().await;
    sleep(hold).await;
    // The broker must answer for this.
    let give_back = async || site.set_broker_rights(true).await;
    until("the workers' rights given back", give_back, Result::is_ok).await.unwrap();
    closed
}

/// Locks rows in a transaction of another session.
async fn locked(
    store: &Store,
    sql: &str,
    limit: Option<usize>,
    hold: Duration,
) -> Result<(), String> {
    let mut client = store.client().await.map_err(|error| error.to_string())?;
    match timeout(PATIENCE, lock(&mut client, sql, limit, hold)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("{error}: {:?}", error.as_db_error().map(DbError::message))),
        Err(_elapsed) => {
            // Not returned to the pool: its next user would wait for this statement.
            drop(Connection::take(client));
            Err("the rows could not be locked".to_owned())
        }
    }
}

async fn lock(
    client: &mut Connection,
    sql: &str,
    limit: Option<usize>,
    hold: Duration,
) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    // The sessions of this pool have a lock time-out of 5 s and a statement time-out of 30 s.
    let patience = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0";
    transaction.batch_execute(patience).await?;
    match limit.map(|limit| i64::try_from(limit).unwrap()) {
        Some(limit) => transaction.query(sql, &[&limit]).await?,
        None => transaction.query(sql, &[]).await?,
    };
    sleep(hold).await;
    transaction.rollback().await
}
