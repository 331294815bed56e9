//! Hooks that decide: the questions to them, and what their decisions change.
//!
//! A question is an event, and so is its decision: after a restart, [`crate::pending`] names open questions again. At
//! `on_revision_needed` the shell asks before it asks the planners, and only the decision is recorded.

use goalmill_common::command::Planned;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookAsked, HookDecided, HookDecision, PlanEvent, StepCompleted, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::revision::{Proposal, RevisionStrategy};
use serde_json::json;

use crate::attempt::failure;
use crate::attempt::report::Spent;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::people::waiting::Reviser;
use crate::render::payloads;
use crate::revise::{propose, record, resolve, towards};
use crate::{PlanState, Rejection, attempt, calls, people, submit};

/// The failure of what a hook refuses.
const HOOK_REFUSED: &str = "HOOK_REFUSED";
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
    fn decision(&self) -> HookDecision {
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
    fn fits(&self, point: HookPoint) -> bool {
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
    let asked = hook_question(turn, point, None);
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
        payloads::put_off(turn, i, why);
        return true;
    }
    let asked = hook_question(turn, HookPoint::OnStepStart, None);
    turn.emit_step(i, StepEvent::HookAsked(asked));
    true
}

/// Asks the hooks about the outputs of a step: of an attempt, the cache, the engine or a sub-plan. Returns them if
/// there is no hook to ask.
pub(crate) fn ask_hooks_after(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
    if !turn.context.hooks.contains(HookPoint::OnStepComplete) {
        return Some(completed);
    }
    let asked = hook_question(turn, HookPoint::OnStepComplete, Some(Box::new(completed)));
    turn.emit_step(i, StepEvent::HookAsked(asked));
    None
}

#[expect(clippy::unnecessary_box_returns, reason = "events hold it boxed")]
fn hook_question(turn: &Turn<'_>, point: HookPoint, completed: Option<Box<StepCompleted>>) -> Box<HookAsked> {
    let id = format!("{}:{}", turn.state.id(), turn.state.seq + 1);
    Box::new(HookAsked { id, point, completed })
}

/// Handles the answer of the hooks of a point; refused if nothing waits for it any more.
pub(crate) fn hook_answered(turn: &mut Turn<'_>, answer: HookAnswer) -> Result<(), Rejection> {
    if !answer.ruling.fits(answer.point) {
        return Err(Rejection::NotDue);
    }
    match answer.point {
        HookPoint::OnPlanGenerated | HookPoint::OnPlanApproved => {
            let waits = turn.state.waiting.hook().is_some_and(|asked| asked.id == answer.id);
            if !waits {
                return Err(Rejection::NotDue);
            }
            decide_about_plan(turn, answer);
        }
        HookPoint::OnStepStart | HookPoint::OnStepComplete => {
            let step = answer.step.clone().ok_or(Rejection::NotDue)?;
            let i = turn.find(&step)?;
            let asked = turn.state.steps[i].run().hooks().filter(|asked| asked.id == answer.id).cloned();
            let asked = asked.ok_or(Rejection::NotDue)?;
            match asked.completed {
                Some(completed) => decide_about_outputs(turn, i, *completed, answer),
                None => decide_about_start(turn, i, answer),
            }
            unlock::propagate(turn);
        }
        HookPoint::OnRevisionNeeded => decide_about_revision(turn, answer)?,
    }
    Ok(())
}

fn decide_about_plan(turn: &mut Turn<'_>, mut answer: HookAnswer) {
    let mut issues = Vec::new();
    if let HookRuling::ChangePlan(planned) = &answer.ruling {
        let changes = towards(turn.state, &planned.plan);
        match resolve(turn.state, &changes, &turn.context.limits, None) {
            Ok(_) if changes.is_empty() => answer.ruling = HookRuling::Allow,
            Ok(delta) => {
                let provenance = json!({"hook": answer.hook, "question": answer.id, "reason": answer.reason});
                let proposal = Proposal {
                    summary: bounded(&answer.reason),
                    planner: format!("hook:{}", answer.hook),
                    provenance: Some(Json::from_value(&provenance)),
                    routes: planned.routes.clone(),
                    ..Proposal::new(RevisionStrategy::Edit, changes)
                };
                record::apply_revision(turn, proposal, delta, "");
            }
            Err(found) => {
                issues = found;
                answer.ruling = HookRuling::Refuse;
                answer.reason = "the changed plan is not valid".into();
            }
        }
    }
    let decided = HookDecided { issues, ..recorded(&answer, 0) };
    turn.emit_plan(PlanEvent::HookDecided(Box::new(decided)));
    match (answer.point, answer.ruling) {
        (HookPoint::OnPlanApproved, HookRuling::Approve) => {
            people::approve(turn, ruling_text(&answer.hook, &answer.reason));
        }
        (HookPoint::OnPlanApproved, HookRuling::Refuse) => {
            people::reject(turn, ruling_text(&answer.hook, &answer.reason));
        }
        // A person decides.
        (HookPoint::OnPlanApproved, _) => {}
        (_, HookRuling::Refuse) => failure::fail_plan(turn, refused(&answer.hook, &answer.reason)),
        (_, _) => {
            if !submit::request_approval(turn) {
                submit::start_steps(turn);
            }
        }
    }
}

