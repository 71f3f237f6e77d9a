//! The definitions that `overdue export` prints.

use overdue::internals::{export::definitions, topology::Topology};

fn tiny() -> Topology {
    let text =
        "name = 'orders'\ndelay.levels = ['30m']\n[[timeout]]\nname = 'unpaid'\nafter = '30m'";
    Topology::parse(text).unwrap()
}

#[test]
fn definitions() {
    insta::assert_snapshot!(definitions::render(&tiny(), "/", false));
}

#[test]
fn definitions_with_the_virtual_host() {
    let text = definitions::render(&tiny(), "a \"shop\"", true);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["vhosts"], serde_json::json!([{ "name": "a \"shop\"" }]));
    assert!(!definitions::render(&tiny(), "/", false).contains("vhosts"));
}
