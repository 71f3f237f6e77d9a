//! A URL among the settings, with or without a password in it.

use serde::{Deserialize, Serialize, Serializer};

use crate::secret::Secret;

/// A URL that may hold a password; its `Debug` is `***`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub struct SecretUrl(Secret);

impl SecretUrl {
    /// The URL as it was written, for the one who connects to it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(Secret::new(url))
    }
}

/// As it was written: the layers of settings are put together in this form. Whoever shows settings masks them first.
impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}
