//! What a run has to know of the broker: whether a worker consumes, and which of its orders were parked.
//!
//! The parking lot is shared and is for people to look at, so it is neither emptied nor counted. A queue of
//! the run's own, exclusive to its connection, is bound beside it and gets a copy of everything parked
//! meanwhile; those of the run are known by their order id. The queue goes with the connection.

use std::time::{Duration, Instant};

use lapin::{
    Channel,
    options::{BasicGetOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};

use super::error::DemoError;
use crate::{
    broker::{BrokerAddress, Link},
    order_service::RunId,
    shutdown::Stop,
    topology::Topology,
    wire::DueNotice,
};

/// A worker that was just started needs a second or two.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the broker is asked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Copies of what is parked while it exists.
pub(super) struct ParkingWatch {
    link: Link,
    channel: Channel,
    queue: String,
}

impl ParkingWatch {
    /// Permissions needed: configure and write on `<topology>.demo.<run>`, read on the parking exchange.
    pub(super) async fn open(
        address: &BrokerAddress,
        topology: &Topology,
        run: &RunId,
    ) -> Result<Self, DemoError> {
        let queue = format!("{}.demo.{run}", topology.name);
        let failed = |step| failed(step, &queue);
        let link = Link::open(address, "overdue demo: watching the parking lot").await?;
        let channel = link.channel().await.map_err(failed("open a channel for"))?;
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let declaring =
            channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
        link.answered(declaring).await.map_err(failed("declare"))?;
        let exchange = topology.park_exchange();
        let binding = channel.queue_bind(
            queue.as_str().into(),
            exchange.into(),
            "".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        link.answered(binding).await.map_err(failed("bind"))?;
        Ok(Self { link, channel, queue })
    }

    /// Waits until a worker consumes `queue`, or a stop is requested.
    pub(super) async fn worker_consumes(&self, queue: &str, stop: &Stop) -> Result<(), DemoError> {
        let began = Instant::now();
        // Passive: asks and changes nothing.
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                () = stop.requested() => return Ok(()),
                _ = ticks.tick() => {}
            }
            let declaring =
                self.channel.queue_declare(queue.into(), options, FieldTable::default());
            let declared = self.link.answered(declaring).await.map_err(failed("look at", queue))?;
            if declared.consumer_count() > 0 {
                return Ok(());
            }
            if began.elapsed() > START_TIMEOUT {
                return Err(DemoError::NoWorker { queue: queue.to_owned() });
            }
        }
    }

    /// The orders of the run that were parked since this watch was opened.
    pub(super) async fn parked(self, run: &RunId) -> Result<Vec<String>, DemoError> {
        let mut parked = Vec::new();
        // It is a copy: nobody else needs it.
        let options = BasicGetOptions { no_ack: true };
        loop {
            let getting = self.channel.basic_get(self.queue.as_str().into(), options);
            let got = self.link.answered(getting).await;
            let Some(message) = got.map_err(failed("read", &self.queue))? else { break };
            let notice = DueNotice::decode(&message.delivery.data).ok();
            let id = notice.map(|notice| notice.order_id.to_string());
            parked.extend(id.filter(|id| id.starts_with(run.as_str())));
        }
        self.link.close().await;
        Ok(parked)
    }
}

fn failed(step: &'static str, queue: &str) -> impl FnOnce(lapin::Error) -> DemoError {
    let queue = queue.to_owned();
    move |source| DemoError::Queue { step, queue, source }
}
