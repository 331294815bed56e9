//! Recognises workflows of other engines, which are not read as plans.

use serde_json::Value;

/// A workflow of another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignWorkflow {
    /// Whose it is.
    pub engine: &'static str,
    /// How to get a plan.
    pub hint: &'static str,
}

const BY_HAND: &str = "write its tasks as the steps of a plan; `goalmill schema plan` has the fields";
const CONDUCTOR: ForeignWorkflow = ForeignWorkflow { engine: "Conductor", hint: BY_HAND };
const ARGO: ForeignWorkflow = ForeignWorkflow { engine: "Argo", hint: BY_HAND };
const WFFORMAT: ForeignWorkflow =
    ForeignWorkflow { engine: "WfCommons", hint: "convert it: goalmill import wfformat FILE > plan.yaml" };

/// The engine whose workflow a document is.
pub fn foreign_workflow(draft: &Value) -> Option<ForeignWorkflow> {
    let is_argo = |version: &Value| version.as_str().is_some_and(|version| version.starts_with("argoproj.io/"));
    if draft.get("apiVersion").is_some_and(is_argo) {
        return Some(ARGO);
    }
    let is_task = |task: &Value| task.get("taskReferenceName").is_some();
    if draft.get("tasks").and_then(Value::as_array).is_some_and(|tasks| tasks.iter().any(is_task)) {
        return Some(CONDUCTOR);
    }
    let is_trace = draft.get("schemaVersion").is_some() && draft.pointer("/workflow/specification").is_some();
    is_trace.then_some(WFFORMAT)
}
