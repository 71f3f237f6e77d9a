//! Secrets in the settings: a URL that may contain a password, and a text that is a secret as a whole. Their shown form has
//! `***`, which cannot be read back; defaults never take this form.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use url::{Url, form_urlencoded};

use crate::secret::{Secret, has_late_at};

/// Replaces the password in a shown URL.
const HIDDEN: &str = "***";

/// A URL that may contain a password; its `Debug` is `***`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub struct SecretUrl(Secret);

impl SecretUrl {
    /// The URL with its password, for a connection.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whether the URL may contain a password.
    pub fn has_password(&self) -> bool {
        let shown = without_password(self.expose());
        shown.is_none_or(|shown| shown.contains(HIDDEN))
    }

    /// The file with the client's private key that the URL names for TLS.
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

/// Shows a URL without its password, and any other text as `***`. The result cannot be read back.
impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = without_password(self.expose());
        serializer.serialize_str(shown.as_deref().unwrap_or(HIDDEN))
    }
}

/// `None` for a text that is not a URL, or that is ambiguous: all of it may be a password.
fn without_password(url: &str) -> Option<String> {
    // PostgreSQL's clients do not parse a fragment: it belongs to the last value.
    if has_late_at(url) || url.contains('#') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let begin = rest[..end].rfind('@').map_or(0, |at| at + 1);
    // The URL standard does not allow several hosts.
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
    // PostgreSQL accepts the password as a parameter as well, and the password of a key.
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

/// A secret; its `Debug` is `***`, and settings show it as `***`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub struct SecretText(Secret);

impl SecretText {
    /// The secret, for its use. Never put it into a text.
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
