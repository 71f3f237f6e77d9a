//! The documents are true: links have targets, and named tests exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below `folder` with one of these endings.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|end| endings.iter().any(|known| end == *known))
            {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

/// The pages at the root and in `docs`.
fn pages() -> Vec<PathBuf> {
    let top = fs::read_dir(root()).expect("the root").map(|entry| entry.expect("an entry").path());
    let top = top.filter(|path| path.extension().is_some_and(|end| end == "md"));
    top.chain(files("docs", &["md"])).chain(files("rabbitmq-plugins", &["md"])).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("UTF-8")
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

/// The words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_link_leads_to_a_file() {
    for page in pages() {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap_or_default();
            let path = page.parent().expect("a folder").join(file);
            assert!(path.exists(), "{}: nothing is at {target}", name(&page));
        }
    }
}

/// Translations change words, not code.
#[test]
fn the_chinese_pages_have_the_code_of_the_english_ones() {
    for (page, original) in [
        ("README.zh-CN.md", "README.md"),
        ("docs/zh-CN/your-own-tables.md", "docs/your-own-tables.md"),
        (
            "docs/zh-CN/leaving-the-delayed-message-plugin.md",
            "docs/leaving-the-delayed-message-plugin.md",
        ),
    ] {
        let page = read(&root().join(page));
        let original = read(&root().join(original));
        let code = |page: &str| -> Vec<String> {
            page.split("```").skip(1).step_by(2).map(str::to_owned).collect()
        };
        assert_eq!(code(&page), code(&original));
    }
}

/// Each page is in the contents of the site once.
#[test]
fn every_page_is_in_the_contents() {
    let contents = read(&root().join("docs/SUMMARY.md"));
    let listed = contents.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut listed: Vec<PathBuf> = listed
        .map(|target| root().join("docs").join(target).canonicalize().expect("a page"))
        .collect();
    listed.sort();
    let pages = files("docs", &["md"]).into_iter().filter(|page| !page.ends_with("SUMMARY.md"));
    let others = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "AGENTS.md",
        "README.zh-CN.md",
    ];
    let others = others.iter().chain(&[
        "examples/README.md",
        "examples/own-tables/partitioned/README.md",
        "rabbitmq-plugins/README.md",
        "benches/RESULTS.md",
    ]);
    let pages = pages.chain(others.map(|page| root().join(page)));
    let mut pages: Vec<PathBuf> = pages.map(|page| page.canonicalize().expect("a page")).collect();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn tests_that_a_decision_names_exist() {
    let code: String = files("tests", &["rs"]).iter().map(|file| read(file)).collect();
    let mut named = 0;
    for page in files("docs/adr", &["md"]) {
        let text = read(&page);
        for test in quoted(&text).filter(|word| word.matches('_').count() > 3) {
            assert!(
                code.contains(&format!("fn {test}()")),
                "{}: there is no test {test}",
                name(&page)
            );
            named += 1;
        }
    }
    assert!(named > 10, "only {named} tests are named");
}

/// The seconds that a line of code writes as a number: `from_mins(2)` has 120, `from_hours(24 * days)` has 86,400.
fn written_seconds(line: &str) -> impl Iterator<Item = f64> {
    const UNITS: [(&str, f64); 5] = [
        ("from_millis(", 0.001),
        ("from_secs(", 1.0),
        ("from_secs_f64(", 1.0),
        ("from_mins(", 60.0),
        ("from_hours(", 3_600.0),
    ];
    UNITS.into_iter().flat_map(move |(unit, seconds)| {
        let number = move |rest: &str| {
            let end = rest.find(|sign: char| !sign.is_ascii_digit() && !"_.".contains(sign))?;
            Some(rest[..end].replace('_', "").parse::<f64>().ok()? * seconds)
        };
        line.split(unit).skip(1).filter_map(number)
    })
}

/// A test waits at most `PATIENCE`, names the missing state, and has no other time.
#[test]
fn tests_on_services_write_no_time_above_two_seconds() {
    let mut found = Vec::new();
    for file in ["support", "it", "cli", "chaos"]
        .map(|tier| files(&format!("tests/{tier}"), &["rs"]))
        .concat()
    {
        let text = read(&file);
        let long =
            text.lines().enumerate().filter(|(_, line)| written_seconds(line).any(|it| it > 2.0));
        let long = long
            .filter(|(_, line)| !line.contains("// data: ") && !line.contains("const PATIENCE:"));
        found.extend(long.map(|(n, line)| format!("{}:{}: {}", name(&file), n + 1, line.trim())));
    }
    let advice = "wait for a state (`wait::until`, `wait::awaited`); what is no wait ends in `// data: ` and of what";
    assert!(found.is_empty(), "{advice}:\n{}", found.join("\n"));
    let seconds = |line| written_seconds(line).collect::<Vec<_>>();
    assert_eq!(seconds("(from_millis(2_500), Duration::from_mins(2), from_secs(n))"), [2.5, 120.0]);
}

#[test]
fn the_dependencies_in_contributing_are_those_of_the_manifest() {
    let manifest: toml::Table = read(&root().join("Cargo.toml")).parse().expect("TOML");
    let dependencies = manifest["dependencies"].as_table().expect("a table");
    let dependencies: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let page = read(&root().join("CONTRIBUTING.md"));
    let (_, table) = page.split_once("| crate | for |\n|---|---|\n").expect("a table of crates");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    // `lapin 4`: the version is ignored here.
    let names =
        cells.flat_map(|cell| cell.split(',')).filter_map(|name| name.split_whitespace().next());
    assert_eq!(names.collect::<BTreeSet<_>>(), dependencies);
}

#[test]
fn the_glossary_has_at_most_fifteen_words() {
    let text = read(&root().join("CONTRIBUTING.md"));
    let (_, table) = text.split_once("| word | is |\n|---|---|\n").expect("a glossary");
    let words = table.lines().take_while(|line| line.starts_with('|')).count();
    assert!((1..=15).contains(&words), "{words} words");
}

/// PostgreSQL prefers a function in `public`, of any user, if it fits the argument types better. `tests/it/search_path.rs` tries each
/// statement; this test covers SQL that users copy as well.
#[test]
fn no_sql_leaves_types_to_a_conversion() {
    let inexact = [
        r"::bigint \* interval",
        r"extract\(.*\) \* 1000(000)?\b[^.]",
        // Several arrays are PostgreSQL's own syntax.
        r"[^.\w]unnest\([^,]*\)",
        r"[^.\w](cardinality|array_agg|percentile_disc)\(",
        r"hashtextextended\(.*, 0\)",
        r"octet_length\(\w+\) \|\|",
        r"format\('\(",
    ];
    let inexact = inexact.map(|it| fancy_regex::Regex::new(it).expect("an expression"));
    let mut found = Vec::new();
    for path in
        ["sql", "examples", "docs", "src"].iter().flat_map(|it| files(it, &["sql", "md", "rs"]))
    {
        let text = read(&path);
        let wrong = |line: &&str| inexact.iter().any(|it| it.is_match(line).expect("a match"));
        found.extend(text.lines().filter(wrong).map(|line| format!("{}: {line}", name(&path))));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
