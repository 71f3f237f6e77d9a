//! The properties of a message that only its publisher and its consumer look at.

/// As published; those that the program sets itself are not in it.
///
/// `user-id` is left out: the broker takes it only from the user that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// `content-encoding`.
    pub content_encoding: Option<String>,
    /// `priority`.
    pub priority: Option<u8>,
    /// `correlation-id`.
    pub correlation_id: Option<String>,
    /// `reply-to`.
    pub reply_to: Option<String>,
    /// `expiration`: milliseconds, as text.
    pub expiration: Option<String>,
    /// `timestamp`: seconds since 1970.
    pub timestamp_s: Option<u64>,
    /// `type`.
    pub kind: Option<String>,
    /// `app-id`.
    pub app_id: Option<String>,
}

impl Properties {
    /// Those of a copy: without `expiration`, which would end its wait early, or remove it from the parking lot.
    pub(super) fn of_copy(&self) -> Self {
        Self { expiration: None, ..self.clone() }
    }
}