fn decide_about_start(turn: &mut Turn<'_>, i: StepIndex, mut answer: HookAnswer) {
    if let HookRuling::ChangeInputs(inputs) = &answer.ruling
        && let Some(why) = input_issue(turn, inputs)
    {
        answer.ruling = HookRuling::Refuse;
        answer.reason = format!("the changed inputs cannot be used: {why}");
    }
    let due_ms = if let HookRuling::Hold(wait_ms) = answer.ruling {
        turn.after(wait_ms.clamp(1, turn.context.limits.approval_ms_max))
    } else {
        0
    };
    turn.emit_step(i, StepEvent::HookDecided(Box::new(recorded(&answer, due_ms))));
    if answer.ruling == HookRuling::Refuse {
        failure::give_up(turn, i, refused(&answer.hook, &answer.reason), Spent::default());
    } else {
        // A step that is held stays so.
        unlock::try_unlock(turn, i);
    }
}

fn decide_about_outputs(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted, answer: HookAnswer) {
    turn.emit_step(i, StepEvent::HookDecided(Box::new(recorded(&answer, 0))));
    let spent = Spent::from_completed(&completed);
    let failure = if let HookRuling::Fail(failure) = answer.ruling {
        failure
    } else if answer.ruling == HookRuling::Refuse {
        refused(&answer.hook, &answer.reason)
    } else if turn.state.runs_inline(i) {
        // The engine begins and completes an inline step in one event.
        return turn.emit_next(i, StepEvent::Completed(Box::new(completed)));
    } else {
        return attempt::complete_checked(turn, i, completed);
    };
    if turn.state.runs_in_engine(i) {
        // What the engine runs gives the same again; a sub-plan has done its own retries.
        failure::give_up(turn, i, failure.with_unknown_outcome(), spent);
    } else {
        calls::refuse_outputs(turn, i, failure, spent);
    }
}

fn decide_about_revision(turn: &mut Turn<'_>, answer: HookAnswer) -> Result<(), Rejection> {
    let is_open = turn.state.waiting.reviser() == Some(&Reviser::Planner) && turn.state.revising.hook.is_none();
    if !is_open {
        return Err(Rejection::NotDue);
    }
    turn.emit_plan(PlanEvent::HookDecided(Box::new(recorded(&answer, 0))));
    if answer.ruling == HookRuling::Refuse {
        return propose::revised(
            turn,
            crate::PlanAnswer::Failed {
                reason: ruling_text(&answer.hook, &answer.reason),
                issues: Vec::new(),
                provenance: None,
            },
        );
    }
    Ok(())
}

/// Asks about a held step again.
pub(crate) fn ask_hooks_again(turn: &mut Turn<'_>, i: StepIndex) {
    if !ask_hooks_before(turn, i) {
        // No hook decides any more.
        people::approve_step(turn, i, "no hook decides about steps any more".into());
    }
}

fn input_issue(turn: &Turn<'_>, inputs: &Json) -> Option<String> {
    let (bytes, most) = (inputs.text().len(), turn.context.limits.payload_bytes_max);
    if bytes > most {
        return Some(format!("they have {bytes} bytes, more than `payload_bytes_max` ({most})"));
    }
    if !inputs.text().trim_start().starts_with('{') {
        return Some("they are not an object".into());
    }
    json_limits::check_json(inputs, turn.context.limits.nesting_max).err().map(|wrong| wrong.to_string())
}

/// The number of the event that asked for the current replan.
pub fn replan_seq(state: &PlanState) -> u64 {
    state.revising.replan_seq
}

/// What the hooks decided about the current replan.
pub fn revision_hook(state: &PlanState) -> Option<&HookDecided> {
    state.revising.hook.as_deref()
}

fn recorded(answer: &HookAnswer, due_ms: u64) -> HookDecided {
    let (mut inputs, mut failure, mut strategy, mut hint) = (None, None, None, String::new());
    if let HookRuling::ChangeInputs(changed) = &answer.ruling {
        inputs = Some(changed.clone());
    } else if let HookRuling::Fail(found) = &answer.ruling {
        failure = Some(found.clone());
    } else if let HookRuling::Choose { strategy: chosen, hint: said } = &answer.ruling {
        (strategy, hint) = (Some(*chosen), bounded(said));
    }
    HookDecided {
        id: answer.id.clone(),
        point: answer.point,
        decision: answer.ruling.decision(),
        hook: answer.hook.clone(),
        by_default: answer.by_default,
        reason: bounded(&answer.reason),
        issues: Vec::new(),
        inputs,
        failure,
        strategy,
        hint,
        due_ms,
    }
}

fn refused(hook: &str, reason: &str) -> Failure {
    Failure::new(FailureClass::Permanent, HOOK_REFUSED, ruling_text(hook, reason))
}

/// A hook's reason with its name.
fn ruling_text(hook: &str, reason: &str) -> String {
    let reason = bounded(reason);
    if reason.is_empty() { format!("hook `{hook}`") } else { format!("hook `{hook}`: {reason}") }
}

fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
