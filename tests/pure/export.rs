//! What `overdue export` prints.

mod formats;
mod names;
