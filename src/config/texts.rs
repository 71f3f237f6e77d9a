//! The texts that settings may be, and a key that need not be there.

use super::document::keys::{ANY, Key, Kind, Presence, Text};
use super::millis::Millis;

pub(super) const fn key(
    name: &'static str,
    about: &'static str,
    kind: Kind,
    example: &'static str,
) -> Key {
    Key { name, about, kind, presence: Presence::Optional, example }
}

pub(super) static ANY_TEXT: Text = ANY;

/// It may hold a password.
pub(super) static URL: Text = Text { secret: true, ..ANY };

pub(super) static DURATION: Text = Text { check: Some(duration), ..ANY };

/// A duration that is not zero.
pub(super) static INTERVAL: Text = Text { check: Some(interval), ..ANY };

fn duration(text: &str) -> Result<(), String> {
    Millis::try_from(text.to_owned()).map(|_| ())
}

fn interval(text: &str) -> Result<(), String> {
    match Millis::try_from(text.to_owned())? {
        Millis(0) => Err(format!("`{text}` is too short: it has to be 1ms or more")),
        Millis(_) => Ok(()),
    }
}
