//! Applies the changes of a revision, one by one, to a draft.

use std::collections::BTreeSet;

use goalmill_common::event::PhaseAdded;
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::plan::{Phase, Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::Change;
use goalmill_common::status::StepStatus;
use goalmill_common::suggest::nearest;
use goalmill_plan::document::issue;
use serde_json::{Map, Value};

use super::inner_plan::into_plan;
use super::rewrite::redirect;
use crate::graph::StepIndex;
use crate::revise::delta::Delta;
use crate::transitions::is_changeable;
use crate::{PlanState, cleanup, sub_plan};

/// The steps that a revision changes.
pub(super) struct RevisionDraft<'a> {
    state: &'a PlanState,
    limits: &'a Limits,
    delta: Delta,
    issues: Vec<Issue>,
    /// JSON Pointer of the current change.
    at: String,
}

impl<'a> RevisionDraft<'a> {
    pub(super) fn new(state: &'a PlanState, limits: &'a Limits) -> Self {
        Self { state, limits, delta: Delta::default(), issues: Vec::new(), at: String::new() }
    }

    pub(super) fn apply_change(&mut self, n: usize, change: &Change) {
        self.at = format!("/changes/{n}");
        match change {
            Change::AddStep { step, before } => self.add_before(step, before),
            Change::ModifyStep { step } => self.modify(step),
            Change::SetFields { step, fields } => self.set(step, fields),
            Change::RemoveStep { step } => self.remove(step),
            Change::SkipStep { step, reason } => self.skip(step, reason),
            Change::RetryStep { step, agent_type, action, inputs } => {
                self.retry(step, agent_type.as_ref(), action.as_ref(), inputs.as_ref());
            }
            Change::ReplaceStep { step, with } => self.replace(step, with),
            Change::DecomposeStep { step, plan } => self.decompose(step, plan.as_deref()),
            Change::Order { steps } => self.order(steps),
            Change::AddPhase { phase, after, steps } => self.add_phase(phase, after.as_deref(), steps),
            Change::SkipPhase { phase, reason } => self.skip_phase(phase, reason),
        }
    }

    /// Returns the delta and all issues.
    pub(super) fn finish(mut self) -> (Delta, Vec<Issue>) {
        self.refuse_lost_undos();
        let (state, delta) = (self.state, &mut self.delta);
        delta.skipped.retain(|i, _| !delta.removed.contains(i));
        delta.modified.retain(|i, step| {
            *step != *state.plan.defined(*i) && !delta.removed.contains(i) && !delta.skipped.contains_key(i)
        });
        delta.restarted.retain(|i| !delta.removed.contains(i) && !delta.skipped.contains_key(i));
        for (i, after) in &delta.modified {
            let before = state.plan.defined(*i);
            let step = &state.steps[*i];
            let is_over = step.status().is_final();
            let began = !matches!(step.status(), StepStatus::Pending | StepStatus::Blocked) && !is_over;
            if is_over || (began && !is_same_work(before, after)) {
                delta.restarted.insert(*i);
            }
        }
        (self.delta, self.issues)
    }

    /// A completed step cannot be removed together with the step that would undo it, nor a loop whose iterations have
    /// plans that can be undone: these are undone when the plan ends.
    fn refuse_lost_undos(&mut self) {
        let state = self.state;
        let removed = self.delta.removed.clone();
        for i in removed.iter().copied().filter(|i| state.inner.has_kept_of(*i)) {
            let id = &state.plan.step(i).id;
            let detail = format!("what iterations of `{id}` have done can be undone only when the plan ends");
            self.refuse("STEP_FINAL", detail, format!("skip `{id}` instead"));
        }
        let is_lost = |i: &StepIndex| {
            let is_done = state.steps[*i].status() == StepStatus::Completed && cleanup::needs_undo(state, *i);
            is_done && cleanup::undo_of(state, *i).is_none_or(|undo| removed.contains(&undo))
        };
        for i in removed.iter().copied().filter(is_lost) {
            let id = &state.plan.step(i).id;
            let detail = format!("step `{id}` is completed, and the step that undoes it is removed too");
            self.refuse("STEP_FINAL", detail, format!("keep `{id}`, or its undo step"));
        }
    }

