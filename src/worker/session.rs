//! One connection for consuming, and the tasks that work with it.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{compat::rebind, consumers, context::Worker, relay, session_end::SessionEnd, sweep};
use crate::{broker::Link, shutdown::Stop};

type Tasks = JoinSet<Result<(), SessionEnd>>;

/// Works until a stop is asked for.
///
/// # Errors
/// The first thing that broke; everything unsettled was given back.
pub(super) async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    // The database first: without it there is no point in taking messages.
    worker.store.ping().await?;
    let link = Arc::new(Link::open(&worker.address, "overdue worker: consuming").await?);
    let session = stop.child();
    let mut tasks = Tasks::new();
    tasks.spawn(consumers::consume(Arc::clone(worker), Arc::clone(&link), session.clone()));
    tasks.spawn(sweep::sweep(Arc::clone(worker), session.clone()));
    tasks.spawn(relay::relay(Arc::clone(worker), session.clone()));
    tasks.spawn(rebind::rebind(Arc::clone(worker), session.clone()));
    let result = finish(tasks, &session).await;
    if let Some(link) = Arc::into_inner(link) {
        link.close().await;
    }
    result
}

/// Waits for every task; the first that fails stops the others.
async fn finish(mut tasks: Tasks, session: &Stop) -> Result<(), SessionEnd> {
    let mut result = Ok(());
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|panic| Err(SessionEnd::Panicked(panic.to_string())));
        if done.is_err() {
            session.request();
            // The first reason is the cause; the others follow from it.
            result = result.and(done);
        }
    }
    result
}
