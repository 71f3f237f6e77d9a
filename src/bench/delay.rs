//! What a delay costs on the broker: hops, CPU, lateness, and how fast one publishes; for our ladder, the binary ladder that
//! other libraries build, and the delayed message plugin where the broker has it.
//!
//! One second of real delays is one millisecond here: up to an hour is up to 3.6 s, and each ladder has the places that it
//! would have for seconds. All ways take turns in each round, so that a machine that is busy is so for all of them.

mod error;
mod messages;
pub(crate) mod report;
mod round;
mod size;
mod way;

use rand::{SeedableRng, rngs::StdRng};

use crate::broker::{BrokerCpu, Link, Management, Publisher};
pub(crate) use error::DelayError;
use report::DelayReport;
use round::Round;
pub(crate) use size::DelaySize;
use way::Way;

/// The same delays each time.
const SEED: u64 = 8;

/// Measures each way; `on_step` is called with what is being done. The objects are called `<name>.…` and stay.
///
/// # Errors
/// See [`DelayError`].
pub(crate) async fn run(
    management: &Management,
    cpu: Option<&BrokerCpu>,
    name: &str,
    size: DelaySize,
    on_step: impl Fn(&str),
) -> Result<DelayReport, DelayError> {
    let ways = Way::all(management, name).await?;
    for way in &ways {
        way.declare(management).await?;
    }
    let link = Link::open(management.address(), "overdue bench: receiving").await?;
    let publisher = Publisher::connect(management.address(), "overdue bench: publishing").await?;
    let mut report = DelayReport::new(size, &ways);
    let mut rng = StdRng::seed_from_u64(SEED);
    for number in 0..=size.rounds {
        for way in &ways {
            on_step(&format!("round {number} of {}: {}", size.rounds, way.title()));
            let round = Round { link: &link, publisher: &publisher, cpu, way, size };
            let random = round.random(&mut rng).await?;
            let burst = round.burst().await?;
            // In the first, connections are opened and files made.
            if number > 0 {
                report.add(way, &random, &burst);
            }
        }
    }
    link.close().await;
    Ok(report)
}
