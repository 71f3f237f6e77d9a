//! What a person reads about a bad `topology.toml`: the place, the offending text, and the way out.

use overdue::internals::{
    diagnostic::{Diagnostic, Subject},
    topology::{Topology, report},
};

/// A file that passes every check. Each case below breaks one line of it.
const GOOD: &str = r#"name = "orders"

[delay]
strategy = "levels"
levels = ["1m", "30m"]

[queues]
type = "quorum"
delivery_limit = 20

[[timeout]]
name = "unpaid"
after = "30m"
after_by_category = { virtual = "1m" }

[retry]
after = ["1m"]
"#;

fn report_on(text: &str) -> (usize, String) {
    match Topology::parse(text) {
        Ok(_) => panic!("nothing is wrong with:\n{text}"),
        Err(findings) => (findings.len(), report::render("topology.toml", text, &findings)),
    }
}

fn edited(old: &str, new: &str) -> String {
    assert_eq!(GOOD.matches(old).count(), 1, "the edit is to hit exactly one place: {old}");
    GOOD.replace(old, new)
}

/// `case: "old" => "new", line, "offending text"`: one finding, in that line, with that text in it.
macro_rules! bad_files {
    ($($case:ident: $old:expr => $new:expr, $line:literal, $offending:expr;)*) => {
        $(#[test]
        fn $case() {
            let (findings, report) = report_on(&edited($old, $new));
            assert_eq!(findings, 1, "{report}");
            let place = format!("--> topology.toml:{}:", $line);
            assert!(report.contains(&place), "no `{place}` in\n{report}");
            assert!(report.contains($offending), "no `{}` in\n{report}", $offending);
        })*

        /// All of them on one page, as a person reads them.
        #[test]
        fn every_report() {
            let reports = [$((stringify!($case), report_on(&edited($old, $new)).1)),*];
            let page: Vec<String> =
                reports.iter().map(|(case, report)| format!("# {case}\n\n{report}\n")).collect();
            insta::assert_snapshot!(page.join("\n"));
        }
    };
}

