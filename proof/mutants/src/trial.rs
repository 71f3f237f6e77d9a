//! Which tests reach a mutant, and whether one of them fails with it.

use std::{
    collections::HashMap,
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Of a test without a mutant; a mutant may be slower by so much.
const LEAST_LIMIT: Duration = Duration::from_secs(10);
const SLOWER: u32 = 10;
/// Tests that one process runs: the fast ones come first, and mostly one of them notices.
const TOGETHER: usize = 60;

pub(crate) struct Tests {
    program: PathBuf,
    at: PathBuf,
    took: HashMap<String, Duration>,
    /// Of each mutant, the tests that reach it: the fastest first.
    reach: HashMap<u32, Vec<String>>,
}

impl Tests {
    /// Runs each test once, without a mutant.
    pub(crate) fn record(program: PathBuf, at: PathBuf, left_out: &str) -> Self {
        let mut tests = Self { program, at, took: HashMap::new(), reach: HashMap::new() };
        let listed = tests.command().arg("--list").output().expect("the tests run").stdout;
        let names: Vec<String> = String::from_utf8_lossy(&listed)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .filter(|name| !name.starts_with(left_out))
            .map(str::to_owned)
            .collect();
        let recorded = side_by_side(&names, |name| tests.reached_by(name));
        for (name, (took, _)) in names.iter().zip(&recorded) {
            tests.took.insert(name.clone(), *took);
        }
        for (name, (_, reached)) in names.iter().zip(&recorded) {
            for mutant in reached {
                tests.reach.entry(*mutant).or_default().push(name.clone());
            }
        }
        for names in tests.reach.values_mut() {
            names.sort_by_key(|name| tests.took[name]);
        }
        tests
    }

    /// Of each of `mutants`, whether a test fails with it, or comes to no end.
    pub(crate) fn notice(&self, mutants: &[u32]) -> Vec<bool> {
        side_by_side(mutants, |mutant| {
            self.reach
                .get(mutant)
                .is_some_and(|names| names.chunks(TOGETHER).any(|names| !self.pass(*mutant, names)))
        })
    }

    fn pass(&self, mutant: u32, names: &[String]) -> bool {
        let took: Duration = names.iter().map(|name| self.took[name]).sum();
        let limit = LEAST_LIMIT + took * SLOWER;
        let mut command = Command::new("timeout");
        command.arg(limit.as_secs().to_string()).arg(&self.program);
        // A process that stops at the first failure is what only those may ask for who may use what is unstable.
        command
            .args(["--test-threads=1", "-Z", "unstable-options", "--fail-fast", "--exact"])
            .args(names);
        self.surroundings(&mut command).env("MUTANT", mutant.to_string());
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("the tests run")
            .success()
    }

    fn reached_by(&self, name: &str) -> (Duration, Vec<u32>) {
        let path = env::temp_dir().join(format!(
            "reached-{}-{}",
            std::process::id(),
            name.replace("::", "-")
        ));
        let began = Instant::now();
        let output = self
            .command()
            .args(["--exact", name])
            .env("REACHED", &path)
            .output()
            .expect("the tests run");
        let took = began.elapsed();
        assert!(
            output.status.success(),
            "{name} fails without a mutant: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        // There is no file where none is reached.
        let reached = fs::read_to_string(&path).unwrap_or_default();
        _ = fs::remove_file(path);
        (took, reached.lines().map(|id| id.parse().expect("a number")).collect())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.surroundings(&mut command);
        command
    }

    /// The same examples each time, and few of them.
    fn surroundings<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(&self.at).env("RUSTC_BOOTSTRAP", "1").env("INSTA_UPDATE", "no");
        command.env("PROPTEST_CASES", "8").env("PROPTEST_RNG_SEED", "1")
    }
}

/// `one` of each, on all cores; the results are in the order of `all`.
fn side_by_side<T: Sync, R: Send>(all: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(it) = all.get(at)
                {
                    let result = one(it);
                    results.lock().unwrap().push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
