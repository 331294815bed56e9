//! Plans with their state, written in the forms of other planners.
//!
//! A field that a form has no name for stands there under our own name, so that the document read again is the same plan.

use std::cell::RefCell;
use std::collections::BTreeMap;

use goalmill_common::clock::{parse_rfc3339, rfc3339};
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::goal::Goal;
use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::plan::{Phase, Plan, Step, StepKind, Strategy};
use goalmill_common::revision::RevisionRecord;
use goalmill_common::status::{PlanStatus, ProgressGroup, StepStatus};
use goalmill_common::view::{PlanView, StepView};
use serde_json::{Map, Value, json};

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

    fn actions(&self, plan: &Plan) -> Map<String, Value> {
        let mut own = own_fields(plan);
        own.shift_remove("steps");
        let mut map = Map::new();
        let summary = self.state;
        map.insert("id".into(), json!(summary.plan_id));
        put_goal(&mut map, "goal", &self.state.goal);
        let is_nested = plan.steps.iter().any(|step| step.plan.is_some());
        let strategy = match (plan.is_iterative(), is_nested) {
            (true, _) => "iterative",
            (false, true) => "hierarchical",
            (false, false) => "flat",
        };
        map.insert("strategy".into(), json!(strategy));
        put_strategy(&mut map, plan.strategy, &mut own, "execution_strategy");
        map.insert("subtasks".into(), self.nested_subtasks(plan, true));
        let mut metadata = match own.shift_remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let created = parse_rfc3339(&summary.created_at).map(|ms| ms as f64 / 1_000.0);
        metadata.insert("created_at".into(), json!(created));
        metadata.insert("replan_count".into(), json!(summary.revision));
        if let Some(max) = plan.revision.as_ref().and_then(|revision| revision.max) {
            metadata.insert("max_replans".into(), json!(max));
        }
        map.insert("metadata".into(), Value::Object(metadata));
        self.put_own(&mut map, own, None);
        map
    }

    /// - `is_outer`: whether the state of these steps is known.
    fn nested_subtasks(&self, plan: &Plan, is_outer: bool) -> Value {
        let one = |step: &Step| {
            let mut own = own_fields(step);
            let mut map = Map::new();
            map.insert("id".into(), take(&mut own, "id"));
            map.insert("description".into(), take_or(&mut own, "description", json!("")));
            map.insert("dependencies".into(), take_or(&mut own, "dependencies", json!([])));
            let status = if is_outer { self.status(step.id.as_str()) } else { StepStatus::Pending };
            map.insert("status".into(), json!(status.progress_group()));
            map.insert("result".into(), if is_outer { self.result(step.id.as_str()) } else { Value::Null });
            if let Some(inner) = step.plan.as_deref().filter(|inner| has_only_steps(inner, plan.strategy)) {
                own.shift_remove("plan");
                own.shift_remove("kind");
                map.insert("subtasks".into(), self.nested_subtasks(inner, false));
            }
            self.put_own(&mut map, own, Some(&step.id));
            Value::Object(map)
        };
        plan.steps.iter().map(one).collect()
    }

    fn phases(&self, plan: &Plan) -> Map<String, Value> {
        let mut own = own_fields(plan);
        own.shift_remove("steps");
        own.shift_remove("phases");
        let mut map = Map::new();
        let summary = self.state;
        map.insert("id".into(), json!(summary.plan_id));
        put_goal(&mut map, "query", &self.state.goal);
        map.insert("status".into(), json!(plan_word(summary.status)));
        let whole = [Phase { id: "plan".into(), description: String::new(), checkpoint: false }];
        let is_implicit = plan.phases.is_empty();
        let phases = if is_implicit { &whole[..] } else { &plan.phases[..] };
        let written = phases.iter().enumerate().map(|(order, phase)| {
            let is_in = |step: &&Step| is_implicit || step.phase.as_deref() == Some(phase.id.as_str());
            self.phase(phase, order, plan.steps.iter().filter(is_in).collect(), is_implicit)
        });
        map.insert("phases".into(), written.collect());
        let outside: Vec<&Step> = plan.steps.iter().filter(|step| !is_implicit && step.phase.is_none()).collect();
        if !outside.is_empty() {
            let steps = outside.into_iter().enumerate().map(|(order, step)| self.phase_step(step, "", order));
            map.insert("steps".into(), steps.collect());
        }
        map.insert("createdAt".into(), json!(summary.created_at));
        if let Some(at) = &summary.finished_at {
            map.insert("completedAt".into(), json!(at));
        }
        self.put_own(&mut map, own, None);
        map
    }

    fn phase(&self, phase: &Phase, order: usize, steps: Vec<&Step>, is_implicit: bool) -> Value {
        let statuses: Vec<StepStatus> = steps.iter().map(|step| self.status(step.id.as_str())).collect();
        let name = if phase.description.is_empty() { &phase.id } else { &phase.description };
        let steps: Vec<Value> =
            steps.into_iter().enumerate().map(|(order, step)| self.phase_step(step, &phase.id, order)).collect();
        let mut map = Map::new();
        map.insert("id".into(), json!(phase.id));
        map.insert("planId".into(), json!(self.state.plan_id));
        map.insert("name".into(), json!(name));
        map.insert("status".into(), json!(phase_word(&statuses)));
        map.insert("steps".into(), Value::Array(steps));
        map.insert("replanCheckpoint".into(), json!(phase.checkpoint));
        map.insert("order".into(), json!(order));
        if is_implicit {
            map.insert("implicit".into(), json!(true));
        }
        Value::Object(map)
    }

    fn phase_step(&self, step: &Step, phase: &str, order: usize) -> Value {
        let mut own = own_fields(step);
        own.shift_remove("phase");
        let mut map = Map::new();
        map.insert("id".into(), take(&mut own, "id"));
        if !phase.is_empty() {
            map.insert("phaseId".into(), json!(phase));
        }
        let kind = match step.kind {
            StepKind::Tool => json!("tool_call"),
            StepKind::Llm => json!("llm_call"),
            StepKind::Message | StepKind::Finish | StepKind::Internal | StepKind::Plan | StepKind::Wait => {
                take(&mut own, "kind")
            }
        };
        own.shift_remove("kind");
        map.insert("type".into(), kind);
        map.insert("toolName".into(), take_or(&mut own, "action", json!("")));
        map.insert("config".into(), take_or(&mut own, "inputs", json!({})));
        map.insert("dependencies".into(), take_or(&mut own, "dependencies", json!([])));
        map.insert("status".into(), json!(run_word(self.status(step.id.as_str()))));
        put(&mut map, "result", self.result(step.id.as_str()));
        map.insert("order".into(), json!(order));
        self.put_own(&mut map, own, Some(&step.id));
        Value::Object(map)
    }

    fn nodes(&self, plan: &Plan) -> Map<String, Value> {
        let mut own = own_fields(plan);
        own.shift_remove("steps");
        let mut map = Map::new();
        map.insert("planId".into(), json!(self.state.plan_id));
        put_goal(&mut map, "goal", &self.state.goal);
        let (mut nodes, mut edges) = (Map::new(), Map::new());
        for step in &plan.steps {
            let after: Vec<&str> = plan
                .steps
                .iter()
                .filter(|other| other.dependencies.contains(&step.id))
                .map(|other| other.id.as_str())
                .collect();
            if !after.is_empty() {
                edges.insert(step.id.to_string(), json!(after));
            }
            nodes.insert(step.id.to_string(), self.node(step, plan));
        }
        map.insert("nodes".into(), Value::Object(nodes));
        map.insert("edges".into(), Value::Object(edges));
        map.insert("status".into(), json!(plan_word(self.state.status)));
        self.put_own(&mut map, own, None);
        map
    }

    fn node(&self, step: &Step, plan: &Plan) -> Value {
        let mut own = own_fields(step);
        let mut map = Map::new();
        map.insert("id".into(), take(&mut own, "id"));
        map.insert("type".into(), take_or(&mut own, "kind", json!("tool")));
        put(&mut map, "toolId", take(&mut own, "action"));
        map.insert("input".into(), take_or(&mut own, "inputs", json!({})));
        // Edges say what a step waits for, in the order of the plan, and nothing about statuses.
        let by_edges: Vec<_> =
            plan.steps.iter().map(|other| &other.id).filter(|id| step.dependencies.contains(id)).collect();
        if step.dependency_status.is_empty() && step.dependencies.iter().eq(by_edges) {
            own.shift_remove("dependencies");
        }
        let mut meta = Map::new();
        meta.insert("status".into(), json!(self.status(step.id.as_str()).progress_group()));
        put(&mut meta, "result", self.result(step.id.as_str()));
        map.insert("meta".into(), Value::Object(meta));
        self.put_own(&mut map, own, Some(&step.id));
        Value::Object(map)
    }
}

