//! The layouts of plan documents: a list of steps, phases, a graph of nodes and edges, wrapped or not.

use goalmill_common::limits::{ATTEMPT_EVENTS, PLAN_EVENTS, STEP_EVENTS};
use goalmill_common::number::to_u32;
use goalmill_common::plan::{Collect, Phase, Plan, Step, Strategy};
use serde_json::{Map, Value};

use super::origin::{Dependency, DependencyPlace, Origin};
use super::{agents, cleanup, dependency, expression_scope, graph, policy, redundancy, requirements, step};
use crate::document::{DocumentPath, Field, Fields, Table, ValidationContext};
use crate::formats::{ForeignWorkflow, foreign_workflow};

/// Steps that a list gets room for at its start; most have fewer.
const ROOM: usize = 1_000;

const PLAN: &Table = &[
    ("steps", &["subtasks", "sub_tasks", "tasks", "nodes"]),
    ("phases", &["stages"]),
    ("input_schema", &["inputs_schema"]),
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
    ("version", &["$schema", "api_version", "created_at"]),
    ("confidence", &["confidence_score"]),
    ("estimates", &["estimate"]),
    ("estimated_seconds", &["estimated_total_duration", "estimated_total_seconds", "estimated_duration"]),
    ("estimated_tokens", &["estimated_total_tokens"]),
    ("estimated_cost", &["estimated_total_cost"]),
];

const PHASE: &Table = &[
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
    if let Some(ForeignWorkflow { engine, command }) = foreign_workflow(draft).filter(|_| depth == 0) {
        let hint = format!("convert it: {command} FILE > plan.yaml");
        context.error("FOREIGN_FORMAT", at, format!("the document is a workflow of {engine}, not a plan"), hint);
        return None;
    }
    match draft {
        Value::Array(_) => {
            let mut reading = Reading::new(context);
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
        ("constraints", &[]),
        ("success_criteria", &["success_criterion", "acceptance_criteria"]),
        ("criteria", &["criteria_policy"]),
        ("id", &["plan_id"]),
        ("version", &["$schema"]),
    ];
    Fields::read(context, at, map, BESIDE);
}

fn object(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    map: &Map<String, Value>,
    depth: u32,
) -> Option<Plan> {
    let before = context.errors();
    let fields = Fields::read(context, at, map, PLAN);
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
    let mut plan = Plan {
        name: fields.text("name").unwrap_or_default(),
        strategy: strategy(&fields),
        max_parallel: fields.count("max_parallel", 1, u64::from(u32::MAX)).map(to_u32),
        input_schema: fields
            .get("input_schema")
            .and_then(|field| super::schema::read(context, &at.key(field.key), field.value)),
        budget: policy::budget(&fields),
        approve: policy::approval(&fields),
        revision: policy::revision(&fields),
        continue_on_failure: fields.flag("continue_on_failure").unwrap_or(false),
        failures_max: fields.count("failures_max", 0, u64::from(u32::MAX)).map(to_u32),
        undo_on: cleanup::undo_on(&fields),
        collect: policy::word(&fields, "collect", &[("last", Collect::Last), ("list", Collect::List)])
            .unwrap_or_default(),
        confidence: confidence(&fields),
        estimates: policy::estimates(&fields),
        ..Plan::default()
    };
    if let Some(field) = fields.get("metadata") {
        if let Value::Object(map) = field.value {
            plan.metadata.clone_from(map);
        } else {
            crate::document::wrong_type(context, &at.key(field.key), field.value, "an object");
        }
    }
    let mut reading = Reading::new(context);
    let phases_at = phases.map(|f| at.key(f.key));
    let limit = context.limits.steps_max;
    if let (Some(count), Some(phases_at)) = (phases.map(|f| size(f.value)).filter(|count| *count > limit), &phases_at) {
        let detail = format!("{count} phases, at most {limit} are allowed");
        context.error("TOO_MANY_PHASES", phases_at, detail, "put more steps into fewer phases");
        return None;
    }
    if let (Some(field), Some(phases_at)) = (phases, &phases_at) {
        plan.phases = reading.phases(phases_at, field.value, depth);
    }
    if let Some(field) = steps {
        reading.steps(&at.key(field.key), field.value, None, depth);
    }
    let always = fields.get("always");
    if let Some(field) = always {
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
        super::budget::check(context, at, &plan, &rules.budget, rules.catalogue);
        super::budget::check_constraints(context, &plan, &rules.constraints, rules.seconds_left, rules.catalogue);
    }
    Some(plan)
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
        // Dependencies one after the other, everything else at once.
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
    let own = context.rules.and_then(|rules| rules.steps_max).unwrap_or(limit);
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

/// An edge as it was written, with the names of its ends there.
struct Edge<'v> {
    from: String,
    to: String,
    index: usize,
    key: &'v str,
    /// Empty where an edge is a pair.
    from_key: &'v str,
    to_key: &'v str,
}

/// What was read so far.
struct Reading<'c, 'l, 'v> {
    context: &'c ValidationContext<'l>,
    steps: Vec<Step>,
    origins: Vec<Origin<'v>>,
    input_bytes: usize,
    /// Whether the steps that follow are those of `always`.
    always: bool,
    /// Undo steps, which stand inside others in the document.
    undo_steps: usize,
}

