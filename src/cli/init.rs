//! `overdue init`: files to start from, for tables of one's own.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::Args;

use self::{
    effect::OwnTable,
    own_table::{ColumnName, PrimaryKey, StateChange, Stock, TableName},
};
use super::{exit::Failure, output::print};
use crate::text::quote;

mod effect;
mod own_table;

const TOPOLOGY: &str = include_str!("../../examples/own-tables/topology.toml");
const SETTINGS: &str = include_str!("../../examples/own-tables/overdue.toml");

/// Write topology.toml, overdue.toml and the SQL that closes overdue rows of a table
///
/// Without options the SQL is for the tables of docs/your-own-tables.md.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The table whose rows have a deadline, e.g. `bookings` or `shop.bookings`
    #[arg(long, requires_all = ["key", "state", "deadline"])]
    table: Option<TableName>,
    /// Its primary key, and the type of that column: `text`, `uuid`, `bigint` or `integer`
    #[arg(long, value_name = "COLUMN:TYPE", requires = "table")]
    key: Option<PrimaryKey>,
    /// Its column with the state, the state that waits, and the state of what is closed, e.g. `state=pending:expired`
    #[arg(long, value_name = "COLUMN=WAITING:CLOSED", requires = "table")]
    state: Option<StateChange>,
    /// Its column with the deadline, a `timestamptz`
    #[arg(long, value_name = "COLUMN", requires = "table")]
    deadline: Option<ColumnName>,
    /// What a closed row gives back: `events.seats_free=seats by event_id` adds the row's `seats` to `seats_free` of its event.
    /// `by event_id=id` if the key of `events` has another name; `in booking_lines` (or `in booking_lines on booking_id`) if the
    /// amounts are in lines of the row
    #[arg(long, value_name = "TABLE.COLUMN=AMOUNT by COLUMN", num_args = 1..=7, requires = "table")]
    stock: Vec<String>,
}

impl Init {
    pub(super) fn run(self) -> Result<(), Failure> {
        let folder = self.folder.clone();
        let table = self.own_table()?;
        let files = [
            ("topology.toml", topology(&table.table)),
            ("overdue.toml", SETTINGS.to_owned()),
            ("expire.sql", table.effect()),
            ("expire_overdue.sql", table.overdue()),
        ];
        let there = files.iter().map(|(name, _)| *name);
        let there: Vec<&str> = there.filter(|name| folder.join(name).exists()).collect();
        if !there.is_empty() {
            return Err(Failure::failed(format!(
                "{} already has {}: nothing was written; name another folder",
                folder.display(),
                there.join(", ")
            )));
        }
        for (name, content) in files {
            let path = folder.join(name);
            write_new(&path, &content).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            })?;
            print(path.display())?;
        }
        // A command looks for its settings in the folder where it runs.
        let enter = (folder != Path::new("."))
            .then(|| format!("cd {}", quote(&folder.display().to_string())));
        let steps = [
            format!(
                "in the database, for the sweep:\n     {}\n     (not in a transaction; without CONCURRENTLY if the table is \
                 partitioned)",
                table.index()
            ),
            "in overdue.toml: the URLs of broker and database".to_owned(),
            "overdue database init, overdue effect check --all, overdue apply, overdue run\n     \
             (docs/your-own-tables.md)"
                .to_owned(),
        ];
        print("next:")?;
        let mut steps = enter.into_iter().chain(steps).enumerate();
        steps.try_for_each(|(at, step)| print(format_args!("  {}. {step}", at + 1)))
    }

    /// As asked for, or that of docs/your-own-tables.md.
    fn own_table(self) -> Result<OwnTable, Failure> {
        let stock = |text: &str| {
            text.parse::<Stock>().map_err(|error| {
                Failure::usage(format!("invalid value '{text}' for '--stock': {error}"))
            })
        };
        let example = || {
            Ok(OwnTable {
                table: "purchase".parse()?,
                key: "purchase_no:bigint".parse()?,
                state: "state=10:90".parse()?,
                deadline: "pay_until".parse()?,
                stock: Some("article.on_hand=pieces by article_no in purchase_line".parse()?),
            })
        };
        match (self.table, self.key, self.state, self.deadline) {
            (Some(table), Some(key), Some(state), Some(deadline)) => {
                let stock = match &self.stock[..] {
                    [] => None,
                    words => Some(stock(&words.join(" "))?),
                };
                Ok(OwnTable { table, key, state, deadline, stock })
            }
            _ => example().map_err(|error: String| Failure::failed(error)),
        }
    }
}

/// The example's, with the name of the table, which is the prefix of every exchange and queue.
fn topology(table: &TableName) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let name: String = table.name.chars().filter(|it| fits(*it)).collect();
    if name.is_empty() || name == "amq" {
        return TOPOLOGY.to_owned();
    }
    TOPOLOGY.replace("purchase", &name)
}

/// If another program has made the file meanwhile, nothing is overwritten.
fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if path.ends_with("overdue.toml") {
        // Passwords come into it.
        options.mode(0o600);
    }
    options.open(path)?.write_all(content.as_bytes())
}
