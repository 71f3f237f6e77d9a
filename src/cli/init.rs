//! `overdue init`: looks at a table, and writes topology.toml and overdue.toml for it.

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
        description::{ReleaseKeys, TableName},
        look::index,
        proposal::{
            Answers, Proposal,
            found::{Found, Table},
            has_deadlines, interval, parse_release, propose, singular,
        },
    },
    store::{Store, effects::Effect, proposal_facts::Unknown},
    text::{counted, did_you_mean, quote},
};

/// Tables that are named, at the most.
const MOST_TABLES: usize = 10;

/// Look at a table, and write topology.toml and overdue.toml with what closes its overdue rows
///
/// At a terminal it asks; elsewhere it marks each guess in the files, and exits with 2 if only you can answer something. What an option
/// says is no guess. SQL is as in [effects.NAME] (docs/effects.md).
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The table whose rows have a deadline, such as `purchase` or `shop.purchase`; without it tables are named that look like it
    #[arg(long)]
    table: Option<String>,
    /// Add a table to the files that are there
    #[arg(long)]
    add: bool,
    /// The columns that messages name a row by, such as `id` or `tenant_id, no`
    #[arg(long, value_name = "COLUMNS")]
    key: Option<String>,
    /// Which rows are open, such as `state IN (10, 15)`
    #[arg(long, value_name = "CONDITION")]
    open: Option<String>,
    /// What keeps a row open, also in other tables; the row is called `row`
    #[arg(long, value_name = "CONDITION")]
    unless: Option<String>,
    /// When a row is due: a column, or an expression
    #[arg(long, value_name = "EXPRESSION")]
    deadline: Option<String>,
    /// The time zone of a deadline without one, such as `UTC`
    #[arg(long)]
    zone: Option<String>,
    /// How long a row has from its creation, such as `30m`
    #[arg(long, value_name = "TIME", value_parser = interval)]
    after: Option<u64>,
    /// A column of an overdue row and its new value in SQL, such as `state=90`; nothing behind the sign leaves the column as it is
    #[arg(long, value_name = "COLUMN=EXPRESSION", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Delete overdue rows
    #[arg(long, conflicts_with = "set")]
    delete: bool,
    /// What is given back, such as `article.reserved -= line.pieces FROM purchase_line AS line WHERE …`; `none` is nothing
    #[arg(long, value_name = "CHANGE", value_parser = release)]
    release: Vec<Release>,
    /// The event of a closed row, such as `purchase.expired`
    #[arg(long)]
    event: Option<String>,
    /// Rows with an earlier deadline stay open; `all` is none [default: now]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The name of the effect [default: expire]
    #[arg(long, value_name = "NAME")]
    effect: Option<String>,
    /// The name of the timeout [default: unpaid]
    #[arg(long, value_name = "NAME")]
    timeout: Option<String>,
}

#[derive(Clone, Debug)]
enum Release {
    None,
    Of(Box<ReleaseKeys>),
}

fn release(text: &str) -> Result<Release, String> {
    if text == "none" {
        return Ok(Release::None);
    }
    parse_release(text).map(|keys| Release::Of(Box::new(keys)))
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (column, value) =
        text.split_once('=').ok_or("write COLUMN=EXPRESSION, such as state=90")?;
    Ok((column.trim().trim_matches('"').to_owned(), value.trim().to_owned()))
}

