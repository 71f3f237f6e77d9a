//! `overdue schema`: the JSON Schema of topology.toml, for editors.

use super::{exit::Failure, output::say_json};
use crate::topology::schema;

pub(super) fn run() -> Result<(), Failure> {
    say_json(&schema::schema())
}
