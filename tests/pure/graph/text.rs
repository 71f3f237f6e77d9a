//! Mermaid, and the picture in the documentation.

use overdue::internals::{
    graph::{Graph, mermaid},
    topology::Topology,
};

use crate::samples::{DELAYED, LADDER, dotted_compat};

fn of(text: &str) -> Graph {
    Graph::of(&Topology::parse(text).expect("a good file"), None)
}

fn repository() -> Graph {
    of(include_str!("../../../topology.toml"))
}

/// Two timeouts, categories, no retry, classic queues, and an effect that tries to break out of its quotes.
const ODD: &str = r#"name = "shop-1.orders"

[delay]
levels = ["1s"]

[queues]
type = "classic"

[[timeout]]
name = "unpaid"
after = "1s"
effect = "\"]:::x\\<b>&amp;#;\n"
after_by_category = { "a\"b" = "1s" }

[[timeout]]
name = "unshipped"
after = "1s"
"#;

#[test]
fn the_delays_in_short() {
    let timeout = "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n";
    let said = |delay: &str| of(&format!("name = \"orders\"\n[delay]\n{delay}\n{timeout}")).summary;
    let ladder = "strategy = \"ladder\"\nladder = { max = \"1h\" }";
    let texts = [
        said("levels = [\"30m\"]"),
        said("levels = [\"1s\", \"30m\"]"),
        said("levels = [\"1s\", \"30m\"]\nlead = \"0s\""),
        said(ladder),
        said(&format!("{ladder}\nlevels = [\"30m\"]")),
        said("strategy = \"delayed-exchange\""),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    quorum queues · 1 level, let go up to 2s early · 1 timeout
    quorum queues · 2 levels, 1s to 30m, let go up to 2s early · 1 timeout
    quorum queues · 2 levels, 1s to 30m · 1 timeout
    quorum queues · a ladder: 29 queues and 6 exchanges; delays up to 1h take 3.5 hops on average and at most 4, and are rounded by less than 1s · 1 timeout
    quorum queues · 1 level, let go up to 2s early, and a ladder: 29 queues and 6 exchanges; delays up to 1h take 3.5 hops on average and at most 4, and are rounded by less than 1s · 1 timeout
    quorum queues · any delay, by the plugin's exchange · 1 timeout
    ");
}

#[test]
fn mermaid_of_the_repository() {
    insta::assert_snapshot!(mermaid::render(&repository()));
}

#[test]
fn mermaid_of_odd_texts() {
    insta::assert_snapshot!(mermaid::render(&of(ODD)));
}

#[test]
fn mermaid_of_a_ladder() {
    insta::assert_snapshot!(mermaid::render(&of(LADDER)));
}

#[test]
fn mermaid_of_the_plugins_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(DELAYED)));
}

#[test]
fn mermaid_of_a_taken_over_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(&dotted_compat())));
}

/// The picture of docs/topology.md is the output of `overdue export --format mermaid` for that page's file.
#[test]
fn the_documented_picture_is_up_to_date() {
    let page = include_str!("../../../docs/topology.md");
    let block = |language: &str| {
        let begin = page.split(&format!("```{language}\n")).nth(1).expect("a block");
        begin.split("```").next().expect("its text")
    };
    assert_eq!(block("mermaid"), mermaid::render(&of(block("toml"))));
}
