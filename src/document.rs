//! Checks a TOML file against the JSON Schema of its structs, so that a format is declared once. It reports every unusable
//! key and value at once, with its place.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, Title};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue, Deserializer, Error},
};

use crate::text::did_you_mean;

/// Keys of earlier versions: header, key, and what to do now.
const REMOVED: [(&str, &str, &str); 2] =
    [("[[alert]]", "from", NO_MAIL), ("[[alert]]", "to", NO_MAIL)];
const NO_MAIL: &str = "an alert sends no mail any more: give it the URL of a webhook";

/// An unusable key or value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Byte range in the file.
    pub(crate) span: Range<usize>,
    /// The error. It quotes a value only if the value is a plain word: other values may contain a password.
    pub(crate) message: String,
    /// How to correct the file.
    pub(crate) help: String,
}

pub(crate) struct Document<'t>(Spanned<DeTable<'t>>);

impl<'t> Document<'t> {
    /// Parses the text.
    pub(crate) fn parse(text: &'t str) -> Result<Self, Mistake> {
        DeTable::parse(text).map(Self).map_err(|error| {
            let mistake = unread(&error);
            let message = format!("this is not TOML: {}", mistake.message);
            let help = "https://toml.io/en/v1.1.0 explains the format".to_owned();
            Mistake { message, help, ..mistake }
        })
    }

    /// Keys and values that the schema does not allow, in the order of the file.
    pub(crate) fn mistakes(&self, schema: &Json) -> Vec<Mistake> {
        let found = match self.read::<Table>() {
            Ok(table) => check(schema, &table),
            // Without a type, only such a number is refused.
            Err(Mistake { span, .. }) => {
                let message = "this number has more than 64 bits".to_owned();
                return vec![Mistake { span, message, help: "write a smaller one".to_owned() }];
            }
        };
        let placed = found.into_iter().map(|Unusable { path, at_key, message, help }| Mistake {
            span: self.span(&path, at_key),
            message,
            help,
        });
        let mut mistakes: Vec<Mistake> = placed.collect();
        mistakes.sort_by_key(|mistake| mistake.span.start);
        mistakes
    }

    /// Deserializes the file.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        T::deserialize(Deserializer::from(self.0.clone())).map_err(|error| unread(&error))
    }

    /// Byte range of the value at `path`, or of its key; if it does not exist, of the table around it.
    pub(crate) fn span(&self, path: &[String], at_key: bool) -> Range<usize> {
        let mut at = (0..0, DeValue::Table(self.0.get_ref().clone()));
        for part in path {
            let next = match &at.1 {
                DeValue::Table(table) => table.get_key_value(part.as_str()).map(|(key, value)| {
                    (if at_key { key.span() } else { value.span() }, value.get_ref().clone())
                }),
                other => part
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| other.get(index))
                    .map(|item| (item.span(), item.get_ref().clone())),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        at.0
    }
}

fn unread(error: &Error) -> Mistake {
    let span = error.span().unwrap_or(0..0);
    Mistake { span, message: error.message().to_owned(), help: String::new() }
}

/// A key or value that the schema does not allow.
#[derive(Debug)]
pub(crate) struct Unusable {
    /// Keys and indices of the path.
    pub(crate) path: Vec<String>,
    /// Whether the error is about the key, not the value.
    pub(crate) at_key: bool,
    /// See [`Mistake::message`].
    pub(crate) message: String,
    /// See [`Mistake::help`].
    pub(crate) help: String,
}

/// Finds unknown and missing keys, wrong types, unknown words, and numbers out of bounds.
pub(crate) fn check(schema: &Json, table: &Table) -> Vec<Unusable> {
    let mut check = DocumentCheck { root: schema, path: Vec::new(), found: Vec::new() };
    check.table(schema, table, "");
    check.found
}

struct DocumentCheck<'s> {
    root: &'s Json,
    path: Vec<String>,
    found: Vec<Unusable>,
}