impl<'c, 'l, 'v> Reading<'c, 'l, 'v> {
    fn new(context: &'c ValidationContext<'l>) -> Self {
        Self { context, steps: Vec::new(), origins: Vec::new(), input_bytes: 0, always: false, undo_steps: 0 }
    }

    fn steps(&mut self, at: &DocumentPath<'_>, value: &'v Value, phase: Option<&str>, depth: u32) {
        match value {
            Value::Array(items) => {
                self.steps.reserve(items.len().min(ROOM));
                for (i, item) in items.iter().enumerate() {
                    self.step(&at.item(i), item, None, phase, depth);
                }
            }
            // `steps: {flights: {…}, hotels: {…}}`
            Value::Object(map) => {
                for (id, item) in map {
                    self.step(&at.key(id), item, Some(id), phase, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                crate::document::wrong_type(self.context, at, value, "a list of steps");
            }
        }
    }

    fn step(&mut self, at: &DocumentPath<'_>, value: &'v Value, key: Option<&'v str>, phase: Option<&str>, depth: u32) {
        let Value::Object(map) = value else {
            crate::document::wrong_type(self.context, at, value, "a step, an object with `id`,");
            return;
        };
        let Some(((mut step, origin), undo)) = step::read(self.context, at, map, key, depth) else { return };
        if let Some(phase) = phase {
            step.phase = Some(phase.to_owned());
        }
        step.always |= self.always;
        self.undo_steps += usize::from(undo.is_some());
        for (step, origin) in std::iter::once((step, origin)).chain(undo) {
            self.input_bytes += step.inputs.text().len();
            self.steps.push(step);
            self.origins.push(origin);
        }
    }

    fn phases(&mut self, at: &DocumentPath<'_>, value: &'v Value, depth: u32) -> Vec<Phase> {
        let Value::Array(items) = value else {
            crate::document::wrong_type(self.context, at, value, "a list of phases");
            return Vec::new();
        };
        let mut phases: Vec<Phase> = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let at = at.item(i);
            if let Value::String(id) = item {
                phases.push(Phase { id: id.clone(), description: String::new(), checkpoint: false });
                continue;
            }
            let Value::Object(map) = item else {
                crate::document::wrong_type(self.context, &at, item, "a phase, an object with `id`,");
                continue;
            };
            let fields = Fields::read(self.context, &at, map, PHASE);
            let phase = self.phase(&fields, i);
            if let Some(field) = fields.get("steps") {
                self.steps(&at.key(field.key), field.value, Some(&phase.id), depth);
            }
            if let Some(first) = phases.iter().position(|p| p.id == phase.id) {
                let detail = format!("duplicate phase id `{}`, first used by phase number {}", phase.id, first + 1);
                self.context.error("DUPLICATE_PHASE", &at, detail, "give each phase its own id");
            }
            phases.push(phase);
        }
        phases
    }

    fn phase(&self, fields: &Fields<'_, '_>, index: usize) -> Phase {
        let id = match fields.get("id") {
            Some(Field { value: Value::Number(n), .. }) => Some(n.to_string()),
            Some(_) => fields.text("id"),
            None => None,
        };
        let name = fields.text("name").filter(|name| !name.is_empty());
        let description = fields.text("description").unwrap_or_default();
        let (id, description) = match (id, name) {
            (Some(id), Some(name)) if description.is_empty() => (id, name),
            (Some(id), _) => (id, description),
            (None, Some(name)) => (name, description),
            (None, None) => (format!("phase-{}", index + 1), description),
        };
        if id.is_empty() || id.len() > goalmill_common::id::ID_CHARS_MAX {
            self.context.error("INVALID_ID", fields.at, "a phase's id has 1 to 128 characters", "give a shorter id");
        }
        Phase { id, description, checkpoint: fields.flag("checkpoint").unwrap_or(false) }
    }

    /// Edges of a graph, each from a step to one that depends on it.
    fn edges(&self, at: &DocumentPath<'_>, field: Field<'v>) -> Vec<Edge<'v>> {
        let Value::Array(items) = field.value else {
            crate::document::wrong_type(self.context, at, field.value, "a list of edges");
            return Vec::new();
        };
        let mut edges = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let ends = match item {
                Value::Array(pair) if pair.len() == 2 => Some((("", &pair[0]), ("", &pair[1]))),
                Value::Object(map) => {
                    let end = |names: [&str; 4]| {
                        map.iter()
                            .find(|(key, _)| names.contains(&key.as_str()))
                            .map(|(key, value)| (key.as_str(), value))
                    };
                    end(["from", "source", "src", "start"]).zip(end(["to", "target", "dst", "end"]))
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
            };
            let named = ends.and_then(|((from_key, from), (to_key, to))| {
                let (from, to) = step::name(from).zip(step::name(to))?;
                Some(Edge { from, to, index: i, key: field.key, from_key, to_key })
            });
            match named {
                Some(edge) => edges.push(edge),
                None => {
                    let hint = "write `{\"from\": \"a\", \"to\": \"b\"}` or `[\"a\", \"b\"]`";
                    self.context.error("WRONG_TYPE", &at.item(i), "an edge needs the ids of two steps", hint);
                }
            }
        }
        edges
    }

