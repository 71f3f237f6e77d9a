//! The effects of the reference tables, described as any other.

use super::description::{Description, EffectKeys};

/// The effects `close`, `cancel` and `complete`, as they could stand in `overdue.toml`.
pub(crate) const REFERENCE: &str = include_str!("reference.toml");

/// The description of the reference effect that is called so.
pub fn reference(name: &str) -> Option<Description> {
    let all: std::collections::BTreeMap<String, EffectKeys> = toml::from_str(REFERENCE).ok()?;
    all.get(name)?.description(name).ok().flatten()
}
