//! Publishing with confirms: the client by itself, this program's publisher, its command, and a script in Python, one
//! after the other in each round, so that a machine that is busy is so for all of them.
//!
//! What counts is from nothing, no connection and no process, to the end of the last confirm. The messages wait in a
//! level and are purged in between.

mod error;
mod program;
pub(crate) mod report;
mod setup;
mod size;
mod way;

use std::time::Instant;

use crate::{
    broker::{BrokerAddress, Link},
    order::OrderId,
    topology::route::{Delay, Route},
    wire::{DueNotice, Message},
};
pub(crate) use error::PublishBenchError;
pub(crate) use program::Program;
use report::PublishReport;
pub(crate) use setup::PublishSetup;
pub(crate) use size::{WINDOW, order_id};
use way::Way;

/// Publishes `messages` on every way, `rounds` times and once more, which is not counted.
///
/// # Errors
/// See [`PublishBenchError`].
pub(crate) async fn run(
    setup: &PublishSetup,
    messages: usize,
    rounds: usize,
    on_step: impl Fn(&str),
) -> Result<PublishReport, PublishBenchError> {
    let mut report = PublishReport::new(messages, rounds);
    let prepared = prepared(setup, messages)?;
    let queue = setup.topology.levels.first().map(|level| setup.topology.delay_queue(level));
    let queue = queue.unwrap_or_default();
    let ways = Way::ALL.into_iter().filter(|way| *way != Way::Script || setup.script.is_some());
    let ways: Vec<Way> = ways.collect();
    for round in 0..=rounds {
        for way in &ways {
            on_step(&format!("round {round} of {rounds}, {way}"));
            let began = Instant::now();
            way.publish(setup, &prepared).await?;
            let took = began.elapsed();
            let arrived = purge(&setup.address, &queue).await?;
            if arrived != messages {
                return Err(PublishBenchError::Arrived { way: way.to_string(), arrived, messages });
            }
            if round > 0 {
                report.add(*way, took);
            }
        }
    }
    Ok(report)
}

fn prepared(setup: &PublishSetup, messages: usize) -> Result<Vec<Message>, PublishBenchError> {
    let timeout = setup.topology.timeouts.first().map_or("", |timeout| &timeout.name);
    let route = setup.topology.route(timeout, &Delay::Usual)?;
    (0..messages).map(|number| notice(route.clone(), number)).collect()
}

fn notice(route: Route, number: usize) -> Result<Message, PublishBenchError> {
    let order_id = OrderId::parse(&order_id(number))?;
    Ok(Message::notice(route, &DueNotice { order_id, due_at: None }))
}

/// How many there were.
async fn purge(address: &BrokerAddress, queue: &str) -> Result<usize, PublishBenchError> {
    let link = Link::open(address, "overdue bench: purging").await?;
    let channel = link.channel().await?;
    let purged = channel.queue_purge(queue.into(), lapin::options::QueuePurgeOptions::default());
    let purged = link.answered(purged).await?;
    link.close().await;
    Ok(usize::try_from(purged).unwrap_or(usize::MAX))
}
