//! Plans that a planner returned as a whole: the changes that lead to them.

use std::collections::BTreeMap;

use goalmill_common::id::StepId;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::revision::Change;
use goalmill_common::status::StepStatus;

use crate::PlanState;
use crate::transitions::is_changeable;

/// Returns the changes that turn the current plan into `plan`, which a planner returned as a whole.
pub(crate) fn towards(state: &PlanState, plan: &Plan) -> Vec<Change> {
    let wanted: BTreeMap<&StepId, &Step> = plan.steps.iter().map(|step| (&step.id, step)).collect();
    let mut changes = Vec::new();
    let mut after: Option<String> = None;
    for phase in &plan.phases {
        if !state.plan.definition().phases.iter().any(|own| own.id == phase.id) {
            changes.push(Change::AddPhase { phase: phase.clone(), after: after.clone(), steps: Vec::new() });
        }
        after = Some(phase.id.clone());
    }
    for step in &plan.steps {
        match state.graph.find(step.id.as_str()) {
            None => changes.push(Change::AddStep { step: Box::new(step.clone()), before: Vec::new() }),
            Some(i) => {
                let status = state.steps[i].status();
                let is_new = step != state.plan.defined(i) || status == StepStatus::Failed;
                if is_changeable(status) && is_new {
                    changes.push(Change::ModifyStep { step: Box::new(step.clone()) });
                }
            }
        }
    }
    for (spec, step) in state.plan.steps().zip(&state.steps) {
        if !step.status().is_final() && !spec.is_cleanup() && !wanted.contains_key(&spec.id) {
            changes.push(Change::RemoveStep { step: spec.id.clone() });
        }
    }
    changes
}