    fn refuse(&mut self, code: &str, detail: impl Into<String>, hint: impl Into<String>) {
        let at = self.at.clone();
        self.issues.push(issue(code, &at, detail, hint));
    }

    /// A step of the plan that a revision may touch.
    fn find(&mut self, id: &StepId) -> Option<StepIndex> {
        self.find_live(id, false)
    }

    /// The same, or a completed step that can be undone.
    fn find_removable(&mut self, id: &StepId) -> Option<StepIndex> {
        self.find_live(id, true)
    }

    /// - `removes`: whether the step is removed.
    fn find_live(&mut self, id: &StepId, removes: bool) -> Option<StepIndex> {
        let state = self.state;
        let known = state.graph.find(id.as_str());
        let Some(i) = known.filter(|i| state.steps[*i].status() != StepStatus::Revised) else {
            let words = state.plan.steps().map(|step| step.id.as_str());
            let hint = match nearest(id.as_str(), words) {
                Some(near) if known.is_none() => format!("did you mean `{near}`?"),
                _ => "name a step of this plan".into(),
            };
            self.refuse("UNKNOWN_STEP", format!("there is no step `{id}`"), hint);
            return None;
        };
        let status = state.steps[i].status();
        let is_undone = removes && status == StepStatus::Completed && cleanup::undo_of(state, i).is_some();
        if !is_changeable(status) && !is_undone {
            let hint = if removes {
                "add a new step instead; only a completed step with `undo` can be removed"
            } else {
                "add a new step instead"
            };
            self.refuse("STEP_FINAL", format!("step `{id}` is {status}, which is kept"), hint);
            return None;
        }
        Some(i)
    }

    fn spec(&self, i: StepIndex) -> &Step {
        self.delta.modified.get(&i).unwrap_or_else(|| self.state.plan.defined(i))
    }

    /// A copy of the step, for changing.
    fn touch(&mut self, i: StepIndex) -> &mut Step {
        let state = self.state;
        self.delta.modified.entry(i).or_insert_with(|| state.plan.defined(i).clone())
    }

    fn add_line(&mut self, line: String) {
        self.delta.lines.push(line);
    }

    fn add(&mut self, step: &Step) -> bool {
        let taken = self.state.graph.find(step.id.as_str()).is_some();
        if taken || self.delta.added.iter().any(|other| other.id == step.id) {
            let detail = format!("the plan has, or had, a step `{}`", step.id);
            self.refuse("DUPLICATE_STEP_ID", detail, "give the new step an id of its own");
            return false;
        }
        self.delta.added.push(step.clone());
        true
    }

    fn add_before(&mut self, step: &Step, before: &[StepId]) {
        if !self.add(step) {
            return;
        }
        self.add_line(format!("+ {}{}", step.id, about(step)));
        for id in before {
            if let Some(own) = self.delta.added.iter_mut().find(|other| other.id == *id) {
                own.dependencies.push(step.id.clone());
            } else if let Some(i) = self.find(id) {
                let spec = self.touch(i);
                if !spec.dependencies.contains(&step.id) {
                    spec.dependencies.push(step.id.clone());
                }
            }
        }
    }

    fn modify(&mut self, step: &Step) {
        let Some(i) = self.find(&step.id) else { return };
        *self.touch(i) = step.clone();
        self.delta.restarted.extend(self.state.steps[i].status().is_final().then_some(i));
        self.add_line(format!("~ {}", step.id));
    }

    fn set(&mut self, id: &StepId, fields: &Map<String, Value>) {
        let Some(i) = self.find(id) else { return };
        let mut value = serde_json::to_value(self.spec(i)).unwrap_or_default();
        if let Value::Object(own) = &mut value {
            for (name, field) in fields {
                if field.is_null() {
                    own.remove(name);
                } else {
                    own.insert(name.clone(), field.clone());
                }
            }
        }
        // Parsed from text: payloads keep their exact JSON text.
        match serde_json::from_str::<Step>(&value.to_string()) {
            Ok(step) if step.id == *id => self.modify(&step),
            Ok(_) => self.refuse("INVALID_VALUE", "a step keeps its id", "replace the step instead"),
            Err(e) => {
                let hint = "spell the fields as `goalmill plan export` does";
                self.refuse("INVALID_VALUE", format!("step `{id}` would not be a step: {e}"), hint);
            }
        }
    }

