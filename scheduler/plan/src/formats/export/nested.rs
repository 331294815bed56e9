//! Exports in the forms whose steps stand inside something else: subtasks, phases, nodes.

use goalmill_common::clock::parse_rfc3339;
use goalmill_common::plan::{Phase, Plan, Step, StepKind, Strategy};
use goalmill_common::status::{PlanStatus, ProgressGroup, StepStatus};
use serde_json::{Map, Value, json};

use super::{Export, own_fields, put, put_goal, put_strategy, take, take_or};

impl Export<'_> {
    pub(super) fn actions(&self, plan: &Plan) -> Map<String, Value> {
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

    pub(super) fn phases(&self, plan: &Plan) -> Map<String, Value> {
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

    pub(super) fn nodes(&self, plan: &Plan) -> Map<String, Value> {
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
pub(super) fn plan_word(status: PlanStatus) -> &'static str {
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
