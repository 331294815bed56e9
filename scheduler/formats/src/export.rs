//! Plans with their state in the form `actions`, in which plan actions answer.
//!
//! A field that the form has no name for stands there under our own name, so that the document read again is the same plan.

use goalmill_common::clock::{parse_rfc3339, rfc3339};
use goalmill_common::goal::Goal;
use goalmill_common::hash::HashMap;
use goalmill_common::plan::{Plan, Step, Strategy};
use goalmill_common::status::StepStatus;
use goalmill_common::view::{PlanView, StepView};
use serde_json::{Map, Value, json};

use super::context::LISTS;

/// The state of a plan, as far as plan actions know it.
#[derive(Clone, Debug)]
pub struct ExportState {
    plan_id: String,
    goal: Goal,
    revision: u32,
    /// Unix milliseconds.
    created_ms: u64,
    /// Status and outputs, or error, by step id.
    steps: HashMap<String, (StepStatus, Value)>,
}

impl ExportState {
    /// - `view`: with the outputs of its steps.
    pub fn from_view(view: &PlanView) -> Self {
        let summary = &view.summary;
        Self {
            plan_id: summary.plan_id.to_string(),
            goal: view.goal.clone(),
            revision: summary.revision,
            created_ms: parse_rfc3339(&summary.created_at).unwrap_or_default(),
            steps: view.steps.iter().map(|step| (step.id.to_string(), (step.status, step_result(step)))).collect(),
        }
    }

    /// Of a plan that does not run.
    pub fn unstarted(plan_id: String, goal: Goal, created_ms: u64) -> Self {
        Self { plan_id, goal, revision: 0, created_ms, steps: HashMap::default() }
    }

    fn status(&self, id: &str) -> StepStatus {
        self.steps.get(id).map_or(StepStatus::Pending, |(status, _)| *status)
    }

    fn result(&self, id: &str) -> Value {
        self.steps.get(id).map_or(Value::Null, |(_, result)| result.clone())
    }
}

/// A step's outputs, or its failure.
fn step_result(step: &StepView) -> Value {
    match (&step.outputs, &step.failure) {
        (Some(outputs), _) => outputs.value(),
        (None, Some(failure)) => json!({ "error": failure.message }),
        (None, None) => Value::Null,
    }
}

/// Writes a plan with its state.
pub fn export_plan(plan: &Plan, state: &ExportState) -> Value {
    let mut own = own_fields(plan);
    own.shift_remove("steps");
    own.shift_remove("strategy");
    let mut map = Map::new();
    map.insert("id".into(), json!(state.plan_id));
    put_goal(&mut map, &state.goal);
    let is_nested = plan.steps.iter().any(|step| step.plan.is_some());
    let strategy = match (plan.is_iterative(), is_nested) {
        (true, _) => "iterative",
        (false, true) => "hierarchical",
        (false, false) => "flat",
    };
    map.insert("strategy".into(), json!(strategy));
    // It is always written: what a document leaves out has the default of its form.
    map.insert("execution_strategy".into(), json!(plan.strategy));
    map.insert("subtasks".into(), subtasks(plan, Some(state)));
    let mut metadata = match own.shift_remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    metadata.insert("created_at".into(), json!(state.created_ms as f64 / 1_000.0));
    metadata.insert("replan_count".into(), json!(state.revision));
    if let Some(max) = plan.revision.as_ref().and_then(|revision| revision.max) {
        metadata.insert("max_replans".into(), json!(max));
    }
    map.insert("metadata".into(), Value::Object(metadata));
    map.extend(own);
    let mut document = with_strategies(map);
    // A plan without references hands nothing on here.
    document.insert("pass_context".into(), json!(false));
    Value::Object(document)
}

/// - `state`: none where that of these steps is not known.
fn subtasks(plan: &Plan, state: Option<&ExportState>) -> Value {
    let one = |step: &Step| {
        let mut own = own_fields(step);
        let mut map = Map::new();
        let status = state.map_or(StepStatus::Pending, |state| state.status(step.id.as_str()));
        map.insert("id".into(), json!(step.id));
        map.insert("description".into(), json!(step.description));
        map.insert("dependencies".into(), json!(step.dependencies));
        map.insert("status".into(), json!(status.progress_group()));
        map.insert("result".into(), state.map_or(Value::Null, |state| state.result(step.id.as_str())));
        for name in ["id", "description", "dependencies"] {
            own.shift_remove(name);
        }
        if let Some(inner) = step.plan.as_deref().filter(|inner| has_only_steps(inner, plan.strategy)) {
            own.shift_remove("plan");
            own.shift_remove("kind");
            map.insert("subtasks".into(), subtasks(inner, None));
        }
        map.extend(own);
        Value::Object(map)
    };
    plan.steps.iter().map(one).collect()
}

/// Whether a plan inside says nothing that its steps and the plan around it do not say.
fn has_only_steps(plan: &Plan, outer: Strategy) -> bool {
    *plan == Plan { steps: plan.steps.clone(), strategy: outer, ..Plan::default() }
}

/// A plan or a step in our own form.
fn own_fields<T: serde::Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// The goal's text, and beside it what else the goal says.
fn put_goal(map: &mut Map<String, Value>, goal: &Goal) {
    if goal.description.is_empty() {
        return;
    }
    map.insert("goal".into(), json!(goal.description));
    let mut own = own_fields(goal);
    for name in ["success_criteria", "constraints"] {
        map.extend(own.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
    if let Some(ms) = goal.deadline_ms {
        map.insert("deadline".into(), json!(rfc3339(ms)));
    }
}

/// Writes out the strategies of the plans inside: a reader takes a missing one from the plan around it.
fn with_strategies(mut plan: Map<String, Value>) -> Map<String, Value> {
    for steps in LISTS {
        let Some(Value::Array(steps)) = plan.get_mut(steps) else { continue };
        for step in steps.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::Object(inner)) = step.get_mut("plan") {
                inner.entry("strategy").or_insert_with(|| json!(Strategy::default()));
                *inner = with_strategies(std::mem::take(inner));
            }
            *step = with_strategies(std::mem::take(step));
        }
    }
    plan
}
