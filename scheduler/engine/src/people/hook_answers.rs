//! Answers of hooks.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookDecided, PlanEvent, StepCompleted, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::revision::{Proposal, RevisionStrategy};
use serde_json::json;

use crate::attempt::spent::Spent;
use crate::attempt::{completion, failure};
use crate::calls::suspension;
use crate::cleanup::plan_end;
use crate::graph::{StepIndex, unlock};
use crate::people::hook;
use crate::people::hook::HOOK_REFUSED;
use crate::people::hook::{HookAnswer, HookRuling};
use crate::people::waiting::Reviser;
use crate::revise::changes_towards::towards;
use crate::revise::resolve::resolve;
use crate::revise::{propose, record};
use crate::turn::Turn;
use crate::{Rejection, people, planned, progress};

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
            progress::propagate(turn);
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
                    summary: hook::bounded_text(&answer.reason),
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
        (_, HookRuling::Refuse) => plan_end::fail_plan(turn, refused(&answer.hook, &answer.reason)),
        (_, _) => {
            if !planned::request_approval(turn) {
                planned::start_steps(turn);
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
        return completion::complete_checked(turn, i, completed);
    };
    if turn.state.runs_in_engine(i) {
        // What the engine runs gives the same again; a sub-plan has done its own retries.
        failure::give_up(turn, i, failure.with_unknown_outcome(), spent);
    } else {
        suspension::refuse_outputs(turn, i, failure, spent);
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
    if !hook::ask_hooks_before(turn, i) {
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

pub(crate) fn recorded(answer: &HookAnswer, due_ms: u64) -> HookDecided {
    let (mut inputs, mut failure, mut strategy, mut hint) = (None, None, None, String::new());
    if let HookRuling::ChangeInputs(changed) = &answer.ruling {
        inputs = Some(changed.clone());
    } else if let HookRuling::Fail(found) = &answer.ruling {
        failure = Some(found.clone());
    } else if let HookRuling::Choose { strategy: chosen, hint: said } = &answer.ruling {
        (strategy, hint) = (Some(*chosen), hook::bounded_text(said));
    }
    HookDecided {
        id: answer.id.clone(),
        point: answer.point,
        decision: answer.ruling.decision(),
        hook: answer.hook.clone(),
        by_default: answer.by_default,
        reason: hook::bounded_text(&answer.reason),
        issues: Vec::new(),
        inputs,
        failure,
        strategy,
        hint,
        due_ms,
    }
}

pub(crate) fn refused(hook: &str, reason: &str) -> Failure {
    Failure::new(FailureClass::Permanent, HOOK_REFUSED, ruling_text(hook, reason))
}

/// A hook's reason with its name.
fn ruling_text(hook: &str, reason: &str) -> String {
    let reason = hook::bounded_text(reason);
    if reason.is_empty() { format!("hook `{hook}`") } else { format!("hook `{hook}`: {reason}") }
}
