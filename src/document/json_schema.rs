//! The JSON Schema of a document, for editors, from its table of keys.

use serde_json::{Map, Value, json};

use super::keys::{Key, Kind, Not, Presence, Section, Text};

/// The schema of a document called `title`, JSON Schema draft 2020-12.
pub(crate) fn schema(title: &str, root: &Section) -> Value {
    let mut schema = section(root);
    add(&mut schema, "$schema", "https://json-schema.org/draft/2020-12/schema".into());
    add(&mut schema, "title", title.into());
    schema
}

fn add(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(key.to_owned(), value);
    }
}

fn section(section: &Section) -> Value {
    let properties: Map<String, Value> =
        section.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required = section.keys.iter().filter(|key| matches!(key.presence, Presence::Required));
    let required: Vec<&str> = required.map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": section.about,
        "additionalProperties": false,
        "properties": properties,
    });
    if !required.is_empty() {
        add(&mut schema, "required", json!(required));
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    add(&mut schema, "description", key.about.into());
    let default = match (key.presence, &key.kind) {
        (Presence::Required | Presence::Optional, _) => return schema,
        (Presence::DefaultText(text), _) => json!(text),
        (Presence::DefaultNumber(number), _) => json!(number),
        (Presence::DefaultEmpty, Kind::List { .. } | Kind::Sections(_)) => json!([]),
        (Presence::DefaultEmpty, _) => json!({}),
    };
    add(&mut schema, "default", default);
    schema
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text(format) => text(format),
        Kind::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Choice(choice) => {
            let word =
                |(word, about): &(&str, &str)| json!({ "const": word, "description": about });
            json!({ "description": choice.about, "oneOf": choice.words.iter().map(word).collect::<Vec<_>>() })
        }
        Kind::List { of, min_items, unique } => json!({
            "type": "array",
            "items": self::kind(of),
            "minItems": min_items,
            "uniqueItems": unique,
        }),
        Kind::Names(of) => json!({
            "type": "object",
            "additionalProperties": self::kind(of),
            "propertyNames": { "minLength": 1 },
        }),
        Kind::Section(keys) => section(keys),
        Kind::Sections(keys) => json!({ "type": "array", "items": section(keys), "minItems": 1 }),
    }
}

fn text(text: &Text) -> Value {
    let mut schema = json!({ "type": "string", "minLength": text.min });
    if !text.about.is_empty() {
        add(&mut schema, "description", text.about.into());
    }
    if !text.examples.is_empty() {
        add(&mut schema, "examples", json!(text.examples));
    }
    if let Some(max) = text.max {
        add(&mut schema, "maxLength", max.into());
    }
    if let Some(pattern) = text.pattern {
        add(&mut schema, "pattern", pattern.into());
    }
    match text.not {
        Some(Not::Text(word)) => add(&mut schema, "not", json!({ "const": word })),
        Some(Not::Pattern(pattern)) => add(&mut schema, "not", json!({ "pattern": pattern })),
        None => {}
    }
    schema
}
