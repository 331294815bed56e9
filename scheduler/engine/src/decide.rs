//! Turns a command into events and effects.

use goalmill_common::event::FamilyGrew;

use crate::attempt::{dispatch, report, step_timer};
use crate::budget::model_calls;
use crate::criteria::judged;
use crate::people::hook_answers;
use crate::render::loaded_payloads;
use crate::revise::{better_plan, propose, streaming};
use crate::sub_plan::{family_limits, kept_plans, notices};
use crate::turn::Turn;
use crate::wait::received;
use crate::{Command, Decision, EngineContext, Envelope, PlanState, Rejection, Timer, planned, progress, requests};

/// Turns a command into events, folds them into the state, and names the effects.
///
/// Reads no clock and draws no number: both are in the envelope, so the same inputs give the same events. On a
/// rejection the state is as before. The records continue the state's sequence; the state is ahead of the journal
/// until they are committed. What the plan asks of its family goes into a [`crate::FamilyQueue`].
pub fn decide(state: &mut PlanState, context: &EngineContext, envelope: Envelope) -> Result<Decision, Rejection> {
    let Envelope { now_ms, random, actor, family, command } = envelope;
    if state.is_final() {
        return Err(Rejection::Final { status: state.status });
    }
    if state.is_kept() && !matches!(command, Command::EndKept(_) | Command::SubPlanEnded { .. }) {
        return Err(kept_plans::refuse_kept(state));
    }
    let mut turn = Turn::begin(state, context, now_ms, random, actor);
    family_limits::join_family(&mut turn, family);
    match command {
        Command::Verb(verb) => requests::handle_verb(&mut turn, verb)?,
        Command::Planned { revision, answer } if model_calls::awaits_revision(turn.state, revision) => {
            propose::revised(&mut turn, answer)?;
        }
        Command::Planned { revision, answer } => planned::planned(&mut turn, revision, answer)?,
        Command::ModelAsked(asked) => planned::model_asked(&mut turn, *asked)?,
        Command::ToolsCalled(called) => planned::tools_called(&mut turn, called)?,
        Command::ModelAnswered(answered) => planned::model_answered(&mut turn, *answered),
        Command::Judged(judged) => judged::take_verdicts(&mut turn, *judged)?,
        Command::AddSteps { steps } => streaming::add_steps(&mut turn, steps)?,
        Command::ClosePlan(closing) => streaming::close_plan(&mut turn, *closing)?,
        Command::BetterPlan(planned) => better_plan::take_better_plan(&mut turn, *planned)?,
        Command::Dispatch(i) => dispatch::dispatch_step(&mut turn, i)?,
        Command::CacheLookedUp { step, key, outputs } => {
            dispatch::handle_cache_lookup(&mut turn, step, &key, outputs)?;
        }
        Command::PayloadsLoaded { step, payloads } => loaded_payloads::payloads_loaded(&mut turn, step, payloads)?,
        Command::HookAnswered(answer) => hook_answers::hook_answered(&mut turn, *answer)?,
        Command::Report(report) => report::receive_report(&mut turn, *report)?,
        Command::Due(Timer::Plan) => requests::handle_plan_timer(&mut turn)?,
        Command::Due(Timer::Step(i)) => step_timer::handle_step_timer(&mut turn, i)?,
        Command::Continue => progress::unlock_steps(&mut turn),
        Command::FamilyGrew { steps, bytes } => notices::grow_family(&mut turn, FamilyGrew { steps, bytes }),
        Command::EventTaken(taken) => received::event_taken(&mut turn, taken),
        Command::SubPlanEnded { step, attempt, end } => notices::sub_plan_ended(&mut turn, &step, attempt, *end)?,
        Command::EndKept(fate) => notices::end_kept(&mut turn, *fate)?,
    }
    Ok(progress::finish_turn(turn))
}
