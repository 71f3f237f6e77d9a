//! The drawings.

mod layout;
mod live;
mod text;
