//! The table of the keys that a document may hold.

/// A table of a document.
#[derive(Debug)]
pub(in crate::config) struct Section {
    /// What it is about, as a sentence.
    pub(in crate::config) about: &'static str,
    /// Its keys, in the order in which they are documented.
    pub(in crate::config) keys: &'static [Key],
}

/// A section without keys.
pub(in crate::config) static NONE: Section = Section { about: "", keys: &[] };

/// A key and what its value may be.
#[derive(Debug)]
pub(in crate::config) struct Key {
    /// As it is written.
    pub(in crate::config) name: &'static str,
    /// What it is for, as a sentence.
    pub(in crate::config) about: &'static str,
    /// What its value may be.
    pub(in crate::config) kind: Kind,
    /// Whether it has to be there.
    pub(in crate::config) presence: Presence,
    /// A value, as it is written in TOML.
    pub(in crate::config) example: &'static str,
}

/// Whether a key has to be there.
#[derive(Clone, Copy, Debug)]
pub(in crate::config) enum Presence {
    /// It has to be there.
    Required,
    /// It need not be there, and there is no default.
    Optional,
    /// Without it this text is used.
    DefaultText(&'static str),
    /// Without it this number is used.
    DefaultNumber(i64),
    /// Without it nothing is in it.
    DefaultEmpty,
}

/// What a value may be.
#[derive(Debug)]
pub(in crate::config) enum Kind {
    /// Text.
    Text(&'static Text),
    /// A whole number; a number out of bounds is a mistake of its own kind.
    Number {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// `true` or `false`.
    Boolean,
    /// One of a few words.
    Choice(&'static Choice),
    /// A list.
    List {
        /// What an item may be.
        of: &'static Kind,
        /// Fewest items; for the schema, rules of the document say why.
        min_items: u32,
        /// No item twice; for the schema.
        unique: bool,
    },
    /// A table whose keys are names that the writer chooses.
    Names(&'static Kind),
    /// A table with keys of its own: `[delay]`.
    Section(&'static Section),
    /// A list of such tables: `[[timeout]]`. A document without any is like one with an empty list.
    Sections(&'static Section),
}

/// What a text may be. All but [`Text::check`] is for the JSON Schema: rules of the document say why.
#[derive(Debug)]
pub(in crate::config) struct Text {
    /// What it has to look like, as a sentence; empty where the key says it.
    pub(in crate::config) about: &'static str,
    /// Texts that fit.
    pub(in crate::config) examples: &'static [&'static str],
    /// Fewest characters.
    pub(in crate::config) min: u32,
    /// Most characters.
    pub(in crate::config) max: Option<u32>,
    /// A regular expression that it matches.
    pub(in crate::config) pattern: Option<&'static str>,
    /// What it must not be.
    pub(in crate::config) not: Option<Not>,
    /// What is wrong with a text, if anything.
    pub(in crate::config) check: Option<Check>,
    /// It may hold a password: no message quotes it.
    pub(in crate::config) secret: bool,
}

/// Says what is wrong with a text.
pub(in crate::config) type Check = fn(&str) -> Result<(), String>;

/// What a text must not be.
#[derive(Debug)]
pub(in crate::config) enum Not {
    /// This text.
    Text(&'static str),
    /// A text that matches this regular expression.
    Pattern(&'static str),
}

/// Any text.
pub(in crate::config) const ANY: Text = Text {
    about: "",
    examples: &[],
    min: 0,
    max: None,
    pattern: None,
    not: None,
    check: None,
    secret: false,
};

/// Words, of which one is chosen.
#[derive(Debug)]
pub(in crate::config) struct Choice {
    /// What is chosen, as a sentence.
    pub(in crate::config) about: &'static str,
    /// Each word, and what it means.
    pub(in crate::config) words: &'static [(&'static str, &'static str)],
    /// Words that somebody may expect and this version does not have: what is wrong, and what to do.
    pub(in crate::config) refused: &'static [(&'static str, &'static str, &'static str)],
}

impl Section {
    /// The key called `name`.
    pub(in crate::config) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}