    fn finish(mut self, at: &DocumentPath<'_>, mut plan: Plan, edges: &[Edge<'v>], count: usize) -> Option<Plan> {
        if self.input_bytes > self.context.limits.plan_bytes_max {
            let detail = format!(
                "the inputs have {} bytes, at most {} are allowed",
                self.input_bytes, self.context.limits.plan_bytes_max
            );
            self.context.error("PLAN_TOO_LARGE", at, detail, "pass large data by reference");
        }
        let count = count + self.undo_steps;
        self.attach(at, edges, self.steps.len() == count);
        plan.steps = std::mem::take(&mut self.steps);
        // With steps left out, what refers to them would look wrong too.
        let complete = plan.steps.len() == count;
        self.check(at, &mut plan, complete);
        Some(plan)
    }

    /// Checks what needs all steps: the graph, the scope of expressions, the agents.
    fn check(&mut self, at: &DocumentPath<'_>, plan: &mut Plan, complete: bool) {
        let context = self.context;
        let numbers = graph::number_steps(context, plan, &self.origins);
        if context.rules.is_some_and(|rules| rules.imply) {
            expression_scope::imply_dependencies(context, plan, &mut self.origins, &numbers);
        }
        let (graph, ranks) = graph::check_graph(context, at, plan, &self.origins, &numbers, complete);
        cleanup::check(context, plan, &self.origins, &numbers);
        dependency::check(context, plan, &self.origins, &numbers);
        expression_scope::check_expressions(context, plan, &self.origins, &numbers, &graph, &ranks);
        agents::check_agents(context, plan, &self.origins, &numbers);
        redundancy::warn_of_redundancy(context, plan, &self.origins);
        requirements::check_requirements(context, plan, &self.origins);
    }

    /// Turns edges into dependencies. `START` and `END` are marks that some formats put around a graph.
    fn attach(&mut self, at: &DocumentPath<'_>, edges: &[Edge<'v>], complete: bool) {
        if edges.is_empty() {
            return;
        }
        let index: goalmill_common::hash::HashMap<String, usize> =
            self.steps.iter().enumerate().map(|(i, step)| (step.id.as_str().to_owned(), i)).collect();
        let parent = match at {
            DocumentPath::Key(parent, _) => parent.pointer(),
            DocumentPath::Pointer(_) | DocumentPath::Item(..) => at.pointer(),
        };
        for Edge { from, to, index: i, key, from_key, to_key } in edges {
            let known = |name: &str| index.contains_key(name);
            let is_mark = |name: &str| !known(name) && matches!(name.to_ascii_uppercase().as_str(), "START" | "END");
            if is_mark(from) || is_mark(to) {
                continue;
            }
            match index.get(to) {
                Some(target) => self.origins[*target].dependencies.push(Dependency {
                    id: from.as_str().into(),
                    place: DependencyPlace::Edge { parent: parent.clone(), key, index: *i, end: from_key },
                }),
                // A step that could not be read may be the one that is meant.
                None if !complete && !goalmill_common::id::is_id(to) => {}
                None => {
                    let names = self.steps.iter().map(|s| s.id.as_str());
                    let near =
                        if self.context.may_guess() { goalmill_common::suggest::nearest(to, names) } else { None };
                    let root = DocumentPath::Pointer(&parent);
                    let edges = root.key(key);
                    let edge = edges.item(*i);
                    let at = if to_key.is_empty() { edge } else { edge.key(to_key) };
                    graph::unknown(self.context, &at, to, near);
                }
            }
        }
    }
}
