//! Plans with their state, written in the forms of other planners.
//!
//! A field that a form has no name for stands there under our own name, so that the document read again is the same plan.

mod nested;

use std::cell::RefCell;
use std::collections::BTreeMap;

use goalmill_common::clock::rfc3339;
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::goal::Goal;
use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::plan::{Plan, Step, Strategy};
use goalmill_common::revision::RevisionRecord;
use goalmill_common::status::{PlanStatus, ProgressGroup, StepStatus};
use goalmill_common::view::{PlanView, StepView};
use serde_json::{Map, Value, json};

use self::nested::plan_word;
use super::context::LISTS;

/// The state of a plan, as far as other forms know it.
#[derive(Clone, Debug)]
pub struct ExportState {
    pub plan_id: String,
    pub goal: Goal,
    pub status: PlanStatus,
    pub revision: u32,
    /// 0 to 1.
    pub confidence: f64,
    /// RFC 3339.
    pub created_at: String,
    pub updated_at: String,
    pub finished_at: Option<String>,
    /// Status and outputs, or error, by step id.
    steps: HashMap<String, (StepStatus, Value)>,
}

impl ExportState {
    /// - `view`: with the outputs of its steps.
    pub fn of(view: &PlanView) -> Self {
        let summary = &view.summary;
        Self {
            plan_id: summary.plan_id.to_string(),
            goal: view.goal.clone(),
            status: summary.status,
            revision: summary.revision,
            confidence: view.confidence,
            created_at: summary.created_at.clone(),
            updated_at: summary.updated_at.clone(),
            finished_at: summary.finished_at.clone(),
            steps: view.steps.iter().map(|step| (step.id.to_string(), (step.status, step_result(step)))).collect(),
        }
    }

    /// Of a plan that does not run.
    ///
    /// - `now`: RFC 3339.
    pub fn unstarted(plan_id: String, goal: Goal, confidence: f64, now: String) -> Self {
        Self {
            plan_id,
            goal,
            status: PlanStatus::Planning,
            revision: 0,
            confidence,
            created_at: now.clone(),
            updated_at: now,
            finished_at: None,
            steps: HashMap::default(),
        }
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

/// Writes a plan in another form, with its state.
pub fn export_plan(format: DocumentFormat, plan: &Plan, state: &ExportState) -> Value {
    Value::Object(Export::new(state).write(format, plan))
}

/// A field that a form has no name for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnField {
    pub name: String,
    /// The steps that have it; empty for a field of the plan.
    pub steps: Vec<StepId>,
}

/// The fields of a plan that stand under our own names when it is written in another form: other readers do not know
/// them.
pub fn fields_without_equal(format: DocumentFormat, plan: &Plan) -> Vec<OwnField> {
    let state = ExportState::unstarted(String::new(), Goal::default(), 1.0, String::new());
    let export = Export::new(&state);
    export.write(format, plan);
    export.own.into_inner().into_iter().map(|(name, steps)| OwnField { name, steps }).collect()
}

/// Writes a revision in the form `subtasks`, the only one that has revisions.
///
/// - `state`: of the plan now.
pub fn export_revision(record: &RevisionRecord, state: &ExportState) -> Value {
    let export = Export::new(state);
    let added: Vec<Value> = record.added.iter().map(|step| Value::Object(export.subtask(step))).collect();
    let removed: Vec<&StepId> = record.removed.iter().map(|step| &step.id).chain(&record.skipped).collect();
    let modified: Vec<&StepId> = record.modified.iter().map(|step| &step.after.id).collect();
    json!({
        "revision_id": format!("{}:{}", state.plan_id, record.revision),
        "original_plan_id": state.plan_id,
        "trigger": record.trigger,
        "changes": record.changes,
        "new_subtasks": added,
        "removed_task_ids": removed,
        "modified_task_ids": modified,
        "confidence_delta": ((record.confidence_after - record.confidence_before) * 1e6).round() / 1e6,
        "created_at": rfc3339(record.time_ms),
    })
}

struct Export<'a> {
    state: &'a ExportState,
    /// What stands under our own names, and in which steps.
    own: RefCell<BTreeMap<String, Vec<StepId>>>,
}

/// A document or a part of one in our own form, whose fields are taken one by one.
fn own_fields<T: serde::Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}