impl DocumentCheck<'_> {
    fn add(&mut self, at_key: bool, message: String, help: String) {
        self.found.push(Unusable { path: self.path.clone(), at_key, message, help });
    }

    /// The keys of the path, without indices, joined by dots.
    fn name(&self) -> String {
        let keys = self.path.iter().filter(|part| part.parse::<usize>().is_err());
        keys.map(String::as_str).collect::<Vec<_>>().join(".")
    }

    fn is_item(&self) -> bool {
        self.path.last().is_some_and(|part| part.parse::<usize>().is_ok())
    }

    /// The name of the value in messages.
    fn place(&self) -> String {
        format!("{}`{}`", if self.is_item() { "an item of " } else { "" }, self.name())
    }

    fn table(&mut self, schema: &Json, table: &Table, header: &str) {
        let known = keys(schema);
        let mut meant = Vec::new();
        for (key, value) in table {
            // In a table whose keys the user chooses, all values have one schema.
            let any = Some(&schema["additionalProperties"]).filter(|any| any.is_object());
            let of = schema["properties"].get(key).or(any);
            self.path.push(key.clone());
            if let Some(schema) = of {
                self.value(schema, value);
            } else {
                let similar = did_you_mean(key, known.iter().copied());
                meant.extend(similar);
                self.unknown(key, similar, &known, header);
            }
            self.path.pop();
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        for key in required.filter(|key| !table.contains_key(*key) && !meant.contains(key)) {
            let line = example(key, &schema["properties"][key]);
            let help = match header {
                _ if line.starts_with('[') => format!("add {line}"),
                "" => format!("add a line at the top: {line}"),
                header => format!("add a line below {header}: {line}"),
            };
            self.path.push(key.to_owned());
            self.add(true, format!("`{}` is missing", self.name()), help);
            self.path.pop();
        }
    }

    fn unknown(&mut self, key: &str, similar: Option<&str>, known: &[&str], header: &str) {
        let removed = REMOVED.iter().find(|(table, gone, _)| (*table, *gone) == (header, key));
        let help = match (similar, elsewhere(self.root, key)) {
            _ if let Some((.., help)) = removed => (*help).to_owned(),
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, Some(section)) => format!("it belongs below {section}"),
            (None, None) => format!("the keys are {}", listed(known)),
        };
        let place = if header.is_empty() { String::new() } else { format!(" in {header}") };
        self.add(true, format!("there is no key `{key}`{place}"), help);
    }

    fn value(&mut self, schema: &Json, value: &Value) {
        let words = words(schema);
        match (schema["type"].as_str().unwrap_or("string"), value) {
            ("object", Value::Table(table)) => {
                let name = self.name();
                let header =
                    if self.is_item() { format!("[[{name}]]") } else { format!("[{name}]") };
                self.table(schema, table, &header);
            }
            ("array", Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(index.to_string());
                    self.value(&schema["items"], item);
                    self.path.pop();
                }
            }
            ("integer", Value::Integer(number)) => self.number(schema, *number),
            ("boolean", Value::Boolean(_)) => {}
            ("string", Value::String(text)) => {
                if words.is_empty() || words.contains(&text.as_str()) {
                    return;
                }
                let similar = did_you_mean(text, words.iter().copied());
                let help = similar.map_or_else(
                    || format!("it can be {}", listed(&words)),
                    |word| format!("did you mean `{word}`?"),
                );
                self.add(false, format!("{} cannot be {}", self.place(), quoted(text)), help);
            }
            (wanted, value) => self.wrong_type(schema, wanted, value),
        }
    }

    fn number(&mut self, schema: &Json, number: i64) {
        let min = schema["minimum"].as_i64().unwrap_or(i64::MIN);
        let max = schema["maximum"].as_i64().unwrap_or(i64::MAX);
        if !(min..=max).contains(&number) {
            let message = format!("{} is {number}", self.place());
            self.add(false, message, format!("write a number between {min} and {max}"));
        }
    }

    fn wrong_type(&mut self, schema: &Json, wanted: &str, value: &Value) {
        let name = self.name();
        let found = match value.type_str() {
            kind @ ("array" | "integer") => format!("an {kind}"),
            kind => format!("a {kind}"),
        };
        let wanted = match wanted {
            "object" => "a table",
            "array" => "an array",
            "integer" => "an integer",
            "boolean" => "`true` or `false`",
            _ => "a string",
        };
        let help = match (wanted, value) {
            ("a table", Value::Array(_)) => format!("there is one: its header is [{name}]"),
            ("an array", Value::Table(_)) => {
                format!("there can be several: each has the header [[{name}]]")
            }
            _ if self.is_item() => format!("write it like {}", schema["examples"][0]),
            _ => format!("write it like {}", example(self.path.last().map_or("", |it| it), schema)),
        };
        self.add(false, format!("{} is {found}, and has to be {wanted}", self.place()), help);
    }
}