impl Init {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let store = setup::store(settings)?;
        let own_schema = settings.database.search_path.split(',').next().unwrap_or_default().trim();
        let Some(table) = &self.table else { return name_tables(&store, own_schema).await };
        let table =
            TableName::parse(table).map_err(|error| Failure::usage(format!("--table: {error}")))?;
        let files = Files::look(&self.folder, self.add)?;
        let mut answers = self.answers(&store, &table).await?;
        files.refuse(&answers)?;
        let (proposal, found) = if io::stdin().is_terminal() {
            dialogue::ask(&store, &table, own_schema, &mut answers).await?
        } else {
            look(&store, &table, own_schema, &answers).await?
        };
        check_columns(&answers, &found)?;
        let (steps, unfit) = prove(&store, &proposal).await?;
        for path in files.write(&proposal)? {
            print(path.display())?;
        }
        self.finish(&proposal, &steps, unfit)
    }

    async fn answers(&self, store: &Store, table: &TableName) -> Result<Answers, Failure> {
        let since = match &self.since {
            Some(since) => since.clone(),
            None => store.minute().await?,
        };
        let one = singular(&table.short);
        let named = |given: &Option<String>, alone: &str, added: String| {
            given.clone().unwrap_or_else(|| if self.add { added } else { alone.to_owned() })
        };
        let releases = self.release.iter().filter_map(|it| match it {
            Release::None => None,
            Release::Of(keys) => Some((**keys).clone()),
        });
        Ok(Answers {
            effect: named(&self.effect, "expire", format!("expire_{one}")),
            timeout: named(&self.timeout, "unpaid", one.clone()),
            key: self.key.clone(),
            open: self.open.clone(),
            unless: self.unless.clone(),
            deadline: self.deadline.clone(),
            zone: self.zone.clone(),
            after: self.after,
            set: self.set.clone(),
            delete: self.delete,
            releases: releases.collect(),
            nothing_else: self.release.iter().any(|it| matches!(it, Release::None)),
            signs: Vec::new(),
            event: self.event.clone(),
            since,
        })
    }

    /// Points that need an answer, or the next steps.
    fn finish(
        &self,
        proposal: &Proposal,
        steps: &[String],
        unfit: Option<String>,
    ) -> Result<(), Failure> {
        let questions: Vec<_> = proposal.questions().collect();
        let number = questions.len() + usize::from(unfit.is_some());
        if number > 0 {
            print("needs an answer:")?;
            let question = |remark: &&crate::effect::proposal::Remark| {
                format!("{}\n       {}", remark.what, remark.options().join("\n       "))
            };
            let all = questions.iter().map(question).chain(unfit);
            for (at, text) in (1..).zip(all) {
                print(format_args!("  {at}. {text}"))?;
            }
            return Err(Failure {
                code: exit::FINDINGS,
                text: format!(
                    "the files are not complete: {} an answer. Write it into overdue.toml, or delete what was written, and run the same \
                     command with the options",
                    if number == 1 {
                        "1 point needs".to_owned()
                    } else {
                        format!("{number} points need")
                    }
                ),
            });
        }
        // A command looks for its settings in the folder where it runs.
        let enter = (self.folder != Path::new("."))
            .then(|| format!("cd {}", quote(&self.folder.display().to_string())));
        let rest = [
            "in overdue.toml: the URLs of broker and database, and the lines that say guess".to_owned(),
            "overdue database init, overdue effect check --all, overdue apply, overdue run\n     (docs/your-own-tables.md)".to_owned(),
        ];
        let index = (!steps.is_empty()).then(|| {
            format!(
                "in the database, not in a transaction, for the look at what is overdue:\n     {}",
                steps.join("\n     ")
            )
        });
        print("next:")?;
        let mut steps = enter.into_iter().chain(index).chain(rest).enumerate();
        steps.try_for_each(|(at, step)| print(format_args!("  {}. {step}", at + 1)))
    }
}

/// A table as it was found, and the proposal for it.
async fn look(
    store: &Store,
    table: &TableName,
    own_schema: &str,
    answers: &Answers,
) -> Result<(Proposal, Found), Failure> {
    let found = match store.found(table, own_schema, answers).await {
        Ok(found) => found,
        Err(Unknown::Store(error)) => return Err(error.into()),
        Err(Unknown::Option(option, why)) => {
            return Err(Failure::usage(format!("{option}: {why}; nothing was written")));
        }
        Err(Unknown::Table) => return Err(no_table(store, table, own_schema).await?),
    };
    match found.table() {
        Some(Table { kind, .. }) if kind == "r" || kind == "p" => {}
        _ => {
            return Err(Failure::usage(format!(
                "{} is no table, so its rows cannot be locked: name the table behind it; nothing was written",
                table.sql
            )));
        }
    }
    let proposal =
        propose(&found, answers).ok_or_else(|| Failure::failed("the catalog gave no table"))?;
    Ok((proposal, found))
}

