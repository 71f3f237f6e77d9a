//! The JSON Schema of `topology.toml`, for editors: from the keys that the parser takes. It says what one value may
//! be; how values go together is what `overdue check` knows.

use serde_json::Value;

use super::keys;
use crate::document::json_schema;

/// The schema, JSON Schema draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    json_schema::schema("topology.toml", &keys::FILE)
}