/// The declared keys of a table.
pub(crate) fn keys(schema: &Json) -> Vec<&str> {
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// The words that a text may be.
fn words(schema: &Json) -> Vec<&str> {
    let of = schema["oneOf"].as_array().into_iter().flatten();
    of.filter_map(|word| word["const"].as_str()).collect()
}

/// The header of the table that has this key.
fn elsewhere(root: &Json, key: &str) -> Option<String> {
    let sections = root["properties"].as_object()?;
    sections.iter().find_map(|(name, section)| {
        let has = |table: &Json| table["properties"].get(key).is_some();
        match (has(section), has(&section["items"])) {
            (true, _) => Some(format!("[{name}]")),
            (_, true) => Some(format!("[[{name}]]")),
            _ => None,
        }
    })
}

/// A key with an example: `levels = ["5s","30m"]`, `[delay]`.
fn example(key: &str, schema: &Json) -> String {
    let word = || words(schema).first().map(|word| Json::from(*word));
    let value = schema["examples"].get(0).cloned().or_else(word);
    match (schema["type"].as_str(), schema["items"]["type"].as_str(), value) {
        (Some("object"), ..) if schema["properties"].is_object() => format!("[{key}]"),
        (Some("object"), ..) => {
            format!("{key} = {{ {} }}", example("name", &schema["additionalProperties"]))
        }
        (_, Some("object"), _) => format!("[[{key}]]"),
        (.., Some(value)) => format!("{key} = {value}"),
        _ => format!("{key} = …"),
    }
}

/// A text for a message, unless it may be a secret.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if text.len() <= 40 && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        "this text".to_owned()
    }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The JSON Schema (draft 2020-12) of a file that is read into `T`, from its fields and their doc comments.
pub(crate) fn schema<T: JsonSchema>(title: &str) -> Json {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let settings = settings.with_transform(RecursiveTransform(for_toml));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.into()
}

/// Removes what TOML and editors do not use: null (optional keys are left out), empty defaults, Rust's number formats, and
/// line ends in descriptions.
fn for_toml(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Json::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema.get("default").is_some_and(|it| it.is_null() || it == "") {
        schema.remove("default");
    }
    if let Some(Json::Array(types)) = schema.get("type") {
        let first = types.first().cloned().unwrap_or_default();
        schema.insert("type".to_owned(), first);
    }
    if let Some(Json::Array(of)) = schema.remove("anyOf") {
        for (key, value) in of.first().and_then(Json::as_object).into_iter().flatten() {
            if schema.get(key).is_none() {
                schema.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A part of a file with its name, line numbers and a mark, then the help.
pub(crate) fn picture(
    (path, text): (&str, &str),
    span: Range<usize>,
    title: Title<'_>,
    help: &str,
) -> String {
    let end = span.end.min(text.len());
    let mark = AnnotationKind::Primary.span(span.start.min(end)..end);
    let snippet = title.element(Snippet::source(text).path(path).annotation(mark));
    let help = (!help.is_empty()).then(|| Group::with_title(Level::HELP.secondary_title(help)));
    let groups: Vec<Group<'_>> = std::iter::once(snippet).chain(help).collect();
    Renderer::plain().render(&groups)
}

/// Line and column of a byte, both from 1, as in editors.
pub(crate) fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte.min(text.len())).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    // A byte order mark is not a character of the first line.
    let line = before.get(line_start..).unwrap_or_default().trim_start_matches('\u{feff}');
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
