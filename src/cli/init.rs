//! `overdue init`: reads a table from the catalog, and writes topology.toml and overdue.toml for it.

mod dialogue;
mod files;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use clap::Args;

use self::files::Files;
use super::{
    exit::{self, Failure},
    output::print,
    setup,
};
use crate::{
    config::Settings,
    effect::{
        EffectKeys,
        description::TableName,
        look::index,
        proposal::{Answers, Ask, Proposal, found::Found, has_deadlines, propose, singular},
    },
    store::{Store, effects::Effect, proposal_facts::Unknown},
    text::{counted, did_you_mean, quote},
};

/// The most tables that the command lists.
const MOST_TABLES: usize = 10;

/// Look at a table, and write topology.toml and overdue.toml
///
/// The effect in overdue.toml closes the overdue rows of the table. At a terminal the command asks; elsewhere it marks each guess in the
/// files, and exits with 2 if only you can answer something. A value from an option is no guess. SQL is as in [effects.NAME]
/// (docs/effects.md).
#[derive(Debug, Args)]
pub(super) struct Init {
    /// Folder of the two files
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The table whose rows have a deadline, such as `purchase` or `shop.purchase`; without it the command lists tables that look like it
    #[arg(long)]
    table: Option<String>,
    /// Add the table to existing files
    #[arg(long)]
    add: bool,
    #[command(flatten)]
    answers: Answers,
}

/// The table that `init` is for.
struct Subject<'a> {
    store: Store,
    table: TableName,
    own_schema: &'a str,
}

impl Init {
    pub(super) async fn run(mut self, settings: &Settings) -> Result<(), Failure> {
        let store = setup::store(settings)?;
        let own_schema = settings.database.search_path.split(',').next().unwrap_or_default().trim();
        let Some(table) = &self.table else { return name_tables(&store, own_schema).await };
        let table =
            TableName::parse(table).map_err(|error| Failure::usage(format!("--table: {error}")))?;
        let files = Files::look(&self.folder, self.add)?;
        let one = singular(&table.short);
        let (effect, timeout) = if self.add {
            (format!("expire_{one}"), one)
        } else {
            ("expire".to_owned(), "unpaid".to_owned())
        };
        let answers = &mut self.answers;
        answers.effect.get_or_insert(effect);
        answers.timeout.get_or_insert(timeout);
        if answers.since.is_none() {
            answers.since = Some(store.minute().await?);
        }
        files.refuse(answers)?;
        let subject = Subject { store, table, own_schema };
        let (proposal, found) = if io::stdin().is_terminal() {
            dialogue::ask(&subject, answers).await?
        } else {
            subject.look(answers).await?
        };
        check_columns(answers, &found)?;
        let (index, unfit) = prove(&subject.store, &proposal).await?;
        for path in files.write(&proposal)? {
            print(path.display())?;
        }
        needs_answer(&proposal, unfit)?;
        self.next_steps(&index)
    }

    fn next_steps(&self, index: &[String]) -> Result<(), Failure> {
        // A command reads its settings from the folder where it runs.
        let enter = (self.folder != Path::new("."))
            .then(|| format!("cd {}", quote(&self.folder.display().to_string())));
        let index = (!index.is_empty()).then(|| {
            format!(
                "in the database, not in a transaction, for the look at what is overdue:\n     {}",
                index.join("\n     ")
            )
        });
        let rest = [
            "in overdue.toml: the URLs of broker and database, and the lines that say guess",
            "overdue database init, overdue effect check --all, overdue apply, overdue run\n     (docs/your-own-tables.md)",
        ];
        print("next:")?;
        let steps = enter.into_iter().chain(index).chain(rest.map(str::to_owned));
        (1..).zip(steps).try_for_each(|(at, step)| print(format_args!("  {at}. {step}")))
    }
}

/// Prints the points that need an answer; fails if there are any.
fn needs_answer(proposal: &Proposal, unfit: Option<String>) -> Result<(), Failure> {
    let question = |it: &Ask| format!("{}\n       {}", it.why, it.options().join("\n       "));
    let questions: Vec<String> = proposal.questions().map(question).chain(unfit).collect();
    let points = match questions.len() {
        0 => return Ok(()),
        1 => "1 point needs".to_owned(),
        number => format!("{number} points need"),
    };
    print("needs an answer:")?;
    (1..).zip(questions).try_for_each(|(at, text)| print(format_args!("  {at}. {text}")))?;
    Err(Failure {
        code: exit::FINDINGS,
        text: format!(
            "the files are not complete: {points} an answer. Write it into overdue.toml, or delete what was written, and run the same \
             command with the options"
        ),
    })
}

