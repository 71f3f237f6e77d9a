//! Programs in other languages, where the machine has what they need.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Run, process, python};

/// What Debian's packages `librabbitmq-client-java` and `libpostgresql-jdbc-java` install.
const JARS: &str = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar:/usr/share/java/postgresql.jar";
/// And `golang-github-rabbitmq-amqp091-go-dev`, `golang-github-lib-pq-dev`.
const GO_SOURCES: &str = "/usr/share/gocode";
/// And `php-amqplib`.
const PHP_SOURCES: &str = "/usr/share/php";

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

/// The command that runs a source file, without its arguments; what it is written in says the end of its name.
///
/// # Panics
/// Nobody knows how to run it.
pub fn program(source: &Path) -> Option<Command> {
    let language = source.extension().and_then(|end| end.to_str());
    let mut command = match language.expect("a source file") {
        "py" => {
            let mut command = Command::new(python::interpreter());
            command.env("PYTHONUNBUFFERED", "1");
            command
        }
        "js" => node_command()?,
        "java" => return java_command(source),
        "go" => return go_command(source),
        "php" => php_command()?,
        "rs" => return Some(Command::new(example(source))),
        other => panic!("nobody runs {other}"),
    };
    command.arg(source);
    Some(command)
}

/// Runs a compiler, which leaves what is up to date as it is.
fn compiled(mut compiler: Command) {
    let done = compiler.output().unwrap();
    assert!(done.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// `node` on a script, with the packages of `target/node`.
pub fn node(script: &str, arguments: &[&str], input: &str) -> Option<Run> {
    let mut command = program(&root().join(script))?;
    command.args(arguments);
    Some(process::finish(command, Some(input.as_bytes())))
}

fn node_command() -> Option<Command> {
    let packages = root().join("target/node/node_modules");
    if !is_there("node") || !packages.join("pg").exists() {
        return left_out("JavaScript", "node with amqplib and pg in target/node");
    }
    let mut command = Command::new("node");
    command.env("NODE_PATH", packages);
    Some(command)
}

/// Where what is compiled of a source stays: in a folder of `target`, or beside one that a test has written.
fn folder_of(source: &Path, folder: &str) -> PathBuf {
    let parent = source.parent().expect("a folder");
    if parent.starts_with(root().join("examples")) {
        return root().join("target").join(folder);
    }
    parent.to_owned()
}

/// A class that is older than its source is compiled: `java` on a source does so each time.
fn java_command(source: &Path) -> Option<Command> {
    if !is_there("javac") || !JARS.split(':').all(|jar| Path::new(jar).exists()) {
        return left_out("Java", "JDK with librabbitmq-client-java and libpostgresql-jdbc-java");
    }
    let (classes, name) = (folder_of(source, "java"), source.file_stem().expect("a file"));
    let class = classes.join(name).with_extension("class");
    let changed = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    if changed(&class) <= changed(source) {
        let mut compiler = Command::new("javac");
        compiler.args(["-cp", JARS, "-d"]).arg(&classes).arg(source);
        compiled(compiler);
    }
    let mut command = Command::new("java");
    // It lives for a second: what makes it faster later takes longer.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    command.arg(format!("{}:{JARS}", classes.display())).arg(name);
    Some(command)
}

/// What its packages compile to is kept in `target/go`.
fn go_command(source: &Path) -> Option<Command> {
    let is_installed =
        |package| PathBuf::from_iter([GO_SOURCES, "src/github.com", package]).exists();
    if !is_there("go") || !["rabbitmq/amqp091-go", "lib/pq"].into_iter().all(is_installed) {
        return left_out(
            "Go",
            "Go with golang-github-rabbitmq-amqp091-go-dev and golang-github-lib-pq-dev",
        );
    }
    let program = folder_of(source, "go-programs").join(source.file_stem().expect("a file"));
    let mut compiler = Command::new("go");
    compiler.env("GO111MODULE", "off").env("GOPATH", GO_SOURCES);
    compiler.env("GOFLAGS", "").env("GOCACHE", root().join("target/go"));
    // A package without a module: each of its files is named.
    compiler.args(["build", "-o"]).arg(&program).arg(source).args(others_beside(source));
    compiled(compiler);
    Some(Command::new(program))
}

fn others_beside(source: &Path) -> Vec<PathBuf> {
    let files = source.parent().expect("a folder").read_dir().unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.filter(|file| file != source && file.extension() == source.extension()).collect()
}

fn php_command() -> Option<Command> {
    let is_installed = |file| Path::new(PHP_SOURCES).join(file).exists();
    if !is_there("php") || !is_installed("PhpAmqpLib/autoload.php") {
        return left_out("PHP", "php-cli with php-amqplib and php-pgsql");
    }
    let mut command = Command::new("php");
    let ours = root().join("tests/php");
    command.arg("-d").arg(format!("include_path={}:{PHP_SOURCES}", ours.display()));
    Some(command)
}

/// An example of this crate, compiled beside the program: all of nextest's targets are, or `cargo build --examples`.
fn example(source: &Path) -> PathBuf {
    let name = source.file_stem().expect("a file");
    let compiled = Path::new(env!("CARGO_BIN_EXE_overdue")).with_file_name("examples").join(name);
    assert!(compiled.exists(), "no {}: `cargo build --examples` makes it", compiled.display());
    compiled
}
