//! The broker's part of a run: whether a worker consumes, and which orders of the run were parked.
//!
//! The parking lot is shared and people read it, so the demo neither empties nor counts it. The run's own queue, exclusive
//! to its connection, is bound to the same exchange and gets a copy of every message parked meanwhile. The broker deletes
//! the queue with the connection.

use std::time::{Duration, Instant};

use lapin::{Channel, options::BasicGetOptions, types::FieldTable};
use tokio::time::interval;

use super::DemoError;
use crate::{
    messaging::{BrokerAddress, Link, consume::ConsumeError, copies::declare, passive},
    order_service::RunId,
    shutdown::Stop,
    topology::Topology,
    wire::DueNotice,
};

/// A worker that was just started needs a second or two.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the questions to the broker.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A queue that gets copies of parked messages while it exists.
pub(super) struct ParkingWatch {
    link: Link,
    channel: Channel,
    queue: String,
}

impl ParkingWatch {
    /// Needs the permissions configure and write on `<topology>.demo.<run>`, and read on the parking exchange.
    pub(super) async fn open(
        address: &BrokerAddress,
        topology: &Topology,
        run: &RunId,
    ) -> Result<Self, DemoError> {
        let queue = format!("{}.demo.{run}", topology.name);
        let link = Link::open(address, "overdue demo: watching the parking lot").await?;
        let parking = topology.park_exchange();
        let bindings = [(parking.as_str(), "")];
        let channel = declare(&link, &queue, FieldTable::default(), bindings).await?;
        Ok(Self { link, channel, queue })
    }

    /// Waits until a worker consumes `queue`, or until a stop is requested.
    pub(super) async fn worker_consumes(&self, queue: &str, stop: &Stop) -> Result<(), DemoError> {
        let began = Instant::now();
        let mut ticks = interval(LOOK_EVERY);
        while !stop.is_requested()
            && passive::counts(&self.link, queue).await?.is_none_or(|it| it.consumers == 0)
        {
            if began.elapsed() > START_TIMEOUT {
                return Err(DemoError::NoWorker { queue: queue.to_owned() });
            }
            ticks.tick().await;
        }
        Ok(())
    }

    /// Returns the orders of the run that were parked since this watch was opened.
    pub(super) async fn parked(self, run: &RunId) -> Result<Vec<String>, DemoError> {
        let mut parked = Vec::new();
        // The message is a copy that no other consumer needs.
        let options = BasicGetOptions { no_ack: true };
        loop {
            let getting = self.channel.basic_get(self.queue.as_str().into(), options);
            let message = match self.link.answered(getting).await {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(source) => return Err(ConsumeError::failed(&self.queue, "get", source).into()),
            };
            let notice = DueNotice::decode(&message.delivery.data).ok();
            let id = notice.map(|notice| notice.order_id.to_string());
            parked.extend(id.filter(|id| id.starts_with(&run.to_string())));
        }
        self.link.close().await;
        Ok(parked)
    }
}
