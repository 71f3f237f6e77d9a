//! The JSON Schema of `topology.toml`, for editors: derived from the types that read the file, so that both know
//! the same keys. It says what one value may be; how values go together is what `overdue check` knows.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use super::file::TopologyFile;

/// The schema, JSON Schema draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12())
        .into_root_schema_for::<TopologyFile>()
        .into()
}

/// A delay level: whole number and one unit (ms, s, m, h, d), up to ten years.
#[derive(JsonSchema)]
#[schemars(rename = "Level", transparent)]
pub(super) struct LevelText(
    #[schemars(
        regex(pattern = r"^[1-9][0-9]*(ms|s|m|h|d)$"),
        extend("examples" = ["5s", "30m", "1d"])
    )]
    #[expect(dead_code, reason = "a type for its schema")]
    String,
);

/// Letters, digits, `-`, `_` and inner `.`; not `amq`, which belongs to the broker.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct TopologyName(
    #[schemars(
        length(min = 1, max = 191),
        regex(pattern = r"^[A-Za-z0-9_-]+(\.+[A-Za-z0-9_-]+)*$"),
        extend("not" = { "pattern": r"^amq(\.|$)" })
    )]
    #[expect(dead_code, reason = "a type for its schema")]
    String,
);

/// One word of a routing key: letters, digits, `-` and `_`; not `parked`.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct TimeoutName(
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9_-]+$"),
        extend("not" = { "const": "parked" })
    )]
    #[expect(dead_code, reason = "a type for its schema")]
    String,
);
