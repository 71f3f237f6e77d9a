//! Begins and ends pauses.

use std::{num::NonZeroU32, time::Duration};

use super::{
    actions::{self, NewAction, Via},
    failure::Failure,
};
use crate::{
    condition::pause::Pause,
    store::{Store, StoreError, pauses::Holder},
    text::{counted, length},
    topology::{Timeout, Topology},
};

/// Limit, because each log line about the pause has the reason.
const WHY_BYTES: usize = 500;

/// Pauses a timeout for at most `lasts`; returns all pauses. Calls `waits` when new transactions see the pause, and then waits
/// until older ones have ended.
///
/// # Errors
/// If the timeout is paused, the error says so. If the connection is lost while the pause is written, the result is unknown.
pub(crate) async fn pause(
    (store, topology): (&Store, &Topology),
    timeout: &str,
    (lasts, why): (Duration, &str),
    via: Via<'_>,
    waits: impl FnOnce(String),
) -> Result<Vec<Pause>, Failure> {
    let effect = known(topology, timeout)?.effect.as_str();
    if why.trim().is_empty() || why.len() > WHY_BYTES {
        return Err(Failure::usage(format!(
            "--why has {} bytes: say why in 1 to {WHY_BYTES}, for those who see the pause",
            why.trim().len()
        )));
    }
    store.pause(&topology.name, (timeout, effect), lasts, why).await?;
    waits(format!(
        "{timeout} is paused; waiting for the workers that began to close its orders before"
    ));
    let action = NewAction {
        via,
        action: "pause",
        what: format!("{timeout} for {}", length(lasts)),
        count: None,
        why: Some(why),
        orders: &[],
    };
    actions::record(store, action).await;
    let holders = store.await_closings(&topology.name, (timeout, effect)).await;
    let holders = holders.map_err(|error| {
        is_paused(timeout, "whether anybody who began before still closes its orders", error)
    })?;
    if !holders.is_empty() {
        return Err(still_closing(timeout, &holders, via));
    }
    let pauses = store.pauses(&topology.name).await;
    pauses.map_err(|error| is_paused(timeout, "what else is paused", error))
}

/// Ends the pause of a timeout, or limits the orders closed per second; returns the pause as it was. An error means that nothing
/// was changed.
pub(crate) async fn resume(
    (store, topology): (&Store, &Topology),
    timeout: &str,
    per_second: Option<NonZeroU32>,
    via: Via<'_>,
) -> Result<Pause, Failure> {
    let rate = per_second.map(NonZeroU32::get);
    let Some(was) = store.resume(&topology.name, timeout, rate).await? else {
        known(topology, timeout)?;
        return Err(Failure::failed(format!("nothing was changed: {timeout} is not paused")));
    };
    let rate = rate.map(|rate| format!(" with {} per second", counted(u64::from(rate), "order")));
    let action = NewAction {
        via,
        action: "resume",
        what: format!("{timeout}{}", rate.unwrap_or_default()),
        count: None,
        why: None,
        orders: &[],
    };
    actions::record(store, action).await;
    Ok(was)
}

fn known<'a>(topology: &'a Topology, timeout: &str) -> Result<&'a Timeout, Failure> {
    let known = topology.known_timeout(timeout);
    known.map_err(|error| Failure::configuration(format!("nothing was changed: {error}")))
}

/// The error after a pause was written; `unknown` is the fact that could not be queried.
fn is_paused(timeout: &str, unknown: &str, error: StoreError) -> Failure {
    let Failure { code, text } = error.into();
    let text = format!(
        "{timeout} is paused; {unknown} is not known: {text}; `overdue resume {timeout}` ends the pause"
    );
    Failure { code, text }
}

fn still_closing(timeout: &str, holders: &[Holder], via: Via<'_>) -> Failure {
    let each = holders.iter().map(|Holder { pid, application, client }| {
        format!("process {pid} of PostgreSQL ({application}, from {client})")
    });
    let advice = match via {
        Via::Cli => "run this again, or",
        // The page has waited 5 s, and not 40 s.
        Via::Page(_) => {
            "it may rightly take 40 s: pause the timeout again after that, and only if it is named then as well,"
        }
    };
    Failure::failed(format!(
        "{timeout} is paused for workers that begin to close orders now, but {} began before and has not ended: {advice} end it \
         with SELECT pg_terminate_backend({})",
        each.collect::<Vec<_>>().join(" and "),
        holders.first().map_or(0, |holder| holder.pid)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_still_closes_orders_is_named() {
        let holder =
            |pid| Holder { pid, application: "overdue".to_owned(), client: "10.0.0.7".to_owned() };
        let failure = still_closing("unpaid", &[holder(17), holder(18)], Via::Cli);
        assert_eq!(failure.code, 1);
        assert_eq!(
            failure.text,
            "unpaid is paused for workers that begin to close orders now, but process 17 of PostgreSQL (overdue, from 10.0.0.7) and \
             process 18 of PostgreSQL (overdue, from 10.0.0.7) began before and has not ended: run this again, or end it with \
             SELECT pg_terminate_backend(17)"
        );
        let on_page = still_closing("unpaid", &[holder(17)], Via::Page("Ada")).text;
        assert_eq!(
            on_page,
            "unpaid is paused for workers that begin to close orders now, but process 17 of PostgreSQL (overdue, from 10.0.0.7) \
             began before and has not ended: it may rightly take 40 s: pause the timeout again after that, and only if it is \
             named then as well, end it with SELECT pg_terminate_backend(17)"
        );
    }
}
