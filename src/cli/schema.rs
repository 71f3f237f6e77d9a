//! `overdue schema`: the JSON Schema of topology.toml, for editors.

use super::exit::Failure;
use crate::topology::schema;

#[expect(clippy::print_stdout, reason = "the answer of a command")]
pub(super) fn run() -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&schema::schema())
        .map_err(|error| Failure::failed(error.to_string()))?;
    println!("{text}");
    Ok(())
}
