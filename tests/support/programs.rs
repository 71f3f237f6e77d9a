//! Programs in other languages, where the machine has what they need.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Run, process};

/// What Debian's packages `librabbitmq-client-java` and `golang-github-rabbitmq-amqp091-go-dev` install.
const JARS: &str =
    "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar";
const GO_SOURCES: &str = "/usr/share/gocode";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether it is to be used: it takes seconds to start, and what it shows seldom changes.
fn is_there(program: &str) -> bool {
    let asked = std::env::var_os("OVERDUE_TEST_ALL").is_some_and(|all| all == "1");
    asked && Command::new(program).arg("--help").output().is_ok()
}

/// Says loudly that a language is left out.
#[expect(clippy::print_stderr, reason = "what a test leaves out")]
fn left_out<T>(language: &str, needs: &str) -> Option<T> {
    eprintln!(
        "LEFT OUT: {language}: not asked for, or there is no {needs}; `OVERDUE_TEST_ALL=1 make test` installs it"
    );
    None
}

/// `node` on a script, with the packages of `target/node`.
pub fn node(script: &str, arguments: &[&str], input: &str) -> Option<Run> {
    let packages = root().join("target/node/node_modules");
    if !is_there("node") || !packages.join("amqplib").exists() {
        return left_out("JavaScript", "node with amqplib in target/node");
    }
    let mut command = Command::new("node");
    command.arg(root().join(script)).args(arguments).env("NODE_PATH", packages);
    Some(process::finish(command, Some(input.as_bytes())))
}

/// `java` on a source file.
pub fn java(source: &str, arguments: &[&str]) -> Option<Run> {
    if !is_there("javac") || !Path::new("/usr/share/java/amqp-client.jar").exists() {
        return left_out("Java", "JDK with librabbitmq-client-java");
    }
    let mut command = Command::new("java");
    command.args(["-cp", JARS]).arg(root().join(source)).args(arguments);
    Some(process::finish(command, None))
}

/// The class of a test beside the one of an example, compiled into `folder`.
pub fn java_with(example: &str, test: &str, folder: &Path, input: &str) -> Option<Run> {
    if !is_there("javac") || !Path::new("/usr/share/java/amqp-client.jar").exists() {
        return left_out("Java", "JDK with librabbitmq-client-java");
    }
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", JARS, "-d"]).arg(folder).args([root().join(example), root().join(test)]);
    let done = process::finish(compiler, None);
    assert_eq!(done.code, Some(0), "{done}");
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{}:{JARS}", folder.display()));
    command.arg(Path::new(test).file_stem().expect("a file"));
    Some(process::finish(command, Some(input.as_bytes())))
}

/// `go run` on a source file.
pub fn go(source: &str, arguments: &[&str]) -> Option<Run> {
    let mut command = go_command("run")?;
    command.arg(root().join(source)).args(arguments);
    Some(process::finish(command, None))
}

/// `go test -v` on a source file and the one with its tests, which read the file that `VECTORS` names.
pub fn go_test(sources: [&str; 2], vectors: &Path) -> Option<Run> {
    let mut command = go_command("test")?;
    command.args(["-v", "-count=1"]).args(sources.map(|source| root().join(source)));
    command.env("VECTORS", vectors);
    Some(process::finish(command, None))
}

/// What it compiles is kept in `target/go`.
fn go_command(verb: &str) -> Option<Command> {
    let client: PathBuf = [GO_SOURCES, "src/github.com/rabbitmq/amqp091-go"].iter().collect();
    if !is_there("go") || !client.exists() {
        return left_out("Go", "Go with golang-github-rabbitmq-amqp091-go-dev");
    }
    let mut command = Command::new("go");
    command.arg(verb).env("GO111MODULE", "off").env("GOPATH", GO_SOURCES);
    command.env("GOFLAGS", "").env("GOCACHE", root().join("target/go"));
    Some(command)
}
