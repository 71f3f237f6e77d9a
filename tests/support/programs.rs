//! Programs in other languages, if the machine has their packages.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Run, process, python};

/// Installed by Debian's packages `librabbitmq-client-java` and `libpostgresql-jdbc-java`.
const JARS: &str = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar:/usr/share/java/postgresql.jar";
/// Installed by `golang-github-rabbitmq-amqp091-go-dev` and `golang-github-lib-pq-dev`.
const GO_SOURCES: &str = "/usr/share/gocode";
/// Installed by `php-amqplib`.
const PHP_SOURCES: &str = "/usr/share/php";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the program is installed and wanted: its start takes seconds, and its results seldom change.
fn is_there(program: &str) -> bool {
    let asked = std::env::var_os("OVERDUE_TEST_ALL").is_some_and(|all| all == "1");
    asked && Command::new(program).arg("--help").output().is_ok()
}

/// Reports that a language is left out.
#[expect(clippy::print_stderr, reason = "what a test leaves out")]
fn left_out<T>(language: &str, needs: &str) -> Option<T> {
    eprintln!(
        "LEFT OUT: {language}: not asked for, or there is no {needs}; `OVERDUE_TEST_ALL=1 make test` installs it"
    );
    None
}

/// Returns the command that runs a source file, without its arguments; the extension is the language.
///
/// # Panics
/// The extension is unknown.
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

/// Runs a compiler that leaves up-to-date files unchanged.
fn compiled(mut compiler: Command) {
    let done = compiler.output().unwrap();
    assert!(done.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a script with `node` and the packages of `target/node`.
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

/// Folder of the compiled files: in `target` for an example, next to the source for a file of a test.
fn folder_of(source: &Path, folder: &str) -> PathBuf {
    let parent = source.parent().expect("a folder");
    if parent.starts_with(root().join("examples")) {
        return root().join("target").join(folder);
    }
    parent.to_owned()
}

/// Compiles only if the class is older than the source: `java` on a source compiles each time.
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
    // The process lives for a second: optimisation would cost more than it gains.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    command.arg(format!("{}:{JARS}", classes.display())).arg(name);
    Some(command)
}

/// Compiled packages are cached in `target/go`.
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
    // A package without a module needs each of its files named.
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

/// The compiled example of this crate, in the folder of the program; nextest and `cargo build --examples` compile it.
fn example(source: &Path) -> PathBuf {
    let name = source.file_stem().expect("a file");
    let compiled = Path::new(env!("CARGO_BIN_EXE_overdue")).with_file_name("examples").join(name);
    assert!(compiled.exists(), "no {}: `cargo build --examples` makes it", compiled.display());
    compiled
}
