//! The schema for editors accepts what the check accepts. The check validates keys, types, words and bounds by it anyway.

use fancy_regex::Regex;
use overdue::internals::topology::{
    file::schema,
    level::{Level, MAX_TTL_MS},
};
use proptest::prelude::*;
use serde_json::Value;

/// Whether a text fits the schema.
fn fits(schema: &Value, text: &str) -> bool {
    let matches = |pattern: &Value| {
        let regex = pattern.as_str().map(|regex| Regex::new(regex).expect("a pattern"));
        regex.is_none_or(|regex| regex.is_match(text).expect("a short text"))
    };
    let length = text.chars().count() as u64;
    let refused = &schema["not"];
    schema["minLength"].as_u64().is_none_or(|min| length >= min)
        && schema["maxLength"].as_u64().is_none_or(|max| length <= max)
        && matches(&schema["pattern"])
        && refused["const"] != text
        && (refused["pattern"].is_null() || !matches(&refused["pattern"]))
}

fn level_schema() -> Value {
    schema()["properties"]["delay"]["properties"]["levels"]["items"].clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_level_fits(number in 1..=MAX_TTL_MS, shift in 0..39_u32, unit in "ms|s|m|h|d") {
        let level = format!("{}{unit}", number >> shift);
        if level.parse::<Level>().is_ok() {
            prop_assert!(fits(&level_schema(), &level), "{}", level);
        }
    }

    #[test]
    fn every_name_fits(written in crate::generate::written()) {
        written.read();
        let (root, timeout) = (schema(), &schema()["properties"]["timeout"]["items"]);
        prop_assert!(fits(&root["properties"]["name"], &written.name));
        for written in &written.timeouts {
            prop_assert!(fits(&timeout["properties"]["name"], &written.name));
        }
    }
}

/// The pattern of a level is the parser's grammar, except for the last digits of ten years.
#[test]
fn the_pattern_of_a_level() {
    let level = level_schema();
    let ten_years = ["315360000000ms", "315360000s", "5256000m", "87600h", "3650d"];
    for good in ["1ms", "30m", "999d", "9999h", "99999999999ms"].iter().chain(&ten_years) {
        assert!(good.parse::<Level>().is_ok() && fits(&level, good), "{good}");
    }
    let too_long = ["400000000000ms", "400000000s", "6000000m", "90000h", "4000d", "10000d"];
    let numbers = ["99999999999999999999d", "18446744073709551615d"];
    for bad in ["", "0s", "007s", "30", "m", "1.5h", "-1s", "60 m", "30m\n"]
        .iter()
        .chain(&too_long)
        .chain(&numbers)
    {
        assert!(bad.parse::<Level>().is_err() && !fits(&level, bad), "{bad}");
    }
    // This level is over ten years by less than a digit.
    assert!("3651d".parse::<Level>().is_err() && fits(&level, "3651d"));
}

#[test]
fn the_whole_schema() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema()).expect("JSON"));
}
