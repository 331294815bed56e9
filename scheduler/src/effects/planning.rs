//! Planning effects: asks the planners for a plan, complete or streamed, or for a revision of a running plan.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use goalmill_common::blob_ref;
use goalmill_common::command::{Planned, Situation};
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{CriteriaJudged, HookDecided};
use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_engine::{Command, HookQuestion, PlanAnswer, PlanState, criteria, people, replan_context, sub_plan};
use goalmill_planning::agent_planner::working_agents;
use goalmill_planning::stage::StageOutcome;
use goalmill_planning::{
    CallLog, FirstPlanSink, PlanRequest, PlanningError, ReviseRequest, RevisionRules, StepSink, StreamOutcome, Terms,
};
use tokio::time::Instant;

use super::show_payloads;
use crate::hooks::Point;
use crate::scheduler::Scheduler;
use crate::stored_plans::offered_plans;

/// The reason of a planning failure after a panic.
const PANICKED: &str = "a planner panicked: please report this bug";

/// Asks the planners for a plan. Their answer is a command; `None` if the plan does not need it any more.
///
/// - `depth`: number of plans that contain it.
/// - `call_log`: records model calls.
/// - `sink`: receives steps that may run while the rest is written.
pub(crate) async fn ask_planners(
    scheduler: &Scheduler,
    plan: &str,
    goal: Goal,
    depth: u32,
    call_log: CallLog,
    sink: &dyn StepSink,
) -> Option<Command> {
    let begun = Instant::now();
    let may_begin = scheduler.settings.planner.stream && !scheduler.hooks.decides_at(Point::OnPlanGenerated);
    let limits = goal.planning.lower_limits(&scheduler.settings.limits).inside(depth);
    let planners = &scheduler.planners;
    let mut request = PlanRequest { limits, call_log, is_part: depth > 0, ..request(scheduler, goal, 0).await };
    // The text of a plan inside a plan is that of a planner.
    if depth == 0 {
        let reading = AssertUnwindSafe(planners.read_goal(request.clone())).catch_unwind().await;
        request = reading.unwrap_or(request);
    }
    let sink = FirstPlanSink::new(sink);
    let asked = async {
        // A plan that is executed as its goal says is known as a whole before it starts.
        if may_begin && request.goal.execution.is_default() {
            planners.stream(&request, &sink).await
        } else {
            planners.plan_goal(&request).await.map(|planned| StreamOutcome::Whole(Box::new(planned)))
        }
    };
    let begin = async |planned: Planned| {
        if let Err(stopped) = sink.begin_whole(planned).await {
            tracing::debug!(plan_id = plan, "the fallback plan was not started: {stopped:?}");
        }
    };
    let after_ms = request.goal.planning.fallback_after_ms.unwrap_or(scheduler.settings.planner.fallback_after_ms);
    let after = Duration::from_millis(after_ms);
    let asked = planners.race(&request, &sink, after, asked, begin);
    let written =
        Box::pin(AssertUnwindSafe(asked).catch_unwind()).await.unwrap_or_else(|_| Err(PlanningError::new(PANICKED)));
    record_planning(written.as_ref().ok(), begun);
    if sink.has_fallback().await {
        return match written {
            // Hooks decided about the plan that runs: it is not replaced by one that they have not seen.
            Ok(StreamOutcome::Whole(_)) if scheduler.hooks.decides_at(Point::OnPlanGenerated) => None,
            Ok(StreamOutcome::Whole(planned)) => Some(Command::BetterPlan(planned)),
            Ok(StreamOutcome::Gone | StreamOutcome::Closed(_)) | Err(_) => None,
        };
    }
    let answer = match written {
        Ok(StreamOutcome::Gone) => return None,
        Ok(StreamOutcome::Closed(closing)) => return Some(Command::ClosePlan(closing)),
        Ok(StreamOutcome::Whole(planned)) => PlanAnswer::Plan(planned),
        Err(error) => failed(error),
    };
    Some(Command::Planned { revision: 0, answer })
}

fn failed(PlanningError { reason, issues, provenance, .. }: PlanningError) -> PlanAnswer {
    PlanAnswer::Failed { reason, issues, provenance }
}

/// A valid, routed plan for a goal, or the problem of planning it.
///
/// - `call_log`: whom the calls of models tell how far they are.
pub(crate) async fn propose(scheduler: &Scheduler, goal: Goal, call_log: CallLog) -> Result<Planned, Problem> {
    let refused = |error: PlanningError| {
        let problem = Problem::new(ErrorCode::PlanningFailed, error.reason).with_errors(error.issues);
        Problem { planning_trace: error.provenance, ..problem }
    };
    let request = PlanRequest { call_log, ..request(scheduler, goal, 0).await };
    let request = scheduler.planners.read_goal(request).await;
    scheduler.planners.plan_goal(&request).await.map_err(refused)
}

async fn request(scheduler: &Scheduler, goal: Goal, revision: u32) -> PlanRequest {
    let terms = terms(scheduler, &goal, &goal.description).await;
    PlanRequest {
        agents: working_agents(&scheduler.directory.agents()),
        limits: goal.planning.lower_limits(&scheduler.settings.limits),
        goal,
        now_ms: scheduler.clock.now_ms(),
        revision,
        is_part: false,
        call_log: CallLog::default(),
        terms,
        reading: None,
    }
}

/// - `text`: the goal, and why it is planned.
async fn terms(scheduler: &Scheduler, goal: &Goal, text: &str) -> Terms {
    let weights = scheduler.settings.planner.weights;
    let stored_plans = if scheduler.planners.writes_drafts(goal) {
        offered_plans(scheduler, &goal.namespace.clone().unwrap_or_default(), text).await
    } else {
        Default::default()
    };
    let (workers, policy) = (scheduler.directory.workers(), scheduler.policy.clone());
    Terms { workers, policy, weights, stored_plans: stored_plans.into() }
}

