//! Mermaid, and the pictures in the documentation.

use std::{fs, path::Path};

use overdue::internals::{
    graph::{Graph, mermaid, svg},
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
fn mermaid_of_the_plugins_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(DELAYED)));
}

#[test]
fn mermaid_of_a_taken_over_exchange() {
    insta::assert_snapshot!(mermaid::render(&of(&dotted_compat())));
}

/// `docs/topology.svg` is what `overdue export --format svg` makes of the repository's file; the others show other strategies.
#[test]
fn the_documented_pictures_are_up_to_date() {
    let taken_over = format!("{LADDER}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let repository = include_str!("../../../topology.toml");
    let pictures = [
        ("topology", repository),
        ("ladder", LADDER),
        ("delayed-exchange", DELAYED),
        ("taken-over", &taken_over),
    ];
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
