use std::sync::mpsc;

use goalmill_common::command::{Planned, Request, Submit, Verb};
use goalmill_common::commit::Activity;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, Plan, RevisionPolicy, Step, StepKind};
use goalmill_common::report::{Report, What};
use goalmill_common::revision::{Change, Proposal, RevisionStrategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{PlanAnswer, Rejection, attempt};

use super::*;
use crate::post_commit::PostCommit;
use crate::virtual_shard::engine_context;
use crate::{Reply, ShardMessage};

pub(super) const PLAN: &str = "p0-0123456789abcdef";

/// A shard that runs a plan of the steps `a` and `b`, each of which asks for a revision when it fails.
fn revisable_plan() -> ShardState {
    let step = |id: &str| {
        let mut step = Step { on_failure: OnFailure::Replan, ..Step::new(id, "w") };
        step.retry.max = 0;
        step
    };
    let plan = Plan { steps: vec![step("a"), step("b")], revision: Some(RevisionPolicy::default()), ..Plan::default() };
    let mut shard = running(plan);
    shard.dispatch(&Unlimited);
    shard
}

/// A shard to which a plan was submitted.
fn running(plan: Plan) -> ShardState {
    let mut shard = empty();
    submit(&mut shard, PLAN, Goal::default(), plan);
    shard
}

pub(crate) fn empty() -> ShardState {
    // Time stands still, so no turn ends because the machine is busy.
    let clock = Clock::from_fn(|| 1_795_293_490_000);
    ShardState::new(ShardId(0), engine_context(Limits::default()), clock, Random::seeded(1), 60_000)
}

/// The submission of a plan.
pub(crate) fn request(id: &str, goal: Goal, plan: Plan) -> Request {
    let submit = Submit::new(goal, Some(Planned::submitted(plan, Vec::new(), Vec::new())), id, "urn:test");
    Request { plan: id.into(), actor: "test".into(), answer: None, verb: Verb::Submit(Box::new(submit)) }
}

pub(super) fn submit(shard: &mut ShardState, id: &str, goal: Goal, plan: Plan) {
    shard.handle_request(request(id, goal, plan)).expect("it is allowed");
}

fn ask(shard: &mut ShardState, verb: Verb) {
    let request = Request { plan: PLAN.into(), actor: "test".into(), answer: None, verb };
    shard.handle_request(request).expect("it is allowed");
}

/// The times that planners were asked for a revision.
fn asked(shard: &ShardState) -> Vec<u32> {
    let asked = |action: &PostCommit| {
        if let PostCommit::Revise { request, .. } = action { Some(*request) } else { None }
    };
    shard.turn.post_commit.iter().filter_map(asked).collect()
}

fn answer(shard: &mut ShardState, asked: u32, answer: PlanAnswer) -> Result<(), Rejection> {
    let (reply, verdict) = mpsc::channel();
    let reply = Reply::new(move |answer| reply.send(answer).expect("it is awaited"));
    let command = Box::new(Command::Planned { revision: 1, answer });
    shard.handle_message(ShardMessage::Command {
        plan: PLAN.into(),
        command,
        request: Some(asked),
        reply: Some(reply),
    });
    let told = shard.turn.post_commit.drain(..).find_map(|action| {
        if let PostCommit::CommandReply(reply, verdict) = action { Some((reply, verdict)) } else { None }
    });
    let (reply, told) = told.expect("it is answered");
    reply.send(told);
    verdict.try_recv().expect("it is answered")
}

#[test]
fn what_planners_say_to_a_wish_is_no_answer_to_the_failure_that_overtook_it() {
    let mut shard = revisable_plan();
    ask(
        &mut shard,
        Verb::Replan {
            reason: "cheaper".into(),
            hint: String::new(),
            options: goalmill_common::planning::ReplanOptions::default(),
        },
    );
    assert_eq!(asked(&shard), [1]);
    let slot = shard.slots[&PlanId::from(PLAN)];
    let task = {
        let state = &shard.plans[&slot].state;
        let step = state.step_index(&"b".into()).expect("it is there");
        attempt::task(state, step, &shard.context).expect("it is out").expect("its inputs are fine")
    };
    let failure = Failure::new(FailureClass::Permanent, "BROKEN", "no use");
    let mut report = Report::on(&task, "w".into(), "1-1".into(), "w1".into(), What::Failed);
    report.failure = Some(failure);
    shard.handle_report(report);
    assert_eq!(asked(&shard), [1, 2]);
    let late = PlanAnswer::Failed { reason: "nothing to change".into(), issues: Vec::new(), provenance: None };
    assert!(matches!(answer(&mut shard, 1, late), Err(Rejection::StaleRevision { .. })));
    assert_eq!(shard.plans[&slot].state.status(), PlanStatus::Replanning);
    let skip = Change::SkipStep { step: "b".into(), reason: String::new() };
    let proposal = Proposal::new(RevisionStrategy::SkipAndContinue, vec![skip]);
    answer(&mut shard, 2, PlanAnswer::Revision(Box::new(proposal))).expect("that was asked");
    assert_eq!((shard.plans[&slot].state.status(), shard.plans[&slot].state.revision()), (PlanStatus::Running, 1));
}

#[test]
fn what_a_family_decides_is_one_commit() {
    let inner = Plan { steps: vec![Step { kind: StepKind::Finish, ..Step::new("x", "") }], ..Plan::default() };
    let outer = Step { kind: StepKind::Plan, plan: Some(Box::new(inner)), ..Step::new("p", "") };
    let mut shard = running(Plan { steps: vec![outer, Step::new("a", "w")], ..Plan::default() });
    let slot = shard.slots[&PlanId::from(PLAN)];
    let (commit, _) = shard.build_commit("token", 1, false);
    let written: Vec<(PlanId, bool)> = commit
        .expect("there are events")
        .plans
        .into_iter()
        .map(|write| (write.plan, matches!(write.activity, Activity::Ends { .. })))
        .collect();
    let state = &shard.plans[&slot].state;
    let step = state.step(state.step_index(&"p".into()).expect("it is there")).expect("it is there");
    assert_eq!(step.status, StepStatus::Completed);
    assert_eq!(written.iter().map(|(_, ends)| *ends).collect::<Vec<_>>(), [false, true]);
    assert_eq!((shard.plans_count(), written[0].0.as_str()), (1, PLAN), "the sub-plan is gone with the commit");
}
