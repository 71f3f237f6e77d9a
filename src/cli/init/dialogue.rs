//! Questions at a terminal: one for each guess, with the guess as the default.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

use super::look;
use crate::{
    cli::{exit::Failure, output::report},
    effect::{
        description::TableName,
        proposal::{Answers, Ask, Proposal, Remark, found::Found},
    },
    store::Store,
    text::printable,
};

/// Asks until nothing is open.
pub(super) async fn ask(
    store: &Store,
    table: &TableName,
    own_schema: &str,
    answers: &mut Answers,
) -> Result<(Proposal, Found), Failure> {
    let mut asked: BTreeSet<Ask> = BTreeSet::new();
    let (mut proposal, mut found) = look(store, table, own_schema, answers).await?;
    loop {
        let Some(remark) = proposal.remarks().find(|it| !asked.contains(&it.ask)).cloned() else {
            return Ok((proposal, found));
        };
        show(&remark);
        let before = answers.clone();
        let answer = read(&remark)?;
        if let Err(what) = answers.take(&remark.ask, &found, &answer) {
            report(what);
            continue;
        }
        match look(store, table, own_schema, answers).await {
            Ok(now) => (proposal, found) = now,
            Err(failure) => {
                report(failure);
                *answers = before;
                continue;
            }
        }
        asked.insert(remark.ask);
    }
}

fn show(remark: &Remark) {
    report(format!("\n{}", remark.what));
    if let [_, _, ..] = &remark.choices[..] {
        for (number, choice) in (1..).zip(&remark.choices) {
            report(format!("  {number}. {choice}"));
        }
    }
}

/// Reads an answer; a number is one of the choices, an empty line is the first of them.
fn read(remark: &Remark) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read the answer: {error}"));
    let default = remark
        .choices
        .first()
        .filter(|_| !matches!(remark.ask, Ask::Sign(_)) || remark.choices.len() == 1);
    let name = match &remark.ask {
        Ask::Key => "key".to_owned(),
        Ask::Open => "open".to_owned(),
        Ask::State(column) => column.clone(),
        Ask::Deadline => "deadline".to_owned(),
        Ask::Zone => "zone".to_owned(),
        Ask::After => "after".to_owned(),
        Ask::Delete => "delete".to_owned(),
        Ask::Sign(counter) => format!("{counter} (+, -, n)"),
    };
    let shown = default.map_or_else(String::new, |it| format!(" [{it}]"));
    loop {
        let mut stderr = io::stderr();
        write!(stderr, "{}: ", printable(&format!("{name}{shown}"))).map_err(unreadable)?;
        stderr.flush().map_err(unreadable)?;
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer).map_err(unreadable)? == 0 {
            return Err(Failure::failed("nothing was written"));
        }
        let answer = answer.trim();
        let chosen =
            answer.parse::<usize>().ok().and_then(|it| remark.choices.get(it.checked_sub(1)?));
        match (answer, chosen, default) {
            ("", _, Some(default)) => return Ok(default.clone()),
            ("", _, None) => {}
            (_, Some(chosen), _) if remark.choices.len() > 1 => return Ok(chosen.clone()),
            _ => return Ok(answer.to_owned()),
        }
    }
}
