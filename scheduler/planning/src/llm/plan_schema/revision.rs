//! The schema of a revision.

use goalmill_llm::SchemaForm;
use serde_json::{Value, json};

use super::builder::Builder;
use super::schema_parts::{any_of, nullable, object, one_of};
use super::{NEW_STEPS_MAX, RevisedPlan, strategies};

/// Changes of one revision.
const CHANGES_MAX: usize = 8;

impl Builder<'_> {
    pub(super) fn revision(&mut self, plan: &RevisedPlan) -> Value {
        let changes = json!({"type": "array", "items": {"anyOf": self.changes(plan)}, "maxItems": CHANGES_MAX});
        let summary = self.description();
        let question = object([("question", summary.clone())]);
        let is_strict = self.form == SchemaForm::Strict;
        let question = if is_strict { nullable(question) } else { question };
        let mut fields = vec![("strategy", strategies()), ("summary", summary)];
        if is_strict {
            // Changes name these steps, so that the schema has one of them, not one for each kind of change.
            let step = self.step(&plan.open, self.fresh);
            let what = "each STEP; changes name it by its id";
            fields.push(("steps", json!({"type": "array", "description": what, "items": step})));
        }
        fields.extend([("changes", changes), ("question", question)]);
        let mut schema = object(fields);
        if !is_strict {
            schema["required"] = json!(["strategy", "summary", "changes"]);
        }
        schema
    }

    /// What a revision can do.
    fn changes(&mut self, plan: &RevisedPlan) -> Vec<Value> {
        let (all, fresh) = (self.all(), self.fresh);
        let new = if self.is_grammar() { self.step(&[], fresh) } else { one_of(fresh) };
        let new = self.define("new_step", new);
        let texts = json!({"type": "array", "items": one_of(&plan.open), "maxItems": plan.open.len()});
        let steps = json!({"type": "array", "items": new, "minItems": 1, "maxItems": NEW_STEPS_MAX});
        let mut changes = vec![object([("add_step", object([("step", new.clone()), ("before", texts)]))])];
        if !plan.open.is_empty() {
            let open = self.define("open_step", one_of(&plan.open));
            let reason = self.description();
            let changed = if self.is_grammar() { self.step(&plan.open, &[]) } else { open.clone() };
            let retries: Vec<Value> = self
                .step_works(all)
                .into_iter()
                .map(|(_, _, [agent, action, inputs])| {
                    object([("step", open.clone()), ("agent_type", agent), ("action", action), ("inputs", inputs)])
                })
                .collect();
            changes.extend([
                object([("retry_step", any_of(retries))]),
                object([("modify_step", object([("step", changed)]))]),
                object([("replace_step", object([("step", open.clone()), ("with", steps.clone())]))]),
                object([("remove_step", object([("step", open.clone())]))]),
                object([("skip_step", object([("step", open.clone()), ("reason", reason)]))]),
            ]);
            if plan.may_nest {
                changes.push(object([("decompose_step", object([("step", open)]))]));
            }
        }
        let text = self.description();
        let phase = object([("id", one_of(&[new_phase(&plan.phases)])), ("checkpoint", json!({"type": "boolean"}))]);
        let mut added = vec![("phase", phase)];
        if !plan.phases.is_empty() {
            added.push(("after", one_of(&plan.phases)));
            changes.push(object([("skip_phase", object([("phase", one_of(&plan.phases)), ("reason", text)]))]));
        }
        added.push(("steps", steps));
        changes.push(object([("add_phase", object(added))]));
        changes
    }
}

/// An id of a phase that is not taken.
fn new_phase(taken: &[String]) -> String {
    let mut ids = (1..).map(|number| format!("phase_{number}"));
    ids.find(|id| !taken.contains(id)).unwrap_or_default()
}
