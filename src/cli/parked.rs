//! `overdue parked`: lists the messages of a topology's parking lots, replays them, and drops them.

mod list;
mod replay_and_drop;

use std::{sync::Arc, time::Duration};

use clap::{Args, Subcommand};

use super::{exit::Failure, setup::Services};
use crate::{
    config::Settings,
    oncall::parked::Lots,
    order::OrderId,
    parking::{Filter, Selection},
    topology::level::Ttl,
};

/// List, replay or drop the messages in the parking lot
#[derive(Debug, Subcommand)]
pub(super) enum Parked {
    List(list::List),
    Replay(replay_and_drop::Replay),
    Drop(replay_and_drop::DropMessages),
}

impl Parked {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(settings).await,
            Self::Replay(replay) => replay.run(settings).await,
            Self::Drop(drop) => drop.run(settings).await,
        }
    }
}

async fn lots(settings: &Settings) -> Result<Lots, Failure> {
    Lots::open(Arc::new(Services::open(settings)?)).await
}

/// Selects messages that meet all conditions.
#[derive(Clone, Debug, Args)]
struct Select {
    /// Only messages whose reason contains this text
    #[arg(long, value_name = "TEXT", value_parser = some_text)]
    reason: Option<String>,
    /// Only messages of this timeout
    #[arg(long, value_name = "NAME", value_parser = some_text)]
    timeout: Option<String>,
    /// Only messages about this order; may be repeated
    #[arg(long = "order", value_name = "ORDER_ID", value_parser = OrderId::parse)]
    orders: Vec<OrderId>,
    /// Only messages that were parked longer ago, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    older_than: Option<Ttl>,
    /// Only messages that were parked since, e.g. 10m
    #[arg(long, value_name = "DURATION")]
    newer_than: Option<Ttl>,
}

impl Select {
    fn filter(&self) -> Filter {
        let duration = |ttl: Option<Ttl>| -> Option<Duration> { ttl.map(Ttl::as_duration) };
        Filter {
            reason: self.reason.clone(),
            timeout: self.timeout.clone(),
            orders: self.orders.iter().flat_map(OrderId::spellings).collect(),
            older_than: duration(self.older_than),
            newer_than: duration(self.newer_than),
            selected: Selection::default(),
        }
    }
}

/// Refuses an empty value: an unset variable in a script would select all messages.
fn some_text(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it is empty") } else { Ok(text.to_owned()) }
}
