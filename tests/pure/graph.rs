//! Tests of the drawings.

mod live;
mod text;
