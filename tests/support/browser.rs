//! The page in a real browser, where the machine has one.

use std::{path::Path, process::Command};

use super::{
    process::{Run, finish},
    ui::UiProcess,
};

/// The path in Debian's package.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Runs a scenario of `tests/python/page.py`; `None` without a browser.
///
/// # Panics
/// There is no browser, and `OVERDUE_TEST_ALL` is 1.
#[expect(clippy::print_stderr, reason = "what a test leaves out")]
pub fn visit(ui: &UiProcess, scenario: &str) -> Option<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = root.join("target/browser/bin/python");
    if !interpreter.exists() || !Path::new(CHROMIUM).exists() {
        let all = std::env::var_os("OVERDUE_TEST_ALL").is_some_and(|all| all == "1");
        assert!(!all, "there is no {CHROMIUM}, or no {}", interpreter.display());
        eprintln!(
            "LEFT OUT: the page in a browser: there is no {CHROMIUM} with Playwright; `make test` installs it"
        );
        return None;
    }
    let mut command = Command::new(interpreter);
    command.arg(root.join("tests/python/page.py")).arg(scenario).arg(ui.link());
    command.arg(ui.process.id().to_string());
    Some(finish(command, None))
}