fn take(map: &mut Map<String, Value>, name: &str) -> Value {
    map.shift_remove(name).unwrap_or(Value::Null)
}

fn take_or(map: &mut Map<String, Value>, name: &str, otherwise: Value) -> Value {
    map.shift_remove(name).unwrap_or(otherwise)
}

/// Takes one of the estimates out; what is left of them stays.
fn take_estimate(map: &mut Map<String, Value>, name: &str) -> Value {
    let Some(Value::Object(mut estimates)) = map.shift_remove("estimates") else { return Value::Null };
    let taken = take(&mut estimates, name);
    if !estimates.is_empty() {
        map.insert("estimates".into(), Value::Object(estimates));
    }
    taken
}

fn put(map: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        map.insert(name.into(), value);
    }
}

/// The goal's text under `key`, and beside it what else the goal says.
fn put_goal(map: &mut Map<String, Value>, key: &str, goal: &Goal) {
    if goal.description.is_empty() {
        return;
    }
    map.insert(key.into(), json!(goal.description));
    let mut own = own_fields(goal);
    for name in ["success_criteria", "constraints"] {
        put(map, name, take(&mut own, name));
    }
    if let Some(ms) = goal.deadline_ms {
        map.insert("deadline".into(), json!(rfc3339(ms)));
    }
}

