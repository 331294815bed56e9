//! Plans that calls of a step submit.

use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, SuspendedCall, inputs_digest};
use goalmill_common::command::{Change, Verb};
use goalmill_common::event::GoalAccepted;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::report::{Report, TokenSplit, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_engine::{Command, Rejection, SubPlanEnd, explain};
use serde_json::{Value, json};

use crate::revise::edit;
use crate::world::{World, completed, plan, report, step, submission};

fn one() -> Plan {
    plan(&[("a", &[])])
}

/// Submits a plan as call `n`.
fn submits(task: &Task, n: u32, plan: &Value) -> Report {
    let wait = CallWait {
        plan: Some(Json::from_value(plan)),
        inputs: Some(json!({"x": 5}).into()),
        ..CallWait::new(CallWaitKind::Plan, "two steps")
    };
    let call = SuspendedCall { n, name: "submit_plan".into(), inputs: Some(inputs_digest("x")), wait };
    Report { suspended: Some(Box::new(call)), ..report(task, What::Suspended) }
}

fn inner() -> Value {
    json!({"name": "two", "steps": [
        {"id": "x", "agent_type": "other", "inputs": {"all": "{{ goal.metadata.inputs }}"}},
        {"id": "y", "dependencies": ["x"]},
    ]})
}

/// The first events of the plans that were started, in order.
fn children(world: &World) -> Vec<GoalAccepted> {
    world.sub_plans().iter().map(|member| member.state.accepted().clone()).collect()
}

fn ended(attempt: u32, status: PlanStatus, failure: Option<Failure>) -> Command {
    let (outputs, usage) = (json!({"y": {"r": 1}}).into(), Usage { tokens: 70, cost: 0.5 });
    Command::SubPlanEnded { step: "a".into(), attempt, end: SubPlanEnd::new(status, outputs, usage, failure) }
}

fn outcome(task: &Task, n: usize) -> Value {
    task.calls[n - 1].outcome.as_ref().expect("it has one").value()
}

/// A plan one of whose steps waits for the plan of its first call.
fn waiting() -> (World, PlanId) {
    let mut world = World::of(one());
    let task = world.dispatch("a");
    world.report(submits(&task, 1, &inner())).expect("it is current");
    let id = children(&world).remove(0).plan_id;
    (world, id)
}

#[test]
fn a_step_waits_for_the_plan_of_its_call_without_a_slot_and_goes_on_with_its_outputs() {
    let (mut world, id) = waiting();
    assert_eq!((world.status("a"), world.state.in_flight()), (StepStatus::Retrying, 0));
    assert_eq!(world.acknowledged, ["a-1"]);
    let child = children(&world).remove(0);
    let parent = child.parent.clone().expect("it has a parent");
    assert_eq!((parent.step.as_str(), parent.attempt, parent.depth), ("a", 1, 1));
    assert_eq!(child.goal.metadata["inputs"], json!({"x": 5}));
    let steps = &world.sub_plan("a").state.plan().steps;
    assert_eq!(
        (steps[0].agent_type.as_str(), steps[1].agent_type.as_str()),
        ("other", "w"),
        "its own agent by default"
    );
    world.lose_sub_plans();
    world.restart();
    assert_eq!(children(&world), [child], "it is begun again under its id");
    world.command(ended(1, PlanStatus::Completed, None)).expect("it is awaited");
    assert_eq!(world.state.usage(), Usage { tokens: 70, cost: 0.5 });
    let again = world.command(ended(1, PlanStatus::Completed, None));
    assert_eq!(again, Err(Rejection::StaleAttempt { step: "a".into(), attempt: 1 }));
    let task = world.dispatch("a");
    assert_eq!((task.attempt, task.calls.len(), task.calls[0].name.as_str()), (2, 1, "submit_plan"));
    assert_eq!(outcome(&task, 1), json!({"plan": id, "status": "completed", "outputs": {"y": {"r": 1}}}));
    world.report(completed(&task, json!({}))).expect("it is current");
    assert_eq!(world.state.usage(), Usage { tokens: 70, cost: 0.5 }, "what the plan took counts once");
    world.restart();
}

#[test]
fn each_call_has_a_plan_of_its_own() {
    let (mut world, first) = waiting();
    world.command(ended(1, PlanStatus::Completed, None)).expect("it is awaited");
    let task = world.dispatch("a");
    world.report(submits(&task, 2, &inner())).expect("it is current");
    let second = children(&world).remove(1).plan_id;
    assert_ne!(first, second);
    assert!(world.command(ended(1, PlanStatus::Completed, None)).is_err(), "the first one has ended");
    world.command(ended(2, PlanStatus::Completed, None)).expect("it is awaited");
    assert_eq!(outcome(&world.dispatch("a"), 2)["plan"], json!(second));
}

#[test]
fn the_failure_of_a_plan_is_told_to_the_agent() {
    let (mut world, id) = waiting();
    let failure = Failure::new(FailureClass::Permanent, "HTTP_404", "gone");
    world.command(ended(1, PlanStatus::Failed, Some(failure))).expect("it is awaited");
    let told = outcome(&world.dispatch("a"), 1);
    assert_eq!(
        (&told["plan"], &told["status"], &told["error"]["code"]),
        (&json!(id), &json!("failed"), &json!("HTTP_404"))
    );
    assert_eq!(world.state.usage().tokens, 70);
}

#[test]
fn a_plan_that_is_refused_is_told_to_the_agent_and_never_begins() {
    let many: Vec<Value> = (0..21).map(|n| json!({"id": format!("s{n}"), "agent_type": "w"})).collect();
    for (wrong, code, part) in [
        (json!({"steps": [{"id": "x", "dependencies": ["x"]}]}), "SUB_PLAN_INVALID", "itself"),
        (json!({"steps": many}), "SUB_PLAN_INVALID", "planned_steps_max"),
        (json!(null), "SUB_PLAN_INVALID", ""),
    ] {
        let mut world = World::of(one());
        let task = world.dispatch("a");
        world.report(submits(&task, 1, &wrong)).expect("it is current");
        assert_eq!((world.status("a"), children(&world).len()), (StepStatus::Ready, 0));
        let told = outcome(&world.dispatch("a"), 1)["error"].clone();
        assert_eq!(told["code"], code, "{told}");
        assert!(told["message"].as_str().is_some_and(|message| message.to_lowercase().contains(part)), "{told}");
    }
    let mut world = World::new();
    world.context.limits.depth_max = 0;
    world.submit(one()).expect("it is fit");
    let task = world.dispatch("a");
    world.report(submits(&task, 1, &inner())).expect("it is current");
    assert_eq!(outcome(&world.dispatch("a"), 1)["error"]["code"], "DEPTH_EXCEEDED");
}

#[test]
fn outputs_that_are_too_large_are_not_kept() {
    let (mut world, _) = waiting();
    let outputs = json!({"y": "x".repeat(300_000)}).into();
    let (step, status) = ("a".into(), PlanStatus::Completed);
    let end = SubPlanEnd::new(status, outputs, Usage::default(), None);
    let end = Command::SubPlanEnded { step, attempt: 1, end };
    world.command(end).expect("it is awaited");
    assert_eq!(outcome(&world.dispatch("a"), 1)["error"]["code"], "OUTPUT_TOO_LARGE");
}

#[test]
fn the_end_of_a_step_ends_the_plan_of_its_call() {
    let skip = Verb::SkipStep { step: "a".into(), reason: String::new() };
    let complete = Verb::CompleteStep { step: "a".into(), outputs: json!({}).into(), reason: String::new() };
    for verb in [Verb::Cancel { reason: String::new() }, skip, complete] {
        let (mut world, id) = waiting();
        world.verb(verb.clone()).expect("it may end");
        assert_eq!(world.asked_of_sub_plans(), [(id, "cancel")], "{verb:?}");
        assert!(world.command(ended(1, PlanStatus::Cancelled, None)).is_err());
        world.restart();
    }
}

#[test]
fn a_revision_withdraws_a_step_that_waits_for_its_plan() {
    let (mut world, id) = waiting();
    let changed = goalmill_common::plan::Step { description: "other".into(), ..step("a", &[]) };
    edit(&mut world, vec![Change::ModifyStep { step: Box::new(changed) }]).expect("it is fit");
    assert_eq!(world.asked_of_sub_plans(), [(id, "cancel")]);
    let task = world.dispatch("a");
    assert!(task.calls.is_empty(), "the call was of another task");
    world.restart();
}

#[test]
fn the_plan_of_a_call_pauses_and_goes_on_with_its_parent() {
    let (mut world, id) = waiting();
    world.verb(Verb::Pause { reason: String::new() }).expect("it runs");
    world.verb(Verb::Resume { reason: String::new() }).expect("it is paused");
    assert_eq!(world.asked_of_sub_plans(), [(id.clone(), "pause"), (id, "resume")]);
}

#[test]
fn a_plan_that_takes_too_long_is_cancelled_and_the_agent_is_told() {
    let mut world = World::of(one());
    let task = world.dispatch("a");
    let mut report = submits(&task, 1, &inner());
    if let Some(call) = &mut report.suspended {
        call.wait.limit_ms = Some(5_000);
    }
    world.report(report).expect("it is current");
    let GoalAccepted { plan_id: id, goal, .. } = children(&world).remove(0);
    assert_eq!(goal.deadline_ms, Some(world.now_ms + 4_999), "so that it tells what it has cost");
    world.step_due("a");
    assert_eq!(world.asked_of_sub_plans(), [(id, "cancel")]);
    assert_eq!(outcome(&world.dispatch("a"), 1)["error"]["code"], "PLAN_TIMEOUT");
    world.restart();
}

#[test]
fn a_person_cannot_hurry_a_step_that_waits_for_its_plan() {
    let (mut world, _) = waiting();
    let retry = world.verb(Verb::RetryStep { step: "a".into(), reason: String::new() });
    assert!(matches!(retry, Err(Rejection::NotAllowed { reason }) if reason.contains("waits for a plan")));
    assert!(world.verb(Verb::ApproveStep { step: "a".into(), reason: String::new() }).is_err());
    let said = format!("{:?}", explain::explain(&world.state, world.now_ms));
    assert!(said.contains("a call of `a` waits for its plan"), "{said}");
}

#[test]
fn the_plan_of_a_call_gets_its_share_of_the_budget_and_it_is_reserved() {
    let mut submit = submission(Some(plan(&[("a", &[]), ("b", &[])])));
    submit.goal.budget = Budget { tokens: Some(1_000), ..Budget::default() };
    let mut world = World::new();
    world.submit_as(submit).expect("it is fit");
    let task = world.dispatch("a");
    let paid =
        Report { usage: Some(TokenSplit { prompt_tokens: 90, completion_tokens: 10 }), ..submits(&task, 1, &inner()) };
    world.report(paid).expect("it is current");
    let child = children(&world).remove(0);
    assert_eq!(child.goal.budget.tokens, Some(450), "half of what is left: `b` may run beside it");
    let b = world.dispatch("b");
    assert_eq!(b.budget.and_then(|budget| budget.tokens), Some(150), "a third of the other half");
    world.restart();
    world.command(ended(1, PlanStatus::Completed, None)).expect("it is awaited");
    assert_eq!(world.state.usage().tokens, 170);
    let a = world.dispatch("a");
    assert_eq!(a.budget.and_then(|budget| budget.tokens), Some((1_000 - 170 - 150) / 3));
}

#[test]
fn a_plan_of_a_goal_that_requires_approval_is_approved_too() {
    let mut submit = submission(Some(one()));
    submit.goal.planning.require_approval = true;
    let mut world = World::new();
    world.submit_as(submit).expect("it is fit");
    world.verb(Verb::Approve { reason: String::new() }).expect("it waits");
    let task = world.dispatch("a");
    world.report(submits(&task, 1, &inner())).expect("it is current");
    assert_eq!(world.sub_plan("a").state.status(), PlanStatus::AwaitingApproval);
}

#[test]
fn another_call_under_the_number_of_a_recorded_one_drops_it() {
    let mut world = World::of(one());
    let task = world.dispatch("a");
    let call = RecordedCall { n: 1, name: "model".into(), outcome: Some(Json::null()), ..RecordedCall::default() };
    world.report(Report { call: Some(Box::new(call)), ..report(&task, What::Call) }).expect("it is the first");
    world.report(submits(&task, 1, &inner())).expect("it is current");
    assert!(world.story_of("a").contains(&"calls_discarded".to_owned()));
    world.command(ended(1, PlanStatus::Completed, None)).expect("it is awaited");
    assert_eq!(world.dispatch("a").calls.len(), 1);
    world.restart();
}
