//! One set of connections, and the tasks that work with it.

use std::{collections::BTreeSet, sync::Arc};

use tokio::task::JoinSet;

use super::{
    context::{ConsumerContext, Worker},
    limits, queues, receive, relay,
    session_end::SessionEnd,
    sweep,
};
use crate::{
    broker::{Link, Publisher, consume::Subscription},
    shutdown::Stop,
    telemetry,
};

type Tasks = JoinSet<Result<(), SessionEnd>>;

/// Works until a stop is asked for.
///
/// # Errors
/// The first thing that broke; everything unsettled was given back.
pub(super) async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    // The database first: without it there is no point in taking messages.
    worker.store.ping().await?;
    let link = Arc::new(Link::open(&worker.address, "overdue worker: consuming").await?);
    let publisher = Publisher::connect(&worker.address, "overdue worker: publishing").await?;
    let session = stop.child();
    let mut tasks = Tasks::new();
    let consumed = consume(&mut tasks, worker, &link, publisher, &session).await?;
    let names: Vec<String> = consumed.iter().cloned().collect();
    tasks.spawn(queues::watch(Arc::clone(worker), Arc::clone(&link), consumed, session.clone()));
    tasks.spawn(sweep::sweep(Arc::clone(worker), session.clone()));
    tasks.spawn(relay::relay(Arc::clone(worker), session.clone()));
    telemetry::worker_ready(&names, &worker.address.to_string(), worker.store.address());
    let result = finish(tasks, &session).await;
    if let Some(link) = Arc::into_inner(link) {
        link.close().await;
    }
    result
}

/// Starts a consumer for each queue of each timeout, and says which queues these are.
async fn consume(
    tasks: &mut Tasks,
    worker: &Arc<Worker>,
    link: &Link,
    publisher: Publisher,
    session: &Stop,
) -> Result<BTreeSet<String>, SessionEnd> {
    let prefetch = limits::prefetch(&worker.settings);
    let mut consumed = BTreeSet::new();
    for (timeout, queues) in queues::find(worker, link).await? {
        for queue in queues {
            let subscription = Subscription::open(link, &queue, prefetch).await?;
            consumed.insert(queue);
            let context = ConsumerContext {
                worker: Arc::clone(worker),
                timeout: timeout.clone(),
                publisher: publisher.clone(),
            };
            tasks.spawn(receive::receive(context, subscription, session.clone()));
        }
    }
    Ok(consumed)
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
