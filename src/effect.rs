//! Described effects: from `[effects.NAME]` and the catalog of the database to the statements that find and close rows.

pub(crate) mod changes;
mod deadline;
pub(crate) mod description;
pub(crate) mod facts;
pub(crate) mod look;
pub mod proposal;
mod release;
pub(crate) mod statements;
mod trial;
pub(crate) mod watch;
pub(crate) mod watched;

pub use description::{Description, EffectKeys};
pub use facts::Facts;
pub use statements::Statements;
pub(crate) use trial::Trial;
pub use watch::{Ended, Ending, Found, Watch};

/// The effects `close`, `cancel` and `complete` of the reference tables, in the format of `overdue.toml`.
const REFERENCE: &str = include_str!("effect/reference.toml");

/// The description of the reference effect of this name.
pub fn reference(name: &str) -> Option<Description> {
    let all: std::collections::BTreeMap<String, EffectKeys> = toml::from_str(REFERENCE).ok()?;
    all.get(name)?.description(name).ok().flatten()
}
