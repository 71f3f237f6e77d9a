//! The storm: three workers and an order service run through a seeded sequence of faults. Then the database and the parking lot are
//! judged.
//!
//! `make chaos` runs it for minutes ([`every_kind_of_fault`]), after the tests of its own parts; `make test` two short ones, with a fixed
//! seed ([`short`]).

mod evidence;
mod fleet;
mod judge;
mod orders;
mod report;
mod run;
mod schedule;
mod service;
mod site;
mod strike;
mod usage;
mod watch;

use std::{env, ops::RangeInclusive, time::Duration};

use run::Storm;
use schedule::Kind;

use crate::support::Services;

/// Faults of workers and messages; they affect no other test.
const OF_WORKERS: [Kind; 8] = [
    Kind::WorkerKilled,
    Kind::WorkersKilled,
    Kind::WorkerStopped,
    Kind::BrokerConnectionsClosed,
    Kind::DatabaseConnectionsClosed,
    Kind::StockLocked,
    Kind::Garbage,
    Kind::Duplicates,
];

/// Faults of a broker and a database.
const OF_SERVICES: [Kind; 5] = [
    Kind::BrokerKilled,
    Kind::BrokerRestarted,
    Kind::DatabaseKilled,
    Kind::DatabaseRestarted,
    Kind::DatabaseReadOnly,
];

/// Time without a fault between two strikes.
const PAUSE_MS: RangeInclusive<u64> = 500..=2_500;

/// Each kind strikes once, in pairs; `make chaos` tries each alone.
async fn short(test: &str, services: Services, kinds: &[Kind], strikes: usize) {
    let seed = number("OVERDUE_STORM_SEED").unwrap_or(44);
    let storm = Storm {
        services: vec![services],
        seed,
        length: Duration::from_mins(5), // data: of the storm
        strikes,
        kinds: kinds.to_vec(),
        alone_first: false,
        longest_hold: Duration::from_secs(1),
        pause_ms: 100..=500,
        orders_per_second: 30,
        quiet: Duration::from_secs(1),
        sweep: "4s",
        command: format!("OVERDUE_STORM_SEED={seed} cargo test --test chaos {test}"),
    };
    storm.run().await.assert_unharmed();
}

#[apply(world_test)]
async fn a_short_storm_of_workers() {
    short("a_short_storm_of_workers", Services::main(), &OF_WORKERS, 5).await;
}

#[apply(world_test)]
async fn a_short_storm_of_services() {
    short("a_short_storm_of_services", Services::chaos(), &OF_SERVICES, 3).await;
}

#[apply(world_test)]
#[ignore = "takes minutes: `make chaos`"]
async fn every_kind_of_fault() {
    let (seed, minutes) = (seed(), number("OVERDUE_STORM_MINUTES").unwrap_or(5));
    let nodes = site::nodes().len();
    let rate = number("OVERDUE_STORM_RATE").unwrap_or(40);
    let cluster = if nodes > 1 { format!(" CLUSTER={nodes}") } else { String::new() };
    let storm = Storm {
        services: site::nodes(),
        seed,
        length: Duration::from_mins(minutes),
        strikes: usize::MAX,
        kinds: Kind::all(nodes),
        alone_first: true,
        longest_hold: Duration::from_secs(10), // data: of the storm
        pause_ms: PAUSE_MS,
        orders_per_second: u32::try_from(rate).unwrap(),
        quiet: Duration::from_secs(2),
        // Long enough to test the messages without the sweep.
        sweep: "15s",
        command: format!("make chaos MINUTES={minutes} SEED={seed} RATE={rate}{cluster}"),
    };
    storm.run().await.assert_unharmed();
}

/// Three workers lose every connection to the broker or to the database a thousand times. Their threads, open files and memory must not
/// grow.
#[apply(world_test)]
#[ignore = "takes half an hour: `make chaos RECONNECTS=1000`"]
async fn a_thousand_reconnects() {
    let seed = seed();
    let storm = Storm {
        services: site::nodes(),
        seed,
        length: Duration::from_hours(2), // data: of the storm
        strikes: usize::try_from(number("OVERDUE_STORM_STRIKES").unwrap_or(1_000)).unwrap(),
        kinds: vec![Kind::BrokerConnectionsClosed, Kind::DatabaseConnectionsClosed],
        alone_first: true,
        longest_hold: Duration::ZERO,
        pause_ms: 100..=500,
        orders_per_second: 200,
        quiet: Duration::ZERO,
        sweep: "15s",
        command: format!("make chaos RECONNECTS=1000 SEED={seed}"),
    };
    let report = storm.run().await;
    assert!(report.grown.is_empty(), "{:?}", report.grown);
    report.assert_unharmed();
}

/// The seed determines the faults, their order and the orders.
fn seed() -> u64 {
    number("OVERDUE_STORM_SEED").unwrap_or_else(|| rand::random::<u32>().into())
}

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "`make chaos` passes its arguments on so")]
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
