//! The layouts of plan documents: a list of steps, phases, a graph of nodes and edges, wrapped or not.

use goalmill_common::limits::{ATTEMPT_EVENTS, PLAN_EVENTS, STEP_EVENTS};
use goalmill_common::number::to_u32;
use goalmill_common::plan::{Collect, Plan, Step, Strategy};
use serde_json::{Map, Value};

use super::reading::PlanReading;
use super::{cleanup, policy};
use crate::document::{DocumentPath, Field, Fields, Table, ValidationContext};
use crate::foreign::{ForeignDocument, foreign_document};

const PLAN: &Table = &[
    ("steps", &["subtasks", "sub_tasks", "tasks", "nodes"]),
    ("phases", &["stages"]),
    ("input_schema", &["inputs_schema"]),
    ("inputs", &[]),
    ("edges", &["links"]),
    ("name", &["plan_name", "title"]),
    ("strategy", &["execution_strategy", "mode"]),
    ("max_parallel", &["max_concurrency", "max_concurrent", "parallelism", "concurrency"]),
    ("budget", &["budgets"]),
    ("approve", &["approval"]),
    ("approval_required", &["requires_approval", "require_approval"]),
    ("metadata", &["meta", "annotations"]),
    ("goal", &["query", "job"]),
    ("description", &["summary"]),
    ("id", &["plan_id"]),
    ("revision", &["revision_policy", "replan_policy"]),
    ("continue_on_failure", &["continue_on_error"]),
    ("always", &["finally"]),
    ("undo_on", &[]),
    ("failures_max", &["max_failures"]),
    ("collect", &[]),
    ("constraints", &["constraint"]),
    ("success_criteria", &["success_criterion", "acceptance_criteria"]),
    ("criteria", &["criteria_policy"]),
    ("deadline", &["deadline_ms", "due", "due_at"]),
    ("start_at", &["start_at_ms"]),
    ("start_in", &["start_in_ms"]),
    ("tz", crate::document::ZONE_ALIASES),
    ("version", &["$schema", "api_version", "created_at"]),
    ("confidence", &["confidence_score"]),
    ("estimates", &["estimate"]),
    ("estimated_seconds", &["estimated_total_duration", "estimated_total_seconds", "estimated_duration"]),
    ("estimated_tokens", &["estimated_total_tokens"]),
    ("estimated_cost", &["estimated_total_cost"]),
];

pub(super) const PHASE: &Table = &[
    ("id", &["phase_id", "phase"]),
    ("name", &["title"]),
    ("description", &["summary"]),
    ("checkpoint", &["replan", "replan_checkpoint"]),
    ("steps", &["subtasks", "sub_tasks", "tasks"]),
];

/// The canonical name of a plan's field, whatever it is called in a document.
pub fn plan_field(key: &str) -> Option<&'static str> {
    crate::document::canonical(key, PLAN)
}

