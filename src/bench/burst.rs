//! A burst: many orders that are due at one instant, and how long it takes until the last of them is committed.
//!
//! Every contestant closes the same orders of the same shop, one contestant after the other in each round, so that a machine
//! that is busy is so for all of them.

mod measured;
pub(crate) mod report;
mod round;
mod size;

use crate::{
    bench::{
        contestant::Contestant,
        load::{Generator, server::Server},
        stage::{BenchError, Stage},
    },
    broker::Publisher,
};
use report::BurstReport;
use round::Round;
pub(crate) use size::{BurstSize, TUTORIAL_AT_MOST};

/// Measures every contestant; `on_step` is called with what is being done.
///
/// # Errors
/// See [`BenchError`]. Orders closed early, twice or not at all are not an error, they are in the report.
pub(crate) async fn run(
    stage: &Stage,
    contestants: &[Contestant],
    size: BurstSize,
    on_step: impl Fn(&str),
) -> Result<BurstReport, BenchError> {
    let server = Server::read(&stage.store).await?;
    let publisher = Publisher::connect(&stage.address, "overdue bench: publishing").await?;
    let mut report = BurstReport::new(size, &server, stage.meters.not_counted(), contestants);
    let mut round = Round::new(stage, &publisher, size, server.commit_times);
    for number in 1..=size.rounds {
        for step in 0..contestants.len() {
            // What is first finds the machine in another state.
            let place = (step + number) % contestants.len();
            let contestant = &contestants[place];
            on_step(&format!("round {number} of {}: {contestant}", size.rounds));
            let measured = round.run(place, contestant, &mut Generator::new()).await?;
            report.add(number, contestant, measured);
        }
    }
    Ok(report)
}
