//! Recognises documents that are neither a plan nor a goal, and says where they belong.

use serde_json::{Map, Value};

/// A document that is read elsewhere, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignDocument {
    /// Beginning with an article.
    pub what: String,
    /// The node of a workflow that shows it.
    pub node: Option<usize>,
    /// What to do with it.
    pub hint: &'static str,
}

const BY_HAND: &str = "write its tasks as the steps of a plan; `goalmill schema plan` has the fields";
const TRACE: &str = "convert it: goalmill import wfformat FILE > plan.yaml";
const NODE: &str = "write it as a step of a plan, with `kind: llm` for a call of a model, and submit that plan; the nodes of a \
    workflow are `plan.decompose`, `plan.execute`, `plan.replan` and `plan.status`";
const REVISION: &str =
    "send it as an edit of the plan that it revises: goalmill plan edit PLAN --file FILE, or POST /v1/plans/{id}:edit";
const FEEDBACK: &str =
    "an agent of kind `http` or `command` answers with it; goalmill import document FILE prints it as such an answer";
const CARD: &str = "register it: goalmill agent register FILE, or POST /v1/agents";

/// The kind of a document that is no plan and no goal.
pub fn foreign_document(draft: &Value) -> Option<ForeignDocument> {
    let foreign = |what: &str, hint| Some(ForeignDocument { what: what.into(), node: None, hint });
    let map = draft.as_object()?;
    let is_argo = |version: &Value| version.as_str().is_some_and(|version| version.starts_with("argoproj.io/"));
    if map.get("apiVersion").is_some_and(is_argo) {
        return foreign("a workflow of Argo", BY_HAND);
    }
    let is_task = |task: &Value| task.get("taskReferenceName").is_some();
    if map.get("tasks").and_then(Value::as_array).is_some_and(|tasks| tasks.iter().any(is_task)) {
        return foreign("a workflow of Conductor", BY_HAND);
    }
    if map.contains_key("schemaVersion") && draft.pointer("/workflow/specification").is_some() {
        return foreign("a workflow of WfCommons", TRACE);
    }
    if is_revision(draft) {
        return foreign("the revision of a plan", REVISION);
    }
    if map.contains_key("task_id") && map.contains_key("feedback_type") {
        return foreign("the feedback of an agent", FEEDBACK);
    }
    if is_card(draft) {
        return foreign("the card of an agent", CARD);
    }
    let (n, action) = other_node(draft)?;
    Some(ForeignDocument {
        what: format!("a workflow with a node of the action `{action}`"),
        node: Some(n),
        hint: NODE,
    })
}

/// Whether a document is the revision of a plan, in the form `subtasks`.
pub fn is_revision(draft: &Value) -> bool {
    let lists = ["new_subtasks", "removed_task_ids", "modified_task_ids"];
    draft.get("original_plan_id").is_some() && lists.iter().any(|list| draft.get(list).is_some_and(Value::is_array))
}

/// Fields of which a card has one beside its agent type; a step has none of them.
const CARD_FIELDS: [&str; 8] = [
    "capabilities", "specialization", "cost_per_invocation", "avg_latency_ms", "success_rate", "latency_ms", "cost",
    "actions",
];

/// Whether a document describes an agent.
pub fn is_card(draft: &Value) -> bool {
    let is_named = draft.get("agent_type").is_some_and(Value::is_string);
    let has_steps = draft.as_object().is_some_and(has_steps);
    is_named && !has_steps && CARD_FIELDS.iter().any(|field| draft.get(field).is_some())
}

/// Whether a document is a workflow of plan actions.
pub fn is_workflow(document: &Value) -> bool {
    nodes(document).iter().any(|node| action_verb(node).is_some())
}

fn nodes(document: &Value) -> &[Value] {
    document.get("nodes").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first node of a workflow that is no plan action: its place, and its action.
fn other_node(document: &Value) -> Option<(usize, String)> {
    let action = |node: &Value| node.get("action").or_else(|| node.get("type"))?.as_str().map(ToOwned::to_owned);
    let is_call = |node: &Value| {
        node.get("with").is_some() && matches!(action(node).as_deref(), Some("llm.call" | "agent.dispatch"))
    };
    let is_workflow = nodes(document).iter().any(|node| action_verb(node).is_some() || is_call(node));
    let others = nodes(document).iter().enumerate().filter(|(_, node)| is_workflow && action_verb(node).is_none());
    others.map(|(n, node)| (n, action(node).unwrap_or_default())).next()
}

/// The action of a node of such a workflow: `decompose`, `execute`, `replan` or `status`.
pub fn action_verb(node: &Value) -> Option<&str> {
    let verb = node.get("action")?.as_str()?.strip_prefix("plan.")?;
    matches!(verb, "decompose" | "execute" | "replan" | "status").then_some(verb)
}

/// Whether an object has a list of steps of its own.
pub fn has_steps(map: &Map<String, Value>) -> bool {
    ["steps", "subtasks", "sub_tasks", "tasks", "nodes", "phases"].iter().any(|name| map.contains_key(*name))
}
