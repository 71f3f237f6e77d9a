//! Something that was asked, and may not have been answered.

use crate::diagnostic::Draft;

/// An answer, or why there is none.
pub(crate) type Asked<T> = Result<T, Gap>;

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Who did not answer, or which right is missing.
    pub reason: String,
    /// How to get the answer.
    pub fix: String,
    /// Whether a right is what is missing.
    pub denied: bool,
}

impl Gap {
    /// Nobody answered.
    pub fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: fix.into(), denied: false }
    }

    /// It follows from what another check is about, which says why.
    pub fn after(check: &str, reason: impl Into<String>) -> Self {
        Self::new(reason, format!("see {check}"))
    }

    /// A right is missing.
    pub fn denied(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { denied: true, ..Self::new(reason, fix) }
    }
}

/// A judgement of something that may not be known.
pub(crate) fn known<T>(asked: &Asked<T>, judge: impl FnOnce(&T) -> Draft) -> Draft {
    match asked {
        Ok(known) => judge(known),
        Err(gap) => Draft::warning(format!("not known: {}", gap.reason), gap.fix.clone()),
    }
}

/// How much another clock is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Milliseconds; negative is behind.
    pub ahead_ms: i64,
    /// How far off the reading can be, in milliseconds.
    pub margin_ms: i64,
}
