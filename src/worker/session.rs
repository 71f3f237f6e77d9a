//! A connection that shows whether the broker is there, and the tasks that work while it is open.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    by_table, clock_watch, compat::rebind, consume, context::Worker, health::ALIVE_WITHIN, history,
    outgoing, sweep,
};
use crate::{
    messaging::{ConnectError, Link, consume::ConsumeError},
    shutdown::Stop,
    store::StoreError,
    telemetry,
};

type Tasks = JoinSet<Result<(), SessionEnd>>;

/// Works until a stop is requested, or until a task fails. When it returns, all unsettled messages are requeued.
pub(super) async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    let connecting = worker.health.task("connect", "", ALIVE_WITHIN);
    // The database comes first: without it messages are useless. The database's clock is read before a notice waits, so that a
    // later reading shows by how much the clock was set forward.
    clock_watch::read(worker).await?;
    let link = Arc::new(Link::open(&worker.address, "overdue worker: watching").await?);
    drop(connecting);
    let session = stop.child();
    let mut tasks = Tasks::new();
    tasks.spawn(consume::consume(Arc::clone(worker), Arc::clone(&link), session.clone()));
    tasks.spawn(history::history(Arc::clone(worker), session.clone()));
    tasks.spawn(outgoing::events::publish(Arc::clone(worker), session.clone()));
    tasks.spawn(outgoing::notices::publish(Arc::clone(worker), session.clone()));
    tasks.spawn(rebind::rebind(Arc::clone(worker), session.clone()));
    let result = finish(worker, tasks, &session).await;
    telemetry::observed::consumed(0);
    if let Some(link) = Arc::into_inner(link) {
        link.close().await;
    }
    result
}

/// Closes due orders by the table, without the broker, until a stop is requested or a task panics.
pub(super) async fn close_by_table(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    let stop = stop.child();
    let mut tasks = Tasks::new();
    for (effect, closer) in &worker.closers {
        tasks.spawn(sweep::sweep(Arc::clone(worker), effect.clone(), stop.clone()));
        if closer.effect().finds_overdue() {
            tasks.spawn(by_table::serve(Arc::clone(worker), effect.clone(), stop.clone()));
        }
    }
    tasks.spawn(clock_watch::watch(Arc::clone(worker), stop.clone()));
    finish(worker, tasks, &stop).await
}

/// Waits for every task; the first failure stops the others.
async fn finish(worker: &Worker, mut tasks: Tasks, session: &Stop) -> Result<(), SessionEnd> {
    let mut result = Ok(());
    let mut ending = None;
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|panic| Err(SessionEnd::Panicked(panic.to_string())));
        if done.is_err() {
            session.request();
            ending.get_or_insert_with(|| worker.health.task("end of a session", "", ALIVE_WITHIN));
            // The first error is the cause of the others.
            result = result.and(done);
        }
    }
    result
}

/// Why a session ended without a requested stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionEnd {
    /// The worker could not connect to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The session's connection to the broker ended.
    #[error("the connection to the broker has ended")]
    Lost,
    /// A subscription ended.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// The database returned an error, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task of the session panicked: a defect of this program.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
}

impl SessionEnd {
    /// Value of the metric label `cause`.
    pub(super) const fn cause(&self) -> &'static str {
        match self {
            Self::Connect(_) | Self::Lost => "connect",
            Self::Consume(_) => "consume",
            Self::Store(_) => "database",
            Self::Panicked(_) => "panic",
        }
    }
}