    fn remove(&mut self, id: &StepId) {
        let Some(i) = self.find_removable(id) else { return };
        self.take_out(i);
    }

    /// Removes a step. What it did is undone; an undo step that has nothing to undo goes too.
    fn take_out(&mut self, i: StepIndex) {
        let id = &self.state.plan.step(i).id;
        self.delta.removed.insert(i);
        self.add_line(format!("- {id}"));
        let Some(undo) = cleanup::undo_of(self.state, i) else { return };
        if cleanup::needs_undo(self.state, i) {
            self.add_line(format!("undo {id}"));
        } else {
            self.delta.removed.insert(undo);
        }
    }

    fn skip(&mut self, id: &StepId, reason: &str) {
        let Some(i) = self.find(id) else { return };
        self.delta.skipped.insert(i, reason.to_owned());
        self.add_line(format!("skip {id}"));
    }

    fn retry(&mut self, id: &StepId, agent_type: Option<&AgentType>, action: Option<&String>, inputs: Option<&Json>) {
        let Some(i) = self.find(id) else { return };
        if let Some(agent_type) = agent_type {
            if !self.spec(i).kind.needs_worker() {
                let detail = format!("step `{id}` needs no worker, so no agent type can do it");
                return self.refuse("INVALID_VALUE", detail, "leave `agent_type` out, or replace the step");
            }
            self.touch(i).agent_type = agent_type.clone();
        }
        if let Some(action) = action {
            self.touch(i).action.clone_from(action);
        }
        if let Some(inputs) = inputs {
            self.touch(i).inputs = inputs.clone();
        }
        self.delta.restarted.insert(i);
        let by = agent_type.map(|agent| format!(" by {agent}")).unwrap_or_default();
        self.add_line(format!("retry {id}{by}"));
    }

    /// Replaces a step by others; its dependents then depend on the last of them.
    fn replace(&mut self, id: &StepId, with: &[Step]) {
        if let [step] = with
            && step.id == *id
        {
            return self.modify(step);
        }
        let Some(i) = self.find_removable(id) else { return };
        if with.is_empty() {
            return self.refuse("MISSING_FIELD", format!("nothing replaces step `{id}`"), "remove it, or skip it");
        }
        for step in with {
            if !self.add(step) {
                return;
            }
            self.add_line(format!("+ {}{}", step.id, about(step)));
        }
        self.take_out(i);
        let used: BTreeSet<&StepId> = with.iter().flat_map(|step| &step.dependencies).collect();
        let last: Vec<StepId> = with.iter().map(|step| &step.id).filter(|id| !used.contains(id)).cloned().collect();
        self.rewire(id, &last);
    }

    fn rewire(&mut self, old: &StepId, new: &[StepId]) {
        for k in self.state.indices() {
            let status = self.state.steps[k].status();
            let is_fixed = !is_changeable(status) || self.delta.removed.contains(&k);
            if is_fixed || !self.spec(k).dependencies.contains(old) {
                continue;
            }
            let spec = self.touch(k);
            redirect(spec, old, new);
        }
        for step in self.delta.added.iter_mut().filter(|step| step.dependencies.contains(old)) {
            redirect(step, old, new);
        }
    }

    fn decompose(&mut self, id: &StepId, plan: Option<&Plan>) {
        let Some(i) = self.find(id) else { return };
        if sub_plan::depth(self.state) >= self.limits.depth_max {
            let detail = format!("the plan of step `{id}` would be nested deeper than `depth_max`");
            return self.refuse("PLAN_TOO_DEEP", detail, "add the smaller steps to this plan");
        }
        into_plan(self.touch(i), plan.cloned());
        self.delta.restarted.insert(i);
        self.add_line(format!("decompose {id}"));
    }

