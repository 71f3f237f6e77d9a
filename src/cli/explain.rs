//! `overdue explain --order`: why an order was closed, is late, or is not closed.

use std::{fmt, sync::Arc};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::{exit::Failure, output::Output, setup::Services};
use crate::{
    config::Settings,
    oncall::why,
    order::OrderId,
    why::{Answer, OrderReading},
};

/// Show why an order was closed, is late, or is not closed
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The order that database and broker are asked about
    #[arg(long, value_name = "ORDER_ID")]
    order: String,
    /// Ask the effect of this timeout alone
    #[arg(long)]
    timeout: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Explanation {
    order: ExplainedOrder,
}

/// Answers of the database and the broker.
#[derive(Debug, Serialize)]
struct ExplainedOrder {
    id: String,
    /// Status of the most relevant effect: `not_due`, `overdue`, `guarded`, `final`, `busy`, `failed` or `unknown`.
    status: Option<&'static str>,
    due_at: Option<Timestamp>,
    answer: Answer,
    #[serde(flatten)]
    reading: OrderReading,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.order.reading.fmt(f)
    }
}

impl Explain {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let id = OrderId::parse(&self.order)
            .map_err(|error| Failure::configuration(error.to_string()))?;
        let services = Arc::new(Services::open(settings)?);
        if let Some(name) = &self.timeout {
            services.topology.known_timeout(name)?;
        }
        let reading = why::order(settings, &services, &id, self.timeout.as_deref()).await;
        let is_known = reading.is_known();
        let seen = reading.leading();
        let (status, due_at) = (seen.and_then(|it| it.status), seen.and_then(|it| it.due_at));
        let answer = Answer::of(&reading);
        let order = ExplainedOrder { id: id.to_string(), status, due_at, answer, reading };
        self.output.print(&Explanation { order })?;
        if is_known {
            return Ok(());
        }
        Err(Failure::failed(format!("the database does not know the order {id}")))
    }
}
