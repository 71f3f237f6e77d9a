//! The drawings.

mod live;
mod text;