    fn order(&mut self, steps: &[StepId]) {
        let named: BTreeSet<&StepId> = steps.iter().collect();
        if named.len() < steps.len() {
            return self.refuse("INVALID_VALUE", "a step is named twice", "name each step once");
        }
        let mut before: Option<&StepId> = None;
        for id in steps {
            let Some(i) = self.find(id) else { return };
            let dependencies = &mut self.touch(i).dependencies;
            dependencies.retain(|other| !named.contains(other));
            dependencies.extend(before.cloned());
            before = Some(id);
        }
        let words: Vec<&str> = steps.iter().map(StepId::as_str).collect();
        self.add_line(format!("order {}", words.join(", ")));
    }

    fn add_phase(&mut self, phase: &Phase, after: Option<&str>, steps: &[Step]) {
        let mut all: Vec<&str> = self.state.plan.definition().phases.iter().map(|phase| phase.id.as_str()).collect();
        for added in &self.delta.phases {
            all.insert(to_usize(added.place).min(all.len()), &added.phase);
        }
        if all.contains(&phase.id.as_str()) {
            let detail = format!("the plan has a phase `{}`", phase.id);
            return self.refuse("DUPLICATE_PHASE", detail, "give the new phase an id of its own");
        }
        let place = match after {
            None => all.len(),
            Some(name) => match all.iter().position(|id| *id == name) {
                Some(place) => place + 1,
                None => return self.refuse_phase(name),
            },
        };
        let begun = self.state.phases.current_state().is_some_and(|phase| phase.begun);
        if place < self.state.phases.current() + usize::from(begun) {
            let detail = format!("phase `{}` would come before one that has begun", phase.id);
            return self.refuse("PHASE_OVER", detail, "put it after the current phase");
        }
        self.delta.phases.push(PhaseAdded {
            phase: phase.id.clone(),
            description: phase.description.clone(),
            checkpoint: phase.checkpoint,
            place: to_u32(place),
        });
        self.add_line(format!("+ phase {}", phase.id));
        for step in steps {
            let step = Step { phase: Some(phase.id.clone()), ..step.clone() };
            self.add_before(&step, &[]);
        }
    }

    fn skip_phase(&mut self, name: &str, reason: &str) {
        let phases = &self.state.plan.definition().phases;
        let Some(phase) = phases.iter().position(|phase| phase.id == name) else {
            return self.refuse_phase(name);
        };
        let open = |i: &StepIndex| !self.state.steps[*i].status().is_final();
        let members: Vec<StepIndex> = self.state.graph.members()[phase].iter().copied().filter(open).collect();
        if members.is_empty() {
            return self.refuse("PHASE_OVER", format!("phase `{name}` has nothing left to skip"), "leave it out");
        }
        self.delta.skipped.extend(members.into_iter().map(|i| (i, reason.to_owned())));
        self.add_line(format!("skip phase {name}"));
    }

    fn refuse_phase(&mut self, name: &str) {
        let state = self.state;
        let near = nearest(name, state.plan.definition().phases.iter().map(|phase| phase.id.as_str()));
        let hint = near.map_or("name a phase of this plan".into(), |near| format!("did you mean `{near}`?"));
        self.refuse("PHASE_UNKNOWN", format!("there is no phase `{name}`"), hint);
    }
}

/// Whether an attempt in flight still does the work of the changed step.
fn is_same_work(before: &Step, after: &Step) -> bool {
    let work = |step: &Step| (step.kind, step.agent_type.clone(), step.action.clone(), step.inputs.clone());
    let place = |step: &Step| (step.phase.clone(), step.resource.clone());
    let gates = |step: &Step| (step.when.clone(), step.approve, step.ask.clone());
    let same = work(before) == work(after) && place(before) == place(after);
    same && gates(before) == gates(after) && before.plan == after.plan && before.wait == after.wait
}

/// Whether a changed step does something else than before.
pub(super) fn is_other_work(before: &Step, after: &Step) -> bool {
    (before.kind, &before.action, &before.inputs) != (after.kind, &after.action, &after.inputs)
}

fn about(step: &Step) -> String {
    if step.description.is_empty() { String::new() } else { format!(" \"{}\"", step.description) }
}