bad_files! {
    toml_without_closing_quote: "name = \"orders\"" => "name = \"orders", 1, "name = \"orders";
    toml_with_a_key_twice: "type = \"quorum\"" => "type = \"quorum\"\ntype = \"classic\"", 9, "type";
    toml_with_a_wrong_type: "delivery_limit = 20" => "delivery_limit = \"20\"", 9, "\"20\"";
    toml_with_a_level_without_quotes: "after = \"30m\"" => "after = 30m", 13, "quotes";
    toml_with_a_list_that_is_not_closed: "\"30m\"]" => "\"30m\"", 5, "the list is not closed";
    toml_with_a_header_that_is_not_closed: "[queues]" => "[queues", 7, "the header of the table";
    toml_with_a_colon: "name = \"orders\"" => "name: \"orders\"", 1, "`=`";
    toml_with_a_backslash: "\"orders\"" => "\"or\\ders\"", 1, "backslash";
    timeout_with_one_bracket: "[[timeout]]" => "[timeout]", 11, "`timeout` is a table: write `[[timeout]]`";
    delay_with_two_brackets: "[delay]" => "[[delay]]", 3, "`delay` is a list of tables: write `[delay]`";
    levels_are_text: "[\"1m\", \"30m\"]" => "\"30m\"", 5, "has to be a list";
    level_is_a_number: "\"1m\", \"30m\"" => "\"1m\", 5, \"30m\"", 5, "the number 5";
    name_is_a_number: "\"orders\"" => "7", 1, "the number 7";
    name_is_a_list: "\"orders\"" => "[\"orders\"]", 1, "a list";
    after_is_a_date: "after = \"30m\"" => "after = 2026-01-01", 13, "a date or a time";
    type_is_true: "type = \"quorum\"" => "type = true", 8, "`true`";
    categories_are_text: "{ virtual = \"1m\" }" => "\"1m\"", 14, "has to be a table";
    category_is_a_number: "virtual = \"1m\"" => "virtual = 60", 14, "after_by_category.virtual";
    delivery_limit_with_a_fraction: "delivery_limit = 20" => "delivery_limit = 2.5", 9, "the number 2.5";
    delivery_limit_over_every_number: "delivery_limit = 20" => "delivery_limit = 99999999999999999999", 9, "too large";
    unknown_section_that_is_misspelt: "[queues]" => "[queue]", 7, "did you mean `queues`?";
    unknown_key_of_another_section: "after = \"30m\"" => "after = \"30m\"\nlevels = [\"1m\"]", 14, "it belongs below [delay]";
    unknown_queue_type_that_is_misspelt: "type = \"quorum\"" => "type = \"quorom\"", 8, "did you mean `quorum`?";
    unknown_key_at_the_top: "[delay]" => "colour = \"red\"\n\n[delay]", 3, "`colour`";
    unknown_key_in_delay: "strategy = \"levels\"" => "strategie = \"levels\"", 4, "`strategie`";
    unknown_key_in_queues: "type = \"quorum\"" => "kind = \"quorum\"", 8, "`kind`";
    unknown_key_in_a_timeout: "after = \"30m\"" => "after = \"30m\"\nefect = \"close\"", 14, "`efect`";
    unknown_key_in_retry: "after = [\"1m\"]" => "afters = [\"1m\"]", 17, "`afters`";
    unknown_strategy: "strategy = \"levels\"" => "strategy = \"plugin\"", 4, "`plugin`";
    unknown_queue_type: "type = \"quorum\"" => "type = \"mirrored\"", 8, "`mirrored`";
    missing_name: "name = \"orders\"" => "", 1, "`name`";
    missing_delay: "[delay]\nstrategy = \"levels\"\nlevels = [\"1m\", \"30m\"]" => "", 1, "[delay] is missing";
    missing_levels: "levels = [\"1m\", \"30m\"]" => "", 3, "levels = [";
    missing_name_of_a_timeout: "name = \"unpaid\"" => "", 11, "`name`";
    missing_after_of_a_timeout: "after = \"30m\"" => "", 11, "`after`";
    level_twice_in_other_units: "\"1m\", \"30m\"" => "\"60s\", \"1m\", \"30m\"", 5, "`60s`";
    level_twice: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"30m\"", 5, "`30m`";
    levels_unsorted: "\"1m\", \"30m\"" => "\"30m\", \"1m\"", 5, "`1m`";
    level_of_nothing: "\"1m\", \"30m\"" => "\"0s\", \"1m\", \"30m\"", 5, "`0s`";
    level_over_ten_years: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"3651d\"", 5, "`3651d`";
    level_over_every_number: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"99999999999999999999d\"", 5, "`99999999999999999999d`";
    level_over_every_product: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"18446744073709551615d\"", 5, "`18446744073709551615d`";
    level_with_a_space: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"60 m\"", 5, "`60 m`";
    level_below_zero: "\"1m\", \"30m\"" => "\"-1s\", \"1m\", \"30m\"", 5, "`-1s`";
    level_with_a_fraction: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"1.5h\"", 5, "`1.5h`";
    level_with_leading_zeros: "\"1m\", \"30m\"" => "\"007s\", \"1m\", \"30m\"", 5, "`007s`";
    level_without_a_unit: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"60\"", 5, "`60`";
    level_without_a_number: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"m\"", 5, "`m`";
    level_without_anything: "\"1m\", \"30m\"" => "\"1m\", \"30m\", \"\"", 5, "``";
    after_is_no_level: "after = \"30m\"" => "after = \"31m\"", 13, "`31m`";
    after_is_a_level_in_other_units: "after = \"30m\"" => "after = \"1800s\"", 13, "`1800s`";
    category_is_no_level: "virtual = \"1m\"" => "virtual = \"2m\"", 14, "after_by_category.virtual";
    retry_is_no_level: "after = [\"1m\"]" => "after = [\"1m\", \"3m\"]", 17, "retry.after is `3m`";
    topology_name_of_the_broker: "\"orders\"" => "\"amq.orders\"", 1, "`amq.orders`";
    topology_name_is_amq: "\"orders\"" => "\"amq\"", 1, "`amq`";
    topology_name_empty: "\"orders\"" => "\"\"", 1, "name = \"\"";
    topology_name_with_a_space: "\"orders\"" => "\"our orders\"", 1, "`our orders`";
    topology_name_beyond_ascii: "\"orders\"" => "\"bestellungen-für-alle\"", 1, "`bestellungen-für-alle`";
    topology_name_ends_in_a_dot: "\"orders\"" => "\"orders.\"", 1, "`orders.`";
    topology_name_begins_with_a_dot: "\"orders\"" => "\".orders\"", 1, "`.orders`";
    topology_name_too_long: "\"orders\"" => &format!("\"{}\"", "o".repeat(192)), 1, "192 bytes";
    timeout_name_with_a_dot: "\"unpaid\"" => "\"un.paid\"", 12, "`un.paid`";
    timeout_name_empty: "\"unpaid\"" => "\"\"", 12, "name = \"\"";
    timeout_name_too_long: "\"unpaid\"" => &format!("\"{}\"", "u".repeat(64)), 12, "64 bytes";
    timeout_name_twice: "[retry]" => "[[timeout]]\nname = \"unpaid\"\nafter = \"1m\"\n\n[retry]", 17, "`orders.unpaid`";
    timeout_name_of_the_parking_lot: "\"unpaid\"" => "\"parked\"", 12, "`orders.parked`";
    no_timeout: "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\nafter_by_category = { virtual = \"1m\" }" => "", 1, "no timeout";
    effect_empty: "after = \"30m\"" => "after = \"30m\"\neffect = \"\"", 14, "effect = \"\"";
    effect_of_blanks: "after = \"30m\"" => "after = \"30m\"\neffect = \" \"", 14, "effect = \" \"";
    category_empty: "virtual = \"1m\"" => "\"\" = \"1m\"", 14, "\"\" = \"1m\"";
    category_of_blanks: "virtual = \"1m\"" => "\" \" = \"1m\"", 14, "\" \" = \"1m\"";
    delivery_limit_of_nothing: "delivery_limit = 20" => "delivery_limit = 0", 9, "limit of 0";
    delivery_limit_below_zero: "delivery_limit = 20" => "delivery_limit = -1", 9, "limit of -1";
    delivery_limit_above_a_million: "delivery_limit = 20" => "delivery_limit = 1000001", 9, "limit of 1000001";
}

