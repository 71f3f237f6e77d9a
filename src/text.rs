//! Small pieces of text that many rooms write: counts with their nouns, durations, the causes of an error, shell words,
//! suggestions for a misspelt name, JSON with an object per line, what is safe on a terminal.

mod about;
mod count;
mod duration;
mod error_chain;
pub(crate) mod json;
mod printable;
pub(crate) mod shell;
mod suggest;
mod table;

pub(crate) use about::about;
pub(crate) use count::{counted, noun};
pub(crate) use duration::{duration, length};
pub(crate) use error_chain::error_chain;
pub(crate) use printable::OneLine;
pub use printable::{one_line, printable, printable_json};
pub(crate) use suggest::did_you_mean;
pub(crate) use table::row;