/// The fields of a phase under their canonical names; a name is its description where it has no other.
pub fn canonical_phase(phase: Map<String, Value>) -> Map<String, Value> {
    let is_described = phase.keys().any(|key| crate::document::canonical(key, PHASE) == Some("description"));
    let name = |key: String| match crate::document::canonical(&key, PHASE) {
        Some("name") if !is_described => "description".to_owned(),
        Some("name") | None => key,
        Some(name) => name.to_owned(),
    };
    phase.into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// Lets a change that adds a phase have the form `{phase, after, steps}`, also where it names the fields of the phase.
pub fn canonical_phase_change(change: &mut Value) {
    let Some(Value::Object(body)) = change.get_mut("add_phase") else { return };
    let phase = match body.get("phase") {
        Some(Value::Object(phase)) => phase.clone(),
        Some(_) => return,
        None => {
            let is_of_phase = |key: &&String| !matches!(key.as_str(), "after" | "steps");
            let keys: Vec<String> = body.keys().filter(is_of_phase).cloned().collect();
            keys.into_iter().filter_map(|key| body.shift_remove(&key).map(|value| (key, value))).collect()
        }
    };
    body.insert("phase".into(), Value::Object(canonical_phase(phase)));
}

/// Reads a document; `None` only after an error was noted.
///
/// - `depth`: plans around this one.
pub(super) fn document(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    draft: &Value,
    depth: u32,
) -> Option<Plan> {
    if depth > context.limits.depth_max {
        let detail = format!("plans are nested more than {} deep", context.limits.depth_max);
        context.error("PLAN_TOO_DEEP", at, detail, "move the inner steps up into their parent");
        return None;
    }
    if depth == 0 && is_foreign(context, draft, "a plan") {
        return None;
    }
    match draft {
        Value::Array(_) => {
            let mut reading = PlanReading::new(context);
            let count = size(draft);
            if count == 0 {
                context.error("EMPTY_PLAN", at, "the plan has no steps", "add at least one step");
            }
            if count == 0 || too_many(context, at, count) {
                return None;
            }
            reading.steps(at, draft, None, depth);
            reading.finish(at, Plan::default(), &[], count)
        }
        Value::Object(map) => match map.get("plan").filter(|inner| wraps(map, inner)) {
            Some(inner) => {
                wrapper(context, at, map);
                document(context, &at.key("plan"), inner, depth)
            }
            None => object(context, at, map, depth),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            context.error(
                "WRONG_TYPE",
                at,
                "a plan is an object with `steps`, or a list of steps",
                "give `{\"steps\": [ … ]}`",
            );
            None
        }
    }
}

/// Whether a document is something else; says so.
pub(super) fn is_foreign(context: &ValidationContext<'_>, draft: &Value, wanted: &str) -> bool {
    let Some(ForeignDocument { what, node, hint }) = foreign_document(draft) else { return false };
    let detail = format!("the document is {what}, not {wanted}");
    let at = DocumentPath::ROOT;
    match node {
        Some(n) => context.error("FOREIGN_FORMAT", &at.key("nodes").item(n).key("action"), detail, hint),
        None => context.error("FOREIGN_FORMAT", &at, detail, hint),
    }
    true
}

fn wraps(map: &Map<String, Value>, inner: &Value) -> bool {
    let has_steps = ["steps", "subtasks", "tasks", "nodes", "phases"].iter().any(|name| map.contains_key(*name));
    !has_steps && (inner.is_object() || inner.is_array())
}

/// Beside `plan` stands what is said about it; the caller takes it.
fn wrapper(context: &ValidationContext<'_>, at: &DocumentPath<'_>, map: &Map<String, Value>) {
    const BESIDE: &Table = &[
        ("plan", &[]),
        ("goal", &["query", "job"]),
        ("description", &[]),
        ("metadata", &[]),
        ("priority", &[]),
        ("namespace", &["tenant"]),
        ("deadline", &["deadline_ms"]),
        ("start_at", &["start_at_ms"]),
        ("start_in", &["start_in_ms"]),
        ("tz", crate::document::ZONE_ALIASES),
        ("constraints", &[]),
        ("inputs", &[]),
        ("success_criteria", &["success_criterion", "acceptance_criteria"]),
        ("criteria", &["criteria_policy"]),
        ("id", &["plan_id"]),
        ("version", &["$schema"]),
    ];
    Fields::from_map(context, at, map, BESIDE);
}

fn object(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    map: &Map<String, Value>,
    depth: u32,
) -> Option<Plan> {
    let before = context.errors();
    let fields = Fields::from_map(context, at, map, PLAN);
    if let Some(field) = fields.get("inputs").filter(|_| depth > 0) {
        let detail = "the inputs of a plan inside a plan are those of its step";
        let hint = "move them to `inputs` of the step, or write them as `default` into `input_schema`";
        context.error("CONFLICTING_FIELDS", &at.key(field.key), detail, hint);
    }
    let steps = fields.get("steps");
    let phases = fields.get("phases");
    if steps.is_none() && phases.is_none() {
        if !fields.slips.iter().any(|name| matches!(*name, "steps" | "phases")) {
            context.error("MISSING_FIELD", &at.key("steps"), "a plan needs `steps`", "list the steps under `steps`");
        }
        return None;
    }
    let count = steps.map_or(0, |f| size(f.value)) + phases.map_or(0, |f| inside_phases(f.value));
    let cleanup = fields.get("always").map_or(0, |f| size(f.value));
    if too_many(context, &at.key(steps.or(phases).map_or("steps", |f| f.key)), count + cleanup) {
        return None;
    }
    let mut plan = plan_of(&fields);
    let mut reading = PlanReading::new(context);
    let limit = context.limits.steps_max;
    if let Some(field) = phases {
        let (at, count) = (at.key(field.key), size(field.value));
        if count > limit {
            let detail = format!("{count} phases, at most {limit} are allowed");
            context.error("TOO_MANY_PHASES", &at, detail, "put more steps into fewer phases");
            return None;
        }
        plan.phases = reading.phases(&at, field.value, depth);
    }
    if let Some(field) = steps {
        reading.steps(&at.key(field.key), field.value, None, depth);
    }
    if let Some(field) = fields.get("always") {
        reading.always = true;
        reading.steps(&at.key(field.key), field.value, None, depth);
    }
    let edges = fields.get("edges").map(|field| reading.edges(&at.key(field.key), field));
    let steps_key = steps.or(phases).map_or("steps", |f| f.key);
    if count == 0 {
        if context.errors() == before {
            context.error("EMPTY_PLAN", &at.key(steps_key), "the plan has no steps", "add at least one step");
        }
        return None;
    }
    let plan = reading.finish(&at.key(steps_key), plan, &edges.unwrap_or_default(), count + cleanup)?;
    check_events(context, at, &plan);
    if let Some(rules) = context.rules.filter(|_| depth == 0) {
        super::budget::check_budget(context, at, &plan, &rules.budget, rules.catalogue);
        super::budget::check_constraints(context, &plan, &rules.constraints, rules.seconds_left, rules.catalogue);
    }
    Some(plan)
}

/// What a document says about a plan besides its steps and phases.
fn plan_of(fields: &Fields<'_, '_>) -> Plan {
    Plan {
        name: fields.text("name").unwrap_or_default(),
        strategy: strategy(fields),
        max_parallel: fields.count("max_parallel", 1, u64::from(u32::MAX)).map(to_u32),
        input_schema: fields
            .get("input_schema")
            .and_then(|field| super::schema::read_schema(fields.context, &fields.at.key(field.key), field.value)),
        budget: policy::budget(fields),
        approve: policy::approval(fields),
        revision: policy::revision(fields),
        continue_on_failure: fields.flag("continue_on_failure").unwrap_or(false),
        failures_max: fields.count("failures_max", 0, u64::from(u32::MAX)).map(to_u32),
        undo_on: cleanup::undo_on(fields),
        collect: policy::word(fields, "collect", &[("last", Collect::Last), ("list", Collect::List)])
            .unwrap_or_default(),
        confidence: confidence(fields),
        estimates: policy::estimates(fields),
        metadata: metadata(fields),
        ..Plan::default()
    }
}

fn metadata(fields: &Fields<'_, '_>) -> Map<String, Value> {
    match fields.get("metadata") {
        Some(Field { value: Value::Object(map), .. }) => map.clone(),
        Some(field) => {
            crate::document::wrong_type(fields.context, &fields.at.key(field.key), field.value, "an object");
            Map::new()
        }
        None => Map::new(),
    }
}

/// Whether the log has room for the plan: certainly, and when every retry is used.
fn check_events(context: &ValidationContext<'_>, at: &DocumentPath<'_>, plan: &Plan) {
    let limit = context.limits.events_max;
    let least = plan.steps.iter().map(|step| if step.kind.is_inline() { 2 } else { STEP_EVENTS });
    let least = least.sum::<u64>().saturating_add(PLAN_EVENTS);
    let workers = plan.steps.iter().filter(|step| step.kind.needs_worker());
    let rounds = |step: &Step| step.repeat.as_ref().map_or(1, |repeat| u64::from(repeat.max));
    let retries = workers.map(|step| {
        let attempts = (u64::from(step.retry.max) + 1).saturating_mul(rounds(step)) - 1;
        attempts.saturating_mul(ATTEMPT_EVENTS)
    });
    let retries = retries.fold(0, u64::saturating_add);
    if least > limit {
        let detail = format!("the steps write {least} events, at most {limit} are allowed (`limits.events_max`)");
        context.error("TOO_MANY_EVENTS", at, detail, "split the plan into several");
    } else if least.saturating_add(retries) > limit {
        let most = least.saturating_add(retries);
        let detail = format!(
            "with all its retries and iterations the plan writes {most} events, and ends at {limit} (`limits.events_max`)"
        );
        context.warn(
            "EVENTS_AT_RISK",
            at,
            detail,
            "allow fewer retries and iterations, or split the plan into several",
        );
    }
}

/// From 0 to 1.
fn confidence(fields: &Fields<'_, '_>) -> Option<f64> {
    let confidence = fields.amount("confidence")?;
    if confidence > 1.0 {
        let at = fields.at.key(fields.get("confidence").map_or("confidence", |field| field.key));
        fields.context.error(
            "OUT_OF_RANGE",
            &at,
            format!("`{confidence}` is not in 0..=1"),
            "give a number from 0 to 1",
        );
        return None;
    }
    Some(confidence)
}

pub(super) fn strategy(fields: &Fields<'_, '_>) -> Strategy {
    let words = [
        ("sequential", Strategy::Sequential),
        ("parallel", Strategy::Parallel),
        // Dependencies one after the other, everything else together.
        ("hybrid", Strategy::Parallel),
        ("adaptive", Strategy::Adaptive),
    ];
    policy::word(fields, "strategy", &words).unwrap_or_default()
}

fn size(steps: &Value) -> usize {
    match steps {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn inside_phases(phases: &Value) -> usize {
    let one = |phase: &Value| {
        let steps = PHASE[4].1.iter().chain(std::iter::once(&PHASE[4].0)).find_map(|name| phase.get(name));
        steps.map_or(0, size)
    };
    if let Value::Array(items) = phases { items.iter().map(one).sum() } else { 0 }
}

fn too_many(context: &ValidationContext<'_>, at: &DocumentPath<'_>, count: usize) -> bool {
    let limit = context.limits.steps_max;
    let own = context.planner_rules().and_then(|rules| rules.steps_max).unwrap_or(limit);
    let limit = limit.min(own);
    if count > limit {
        context.error(
            "TOO_MANY_STEPS",
            at,
            format!("{count} steps, at most {limit} are allowed"),
            "write steps that do the same for many items as one step with `for_each`, or split the plan into several",
        );
        return true;
    }
    let (all, limit) = (context.count_steps(count + 1), context.limits.family_steps_max);
    if all > limit {
        let detail = format!("with the plans inside it the plan has more than {limit} steps");
        context.error("TOO_MANY_FAMILY_STEPS", at, detail, "submit several plans, or raise `limits.family_steps_max`");
    }
    all > limit
}
