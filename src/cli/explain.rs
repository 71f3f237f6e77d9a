//! `overdue explain`: the way of a notice, without a broker.

mod report;

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::{
    exit::Failure,
    output::Output,
    publish::{
        line::{Wish, now, time},
        one_timeout,
    },
    setup,
};
use crate::{
    config::Settings,
    order::{OrderId, Outcome},
    store::standing::Standing,
    topology::{
        Timeout, Topology,
        level::Interval,
        route::{Delay, PublishedError, Route, RouteError},
    },
};
use report::{AskedOrder, Explanation};

/// Show the way of a notice: exchange, routing key, queues, and when it is due
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    wish: Wish,
    /// A routing key as it was published, e.g. 0.0.7.3.unpaid or 30m.unpaid
    #[arg(long, value_name = "KEY", conflicts_with_all = ["level", "category", "due_at", "order", "timeout"])]
    key: Option<String>,
    /// Where it was published [default: the exchange that has such keys]
    #[arg(long, value_name = "EXCHANGE", requires = "key")]
    exchange: Option<String>,
    /// An order: asks the database for its deadline, and shows the way of the rest
    #[arg(long, value_name = "ORDER_ID", conflicts_with_all = ["level", "category", "after", "due_at"])]
    order: Option<String>,
    /// When it is published [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A way, before its stages are known.
struct Asked {
    timeout: String,
    route: Route,
    delay: Duration,
}

impl Explain {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let at = self.at.unwrap_or_else(now);
        let (asked, order) = match &self.order {
            Some(id) => self.ask_for_order(settings, &topology, id).await?,
            None => (Some(self.asked(&topology, at)?), None),
        };
        let hold = settings.worker.hold.as_duration().max(topology.lead.longest());
        let way = asked.map(|Asked { timeout, route, delay }| {
            let rule = known(&topology, &timeout)?;
            Ok::<_, Failure>((rule, topology.stages(rule, route, delay, hold)?, delay))
        });
        self.output.print(&Explanation::new(&topology, at, order, way.transpose()?))
    }

    fn asked(&self, topology: &Topology, at: Timestamp) -> Result<Asked, Failure> {
        if let Some(key) = &self.key {
            let delay = self.wish.after().map(Interval::as_duration);
            let published = topology.published(self.exchange.as_deref(), key, delay);
            let (route, timeout) = published.map_err(|error| not_waiting(&error))?;
            return Ok(Asked { timeout, delay: delay.unwrap_or_else(|| route.delay()), route });
        }
        let timeout = one_timeout(topology, self.wish.timeout.as_deref());
        let timeout = timeout.map_err(Failure::usage)?;
        let delay = self.wish.delay(self.wish.due_at(), at);
        let route = topology.route(timeout, &delay)?;
        let delay = delay.length(known(topology, timeout)?)?;
        Ok(Asked { timeout: timeout.to_owned(), route, delay })
    }

    /// The way of the rest; none where nothing is to be waited for.
    async fn ask_for_order(
        &self,
        settings: &Settings,
        topology: &Topology,
        id: &str,
    ) -> Result<(Option<Asked>, Option<AskedOrder>), Failure> {
        let id = OrderId::parse(id).map_err(|error| Failure::configuration(error.to_string()))?;
        let timeout = one_timeout(topology, self.wish.timeout.as_deref());
        let rule = known(topology, timeout.map_err(Failure::usage)?)?;
        let effect = setup::one_effect(settings, &rule.effect, &rule.name)?;
        let Standing { outcome, due_at } = setup::store(settings)?.standing(&effect, &id).await?;
        if outcome == Outcome::Unknown {
            return Err(Failure::failed(format!("the database does not know the order {id}")));
        }
        let way = match outcome {
            Outcome::NotDue { remaining } => {
                let route = topology.wait(rule, remaining)?;
                Some(Asked { timeout: rule.name.clone(), route, delay: remaining })
            }
            _ => None,
        };
        Ok((way, Some(AskedOrder::new(&id, &outcome, due_at))))
    }
}

fn not_waiting(error: &PublishedError) -> Failure {
    Failure::configuration(match error {
        PublishedError::NoDelay { .. } => error.to_string(),
        _ => format!("{error}; a message like that would be parked"),
    })
}

fn known<'a>(topology: &'a Topology, timeout: &str) -> Result<&'a Timeout, Failure> {
    topology.timeout(timeout).ok_or_else(|| match topology.route(timeout, &Delay::Usual) {
        Err(error) => error.into(),
        Ok(_) => RouteError::NoDelay.into(),
    })
}
