//! Secrets among the settings: a URL with or without a password in it, and a text that is a secret as a whole. Shown they are
//! `***`, so what is shown cannot be read back; defaults never pass through it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use url::{Url, form_urlencoded};

use crate::secret::{Secret, has_late_at};

/// Stands for the password where a URL is shown.
const HIDDEN: &str = "***";

/// A URL that may hold a password; its `Debug` is `***`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub struct SecretUrl(Secret);

impl SecretUrl {
    /// The URL as it was written, for the one who connects to it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whether there is a password in it, as far as it can be read.
    pub fn has_password(&self) -> bool {
        let shown = without_password(self.expose());
        shown.is_none_or(|shown| shown.contains(HIDDEN))
    }

    /// The file with our key that it names for TLS.
    pub(super) fn key_file(&self) -> Option<PathBuf> {
        let (_, query) = self.expose().rsplit_once('?')?;
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let key = parameters.find(|(name, _)| matches!(&**name, "keyfile" | "sslkey"));
        key.map(|(_, file)| file.into_owned().into())
    }
}

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(Secret::new(url))
    }
}

/// For people: a URL without its password, and nothing of any other text. It cannot be read back.
impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = without_password(self.expose());
        serializer.serialize_str(shown.as_deref().unwrap_or(HIDDEN))
    }
}

/// `None` for a text that is not a URL, or may be read in two ways: all of it may be a password.
fn without_password(url: &str) -> Option<String> {
    // A fragment is none to PostgreSQL's clients, but a part of the last value.
    if has_late_at(url) || url.contains('#') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let begin = rest[..end].rfind('@').map_or(0, |at| at + 1);
    // Several hosts are no URL to the standard.
    let hosts = &rest[begin..end];
    if let Some((first, _)) = hosts.split_once(',') {
        let single = format!("{scheme}://{}{first}{}", &rest[..begin], &rest[end..]);
        let shown = without_password(&single)?;
        let (before, after) = shown.split_at(shown.find("://")? + 3);
        let (credentials, rest) = after.split_at(after.rfind('@').map_or(0, |at| at + 1));
        return Some(format!("{before}{credentials}{}", rest.replacen(first, hosts, 1)));
    }
    let mut url = Url::parse(url).ok()?;
    if url.password().is_some() {
        url.set_password(Some(HIDDEN)).ok()?;
    }
    // PostgreSQL takes it as a parameter as well, and that of a key.
    let is_secret = |key: &str| matches!(key, "password" | "sslpassword");
    if url.query_pairs().any(|(key, _)| is_secret(&key)) {
        let shown = url.query_pairs().map(|(key, value)| {
            let value = if is_secret(&key) { HIDDEN.into() } else { value };
            (key, value)
        });
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(shown).finish();
        url.set_query(Some(&query));
    }
    Some(url.to_string())
}

/// A secret; its `Debug` is `***`, and so it is where settings are shown.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub struct SecretText(Secret);

impl SecretText {
    /// The secret, for the one who uses it. It belongs into no text.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Secret::new(text))
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}
