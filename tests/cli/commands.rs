//! docs/commands.md: every command, option and exit code, as the program has them.

use std::fmt::Write as _;

use clap::{Arg, Command};
use overdue::internals::cli::{command, exit_codes};

const HEAD: &str = "# Commands

A test writes this page from the program's own help, which `overdue help COMMAND` prints.

`-o, --output` is the form of an answer, `text` or `json`; `--format` is what `export` prints.
`apply`, `remove`, `rebuild`, `parked replay`, `parked drop`, `database init` and `exit-plugin --bind` show what they would do, and ask; after `n` they exit with 1.
Without a terminal and without `--yes` they change nothing and exit with 64.
`publish` asks nothing: it sends exactly the messages that its arguments name.

`verify`, `doctor` and `effect check` exit with 2 if they find something wrong; `plan` and `status` with `--check`, and `check` with `--deny-warnings`, do as well.
An error in a file is exit code 78, for every command that reads the file.
";

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn name(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let values: Vec<&str> = values.iter().map(clap::builder::Str::as_str).collect();
    let value = if argument.get_action().takes_values() { values.join(" ") } else { String::new() };
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}, "));
    let flag = short.unwrap_or_default() + &long.unwrap_or_default();
    [flag, value].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn means(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    if !values.is_empty() && argument.get_action().takes_values() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        write!(text, ": {}", values.join(", ")).unwrap();
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, " [default: {}]", defaults[0].to_string_lossy()).unwrap();
    }
    text
}

fn options(out: &mut String, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    out.push_str("\n| option | means |\n|---|---|\n");
    for argument in arguments {
        writeln!(out, "| `{}` | {} |", cell(&name(argument)), cell(&means(argument))).unwrap();
    }
}

/// The leaves, each with the words that call it.
fn leaves(path: &str, command: &Command) -> Vec<(String, Command)> {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    let subcommands = command.get_subcommands().filter(|it| it.get_name() != "help");
    let inner: Vec<_> = subcommands.flat_map(|inner| leaves(&path, inner)).collect();
    if inner.is_empty() { vec![(path, command.clone())] } else { inner }
}

fn page() -> String {
    let program = command();
    let leaves = leaves("", &program);
    let mut page = HEAD.to_owned();
    page.push_str("\n| command | does |\n|---|---|\n");
    for (path, command) in &leaves {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let anchor = path.replace(' ', "-");
        writeln!(page, "| [`{path}`](#{anchor}) | {} |", cell(&about)).unwrap();
    }
    page.push_str("\n## Exit codes\n\n| code | means |\n|---|---|\n");
    for (code, means) in exit_codes() {
        writeln!(page, "| {code} | {means} |").unwrap();
    }
    page.push_str("\n## Every command\n");
    let global: Vec<&Arg> = program.get_arguments().filter(|it| it.is_global_set()).collect();
    options(&mut page, &global);
    for (path, command) in &leaves {
        writeln!(page, "\n## {path}").unwrap();
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        if let Some(about) = about {
            let (first, more) = about.split_once("\n\n").unwrap_or((&about, ""));
            writeln!(page, "\n{first}.").unwrap();
            more.lines().for_each(|line| writeln!(page, "{line}").unwrap());
        }
        let own = command.get_arguments().filter(|it| !it.is_global_set() && !it.is_hide_set());
        options(&mut page, &own.collect::<Vec<_>>());
    }
    page
}

#[test]
fn the_page_of_commands_is_what_the_program_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    let page = page();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|it| it == "always") {
        std::fs::write(path, &page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "docs/commands.md is old: INSTA_UPDATE=always makes it new");
}
