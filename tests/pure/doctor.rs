//! `overdue doctor` on facts that are made up.

mod diagnosis;
mod facts;
mod judges;
