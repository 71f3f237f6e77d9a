//! The topology as text for other programs: what the broker imports, and the ladder for publishers. Pure functions.

pub(crate) mod definitions;
pub(crate) mod ladder;
