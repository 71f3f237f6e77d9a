//! Mermaid and DOT, and the picture in the documentation.

use std::{fs, path::Path};

use overdue::internals::{
    graph::{Graph, dot, mermaid, svg},
    topology::Topology,
};

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
fn mermaid_of_the_repository() {
    insta::assert_snapshot!(mermaid::render(&repository()));
}

#[test]
fn mermaid_of_odd_texts() {
    insta::assert_snapshot!(mermaid::render(&of(ODD)));
}

#[test]
fn dot_of_the_repository() {
    insta::assert_snapshot!(dot::render(&repository()));
}

#[test]
fn dot_of_odd_texts() {
    insta::assert_snapshot!(dot::render(&of(ODD)));
}

#[test]
fn texts_in_svg_mean_themselves() {
    let picture = svg::render(&of(ODD));
    assert!(picture.contains("&quot;]:::x\\&lt;b&gt;&amp;amp;#;"), "{picture}");
    assert!(!picture.contains("<b>"));
}

/// `docs/topology.svg` is what `overdue graph` makes of the repository's file.
#[test]
fn the_documented_picture_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/topology.svg");
    let found = fs::read_to_string(&path).unwrap_or_default();
    let now = svg::render(&repository());
    assert!(found == now, "docs/topology.svg is old: run `overdue graph --out docs/topology.svg`");
}
