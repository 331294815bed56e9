//! Hooks that decide: when they are asked.
//!
//! A question is an event, and so is its decision: after a restart, [`crate::pending`] names open questions again. At
//! `on_revision_needed` the shell asks before it asks the planners, and only the decision is recorded.

use goalmill_common::command::Planned;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookAsked, HookDecided, HookDecision, PlanEvent, StepCompleted, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::revision::RevisionStrategy;

use crate::PlanState;
use crate::attempt::failure;
use crate::graph::StepIndex;
use crate::turn::Turn;

/// The failure of what a hook refuses.
pub(crate) const HOOK_REFUSED: &str = "HOOK_REFUSED";
/// Longest reason or hint of a hook that is kept, in characters.
const TEXT_CHARS_MAX: usize = 1_000;

/// The answer of the hooks of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct HookAnswer {
    /// The question's id.
    pub id: String,
    pub point: HookPoint,
    pub step: Option<StepId>,
    /// The hook that decided; empty when all of them allowed it.
    pub hook: String,
    /// The hook gave no usable answer: its default counts.
    pub by_default: bool,
    pub reason: String,
    pub ruling: HookRuling,
}

/// What the hooks of a point decided.
#[derive(Clone, Debug, PartialEq)]
pub enum HookRuling {
    Allow,
    Refuse,
    /// `on_plan_generated`: another plan, validated and routed.
    ChangePlan(Box<Planned>),
    /// `on_plan_approved`: approved in place of a person.
    Approve,
    /// `on_step_start`: asked again after this time, in milliseconds.
    Hold(u64),
    /// `on_step_start`: the inputs of the step.
    ChangeInputs(Json),
    /// `on_step_complete`: what the step fails with.
    Fail(Failure),
    /// `on_revision_needed`: how the plan is to be revised.
    Choose {
        strategy: RevisionStrategy,
        hint: String,
    },
}

impl HookRuling {
    pub(super) fn decision(&self) -> HookDecision {
        match self {
            Self::Allow => HookDecision::Allow,
            Self::Refuse | Self::Fail(_) => HookDecision::Refuse,
            Self::ChangePlan(_) | Self::ChangeInputs(_) => HookDecision::Change,
            Self::Approve => HookDecision::Approve,
            Self::Hold(_) => HookDecision::Hold,
            Self::Choose { .. } => HookDecision::Choose,
        }
    }

    /// Whether it is an answer at this point.
    pub(super) fn fits(&self, point: HookPoint) -> bool {
        match self {
            Self::Allow | Self::Refuse => true,
            Self::ChangePlan(_) => point == HookPoint::OnPlanGenerated,
            Self::Approve => point == HookPoint::OnPlanApproved,
            Self::Hold(_) | Self::ChangeInputs(_) => point == HookPoint::OnStepStart,
            Self::Fail(_) => point == HookPoint::OnStepComplete,
            Self::Choose { .. } => point == HookPoint::OnRevisionNeeded,
        }
    }
}

/// Asks the hooks about the whole plan, if any of them decides at the point. Returns whether the plan waits.
pub(crate) fn ask_plan_hooks(turn: &mut Turn<'_>, point: HookPoint) -> bool {
    if !turn.context.hooks.contains(point) {
        return false;
    }
    let asked = new_question(turn, point, None);
    turn.emit_plan(PlanEvent::HookAsked(asked));
    true
}

/// Asks the hooks before a step becomes ready. Returns whether the step waits.
pub(crate) fn ask_hooks_before(turn: &mut Turn<'_>, i: StepIndex) -> bool {
    if !turn.context.hooks.contains(HookPoint::OnStepStart) || turn.state.runs_inline(i) {
        return false;
    }
    if turn.state.steps[i].decisions().may_start() {
        return false;
    }
    // The hooks see the inputs.
    if let Err(why) = turn.expressions(i).inputs() {
        failure::put_off(turn, i, why);
        return true;
    }
    let asked = new_question(turn, HookPoint::OnStepStart, None);
    turn.emit_step(i, StepEvent::HookAsked(asked));
    true
}

/// Asks the hooks about the outputs of a step: of an attempt, the cache, the engine or a sub-plan. Returns them if
/// there is no hook to ask.
pub(crate) fn ask_hooks_after(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
    if !turn.context.hooks.contains(HookPoint::OnStepComplete) {
        return Some(completed);
    }
    let asked = new_question(turn, HookPoint::OnStepComplete, Some(Box::new(completed)));
    turn.emit_step(i, StepEvent::HookAsked(asked));
    None
}

#[expect(clippy::unnecessary_box_returns, reason = "events hold it boxed")]
fn new_question(turn: &Turn<'_>, point: HookPoint, completed: Option<Box<StepCompleted>>) -> Box<HookAsked> {
    let id = format!("{}:{}", turn.state.id(), turn.state.seq + 1);
    Box::new(HookAsked { id, point, completed })
}

/// The number of the event that asked for the current replan.
pub fn replan_seq(state: &PlanState) -> u64 {
    state.revising.replan_seq
}

/// What the hooks decided about the current replan.
pub fn revision_hook(state: &PlanState) -> Option<&HookDecided> {
    state.revising.hook.as_deref()
}

pub(super) fn bounded_text(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
