//! Questions at a terminal: one for each guess, with the guess as the default.

use std::io::{self, Write as _};

use super::Subject;
use crate::{
    cli::{exit::Failure, output::report},
    effect::proposal::{Answers, Ask, Proposal, found::Found},
    text::printable,
};

/// Asks until every guess and every question has an answer.
pub(super) async fn ask(
    subject: &Subject<'_>,
    answers: &mut Answers,
) -> Result<(Proposal, Found), Failure> {
    let mut asked: Vec<Ask> = Vec::new();
    let (mut proposal, mut found) = subject.look(answers).await?;
    loop {
        let is_new =
            |ask: &&Ask| !asked.iter().any(|it| (it.option, &it.about) == (ask.option, &ask.about));
        let Some(ask) = proposal.asks().find(is_new).cloned() else { return Ok((proposal, found)) };
        report(format!("\n{}", ask.why));
        if ask.choices.len() > 1 {
            (1..).zip(&ask.choices).for_each(|(number, it)| report(format!("  {number}. {it}")));
        }
        let mut with_answer = answers.clone();
        if let Err(why) = with_answer.take(&ask, &found, &read(&ask)?) {
            report(why);
            continue;
        }
        match subject.look(&with_answer).await {
            Err(failure) => report(failure),
            Ok(now) => {
                (proposal, found) = now;
                *answers = with_answer;
                asked.push(ask);
            }
        }
    }
}

/// Reads an answer. A number selects a choice, and an empty line the first choice.
fn read(ask: &Ask) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read the answer: {error}"));
    let Ask { option, about, choices, is_needed, .. } = ask;
    // The sign of a release must be typed: a wrong sign doubles the fault.
    let default = choices.first().filter(|_| !(*is_needed && *option == "release"));
    let name = if *option == "set" { about } else { *option };
    let shown = default.map_or_else(String::new, |it| format!(" [{it}]"));
    let none = if *option == "release" { " (or none)" } else { "" };
    loop {
        let mut stderr = io::stderr();
        write!(stderr, "{}: ", printable(&format!("{name}{none}{shown}"))).map_err(unreadable)?;
        stderr.flush().map_err(unreadable)?;
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer).map_err(unreadable)? == 0 {
            return Err(Failure::failed("nothing was written"));
        }
        let answer = answer.trim();
        let number = answer.parse::<usize>().ok().filter(|_| choices.len() > 1);
        let chosen = number.and_then(|it| choices.get(it.checked_sub(1)?));
        match chosen.or(default.filter(|_| answer.is_empty())) {
            Some(chosen) => return Ok(chosen.clone()),
            None if answer.is_empty() => {}
            None => return Ok(answer.to_owned()),
        }
    }
}