/// Whether a plan inside says nothing that its steps and the plan around it do not say.
fn has_only_steps(plan: &Plan, outer: Strategy) -> bool {
    *plan == Plan { steps: plan.steps.clone(), strategy: outer, ..Plan::default() }
}

/// `pending, running, completed, failed, skipped`.
fn run_word(status: StepStatus) -> &'static str {
    let group = status.progress_group();
    if group == ProgressGroup::InProgress { "running" } else { group.as_str() }
}

/// `planning, running, completed, failed`.
fn plan_word(status: PlanStatus) -> &'static str {
    match status {
        PlanStatus::Planning | PlanStatus::AwaitingApproval => "planning",
        PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused => "running",
        PlanStatus::Completed => "completed",
        PlanStatus::Partial | PlanStatus::Failed | PlanStatus::Cancelled | PlanStatus::Rejected => "failed",
    }
}

/// Where a phase stands, by its steps.
fn phase_word(statuses: &[StepStatus]) -> &'static str {
    let all = |word: &str| statuses.iter().all(|status| run_word(*status) == word);
    let is_over = statuses.iter().all(|status| status.is_final());
    match () {
        () if statuses.is_empty() || all("pending") => "pending",
        () if all("skipped") => "skipped",
        () if is_over && statuses.contains(&StepStatus::Failed) => "failed",
        () if is_over => "completed",
        () => "running",
    }
}