/// Moves the strategy to the name that a form has for it. It is always written: what a document leaves out has the
/// default of its form.
fn put_strategy(map: &mut Map<String, Value>, strategy: Strategy, own: &mut Map<String, Value>, key: &str) {
    own.shift_remove("strategy");
    map.insert(key.into(), json!(strategy));
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

impl<'a> Export<'a> {
    fn new(state: &'a ExportState) -> Self {
        Self { state, own: RefCell::default() }
    }

    fn write(&self, format: DocumentFormat, plan: &Plan) -> Map<String, Value> {
        let mut document = match format {
            DocumentFormat::Subtasks => with_strategies(self.subtasks(plan)),
            DocumentFormat::PlanAndExecute => with_strategies(self.plan_and_execute(plan)),
            DocumentFormat::Actions => with_strategies(self.actions(plan)),
            DocumentFormat::Phases => self.phases(plan),
            DocumentFormat::Nodes => return self.nodes(plan),
        };
        // A plan without references hands nothing on here.
        document.insert("pass_context".into(), json!(false));
        document
    }

    /// Writes the fields that the form has no name for.
    ///
    /// - `step`: that has them; none for the plan.
    fn put_own(&self, map: &mut Map<String, Value>, own: Map<String, Value>, step: Option<&StepId>) {
        let mut noted = self.own.borrow_mut();
        for name in own.keys() {
            noted.entry(name.clone()).or_default().extend(step.cloned());
        }
        map.extend(own);
    }

    fn status(&self, id: &str) -> StepStatus {
        self.state.steps.get(id).map_or(StepStatus::Pending, |(status, _)| *status)
    }

    fn result(&self, id: &str) -> Value {
        self.state.steps.get(id).map_or(Value::Null, |(_, result)| result.clone())
    }

    fn subtasks(&self, plan: &Plan) -> Map<String, Value> {
        let mut own = own_fields(plan);
        own.shift_remove("steps");
        let mut map = Map::new();
        let summary = self.state;
        map.insert("plan_id".into(), json!(summary.plan_id));
        let mut metadata = match own.shift_remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        // Where no goal was named, the plan stands for it.
        map.insert("goal_id".into(), take_or(&mut metadata, "goal_id", json!(summary.plan_id)));
        put_goal(&mut map, "goal", &self.state.goal);
        map.insert("subtasks".into(), plan.steps.iter().map(|step| Value::Object(self.subtask(step))).collect());
        // This form has no `adaptive`.
        let key = if plan.strategy == Strategy::Adaptive { "strategy" } else { "execution_strategy" };
        put_strategy(&mut map, plan.strategy, &mut own, key);
        put(&mut map, "estimated_total_duration", take_estimate(&mut own, "seconds"));
        let confidence = take(&mut own, "confidence");
        if !confidence.is_null() {
            map.insert("confidence_score".into(), confidence);
        } else if self.state.confidence < 1.0 {
            map.insert("confidence_score".into(), json!(self.state.confidence));
        }
        map.insert("alternative_plans".into(), take_or(&mut metadata, "alternative_plans", json!([])));
        map.insert("status".into(), json!(plan_word(summary.status)));
        map.insert("created_at".into(), json!(summary.created_at));
        map.insert("updated_at".into(), json!(summary.updated_at));
        if !metadata.is_empty() {
            map.insert("metadata".into(), Value::Object(metadata));
        }
        self.put_own(&mut map, own, None);
        map
    }

    fn subtask(&self, step: &Step) -> Map<String, Value> {
        let mut own = own_fields(step);
        let mut map = Map::new();
        map.insert("task_id".into(), take(&mut own, "id"));
        map.insert("description".into(), take_or(&mut own, "description", json!("")));
        let agent = take(&mut own, "agent_type");
        put(
            &mut map,
            "agent_type",
            if step.kind.needs_worker() && step.agent_type.is_open() { json!("TBD") } else { agent },
        );
        map.insert("dependencies".into(), take_or(&mut own, "dependencies", json!([])));
        map.insert("inputs".into(), take_or(&mut own, "inputs", json!({})));
        map.insert("expected_outputs".into(), take_or(&mut own, "expected_outputs", json!([])));
        let status = self.status(step.id.as_str());
        let status = match (status, status.progress_group()) {
            (StepStatus::Cancelled, _) => ProgressGroup::Failed.as_str(),
            (StepStatus::Blocked, _) | (_, ProgressGroup::Skipped) => "blocked",
            (_, group) => group.as_str(),
        };
        map.insert("status".into(), json!(status));
        put(&mut map, "result", self.result(step.id.as_str()));
        put(&mut map, "priority", take(&mut own, "priority"));
        put(&mut map, "estimated_duration_seconds", take_estimate(&mut own, "seconds"));
        if let Some(Value::Object(mut retry)) = own.shift_remove("retry") {
            let seconds = step.retry.initial_ms as f64 / 1_000.0;
            let mut policy = Map::new();
            policy.insert("max_retries".into(), take(&mut retry, "max"));
            policy.insert("backoff_seconds".into(), json!(seconds));
            retry.shift_remove("initial_ms");
            policy.extend(retry);
            map.insert("retry_policy".into(), Value::Object(policy));
        }
        self.put_own(&mut map, own, Some(&step.id));
        map
    }

    fn plan_and_execute(&self, plan: &Plan) -> Map<String, Value> {
        let mut own = own_fields(plan);
        own.shift_remove("steps");
        let mut map = Map::new();
        map.insert("id".into(), json!(self.state.plan_id));
        put_goal(&mut map, "goal", &self.state.goal);
        map.insert("steps".into(), plan.steps.iter().map(|step| Value::Object(self.fallback_step(step))).collect());
        put_strategy(&mut map, plan.strategy, &mut own, "execution_mode");
        put(&mut map, "estimated_total_tokens", take_estimate(&mut own, "tokens"));
        map.insert("status".into(), json!(plan_word(self.state.status)));
        map.insert("created_at".into(), json!(self.state.created_at));
        self.put_own(&mut map, own, None);
        map
    }

    fn fallback_step(&self, step: &Step) -> Map<String, Value> {
        let mut own = own_fields(step);
        let mut map = Map::new();
        map.insert("id".into(), take(&mut own, "id"));
        map.insert("description".into(), take_or(&mut own, "description", json!("")));
        map.insert("action".into(), take_or(&mut own, "action", json!("")));
        map.insert("parameters".into(), take_or(&mut own, "inputs", json!({})));
        map.insert("dependencies".into(), take_or(&mut own, "dependencies", json!([])));
        map.insert("expected_output".into(), take_or(&mut own, "expected_output", json!("")));
        let action = step.fallback.as_ref().filter(|fallback| fallback.agent_type.is_none());
        let action = action.and_then(|fallback| fallback.action.clone()).filter(|action| !action.is_empty());
        if action.is_some() {
            own.shift_remove("fallback");
        }
        map.insert("fallback_action".into(), json!(action));
        put(&mut map, "estimated_tokens", take_estimate(&mut own, "tokens"));
        map.insert("status".into(), json!(self.status(step.id.as_str()).progress_group()));
        put(&mut map, "result", self.result(step.id.as_str()));
        self.put_own(&mut map, own, Some(&step.id));
        map
    }
}