fn record_planning(written: Option<&StreamOutcome>, begun: Instant) {
    let (planner, outcome) = match written {
        Some(StreamOutcome::Whole(planned)) => (planned.planner.clone(), StageOutcome::Ok),
        Some(StreamOutcome::Closed(closing)) => match closing.as_ref() {
            goalmill_engine::Closing::Whole { .. } => ("streamed".into(), StageOutcome::Ok),
            goalmill_engine::Closing::Broken { .. } => ("streamed".into(), StageOutcome::Invalid),
        },
        Some(StreamOutcome::Gone) => return,
        None => ("none".into(), StageOutcome::Error),
    };
    let labels = [("planner", planner), ("outcome", outcome.as_str().to_owned())];
    metrics::histogram!("goalmill_planning_duration_seconds", &labels).record(begun.elapsed());
}

/// Asks a model to judge the criteria that wait for it; `None` if none does.
///
/// - `call_log`: records model calls.
pub(crate) async fn judge(scheduler: &Scheduler, state: &PlanState, call_log: CallLog) -> Option<Command> {
    let (_, criteria) = criteria::awaited_judgement(state).filter(|(judge, _)| *judge == JudgeKind::Model)?;
    let mut left = replan_context(state, &scheduler.settings.limits)?.left;
    call_log.refund_replayed(&mut left);
    let judged = match scheduler.planners.judge() {
        Some(judge) => {
            let mut results = state.results().results;
            for outputs in results.values_mut() {
                show_payloads(scheduler, state.id(), outputs).await;
            }
            let asked = judge.judge(&state.accepted().goal, &criteria, &results, &left, &call_log);
            let judged = AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|_| unjudged(PANICKED));
            call_log.close().await;
            judged
        }
        None => unjudged("no model is configured"),
    };
    Some(Command::Judged(Box::new(judged)))
}

fn unjudged(reason: &str) -> CriteriaJudged {
    CriteriaJudged { reason: reason.to_owned(), ..CriteriaJudged::default() }
}

/// Asks the planners how to change a running plan.
///
/// - `call_log`: records model calls.
pub(crate) async fn revise(
    scheduler: &Scheduler,
    state: &PlanState,
    revision: u32,
    call_log: CallLog,
) -> Option<Command> {
    let limits = &scheduler.settings.limits;
    let mut situation = replan_context(state, limits).filter(|situation| situation.revision == revision)?;
    call_log.refund_replayed(&mut situation.left);
    let stored = situation.steps.values_mut().filter_map(|step| step.outputs.as_mut());
    for outputs in stored.filter(|outputs| blob_ref::may_contain(outputs)) {
        let mut value = outputs.value();
        show_payloads(scheduler, state.id(), &mut value).await;
        *outputs = value.into();
    }
    match people::revision_hook(state) {
        Some(decided) => adopt(decided, &mut situation),
        None if scheduler.hooks.decides_at(Point::OnRevisionNeeded) => {
            // The decision is recorded, and then a revision is asked for again.
            return Some(super::ask_hooks(scheduler, &situation.plan_id, revision_question(state, &situation)).await);
        }
        None => {}
    }
    let planning = situation.goal.planning.clone();
    let text = format!("{} {} {}", situation.goal.description, situation.reason, situation.hint);
    let terms = terms(scheduler, &situation.goal, &text).await;
    let request = ReviseRequest {
        situation,
        agents: working_agents(&scheduler.directory.agents()),
        limits: planning.lower_limits(limits).inside(sub_plan::depth(state)),
        now_ms: scheduler.clock.now_ms(),
        call_log,
        terms,
    };
    let rules = RevisionRules { state, limits, catalogue: request.terms.catalogue(&request.agents) };
    let asked = async {
        match scheduler.planners.plan_again(&request).await {
            Some(planned) => planned.map(|planned| PlanAnswer::Plan(Box::new(planned))),
            None => scheduler
                .planners
                .revise(request, &rules)
                .await
                .map(|proposal| PlanAnswer::Revision(Box::new(proposal))),
        }
    };
    let begun = Instant::now();
    let asked = AssertUnwindSafe(asked).catch_unwind().await;
    let outcome = if matches!(asked, Ok(Ok(_))) { "ok" } else { "error" };
    metrics::histogram!("goalmill_replanning_duration_seconds", "outcome" => outcome).record(begun.elapsed());
    let answer = match asked.unwrap_or_else(|_| Err(PlanningError::new(PANICKED))) {
        Ok(answer) => answer,
        Err(error) => failed(error),
    };
    Some(Command::Planned { revision, answer })
}

/// The question to the hooks before the planners are asked.
fn revision_question(state: &PlanState, situation: &Situation) -> HookQuestion {
    let data = serde_json::json!({
        "revision": situation.revision, "trigger": situation.trigger, "reason": situation.reason,
        "hint": situation.hint, "confidence": situation.confidence, "revisions_left": situation.revisions_left,
    });
    HookQuestion {
        id: format!("{}:{}", state.id(), people::replan_seq(state)),
        point: Point::OnRevisionNeeded,
        step: situation.step.clone(),
        data: Json::from_value(&data),
    }
}

/// Tells the planners what a hook decided.
fn adopt(decided: &HookDecided, situation: &mut Situation) {
    situation.chosen = decided.strategy;
    if decided.hint.is_empty() {
        return;
    }
    if !situation.hint.is_empty() {
        situation.hint.push_str("; ");
    }
    situation.hint.push_str(&decided.hint);
}
