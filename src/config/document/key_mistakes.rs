//! Keys that are not in the table of keys, and keys that have to be there.

use std::borrow::Cow;

use toml::Spanned;

use super::{
    keys::{Key, Kind, Presence, Section},
    mistake::{Mistake, MistakeKind},
    place::{Place, listed},
};

/// A key that `section` does not have; `meant` is the one that it is like.
pub(super) fn unknown(
    root: &Section,
    place: &Place,
    key: &Spanned<Cow<'_, str>>,
    meant: Option<&str>,
    section: &Section,
) -> Mistake {
    let name = key.get_ref();
    let (of, keys) = match place.header.as_str() {
        "" => (String::new(), "the keys are".to_owned()),
        header => (format!(" in {header}"), format!("the keys of {header} are")),
    };
    let help = match (meant, elsewhere(root, name)) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, Some(header)) => format!("it belongs below {header}"),
        (None, None) => {
            format!("{keys} {}", listed(section.keys.iter().map(|key| key.name), "and"))
        }
    };
    let message = format!("there is no key `{name}`{of}");
    let kind = MistakeKind::UnknownKey;
    Mistake { kind, span: key.span(), key: place.below(name), message, help }
}

/// The header of the table that has this key.
fn elsewhere(root: &Section, name: &str) -> Option<String> {
    root.keys.iter().find_map(|key| match key.kind {
        Kind::Section(section) if section.key(name).is_some() => Some(format!("[{}]", key.name)),
        Kind::Sections(section) if section.key(name).is_some() => Some(format!("[[{}]]", key.name)),
        _ => None,
    })
}

/// A key that has to be there and is not. A list of tables without any is like an empty list: a rule speaks about it.
pub(super) fn missing(place: &Place, key: &Key) -> Option<Mistake> {
    if !matches!(key.presence, Presence::Required) || matches!(key.kind, Kind::Sections(_)) {
        return None;
    }
    let (name, example) = (key.name, key.example);
    let (message, help) = match (&key.kind, place.header.as_str()) {
        (Kind::Section(_), _) => {
            (format!("[{name}] is missing"), format!("add [{name}] and below it {example}"))
        }
        (_, "") => {
            (format!("`{name}` is missing"), format!("add a line {name} = {example} at the top"))
        }
        (_, header) => {
            (format!("{header} has no `{name}`"), format!("add a line {name} = {example}"))
        }
    };
    let kind = MistakeKind::MissingKey;
    Some(Mistake { kind, span: place.span.clone(), key: place.below(name), message, help })
}
