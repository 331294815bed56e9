//! A plan of any form, layer by layer: what wraps it, its own fields, its steps.

use goalmill_common::document_format::DocumentFormat;
use goalmill_common::limits::Limits;
use goalmill_common::text::pointer_part;
use serde_json::{Map, Value, json};

use super::context::{Conversion, LISTS};
use super::rewrite::Rewrite;
use super::{
    DraftKind, actions, context_inputs, defaults, goals, nodes, phases, plan_and_execute, references, subtasks,
};

/// State of a plan's execution, in snake case.
const PLAN_STATE: [&str; 18] = [
    "status", "result", "created_at", "updated_at", "started_at", "completed_at", "finished_at", "counts", "progress",
    "replan_count", "plan_status", "planning_trace", "subtask_results", "preserved_subtasks", "new_subtasks",
    "current_subtask", "subtask_count", "success",
];

/// State of a step's execution, in snake case.
const STEP_STATE: [&str; 7] =
    ["status", "result", "created_at", "updated_at", "started_at", "completed_at", "finished_at"];

pub(super) fn convert(
    document: &mut Value,
    format: Option<DocumentFormat>,
    (limits, kind): (&Limits, DraftKind),
    rewrite: &mut Rewrite,
) {
    let mut conversion = Conversion { format, limits, kind, rewrite };
    conversion.layer(document, "", 0);
    context_inputs::add_context_inputs(&mut conversion, document);
}

impl Conversion<'_> {
    /// A plan, or the object around one.
    fn layer(&mut self, document: &mut Value, at: &str, depth: u32) {
        match document {
            Value::Array(_) => self.steps(document, at, depth),
            Value::Object(map) => {
                let is_wrapper = !goalmill_plan::foreign::has_steps(map)
                    && map.get("plan").is_some_and(|inner| inner.is_object() || inner.is_array());
                if is_wrapper {
                    self.wrapper(map, at, depth);
                } else {
                    self.convert_plan_fields(map, at, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn wrapper(&mut self, map: &mut Map<String, Value>, at: &str, depth: u32) {
        self.drop_state(map, at, "plan", &PLAN_STATE);
        let Some(mut inner) = map.shift_remove("plan") else { return };
        if let Value::Array(steps) = inner {
            self.rewrite.moved(format!("{at}/plan/steps"), format!("{at}/plan"));
            inner = json!({ "steps": steps });
        }
        let mut settings = plan_and_execute::take_settings(map, true);
        plan_and_execute::to_planning(self, &mut settings, at, map);
        if let Some(plan) = inner.as_object_mut() {
            plan_and_execute::to_plan(self, &mut settings, at, (plan, &format!("{at}/plan")));
        }
        goals::beside(self, map, at);
        self.layer(&mut inner, &format!("{at}/plan"), depth);
        map.insert("plan".into(), inner);
    }

    /// A plan's own fields and its steps.
    pub(super) fn convert_plan_fields(&mut self, map: &mut Map<String, Value>, at: &str, depth: u32) {
        if self.format.is_some() {
            self.drop_state(map, at, "plan", &PLAN_STATE);
        } else {
            // `created_at` of our own form says nothing, and never did.
            self.drop_state(map, at, "plan", &["status", "result", "updated_at", "completed_at", "finished_at"]);
        }
        if depth == 0 {
            subtasks::keep_goal_fields(self, map, at);
            actions::convert_strategy(self, map, at);
            let mut settings = plan_and_execute::take_settings(map, false);
            plan_and_execute::to_planning(self, &mut settings, at, map);
            plan_and_execute::to_plan(self, &mut settings, at, (map, at));
            goals::beside(self, map, at);
            defaults::set_default_strategy(self, map, at);
        }
        phases::order_phases(self, map, at);
        nodes::convert_edges(self, map, at);
        for key in LISTS {
            if let Some(list) = map.get_mut(key) {
                subtasks::numbered(self, list, &format!("{at}/{key}"), key);
                self.steps(list, &format!("{at}/{key}"), depth);
            }
        }
        if let Some(Value::Array(phases)) = map.get_mut("phases") {
            for (index, phase) in phases.iter_mut().enumerate() {
                for key in LISTS {
                    if let Some(list) = phase.get_mut(key) {
                        self.steps(list, &format!("{at}/phases/{index}/{key}"), depth);
                    }
                }
            }
        }
        if self.format.is_some() {
            references::rewrite(map);
        }
        nodes::order(self, map);
        plan_and_execute::spread(self, map, at);
        if depth == 0 {
            defaults::sub_plans(self, map);
        }
    }

    fn steps(&mut self, list: &mut Value, at: &str, depth: u32) {
        match list {
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.step(item, &format!("{at}/{index}"), depth);
                }
            }
            Value::Object(map) => {
                for (id, item) in map.iter_mut() {
                    self.step(item, &format!("{at}/{}", pointer_part(id)), depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn step(&mut self, step: &mut Value, at: &str, depth: u32) {
        let Some(map) = step.as_object_mut() else { return };
        self.drop_state(map, at, "step", &STEP_STATE);
        subtasks::step(self, map, at);
        phases::step(self, map, at);
        nodes::step(self, map, at);
        actions::step(self, map, at);
        // Deeper plans than the limit are refused by validation, with their place.
        if depth <= self.limits.depth_max
            && let Some(inner) = map.get_mut("plan")
        {
            self.layer(inner, &format!("{at}/plan"), depth + 1);
        }
    }
}
