//! Effects that are described instead of written: from `[effects.NAME]` and the catalog of the database to the statements that find
//! and close rows.

pub(crate) mod changes;
mod deadline;
pub(crate) mod description;
pub(crate) mod facts;
mod fragment;
pub(crate) mod look;
pub mod proposal;
pub(crate) mod reference;
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
