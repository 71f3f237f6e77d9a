//! The columns of the picture, as places for everything else.

use super::Rect;

/// Free space around the picture.
pub(super) const MARGIN: i32 = 24;
/// Where the way back runs: below the heading.
pub(super) const RETURN_Y: i32 = 98;

/// The boxes of the five columns between the services and the worker, and what hangs below them.
pub(super) struct Columns {
    pub(super) services: Rect,
    pub(super) entry: Rect,
    pub(super) levels: Rect,
    pub(super) due: Rect,
    pub(super) business: Rect,
    pub(super) worker: Rect,
    pub(super) database: Rect,
    pub(super) events: Rect,
    pub(super) park: Rect,
    pub(super) parked: Rect,
}
