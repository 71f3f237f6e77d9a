//! Runs the blocks of code of a page, one after the other.

use crate::support::{WorkerProcess, World, until};

/// Reads a file of the repository.
pub(super) fn read(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Language and text of each block of code of a page.
pub(super) fn blocks(page: &str) -> Vec<(String, String)> {
    let page = read(page);
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| block.split_once('\n').unwrap());
    blocks.map(|(language, text)| (language.to_owned(), text.to_owned())).collect()
}

/// Name and content of the file that a block is, if its first line names one.
pub(super) fn file_of(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    Some((first.trim_start_matches(['-', '#', ' ']).strip_prefix("file: ")?, rest))
}

/// Runs commands as a user who answers yes; returns their output. `overdue run` becomes the worker.
pub(super) async fn run_commands(
    world: &World,
    text: &str,
    worker: &mut Option<WorkerProcess>,
) -> String {
    let mut printed = String::new();
    for line in text.replace("\\\n", " ").lines() {
        let command = line.split(" #").next().unwrap();
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["make", target] => {
                assert!(read("Makefile").contains(&format!("\n{target}:")), "{line}");
            }
            ["overdue", "run"] => *worker = Some(world.started(|_| {}).await),
            ["overdue", ..] => {
                let yes: &[&str] = if words[1] == "database" { &["--yes"] } else { &[] };
                let run = world.overdue(&[&words[1..], yes].concat()).exits(0);
                assert!(!run.stdout.contains("warning"), "{line}\n{run}");
                printed += &run.stdout;
            }
            _ => panic!("a command that nobody runs: {line}"),
        }
    }
    printed
}

/// Runs a statement, with the test's schema and role instead of the page's. If the statement shows its result, waits for that result.
/// Returns whether it did.
pub(super) async fn run_statement(world: &World, text: &str) -> bool {
    let here = text
        .replace("overdue.", &format!("{}.", world.schema))
        .replace("SCHEMA overdue", &format!("SCHEMA {}", world.schema))
        .replace("TO shop", &format!("TO {}", world.schema));
    let Some((expected, query)) =
        here.strip_prefix("-- gives: ").and_then(|text| text.split_once('\n'))
    else {
        world.sql(&here).await;
        return false;
    };
    let answer = async || {
        let rows = world.rows(query).await;
        rows.first().and_then(|row| row.get::<_, Option<String>>(0))
    };
    until(query, answer, |seen| seen.as_deref() == Some(expected)).await;
    true
}

/// Runs a page of topology files, commands and their output; returns the number of outputs.
async fn run_page(world: &World, page: &str) -> usize {
    let (mut printed, mut shown) = (String::new(), 0);
    for (language, text) in blocks(page) {
        match language.as_str() {
            "toml" => {
                let (name, content) = file_of(&text).unwrap();
                std::fs::write(world.dir.path().join(name), content).unwrap();
            }
            "sh" => printed = run_commands(world, &text, &mut None).await,
            "text" => {
                assert!(printed.contains(&text), "{text}\n{printed}");
                shown += 1;
            }
            other => panic!("a block that nobody runs: {other}"),
        }
    }
    shown
}

/// docs/several-shops.md: the messages of one shop are not in the levels of the other.
#[apply(world_test)]
async fn several_shops_are_beside_each_other_as_the_page_says() {
    let world = World::empty().await;
    assert_eq!(run_page(&world, "docs/several-shops.md").await, 1);
    let wire = world.wire().await;
    let waiting = [wire.ready("books.delay.30m").await, wire.ready("tickets.delay.10m").await];
    assert_eq!(waiting, [1, 1]);
}

/// docs/change-a-delay.md: waiting messages stay in the old level, and later ones wait in the new one.
#[apply(world_test)]
async fn a_delay_is_changed_as_the_page_says() {
    let (world, wire) = World::empty().await.wired().await;
    assert_eq!(run_page(&world, "docs/change-a-delay.md").await, 2);
    let waiting = [wire.ready("shop.delay.30m").await, wire.ready("shop.delay.45m").await];
    assert_eq!(waiting, [1, 1]);
}

/// docs/second-deadline.md: the reminder is due, the purchase is not.
#[apply(world_test)]
async fn a_row_has_two_deadlines_as_the_page_says() {
    let world = World::empty().await;
    std::fs::remove_file(world.topology_file()).unwrap();
    let (mut worker, mut gave) = (None, 0);
    for (language, text) in blocks("docs/second-deadline.md") {
        match file_of(&text) {
            Some(("tables.sql", tables)) => world.sql(tables).await,
            Some((name, content)) => std::fs::write(world.dir.path().join(name), content).unwrap(),
            None if language == "sh" => drop(run_commands(&world, &text, &mut worker).await),
            None => gave += usize::from(run_statement(&world, &text).await),
        }
    }
    assert_eq!(gave, 1);
    let worker = worker.expect("the page runs a worker");
    assert!(!worker.log().contains("ERROR"), "{}", worker.log());
}
