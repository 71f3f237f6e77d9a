//! Completions and manual pages: what a package installs beside the program.

use std::{fs, process::Command};

use crate::support::{Folder, Run, process::finish};

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("LEFT OUT: {program} is not installed");
    }
    there
}

fn script(shell: &str) -> String {
    let run = Folder::with(&[]).run(&["completions", shell], &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    run.stdout
}

/// Runs a shell on a file with `text`.
fn run(shell: &str, text: &str) -> Option<Run> {
    if !is_there(shell) {
        return None;
    }
    let folder = Folder::with(&[("script", text)]);
    let mut command = Command::new(shell);
    command.arg(folder.path("script"));
    let run = finish(command, None);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{shell}: {run}");
    Some(run)
}

/// It is loaded and asked as a shell does when somebody presses Tab.
#[test]
fn bash_completes_commands_and_flags() {
    let ask = r#"
complete_line() {
  COMP_WORDS=(overdue "$@"); COMP_CWORD=$#; COMPREPLY=()
  _overdue overdue "${@: -1}" "${@: -2:1}"
  echo "${COMPREPLY[@]}"
}
complete_line par
complete_line parked re
complete_line alert test --out
complete -p overdue
"#;
    let Some(run) = run("bash", &(script("bash") + ask)) else { return };
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..3], ["parked", "replay", "--output"], "{run}");
    assert!(lines[3].contains("-F _overdue"), "{run}");
}

#[test]
fn zsh_and_fish_can_load_theirs() {
    let zsh = "autoload -U compinit; compinit -D -u\n".to_owned() + &script("zsh");
    run("zsh", &(zsh + "\nwhence -w _overdue"));
    let ask = "\ncomplete -C 'overdue par'\n";
    if let Some(run) = run("fish", &(script("fish") + ask)) {
        assert!(run.stdout.starts_with("parked\t"), "{run}");
    }
}

#[test]
fn there_is_a_manual_page_for_each_command_that_can_be_shown() {
    let folder = Folder::with(&[]);
    let run = folder.run(&["man", "share/man/man1"], &[]);
    assert_eq!(run.code, Some(0), "{run}");
    let pages = fs::read_dir(folder.path("share/man/man1")).unwrap();
    let mut pages: Vec<_> = pages.map(|page| page.unwrap().path()).collect();
    pages.sort();
    let names: Vec<String> =
        pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    for name in ["overdue.1", "overdue-run.1", "overdue-parked-replay.1", "overdue-alert-test.1"] {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
    let help = folder.run(&["--help"], &[]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    // Continued lines are indented further.
    let begins = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let commands = commands.lines().take_while(|line| !line.is_empty()).filter(begins);
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        let page = format!("overdue-{command}.1");
        assert!(command == "help" || names.contains(&page), "there is no {page}: {names:?}");
    }
    if is_there("man") {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(folder.path("share/man/man1/overdue-run.1"));
        let shown = finish(man, None);
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{shown}");
    }
    if is_there("mandoc") {
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-Tlint", "-Werror"]).args(&pages);
        let lint = finish(mandoc, None);
        assert_eq!(lint.code, Some(0), "{lint}");
    }
    let taken = Folder::with(&[("file", "")]).run(&["man", "file"], &[]);
    assert_eq!(taken.code, Some(1), "{taken}");
    assert!(taken.stderr.contains("cannot write manual pages to file"), "{taken}");
}
