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

/// A whole number and one unit. For each unit the number has as many digits as ten years take, and the first of
/// the longest is no higher than theirs; the rest of the limit is for `overdue check`.
const LEVEL: &str = concat!(
    "^(([1-9][0-9]{0,10}|[1-3][0-9]{11})ms",
    "|([1-9][0-9]{0,7}|[1-3][0-9]{8})s",
    "|([1-9][0-9]{0,5}|[1-5][0-9]{6})m",
    "|([1-9][0-9]{0,3}|[1-8][0-9]{4})h",
    "|([1-9][0-9]{0,2}|[1-3][0-9]{3})d)$",
);

/// A delay level: whole number and one unit (ms, s, m, h, d), up to ten years.
#[derive(JsonSchema)]
#[schemars(rename = "Level", transparent)]
pub(super) struct LevelText(
    #[schemars(
        regex(pattern = LEVEL),
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