#[test]
fn the_file_the_cases_start_from_is_good() {
    assert!(Topology::parse(GOOD).is_ok());
}

#[test]
fn the_longest_names_are_good() {
    let named = |old: &str, length: usize| edited(old, &format!("\"{}\"", "n".repeat(length)));
    for text in [named("\"orders\"", 191), named("\"unpaid\"", 63)] {
        let topology = Topology::parse(&text).expect("at the limit, not over it");
        let longest = topology.objects().queues.keys().map(String::len).max();
        assert!(longest <= Some(255), "RabbitMQ refuses a queue name of {longest:?} bytes");
    }
}

/// Lines and columns are counted as editors do, whatever the file was written with.
#[test]
fn line_ends_and_a_byte_order_mark_move_nothing() {
    let text = edited("after = [\"1m\"]", "after = [\"1m\", \"3m\"]");
    let (_, plain) = report_on(&text);
    assert!(plain.contains("topology.toml:17:16"), "{plain}");
    let (_, windows) = report_on(&text.replace('\n', "\r\n"));
    assert!(windows.contains("topology.toml:17:16"), "{windows}");
    let (_, marked) = report_on(&format!("\u{feff}{text}"));
    assert!(marked.contains("topology.toml:17:16"), "{marked}");
}

#[test]
fn no_level_is_reported_together_with_what_names_one() {
    let (_, report) = report_on(&edited("[\"1m\", \"30m\"]", "[]"));
    insta::assert_snapshot!(report);
}

