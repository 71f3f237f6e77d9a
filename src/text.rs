//! Small pieces of text that many rooms write: counts with their nouns, the causes of an error, shell words,
//! suggestions for a misspelt name, JSON with an object per line.

mod count;
mod error_chain;
pub(crate) mod json;
pub(crate) mod shell;
mod suggest;
mod table;

pub(crate) use count::{counted, noun};
pub(crate) use error_chain::error_chain;
pub(crate) use suggest::did_you_mean;
pub(crate) use table::row;
