//! Passwords and values that contain one: they cannot be printed by mistake.

use std::fmt;

/// A value that is not printed. Its `Debug` is `***`; only [`Secret::expose`] returns the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for a login. Never put it into a text.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

/// Whether an `@` follows the authority of a URL, as parsers read it. Then the text before the `@` is probably a password
/// with `/`, `?` or `#`, and would be read as a host, a port or a path.
pub(crate) fn has_late_at(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find(['/', '\\', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

/// The escapes to write in a URL.
pub(crate) const ESCAPES: &str =
    "in user, password and path write %2F for `/`, %3F for `?`, %23 for `#` and %40 for `@`";

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}
