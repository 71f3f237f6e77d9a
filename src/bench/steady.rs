//! Orders that become due one after the other: how late they are closed at several rates, and what that costs.

mod floor;
mod idle;
mod measured;
mod pace;
pub(crate) mod report;
mod run;
mod size;

use crate::{
    bench::{
        contestant::Contestant,
        load::{Generator, server::Server},
        stage::{BenchError, Stage},
    },
    broker::Publisher,
};
use report::SteadyReport;
use run::SteadyRun;
pub(crate) use size::SteadySize;

/// Measures every contestant; `on_step` is called with what is being done.
///
/// # Errors
/// See [`BenchError`]. Orders closed early, twice or not at all are not an error, they are in the report.
pub(crate) async fn run(
    stage: &Stage,
    contestants: &[Contestant],
    size: &SteadySize,
    on_step: impl Fn(&str),
) -> Result<SteadyReport, BenchError> {
    let server = Server::read(&stage.store).await?;
    let publisher = Publisher::connect(&stage.address, "overdue bench: publishing").await?;
    let mut report = SteadyReport::new(size, &server, stage);
    on_step("one order after the other on the idle database");
    report.floor = floor::measure(&stage.store).await?;
    for number in 1..=size.rounds {
        for &rate in &size.rates {
            for step in 0..contestants.len() {
                let place = (step + number) % contestants.len();
                let contestant = &contestants[place];
                if !contestant.is_usual_worker() && !size.rivals_at.contains(&rate) {
                    continue;
                }
                on_step(&format!("round {number} of {}: {rate}/s, {contestant}", size.rounds));
                let run = SteadyRun {
                    stage,
                    publisher: &publisher,
                    commit_times: server.commit_times,
                    rate,
                    orders: size.orders(rate),
                };
                let measured = run.measure(place, contestant, &mut Generator::new()).await?;
                report.add(rate, contestant, measured);
            }
        }
    }
    for (place, contestant) in contestants.iter().enumerate() {
        if contestant.is_usual_worker() && !size.idle.is_zero() {
            on_step(&format!("{contestant}: idle, and from its start to the first close"));
            report.idle.push(idle::measure(stage, &publisher, place, contestant, size.idle).await?);
        }
    }
    Ok(report)
}
