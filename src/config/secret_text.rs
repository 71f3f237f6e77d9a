//! A text among the settings that is a secret as a whole.

use serde::{Deserialize, Serialize, Serializer};

use crate::secret::Secret;

/// A secret; its `Debug` is `***`, and so it is where settings are shown.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct SecretText(Secret);

impl SecretText {
    /// The secret, for the one who uses it. It belongs into no text.
    #[must_use]
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
        serializer.serialize_str("***")
    }
}
