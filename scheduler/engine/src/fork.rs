//! Forks: a new plan that continues from the state of another one.

use std::collections::BTreeSet;

use goalmill_common::command::{Planned, Submit};
use goalmill_common::event::ReplanTriggered;
use goalmill_common::goal::Goal;
use goalmill_common::id::StepId;
use goalmill_common::revision::{Fork, Trigger};
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::{PlanState, Rejection};

/// Returns the submission of a plan that continues from `state`, which may be the fold of any prefix of a log.
///
/// Results of completed steps are kept, except those of `step` and of its descendants.
///
/// - `submission`: the new plan's idempotency key.
pub fn fork(state: &PlanState, step: Option<&StepId>, submission: String, source: String) -> Result<Submit, Rejection> {
    let accepted = &state.accepted;
    if !state.origin.created {
        return Err(crate::decide::not_allowed("there is no plan to fork yet"));
    }
    let again = match step {
        Some(id) => {
            let i = state.graph.find(id.as_str()).filter(|i| state.steps[*i].status != StepStatus::Revised);
            state.descendants(i.ok_or_else(|| Rejection::UnknownStep { step: id.clone() })?)
        }
        None => BTreeSet::new(),
    };
    let is_kept = |i: &StepIndex| !again.contains(i) && !state.plan.steps[*i].is_cleanup();
    let kept = state.indices().filter(is_kept).filter_map(|i| {
        let at = &state.steps[i];
        let outputs = at.outputs.clone().filter(|_| at.status == StepStatus::Completed)?;
        Some((state.plan.steps[i].id.clone(), outputs))
    });
    let fork = Fork {
        plan: accepted.plan_id.clone(),
        revision: state.revision,
        step: step.cloned(),
        kept: kept.collect(),
        replan: None,
    };
    let planned = Planned {
        plan: state.live_plan(),
        planner: state.origin.planner.clone(),
        confidence: state.origin.confidence,
        provenance: None,
        warnings: Vec::new(),
        routes: Vec::new(),
        goal: None,
    };
    Ok(Submit {
        // The deadline and the start of the other plan do not apply.
        goal: Goal { deadline_ms: None, start_at_ms: None, ..accepted.goal.clone() },
        plan: Some(planned),
        submission,
        fingerprint: String::new(),
        entry: None,
        source,
        parent: None,
        traceparent: None,
        fork: Some(Box::new(fork)),
    })
}

impl PlanState {
    /// Whether this is the replan at the beginning of a fork that only one planner may answer: without an answer there
    /// is nothing to run.
    pub(crate) fn is_for_one_planner(&self, replan: &ReplanTriggered) -> bool {
        let fork = self.origin.fork.as_ref().and_then(|fork| fork.replan.as_ref());
        let runs_in_engine =
            self.revision == 0 && replan.trigger == Trigger::UserRequest.as_str() && fork == Some(&replan.reason);
        runs_in_engine && self.accepted.goal.planning.planner_only
    }

    /// A step and all steps that depend on it, directly or indirectly.
    fn descendants(&self, i: StepIndex) -> BTreeSet<StepIndex> {
        let (mut all, mut next) = (BTreeSet::from([i]), vec![i]);
        while let Some(i) = next.pop() {
            next.extend(self.graph.dependents(i).iter().copied().filter(|d| all.insert(*d)));
        }
        all
    }
}
