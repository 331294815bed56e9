//! JSON Schemas of the forms, as `goalmill schema --format` prints them.

use goalmill_common::document_format::DocumentFormat;
use serde_json::Value;

/// The JSON Schema of the documents of a form; fields that it does not name are fields of our own form.
pub fn format_schema(format: DocumentFormat) -> Value {
    let text = match format {
        DocumentFormat::Subtasks => include_str!("../../../docs/schemas/formats/subtasks.json"),
        DocumentFormat::PlanAndExecute => include_str!("../../../docs/schemas/formats/plan_and_execute.json"),
        DocumentFormat::Actions => include_str!("../../../docs/schemas/formats/actions.json"),
        DocumentFormat::Phases => include_str!("../../../docs/schemas/formats/phases.json"),
        DocumentFormat::Nodes => include_str!("../../../docs/schemas/formats/nodes.json"),
    };
    serde_json::from_str(text).expect("the schemas are JSON")
}
