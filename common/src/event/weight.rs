//! About how many bytes an event takes in the log, without writing it.

use super::{Event, PlanEvent, PlannerToolCall, StepEvent};
use crate::id::StepId;
use crate::json::Json;
use crate::plan::{Plan, Step};

/// Bytes of an event's fixed parts, rounded up.
const FIXED_BYTES: usize = 128;

impl Event {
    /// About how many bytes the event takes in the log: exact for payloads, an estimate for what is around them.
    pub fn weight(&self) -> usize {
        FIXED_BYTES
            + match self {
                Self::Plan(event) => plan_event(event),
                Self::Step { event, .. } => step_event(event),
            }
    }
}

fn plan_event(event: &PlanEvent) -> usize {
    match event {
        PlanEvent::GoalAccepted(accepted) => {
            let goal = &accepted.goal;
            goal.description.len() + accepted.submission.len() + accepted.source.len()
        }
        PlanEvent::ModelAnswered(answered) => json(answered.answer.as_ref()) + answered.error.len(),
        PlanEvent::ToolsCalled(called) => {
            let bytes = |tool: &PlannerToolCall| FIXED_BYTES + tool.arguments.text().len() + json(tool.result.as_ref());
            called.tools.iter().map(bytes).sum()
        }
        PlanEvent::PlanningFailed(failed) => json(failed.provenance.as_ref()) + FIXED_BYTES * failed.issues.len(),
        PlanEvent::PlanCreated(created) => plan(&created.plan) + json(created.provenance.as_ref()),
        PlanEvent::PlanValidated(validated) => FIXED_BYTES * (validated.warnings.len() + 4 * validated.routes.len()),
        PlanEvent::ReplanTriggered(replan) => replan.hint.len() + json(replan.information.as_ref()),
        PlanEvent::RevisionProposed(proposed) => FIXED_BYTES * (4 * proposed.changes.len() + proposed.widens.len()),
        PlanEvent::QuestionAnswered(answered) => answered.answer.text().len() + answered.reason.len(),
        PlanEvent::Extended(extended) => json(extended.provenance.as_ref()) + 4 * FIXED_BYTES * extended.routes.len(),
        PlanEvent::Revised(revised) => FIXED_BYTES * (revised.changes.len() + revised.added.len()),
        PlanEvent::CriteriaJudged(judged) => judged.verdicts.iter().map(|v| FIXED_BYTES + v.evidence.len()).sum(),
        PlanEvent::Rejected(rejected) => ids(&rejected.cancelled),
        PlanEvent::Completed(end) | PlanEvent::Failed(end) | PlanEvent::Cancelled(end) => ids(&end.cancelled),
        PlanEvent::ModelAsked(_)
        | PlanEvent::ApprovalRequested(_)
        | PlanEvent::Approved(_)
        | PlanEvent::PhaseAdded(_)
        | PlanEvent::PhaseStarted(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_)
        | PlanEvent::RevisionRefused(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::HookAsked(_)
        | PlanEvent::HookDecided(_)
        | PlanEvent::FamilyGrew(_)
        | PlanEvent::ConstraintChanged(_)
        | PlanEvent::JudgementRequested(_)
        | PlanEvent::Quarantined(_)
        | PlanEvent::Paused(_)
        | PlanEvent::Resumed(_) => 0,
    }
}

fn step_event(event: &StepEvent) -> usize {
    match event {
        StepEvent::Added(added) => step(&added.step),
        StepEvent::Modified(modified) => step(&modified.step) + modified.before.as_deref().map_or(0, step),
        StepEvent::QuestionAsked(asked) => asked.question.len(),
        StepEvent::Answered(answered) => answered.answer.text().len() + answered.reason.len(),
        StepEvent::Decomposed(decomposed) => decomposed.plan.as_deref().map_or(0, plan) + decomposed.reason.len(),
        StepEvent::Completed(completed) => completed.outputs.text().len() + json(completed.adjustments.as_ref()),
        StepEvent::Queued(queued) => json(queued.inputs.as_ref()) + queued.action.len(),
        StepEvent::HookAsked(asked) => asked.completed.as_ref().map_or(0, |completed| completed.outputs.text().len()),
        StepEvent::HookDecided(decided) => decided.reason.len() + json(decided.inputs.as_ref()),
        StepEvent::Retrying(retrying) => retrying.failure.message.len(),
        StepEvent::Failed(failed) => failed.failure.message.len(),
        StepEvent::Progress(progress) => progress.message.as_ref().map_or(0, String::len),
        StepEvent::CallRecorded(call) => call.bytes(),
        StepEvent::Suspended(suspended) => {
            let schema = suspended.call.wait.schema.as_ref().map_or(0, |schema| schema.text().len());
            let inputs = json(suspended.call.wait.inputs.as_ref()) + suspended.plan.as_deref().map_or(0, plan);
            suspended.call.name.len() + suspended.call.wait.text.len() + schema + inputs
        }
        StepEvent::Resumed(resumed) => resumed.call.bytes(),
        StepEvent::CallsDiscarded(discarded) => {
            discarded.recorded.len() + discarded.called.as_ref().map_or(0, String::len)
        }
        StepEvent::Measured(measured) => 32 * measured.measures.len(),
        StepEvent::Removed(_)
        | StepEvent::Ready
        | StepEvent::Blocked(_)
        | StepEvent::ApprovalRequested(_)
        | StepEvent::Approved(_)
        | StepEvent::Recalled(_)
        | StepEvent::Started(_)
        | StepEvent::Released(_)
        | StepEvent::Skipped(_)
        | StepEvent::Cancelled(_) => 0,
    }
}

fn plan(plan: &Plan) -> usize {
    plan.steps.iter().map(step).sum()
}

fn step(found: &Step) -> usize {
    let inside = found.plan.as_deref().map_or(0, plan);
    let texts = found.description.len() + found.inputs.text().len() + json(found.output_schema.as_ref());
    FIXED_BYTES + texts + 16 * found.dependencies.len() + inside
}

/// A list of ids with their quotes and commas.
fn ids(steps: &[StepId]) -> usize {
    steps.iter().map(|step| step.as_str().len() + 3).sum()
}

fn json(value: Option<&Json>) -> usize {
    value.map_or(0, |value| value.text().len())
}
