//! What a change of the topology does to messages that wait, and to those that are published meanwhile: every one
//! is counted.
//!
//! In a topology of its own, which is removed at the end. The change goes the way of `overdue apply --wait`.

mod applying;
mod book;
mod following;
pub mod kind;
pub mod ledger;
mod publishing;
pub mod report;
pub mod scenario;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    broker::{
        ConnectError, Link, Management, ManagementError, PublishError, Publisher, TurnError,
        apply::ApplyError, consume::ConsumeError,
    },
    plan::waiting::GaveUp,
    shutdown::Stop,
};
use applying::{Applying, Stage};
use book::Book;
use following::Follower;
use kind::{Kind, Levels};
use publishing::Publishing;
use report::{Line, Report};
use scenario::Scenario;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Messages that wait when the change begins, at least 1.
    pub messages: usize,
    /// Where they wait.
    pub levels: Levels,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reading or changing the broker failed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// A plan was not carried out.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// It was somebody else's turn to change the topology.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A plan is refused in the middle of the change.
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    /// A message was not confirmed, so nobody can tell whether it may be missing.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Receiving broke.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// The task that receives from a queue broke.
    #[error("the task that receives from queue `{0}` broke")]
    Panicked(String),
    /// Something does not come to its end.
    #[error("gave up after {} s: {what}", waited.as_secs())]
    Stuck {
        /// What was waited for, and how far it is.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Makes each of `kinds`, one after the other, in a topology called `name`; `tell` hears what is being done.
///
/// The topology is removed after each, also after an error and when `stop` is asked for.
///
/// # Errors
/// See [`ChangeError`]. Messages that are lost or early are no error, they are in the report.
pub async fn run(
    management: &Management,
    name: &str,
    kinds: &[Kind],
    size: &Size,
    stop: &Stop,
    tell: impl Fn(&str),
) -> Result<Report, ChangeError> {
    let mut report = Report::new(size);
    for kind in kinds {
        let scenario = Scenario::new(*kind, name, &size.levels);
        tell(&format!("{}: {}", kind.name(), kind.describe(&size.levels)));
        let measured = tokio::select! {
            measured = one(management, &scenario, size, &tell) => measured,
            () = stop.requested() => Err(ChangeError::Interrupted),
        };
        let removed = management.remove_topology(name).await;
        if let (Err(_), Err(left)) = (&measured, &removed) {
            tell(&format!("exchanges and queues called {name}.* are left behind: {left}"));
        }
        report.lines.push(measured?);
        removed?;
    }
    Ok(report)
}

async fn one(
    management: &Management,
    scenario: &Scenario,
    size: &Size,
    tell: &impl Fn(&str),
) -> Result<Line, ChangeError> {
    let book = Arc::new(Book::open());
    let address = management.address();
    let applying = Applying { address, management, scenario, size, book: &book, tell };
    applying.before().await?;
    let leaving = scenario.leaving.as_ref().map(|leaving| leaving.queue.clone());
    let (release, held) = watch::channel(leaving);
    let link = Link::open(address, "overdue bench, consuming").await?;
    let follower = Follower { management, link, scenario, held, book: Arc::clone(&book) };
    let publisher = Publisher::connect(address, "overdue bench, publishing").await?;
    let publishing = Publishing { publisher, scenario, size, book: &book };
    let measured = async {
        let refused = applying.refused(&publishing, &release).await?;
        tell(&format!("publishing {} messages", size.messages));
        let began = Instant::now();
        publishing.many(&scenario.waiting, size.messages).await?;
        let filled = began.elapsed();
        let (stages, stage) = watch::channel(Stage::Changing);
        let (change, ()) = tokio::try_join!(applying.change(stages), publishing.meanwhile(stage))?;
        applying.until_all_is_out().await?;
        Ok(book.with(|ledger| Line::new(scenario.kind, size, ledger, filled, &change, refused)))
    };
    tokio::select! {
        measured = measured => measured,
        broken = follower.run() => Err(broken),
    }
}
