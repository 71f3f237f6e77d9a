//! The options that say which messages.

use std::time::Duration;

use clap::Args;

use crate::{parking::Filter, topology::level::Ttl};

/// Which messages; all conditions have to be met.
#[derive(Clone, Debug, Args)]
pub(super) struct Select {
    /// Only messages whose reason has this text in it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only messages of this timeout
    #[arg(long, value_name = "NAME")]
    timeout: Option<String>,
    /// Only messages about this order; may be repeated
    #[arg(long = "order", value_name = "ORDER_ID")]
    orders: Vec<String>,
    /// Only messages that were parked longer ago, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    older_than: Option<Ttl>,
    /// Only messages that were parked since, e.g. 10m
    #[arg(long, value_name = "DURATION")]
    newer_than: Option<Ttl>,
}

impl Select {
    pub(super) fn filter(&self) -> Filter {
        let duration = |ttl: Option<Ttl>| -> Option<Duration> { ttl.map(Ttl::as_duration) };
        Filter {
            reason: self.reason.clone(),
            timeout: self.timeout.clone(),
            orders: self.orders.iter().cloned().collect(),
            older_than: duration(self.older_than),
            newer_than: duration(self.newer_than),
        }
    }
}