/// An unreadable level is no suggestion for what to write instead.
#[test]
fn only_good_levels_are_suggested() {
    let (findings, report) = report_on(&edited("[\"1m\", \"30m\"]", "[\"1m\", \"30 m\"]"));
    assert_eq!(findings, 2, "{report}");
    assert!(
        report.contains("add it to delay.levels or use one of `1m`\n")
            || report.ends_with("use one of `1m`"),
        "{report}"
    );
}

#[test]
fn an_empty_file_is_reported() {
    let (findings, report) = report_on("");
    assert_eq!(findings, 3, "name, delay, timeout: {report}");
    insta::assert_snapshot!(report);
}

#[test]
fn every_mistake_is_reported_in_the_order_of_the_file() {
    let text = r#"name = "our orders"

[delay]
levels = ["5m", "1m", "60s", "1.5h"]

[queues]
delivery_limit = 0

[[timeout]]
name = "un.paid"
after = "31m"
after_by_category = { virtual = "2m", physical = "3m" }

[[timeout]]
name = "parked"
after = "5m"

[retry]
after = ["4m", "5m"]
"#;
    let findings = Topology::parse(text).expect_err("eleven mistakes");
    let place = |finding: &Diagnostic| match &finding.subject {
        Subject::File(span) => span.start,
        subject => panic!("not a place in the file: {subject}"),
    };
    let places: Vec<usize> = findings.iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(findings.len(), 11);
    insta::assert_snapshot!(report::render("topology.toml", text, &findings));
}

/// Unknown keys, unknown values, wrong types, missing keys, and what the rules say about the rest.
#[test]
fn every_mistake_of_every_kind_is_reported_at_once() {
    let text = r#"nmae = "orders"
owner = "team checkout"

[delay]
strategy = "level"
levels = ["1m", 30, "5 m"]

[queue]
type = "quorom"
delivery_limit = "20"

[timeout]
after = "30m"
efect = ["close"]
after_by_category = { virtual = 5, physical = "30m" }

[retry]
after = "1m"
"#;
    let (findings, report) = report_on(text);
    assert_eq!(findings, 14, "{report}");
    insta::assert_snapshot!(report);
}

/// A key that is written wrongly is read as what was meant: nothing follows from it.
#[test]
fn one_mistake_is_one_finding() {
    for (old, new) in
        [("levels =", "levles ="), ("[delay]", "[dealy]"), ("[[timeout]]", "[[timeouts]]")]
    {
        let (findings, report) = report_on(&edited(old, new));
        assert_eq!(findings, 1, "{report}");
        assert!(report.contains("did you mean"), "{report}");
    }
}

/// Nobody has to know what the program is written in.
#[test]
fn no_report_speaks_of_types_of_a_programming_language() {
    let values =
        ["5", "2.5", "true", "\"x\"", "[]", "[5]", "{}", "{ x = 5 }", "2026-01-01", "[{}]"];
    let keys = [
        "strategy = \"levels\"",
        "levels = [\"1m\", \"30m\"]",
        "type = \"quorum\"",
        "delivery_limit = 20",
    ];
    for line in
        keys.into_iter().chain(["name = \"orders\"", "name = \"unpaid\"", "after = \"30m\""])
    {
        let (key, _) = line.split_once(' ').expect("a key");
        for value in values {
            let text = edited(line, &format!("{key} = {value}"));
            let Err(findings) = Topology::parse(&text) else { continue };
            let report = report::render("topology.toml", &text, &findings);
            for word in
                ["invalid type", "expected", "sequence", "map", "i64", "struct", "field", "variant"]
            {
                assert!(!report.contains(word), "`{word}` in\n{report}");
            }
        }
    }
}
