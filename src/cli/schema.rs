//! `overdue schema`: the JSON Schema of topology.toml, for editors.

use super::{exit::Failure, output::print_json};
use crate::topology::schema;

pub(super) fn run() -> Result<(), Failure> {
    print_json(&schema::schema())
}
