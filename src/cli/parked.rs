//! `overdue parked`: look into the parking lot, put messages back, and drop what is of no use.

mod drop;
mod list;
mod lot;
mod replay;
mod select;
mod show;

use clap::Subcommand;

use super::exit::Failure;
use crate::{
    config::Settings,
    parking::{Filter, Reasons},
    shutdown::Stop,
};

/// Look into the parking lot, put messages back, drop them
#[derive(Debug, Subcommand)]
pub(super) enum Parked {
    /// What lies there, why, and what its orders are now; takes nothing out
    List(list::List),
    /// The same with every header and the body
    Show(show::Show),
    /// Put messages back whose orders are not final; shows what it would do, and asks
    Replay(replay::Replay),
    /// Take messages out for good, and record them in the database; shows them, and asks
    Drop(drop::DropMessages),
}

impl Parked {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(settings).await,
            Self::Show(show) => show.run(settings).await,
            Self::Replay(replay) => replay.run(settings).await,
            Self::Drop(drop) => drop.run(settings).await,
        }
    }
}

/// How many messages lie there for which reason; takes nothing out.
pub(super) async fn reasons(settings: &Settings) -> Result<Reasons, Failure> {
    let mut reasons = Reasons::default();
    let lots = lot::Lots::open(settings).await?;
    lots.read(&Filter::default(), &Stop::new(), async |batch| {
        batch.found.iter().for_each(|found| reasons.add(&found.message.cause));
        Ok(())
    })
    .await?;
    Ok(reasons)
}
