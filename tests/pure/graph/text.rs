//! Mermaid and DOT, and the picture in the documentation.

use std::{fs, path::Path};

use overdue::internals::{
    graph::{Graph, dot, mermaid, svg},
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

#[test]
fn mermaid_of_a_ladder() {
    insta::assert_snapshot!(mermaid::render(&of(LADDER)));
}

#[test]
fn dot_of_a_ladder_beside_levels() {
    let both = LADDER.replace("[delay]", "[delay]\nlevels = ['30m']");
    insta::assert_snapshot!(dot::render(&of(&both)));
}

#[test]
fn mermaid_of_the_plugins_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(DELAYED)));
}

#[test]
fn mermaid_and_dot_of_a_taken_over_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(&dotted_compat())));
    insta::assert_snapshot!(dot::render(&of(&dotted_compat())));
}

/// `docs/ladder.svg` is the picture of a ladder, and `docs/delayed-exchange.svg` that of the plugin's exchange,
/// `docs/taken-over.svg` that of one that a ladder has taken over.
#[test]
fn the_documented_pictures_of_other_strategies_are_up_to_date() {
    let taken_over = format!("{LADDER}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let pictures = [("ladder", LADDER), ("delayed-exchange", DELAYED), ("taken-over", &taken_over)];
    for (name, text) in pictures {
        let path = format!("docs/{name}.svg");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(&path);
        let now = svg::render(&of(text));
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            fs::write(&file, &now).expect("docs can be written");
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == now, "{path} is old: run this test with UPDATE_PICTURES=1");
    }
}

/// `docs/topology.svg` is what `overdue graph` makes of the repository's file.
#[test]
fn the_documented_picture_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/topology.svg");
    let found = fs::read_to_string(&path).unwrap_or_default();
    let now = svg::render(&repository());
    assert!(found == now, "docs/topology.svg is old: run `overdue graph --out docs/topology.svg`");
}
