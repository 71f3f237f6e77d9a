//! From the text of a `topology.toml` to what is written in it.

use std::ops::Range;

use serde::Deserialize;

use super::{file::TopologyFile, keys};
use crate::document::{self, Mistake, MistakeKind};

/// A file as far as it can be read.
pub(super) struct Reading {
    /// `None` where the text is too far from TOML.
    pub(super) file: Option<TopologyFile>,
    /// What cannot be used, in the order of the file.
    pub(super) mistakes: Vec<Mistake>,
    /// Rules that would conclude something wrong from what is not there.
    unfit: Vec<&'static str>,
}

/// Rules, and the keys that have to be read for them.
const NEEDS: &[(&str, &[&str])] = &[
    ("levels-present", &["delay.strategy", "delay.levels"]),
    ("level-reference", &["delay.strategy", "delay.levels"]),
    ("level-unused", &["delay.strategy", "delay.levels", "timeout", "retry"]),
    ("timeouts-present", &["timeout"]),
    ("category-missing", &["timeout"]),
    ("retry-missing", &["retry"]),
    ("broker-version", &["queues.type"]),
];

/// Rules that speak about the whole file, at the place of its name.
const ABOUT_THE_FILE: &[&str] =
    &["timeouts-present", "retry-missing", "broker-version", "broker-bug", "broker-untested"];

pub(super) fn read(text: &str) -> Reading {
    let mut reading = document::read(text, &keys::FILE);
    // The rule `delivery-limit` says more about it.
    reading.mistakes.retain(|mistake| mistake.kind != MistakeKind::Range);
    let lacking = NEEDS.iter().filter(|(_, keys)| keys.iter().any(|key| reading.lacks(key)));
    let unfit = lacking.map(|(rule, _)| *rule).collect();
    let (broken, mut mistakes) = (reading.broken, reading.mistakes);
    if broken {
        return Reading { file: None, mistakes, unfit };
    }
    match TopologyFile::deserialize(toml::de::Deserializer::from(reading.table)) {
        Ok(file) => Reading { file: Some(file), mistakes, unfit },
        Err(error) => {
            // The table of keys takes what the type does not.
            let span = error.span().unwrap_or(0..0);
            let message = format!("this cannot be read: {}", error.message());
            let help = "see docs/topology.md for the whole format".to_owned();
            let kind = MistakeKind::Value;
            mistakes.push(Mistake { kind, span, key: String::new(), message, help });
            Reading { file: None, mistakes, unfit }
        }
    }
}

impl Reading {
    /// Whether what `rule` found at `span` follows from a mistake that is reported already.
    pub(super) fn explains(&self, rule: &str, span: &Range<usize>) -> bool {
        let follows = || self.mistakes.iter().any(|mistake| mistake.span == *span);
        self.unfit.contains(&rule) || !ABOUT_THE_FILE.contains(&rule) && follows()
    }
}
