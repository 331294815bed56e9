//! Reads the steps, phases and edges of a plan document, and joins them to a plan.

use goalmill_common::plan::{Phase, Plan, Step};
use serde_json::Value;

use super::origin::{Dependency, DependencyPlace, StepOrigin};
use super::shape::PHASE;
use super::step_id::id_text;
use super::{agents, cleanup, dependency, expression_scope, graph, redundancy, requirements, step};
use crate::document::{DocumentPath, Field, Fields, ValidationContext};

/// Steps that a list gets room for at its start; most have fewer.
const ROOM: usize = 1_000;

/// An edge as it was written, with the names of its ends there.
pub(super) struct Edge<'v> {
    from: String,
    to: String,
    index: usize,
    key: &'v str,
    /// Empty where an edge is a pair.
    from_key: &'v str,
    to_key: &'v str,
}

/// What was read so far.
pub(super) struct PlanReading<'c, 'l, 'v> {
    context: &'c ValidationContext<'l>,
    steps: Vec<Step>,
    origins: Vec<StepOrigin<'v>>,
    input_bytes: usize,
    /// Whether the steps that follow are those of `always`.
    pub(super) always: bool,
    /// Undo steps, which stand inside others in the document.
    undo_steps: usize,
}

impl<'c, 'l, 'v> PlanReading<'c, 'l, 'v> {
    pub(super) fn new(context: &'c ValidationContext<'l>) -> Self {
        Self { context, steps: Vec::new(), origins: Vec::new(), input_bytes: 0, always: false, undo_steps: 0 }
    }

    pub(super) fn steps(&mut self, at: &DocumentPath<'_>, value: &'v Value, phase: Option<&str>, depth: u32) {
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
        let Some(((mut step, origin), undo)) = step::read_step_fields(self.context, at, map, key, depth) else {
            return;
        };
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

    pub(super) fn phases(&mut self, at: &DocumentPath<'_>, value: &'v Value, depth: u32) -> Vec<Phase> {
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
            let fields = Fields::from_map(self.context, &at, map, PHASE);
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
    pub(super) fn edges(&self, at: &DocumentPath<'_>, field: Field<'v>) -> Vec<Edge<'v>> {
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
                let (from, to) = id_text(from).zip(id_text(to))?;
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

    pub(super) fn finish(
        mut self,
        at: &DocumentPath<'_>,
        mut plan: Plan,
        edges: &[Edge<'v>],
        count: usize,
    ) -> Option<Plan> {
        if self.input_bytes > self.context.limits.plan_bytes_max {
            let detail = format!(
                "the inputs have {} bytes, at most {} are allowed",
                self.input_bytes, self.context.limits.plan_bytes_max
            );
            self.context.error("PLAN_TOO_LARGE", at, detail, "pass large data by reference");
        }
        let count = count + self.undo_steps;
        self.attach(at, edges, self.steps.len() == count);
        dependency::drop_unused(self.context, &mut self.steps, &self.origins);
        plan.steps = std::mem::take(&mut self.steps);
        // With steps left out, what refers to them would look wrong too.
        let complete = plan.steps.len() == count;
        self.check_steps(at, &mut plan, complete);
        Some(plan)
    }

    /// Checks what needs all steps: the graph, the scope of expressions, the agents.
    fn check_steps(&mut self, at: &DocumentPath<'_>, plan: &mut Plan, complete: bool) {
        let context = self.context;
        let numbers = graph::number_steps(context, plan, &self.origins);
        let (mut graph, ranks) = graph::check_graph(context, at, plan, &self.origins, &numbers, complete);
        cleanup::check_cleanup_order(context, plan, &self.origins, &numbers);
        dependency::check_dependency_statuses(context, plan, &self.origins, &numbers);
        let graph = (&mut graph, &ranks);
        expression_scope::check_expressions(context, at, plan, &mut self.origins, &numbers, graph);
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
