//! A connection that shows whether the broker is there, and the tasks that work while it is.

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

/// Works until a stop is asked for. Ends with the first thing that breaks; then everything unsettled was given back.
pub(super) async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), SessionEnd> {
    let connecting = worker.health.task("connect", "", ALIVE_WITHIN);
    // The database first: without it there is no point in taking messages. Its clock is known before a message is held: if
    // it is set forward later, this reading shows by how much.
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

/// Closes what is due by the table, until a stop is asked for or a task panics: that needs no broker.
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

/// Waits for every task; the first that fails stops the others.
async fn finish(worker: &Worker, mut tasks: Tasks, session: &Stop) -> Result<(), SessionEnd> {
    let mut result = Ok(());
    let mut ending = None;
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|panic| Err(SessionEnd::Panicked(panic.to_string())));
        if done.is_err() {
            session.request();
            ending.get_or_insert_with(|| worker.health.task("end of a session", "", ALIVE_WITHIN));
            // The first reason is the cause; the others follow from it.
            result = result.and(done);
        }
    }
    result
}

/// Why a session ended before a stop was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionEnd {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection that shows whether the broker is there.
    #[error("the connection to the broker has ended")]
    Lost,
    /// A subscription ended.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// The database did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task of the session panicked: a defect of this program.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
}

impl SessionEnd {
    /// For those who count: one of the values of the label `cause`.
    pub(super) const fn cause(&self) -> &'static str {
        match self {
            Self::Connect(_) | Self::Lost => "connect",
            Self::Consume(_) => "consume",
            Self::Store(_) => "database",
            Self::Panicked(_) => "panic",
        }
    }
}
