//! What `bench burst` and `bench steady` start in the place of a worker, so that what it uses is counted apart.

use std::convert::Infallible;

use clap::{Args, ValueEnum};

use crate::{
    bench::contestant::{
        poller,
        tutorial::{self, TutorialError},
    },
    cli::{exit::Failure, setup},
    config::Settings,
};

/// What closes orders in the place of a worker.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rival {
    /// Looks in the database
    Poller,
    /// One message, one transaction, one ack
    Tutorial,
}

/// Closes orders of a benchmark until a signal.
#[derive(Debug, Args)]
pub(in crate::cli) struct Contestant {
    /// In which way
    rival: Rival,
    /// Where notices come out
    #[arg(long)]
    queue: String,
}

impl Contestant {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        let store = setup::store(settings)?;
        let closing = async {
            match self.rival {
                Rival::Poller => {
                    poller::poll(&store).await.map_err(Failure::from).map(|never| match never {})
                }
                Rival::Tutorial => {
                    let address = setup::address(settings)?;
                    let ended = tutorial::consume(&address, &self.queue, &store).await;
                    ended.map_err(Failure::from).map(|never: Infallible| match never {})
                }
            }
        };
        tokio::select! {
            ended = closing => ended,
            () = stop.requested() => Ok(()),
        }
    }
}

impl From<TutorialError> for Failure {
    fn from(error: TutorialError) -> Self {
        match error {
            TutorialError::Connect(error) => error.into(),
            TutorialError::Store(error) => error.into(),
            TutorialError::Consume(_) | TutorialError::Unreadable(_) => {
                Self::failed(crate::text::error_chain(&error))
            }
        }
    }
}
