//! What is wrong with a setting, and where it stands, in this program's words.

use figment::{
    Source,
    error::{Actual, Error, Kind},
};

/// The first thing that is wrong.
pub(super) fn explain(error: &Error) -> String {
    let place = place(error);
    let what = match &error.kind {
        Kind::UnknownField(_, known) => match known {
            [] => "there is no such setting".to_owned(),
            known => format!("there is no such setting; there are {}", known.join(", ")),
        },
        Kind::UnknownVariant(found, known) => {
            format!("`{found}` is none of {}", known.join(", "))
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("it is {}, and has to be {}", actual(found), wanted(expected))
        }
        Kind::MissingField(field) => format!("`{field}` is missing"),
        kind => kind.to_string(),
    };
    if place.is_empty() { what } else { format!("{place}: {}", what.trim_end()) }
}

/// `OVERDUE_WORKER__BATCH_SIZE`, or `overdue.toml: worker.batch_size`.
fn place(error: &Error) -> String {
    let key = || {
        let parts = error.path.iter().filter(|part| *part != "default");
        parts.cloned().collect::<Vec<_>>().join(".")
    };
    let metadata = error.metadata.as_ref();
    match metadata.and_then(|metadata| metadata.source.as_ref()) {
        Some(Source::File(path)) if key().is_empty() => path.display().to_string(),
        Some(Source::File(path)) => format!("{}: {}", path.display(), key()),
        _ if metadata.is_some_and(|metadata| metadata.name.contains("environment")) => {
            format!("OVERDUE_{}", key().replace('.', "__").to_uppercase())
        }
        _ => key(),
    }
}

fn actual(found: &Actual) -> String {
    match found {
        Actual::Str(text) => format!("the text \"{text}\""),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        Actual::Bool(flag) => flag.to_string(),
        Actual::Map => "a table".to_owned(),
        Actual::Seq => "a list".to_owned(),
        other => other.to_string(),
    }
}

/// What serde expects, in words.
fn wanted(expected: &str) -> String {
    match expected {
        "usize" | "u16" | "u32" | "u64" => "a whole number".to_owned(),
        "a string" | "path string" | "string" => "text".to_owned(),
        expected if expected.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}
