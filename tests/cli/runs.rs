//! A table of command-line runs: each command with its output.

use std::fmt::{self, Display, Write};

use crate::support::{Folder, Run, World, process::finish};

/// The output of each run below its command; no run shows the password `s3cret`.
#[derive(Default)]
pub(crate) struct Runs(String);

impl Runs {
    /// Runs `overdue` in a folder with these files.
    pub(crate) fn on(
        &mut self,
        files: &[(&str, &str)],
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Run {
        let folder = Folder::with(files);
        let mut command = folder.command(arguments);
        command.envs(environment.iter().copied());
        if arguments == ["run"] {
            // Leaves out a worker's first log line, which has the time.
            command.env("OVERDUE_LOG__FILTER", "warn");
        }
        let run = finish(command, None);
        let path = folder.path("").display().to_string();
        let shown = run.to_string().replace(&path, "<folder>/");
        self.add(arguments, environment, &shown);
        run
    }

    /// Runs `overdue` on the services of a world.
    pub(crate) fn at(
        &mut self,
        world: &World,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Run {
        let run = world.overdue_with(arguments, environment);
        self.add(arguments, environment, &world.shown(&run));
        run
    }

    fn add(&mut self, arguments: &[&str], environment: &[(&str, &str)], shown: &str) {
        assert!(!shown.contains("s3cret"), "{shown}");
        let names = environment.iter().map(|(name, _)| format!("{name}=…"));
        let typed = names.chain(["overdue".to_owned()]).collect::<Vec<_>>().join(" ");
        writeln!(self.0, "$ {typed} {}\n{shown}\n", arguments.join(" ")).unwrap();
    }

    /// Adds a heading between runs.
    pub(crate) fn heading(&mut self, text: &str) {
        writeln!(self.0, "# {text}\n").unwrap();
    }
}

impl Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
