//! How long a statement may wait.

use std::time::Duration;

/// The limits of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// For each lock that somebody else holds.
    pub(crate) lock: Duration,
    /// In all; none where the session's limit is enough.
    pub(crate) statement: Option<Duration>,
}

impl Patience {
    /// Longer than any sane payment transaction.
    pub(super) const LONG: Self = Self { lock: Duration::from_secs(5), statement: None };

    /// Begins a transaction with these limits.
    pub(super) fn begin(self) -> String {
        let lock_ms = self.lock.as_millis();
        let statement = self.statement.map_or_else(String::new, |limit| {
            format!("; SET LOCAL statement_timeout = {}", limit.as_millis())
        });
        format!("BEGIN; SET LOCAL lock_timeout = {lock_ms}{statement}")
    }
}
