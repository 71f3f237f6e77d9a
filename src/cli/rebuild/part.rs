//! The orders that are read together.

use crate::{
    store::{orders::Effect, overdue::OverdueKey},
    topology::Timeout,
};

/// Orders of one effect: a notice of any of its timeouts is enough for each.
pub(super) struct Part<'a> {
    /// Through which they are published.
    pub(super) timeout: &'a Timeout,
    pub(super) effect: &'a Effect,
    pub(super) overdue_sql: &'a str,
    /// Behind which order it begins.
    pub(super) after: OverdueKey,
}
