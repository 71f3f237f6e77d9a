//! `overdue database`: the tables that are ours, and the reference order tables.

use clap::Subcommand;

use super::{exit::Failure, output::print, setup};
use crate::config::Settings;

/// Prepare the database
#[derive(Debug, Subcommand)]
pub(super) enum Database {
    /// Create what is missing: schema, closures, outbox; again and again without effect
    Init {
        /// Also the reference order tables (orders, order_items, stock), for demo and tests
        #[arg(long)]
        reference_tables: bool,
    },
}

impl Database {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self::Init { reference_tables } = self;
        let store = setup::store(settings)?;
        store.init(&settings.database.search_path, reference_tables).await?;
        print(format!(
            "{} is ready (search path {})",
            store.address(),
            settings.database.search_path
        ))
    }
}
