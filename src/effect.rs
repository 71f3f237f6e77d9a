//! Effects that are described instead of written: from `[effects.NAME]` and the catalog of the database to the statements that find
//! and close rows.

pub(crate) mod changes;
pub(crate) mod description;
pub(crate) mod facts;
pub(crate) mod reference;
mod release;
pub(crate) mod statements;
pub(crate) mod watch;

pub use description::{Description, EffectKeys};
pub use facts::Facts;
pub use statements::Statements;
pub(crate) use statements::Trial;
pub use watch::{Ended, Ending, Found, Watch};
