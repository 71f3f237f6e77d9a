//! The JSON Schema of a plan, derived from the types that are written and read.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use super::saved::SavedPlan;

/// The schema of `overdue plan -o json` and of saved plans, JSON Schema draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize())
        .into_root_schema_for::<SavedPlan>()
        .into()
}