impl Subject<'_> {
    /// Reads the table as it is now, and makes the proposal for it.
    async fn look(&self, answers: &Answers) -> Result<(Proposal, Found), Failure> {
        let Self { store, table, own_schema } = self;
        let found = match store.found(table, own_schema, answers).await {
            Ok(found) => found,
            Err(Unknown::Store(error)) => return Err(error.into()),
            Err(Unknown::Option(option, why)) => {
                return Err(Failure::usage(format!("{option}: {why}; nothing was written")));
            }
            Err(Unknown::Table) => return Err(self.unknown().await?),
        };
        let proposal = propose(&found, answers).filter(|_| found.is_table());
        let proposal = proposal.ok_or_else(|| {
            Failure::usage(format!(
                "{} is no table, so its rows cannot be locked: name the table behind it; nothing was written",
                table.sql
            ))
        })?;
        Ok((proposal, found))
    }

    async fn unknown(&self) -> Result<Failure, Failure> {
        let Self { store, table, own_schema } = self;
        let known = store.readable_tables(own_schema).await?;
        let known: Vec<&str> = known.iter().map(|(table, _)| table.as_str()).collect();
        let end = format!(".{}", table.sql);
        let elsewhere = known.iter().find(|it| it.ends_with(&end)).copied();
        let meant = elsewhere.or_else(|| did_you_mean(&table.sql, known.iter().copied()));
        Ok(Failure::usage(format!(
            "{} has no table {}{}, or the user may not use its schema: write it with its schema, or set database.search_path; nothing was \
             written",
            store.address(),
            table.sql,
            or_meant(meant)
        )))
    }
}

fn or_meant(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |it| format!(" (did you mean {it}?)"))
}

/// Refuses `--set` with a column that the table does not have: the name is mistyped.
fn check_columns(answers: &Answers, found: &Found) -> Result<(), Failure> {
    let Some(table) = found.table() else { return Ok(()) };
    let known: Vec<&str> = table.columns.iter().map(|it| it.name.as_str()).collect();
    match answers.set.iter().find(|(column, _)| !known.contains(&column.as_str())) {
        None => Ok(()),
        Some((column, _)) => Err(Failure::usage(format!(
            "--set: {} has no column {column}{}: it has {}; nothing was written",
            table.name,
            or_meant(did_you_mean(column, known.iter().copied())),
            known.join(", ")
        ))),
    }
}

/// Lets PostgreSQL check the description. Returns the statements that create its index, or the mistake.
async fn prove(
    store: &Store,
    proposal: &Proposal,
) -> Result<(Vec<String>, Option<String>), Failure> {
    if proposal.questions().next().is_some() {
        return Ok((Vec::new(), None));
    }
    let unreadable = |error: toml::de::Error| Failure::failed(error.to_string());
    let mut keys: toml::Table = toml::from_str(&proposal.description()).map_err(unreadable)?;
    let keys =
        keys.remove("effects").and_then(|mut it| it.as_table_mut()?.remove(&proposal.effect));
    let keys: EffectKeys =
        keys.unwrap_or_else(|| toml::Table::new().into()).try_into().map_err(unreadable)?;
    let description = match keys.description(&proposal.effect) {
        Ok(Some(description)) => description,
        Ok(None) => return Err(Failure::failed("the description that was written has no table")),
        Err(mistakes) => {
            let mistakes = mistakes.iter().map(|it| format!("{}: {}", it.key, it.what));
            return Ok((Vec::new(), Some(mistakes.collect::<Vec<_>>().join("; "))));
        }
    };
    let effect = Effect::described(description.clone());
    if let Err(error) = store.statements(&effect).await {
        let unfit = error.is_misfit().then(|| error.to_string());
        return unfit.map_or_else(|| Err(error.into()), |it| Ok((Vec::new(), Some(it))));
    }
    let facts = store.table_facts(&effect, &description).await?;
    Ok((index(&description, &facts).unwrap_or_default(), None))
}

/// Prints the tables that look as if they had overdue rows, and the command for each.
async fn name_tables(store: &Store, own_schema: &str) -> Result<(), Failure> {
    let tables = store.readable_tables(own_schema).await?;
    let seen = counted(tables.len(), "table");
    let alike: Vec<_> = tables.into_iter().filter(|(_, columns)| has_deadlines(columns)).collect();
    if !alike.is_empty() {
        print("tables with a state and a time:")?;
    }
    for (table, _) in alike.iter().take(MOST_TABLES) {
        print(format_args!("  overdue init --table {}", quote(table)))?;
    }
    let more = match alike.len().saturating_sub(MOST_TABLES) {
        0 => String::new(),
        more => format!(", {more} others are not shown"),
    };
    Err(Failure {
        code: exit::FINDINGS,
        text: format!(
            "no table was named; {} of {seen} at {} have a state and a time{more}: name one with --table",
            alike.len(),
            store.address()
        ),
    })
}
