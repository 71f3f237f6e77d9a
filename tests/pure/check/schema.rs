//! The schema for editors knows the same keys as the parser, and takes the repository's own file.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex},
};

use fancy_regex::Regex;
use overdue::internals::{
    diagnostic::Fix,
    topology::{
        Topology,
        level::{Level, MAX_TTL_MS},
        schema,
    },
};
use proptest::prelude::*;
use serde_json::Value;

use crate::generate;

fn keys(section: &Value) -> BTreeSet<String> {
    assert_eq!(section["additionalProperties"], false, "unknown keys are refused: {section}");
    section["properties"].as_object().expect("keys").keys().cloned().collect()
}

/// Keys the parser takes in a section: it lists them when it meets one that is like none of them.
fn parsed(text: &str) -> BTreeSet<String> {
    let findings = Topology::parse(text).expect_err("an unknown key");
    let unknown = findings.iter().find(|finding| finding.message.contains("no key `x`"));
    let fix = &unknown.expect("a finding about it").fix;
    let Some(Fix::Text(help)) = fix else { panic!("no list of keys: {fix:?}") };
    assert!(help.starts_with("the keys "), "{help}");
    help.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_parser_and_the_schema_know_the_same_keys() {
    let root = schema::schema();
    let sections = [
        ("x = 1", &root),
        ("name = \"o\"\n[delay]\nx = 1", &root["properties"]["delay"]),
        ("name = \"o\"\n[queues]\nx = 1", &root["properties"]["queues"]),
        ("name = \"o\"\n[[timeout]]\nx = 1", &root["properties"]["timeout"]["items"]),
        ("name = \"o\"\n[retry]\nx = 1", &root["properties"]["retry"]),
    ];
    for (text, section) in sections {
        assert_eq!(keys(section), parsed(text), "after {text}");
    }
}

/// A small part of JSON Schema: as much as ours uses.
fn validate(schema: &Value, value: &Value, at: &str) {
    if let Some(choices) = schema["oneOf"].as_array() {
        assert!(choices.iter().any(|choice| choice["const"] == *value), "{at}: {value}");
        return;
    }
    match schema["type"].as_str().unwrap_or_else(|| panic!("{at} has no type: {schema}")) {
        "object" => {
            let object = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            let shortest = schema["propertyNames"]["minLength"].as_u64().unwrap_or_default();
            assert!(object.keys().all(|key| key.len() as u64 >= shortest), "{at}: {value}");
            for key in schema["required"].as_array().into_iter().flatten() {
                assert!(object.contains_key(key.as_str().expect("a key")), "{at} lacks {key}");
            }
            for (key, value) in object {
                let known = &schema["properties"][key];
                let known = if known.is_null() { &schema["additionalProperties"] } else { known };
                validate(known, value, &format!("{at}.{key}"));
            }
        }
        "array" => {
            let items = value.as_array().unwrap_or_else(|| panic!("{at}: {value}"));
            assert!(items.len() >= usize::from(schema["minItems"] == 1), "{at} is empty");
            for item in items {
                validate(&schema["items"], item, at);
            }
        }
        "string" => {
            let text = value.as_str().unwrap_or_else(|| panic!("{at}: {value}"));
            assert!(fits(schema, text), "{at}: {value}");
        }
        "integer" => {
            let number = value.as_i64().unwrap_or_else(|| panic!("{at}: {value}"));
            let range = schema["minimum"].as_i64()..=schema["maximum"].as_i64();
            assert!(range.contains(&Some(number)), "{at}: {value}");
        }
        other => panic!("{at}: {other}"),
    }
}

/// Compiling an expression takes longer than all else here, and there are few of them.
fn is_match(regex: &str, text: &str) -> bool {
    static COMPILED: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().expect("no test panics in here");
    let compile = || Regex::new(regex).expect("a pattern");
    let regex = compiled.entry(regex.to_owned()).or_insert_with(compile);
    regex.is_match(text).expect("a short text")
}

/// What the schema says about one text.
fn fits(schema: &Value, text: &str) -> bool {
    let matches = |pattern: &Value| pattern.as_str().is_none_or(|regex| is_match(regex, text));
    let length = text.chars().count() as u64;
    let refused = &schema["not"];
    schema["minLength"].as_u64().is_none_or(|min| length >= min)
        && schema["maxLength"].as_u64().is_none_or(|max| length <= max)
        && matches(&schema["pattern"])
        && refused["const"] != text
        && (refused["pattern"].is_null() || !matches(&refused["pattern"]))
}

fn validate_text(text: &str) {
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema::schema);
    let root = &*SCHEMA;
    let file: toml::Value = toml::from_str(text).expect("TOML");
    validate(root, &serde_json::to_value(file).expect("JSON"), "topology.toml");
}

#[test]
fn the_repository_is_valid() {
    validate_text(include_str!("../../../topology.toml"));
}

proptest! {
    /// An editor shows no mistake where there is none: the schema takes every file that the check takes.
    #[test]
    fn what_the_check_takes_the_schema_takes(written in generate::written()) {
        written.read();
        validate_text(&written.toml());
    }

    #[test]
    fn every_level_fits(number in 1..=MAX_TTL_MS, shift in 0..39_u32, unit in "ms|s|m|h|d") {
        let level = format!("{}{unit}", number >> shift);
        if level.parse::<Level>().is_ok() {
            prop_assert!(fits(level_schema(&schema::schema()), &level), "{}", level);
        }
    }
}

fn level_schema(root: &Value) -> &Value {
    &root["properties"]["delay"]["properties"]["levels"]["items"]
}

/// The pattern of a level is the parser's grammar, but for the last digits of ten years.
#[test]
fn the_pattern_of_a_level() {
    let root = schema::schema();
    let level = level_schema(&root);
    let ten_years = ["315360000000ms", "315360000s", "5256000m", "87600h", "3650d"];
    for good in ["1ms", "30m", "999d", "9999h", "99999999999ms"].iter().chain(&ten_years) {
        assert!(good.parse::<Level>().is_ok() && fits(level, good), "{good}");
    }
    let too_long = ["400000000000ms", "400000000s", "6000000m", "90000h", "4000d", "10000d"];
    for bad in ["", "0s", "007s", "30", "m", "1.5h", "-1s", "60 m", "30m\n"].iter().chain(&too_long)
    {
        assert!(bad.parse::<Level>().is_err() && !fits(level, bad), "{bad}");
    }
    // Over ten years by less than a digit.
    assert!("3651d".parse::<Level>().is_err() && fits(level, "3651d"));
}

/// What both refuse: a text of a name, without a name in it.
#[test]
fn empty_texts() {
    let root = schema::schema();
    let timeout = &root["properties"]["timeout"]["items"]["properties"];
    assert!(!fits(&timeout["effect"], "") && fits(&timeout["effect"], "close"));
    assert_eq!(timeout["after_by_category"]["propertyNames"]["minLength"], 1);
    for name in [&timeout["name"], &root["properties"]["name"]] {
        assert!(!fits(name, "") && fits(name, "orders"));
    }
}

#[test]
fn everything_is_described() {
    let root = schema::schema();
    assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
    described(&root);
}

fn described(section: &Value) {
    for (key, value) in section["properties"].as_object().into_iter().flatten() {
        assert!(value["description"].is_string(), "{key} has no description");
        described(value);
        described(&value["items"]);
    }
}

#[test]
fn the_whole_schema() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema::schema()).expect("JSON"));
}
