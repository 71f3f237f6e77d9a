//! Words of a shell command (POSIX).

/// `text` as one word; quoted only where the shell would see something else in it.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An option and its value; joined where the value could be taken for another option.
pub(crate) fn option(name: &str, value: &str) -> String {
    let joint = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{joint}{}", quote(value))
}
