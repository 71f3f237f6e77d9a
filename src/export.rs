//! The topology as text for other programs: definitions for the broker, and the ladder for publishers. Pure functions.

pub(crate) mod definitions;
pub(crate) mod ladder;