async fn no_table(store: &Store, table: &TableName, own_schema: &str) -> Result<Failure, Failure> {
    let known = store.readable_tables(own_schema).await?;
    let known: Vec<&str> = known.iter().map(|it| it.table.as_str()).collect();
    let end = format!(".{}", table.sql);
    let elsewhere = known.iter().find(|it| it.ends_with(&end)).copied();
    let meant = elsewhere.or_else(|| did_you_mean(&table.sql, known.iter().copied()));
    let meant = meant.map_or_else(String::new, |it| format!(" (did you mean {it}?)"));
    Ok(Failure::usage(format!(
        "{} has no table {}{meant}, or the user may not use its schema: write it with its schema, or set database.search_path; nothing was \
         written",
        store.address(),
        table.sql
    )))
}

/// Names of columns that a table does not have are mistyped.
fn check_columns(answers: &Answers, found: &Found) -> Result<(), Failure> {
    let Some(table) = found.table() else { return Ok(()) };
    let known: Vec<&str> = table.columns.iter().map(|it| it.name.as_str()).collect();
    for (column, _) in &answers.set {
        if !known.contains(&column.as_str()) {
            let meant = did_you_mean(column, known.iter().copied())
                .map_or_else(String::new, |it| format!(" (did you mean {it}?)"));
            return Err(Failure::usage(format!(
                "--set: {} has no column {column}{meant}: it has {}; nothing was written",
                table.name,
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Has PostgreSQL read the description: the statements of its index, or what does not fit.
async fn prove(
    store: &Store,
    proposal: &Proposal,
) -> Result<(Vec<String>, Option<String>), Failure> {
    if proposal.questions().next().is_some() {
        return Ok((Vec::new(), None));
    }
    let keys: toml::Table = toml::from_str(&proposal.description())
        .map_err(|error| Failure::failed(error.to_string()))?;
    let keys = keys.get("effects").and_then(|it| it.get(&proposal.effect)).cloned();
    let keys: Option<EffectKeys> = keys.and_then(|it| it.try_into().ok());
    let description = match keys.map(|it| it.description(&proposal.effect)) {
        Some(Ok(Some(description))) => description,
        Some(Err(mistakes)) => {
            let mistakes: Vec<String> =
                mistakes.iter().map(|it| format!("{}: {}", it.key, it.what)).collect();
            return Ok((Vec::new(), Some(mistakes.join("; "))));
        }
        _ => return Err(Failure::failed("what was written cannot be read")),
    };
    let effect = Effect::described(description.clone());
    let index = match store.table_facts(&effect, &description).await {
        Ok(facts) => crate::effect::Statements::of(&description, &facts)
            .and_then(|_| index(&description, &facts)),
        Err(error) if error.is_misfit() => return Ok((Vec::new(), Some(error.to_string()))),
        Err(error) => return Err(error.into()),
    };
    Ok(match index {
        Ok(lines) => (lines, None),
        Err(mistake) => (Vec::new(), Some(format!("{}: {}", mistake.key, mistake.what))),
    })
}

/// Tables that look as if they had overdue rows, and what to type.
async fn name_tables(store: &Store, own_schema: &str) -> Result<(), Failure> {
    let tables = store.readable_tables(own_schema).await?;
    let columns = |it: &[(String, String)]| has_deadlines(it);
    let alike: Vec<&str> =
        tables.iter().filter(|it| columns(&it.columns)).map(|it| it.table.as_str()).collect();
    if !alike.is_empty() {
        print("tables with a state and a time:")?;
        alike
            .iter()
            .take(MOST_TABLES)
            .try_for_each(|it| print(format_args!("  overdue init --table {}", quote(it))))?;
    }
    let more = alike.len().saturating_sub(MOST_TABLES);
    let more = if more > 0 { format!(", {more} others are not shown") } else { String::new() };
    let seen = counted(tables.len(), "table");
    Err(Failure {
        code: exit::FINDINGS,
        text: format!(
            "no table was named; {} of {seen} at {} have a state and a time{more}: name one with --table",
            alike.len(),
            store.address()
        ),
    })
}
