//! The relay of events: how many per second get from the outbox to the broker, and what that costs.
//!
//! The outbox is full before, and each relayer is a process that begins with nothing: what counts is from its start until the
//! outbox is empty. One after the other in each round, so that a machine that is busy is so for all of them.

mod arrived;
mod events;
mod relayer;
pub(crate) mod report;
mod round;
mod size;

use crate::bench::{
    load::server::Server,
    stage::{BenchError, Stage},
};
pub(crate) use events::messages;
pub(crate) use relayer::Relayer;
use report::RelayReport;
use round::Setup;
pub(crate) use size::{FLOOR_BATCH, RIVAL_BATCH, RelaySize, WINDOW};

/// In the round that is not counted.
const WARM_UP: usize = 2_000;

/// Measures every relayer; `on_step` is called with what is being done.
///
/// # Errors
/// See [`BenchError`]. Events that are lost or out of order are not an error, they are in the report.
pub(crate) async fn run(
    stage: &Stage,
    relayers: &[Relayer],
    size: RelaySize,
    on_step: impl Fn(&str),
) -> Result<RelayReport, BenchError> {
    let server = Server::read(&stage.store).await?;
    let setup = Setup::prepare(stage).await?;
    let mut report = RelayReport::new(size, &server, stage.meters.not_counted(), relayers);
    for number in 0..=size.rounds {
        let events = if number == 0 { size.events.min(WARM_UP) } else { size.events };
        for step in 0..relayers.len() {
            let relayer = &relayers[(step + number) % relayers.len()];
            on_step(&format!("round {number} of {}: {relayer}", size.rounds));
            let measured = setup.run(relayer, events).await?;
            if number > 0 {
                report.add(number, relayer, measured);
            }
        }
    }
    Ok(report)
}
