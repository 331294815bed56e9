//! Plans inside plans.

use goalmill_common::command::{Change, Verb};
use goalmill_common::event::GoalAccepted;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Plan, Step, StepKind, Strategy};
use goalmill_common::report::Report;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Rejection, SubPlanEnd};
use serde_json::{Value, json};

use crate::revise::edit;
use crate::world::{Member, World, completed, plan, step, submission, with};

fn nested() -> Plan {
    with(plan(&[("a", &[]), ("p", &["a"]), ("z", &["p"])]), "p", |step| {
        step.kind = StepKind::Plan;
        step.inputs = json!({"x": "{{ steps.a.outputs.x }}"}).into();
        step.plan = Some(Box::new(plan(&[("inner", &[])])));
    })
}

/// The first event of the sub-plan that `p` started.
fn child_of(world: &World) -> &GoalAccepted {
    world.sub_plan("p").state.accepted()
}

fn ended(status: PlanStatus, failure: Option<Failure>) -> Command {
    let (outputs, usage) = (json!({"r": 1}).into(), Usage { tokens: 7, cost: 0.5 });
    Command::SubPlanEnded { step: "p".into(), attempt: 1, end: SubPlanEnd::new(status, outputs, usage, failure) }
}

fn begun() -> World {
    let mut world = World::of(nested());
    world.complete("a", json!({"x": 5}));
    world
}

#[test]
fn a_plan_step_begins_a_plan_and_takes_what_it_gives() {
    let mut world = begun();
    assert_eq!(world.status("p"), StepStatus::Running);
    let child = child_of(&world);
    assert_eq!(child.plan_id.shard(), world.state.id().shard());
    assert_eq!(child.goal.metadata["inputs"], json!({"x": 5}));
    let parent = child.parent.as_ref().unwrap();
    assert_eq!((parent.step.as_str(), parent.attempt, parent.depth), ("p", 1, 1));
    world.command(ended(PlanStatus::Completed, None)).unwrap();
    assert_eq!(world.outputs("p"), json!({"r": 1}));
    assert_eq!(world.state.usage().tokens, 7);
    assert_eq!(world.status("z"), StepStatus::Ready);
    let again = world.command(ended(PlanStatus::Completed, None));
    assert_eq!(again, Err(Rejection::StaleAttempt { step: "p".into(), attempt: 1 }));
}

#[test]
fn the_inputs_of_a_sub_plan_get_defaults_and_must_match_its_schema() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}, "n": {"default": 2}}});
    let typed = || {
        with(nested(), "p", |step| {
            step.stored = Some("trip@3".into());
            step.plan.as_mut().unwrap().input_schema = Some(schema.clone().into());
        })
    };
    let mut world = World::of(typed());
    world.complete("a", json!({"x": 5}));
    let child = child_of(&world);
    assert_eq!(child.goal.metadata["inputs"], json!({"x": 5, "n": 2}));
    assert_eq!(child.goal.metadata["stored_plan"], "trip@3");
    let mut world = World::of(typed());
    world.complete("a", json!({"x": "five"}));
    assert_eq!(world.status("p"), StepStatus::Failed);
    assert_eq!(world.code("p"), "INPUT_INVALID");
}

#[test]
fn sub_plans_side_by_side_share_what_is_left_of_the_budget() {
    let inner = |id| {
        move |step: &mut goalmill_common::plan::Step| {
            step.id = id;
            step.kind = StepKind::Plan;
            step.plan = Some(Box::new(plan(&[("inner", &[])])));
        }
    };
    let whole = plan(&[("p", &[]), ("q", &[]), ("after", &["p", "q"])]);
    let whole = ["p", "q", "after"].into_iter().fold(whole, |whole, id| with(whole, id, inner(id.into())));
    let mut submit = submission(Some(whole));
    submit.goal.budget = Budget { tokens: Some(100), cost: Some(4.0), seconds: None };
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    assert_eq!(budgets(&world), [("p".into(), 50, 2.0), ("q".into(), 50, 2.0)]);
    for step in ["p", "q"] {
        let (outputs, usage) = (json!({}).into(), Usage { tokens: 7, cost: 0.5 });
        let (step, status) = (step.into(), PlanStatus::Completed);
        world
            .command(Command::SubPlanEnded { step, attempt: 1, end: SubPlanEnd::new(status, outputs, usage, None) })
            .unwrap();
    }
    assert_eq!(budgets(&world)[2..], [("after".into(), 86, 3.0)], "one after the others gets all that is left");
}

#[test]
fn sub_plans_of_a_sequential_plan_get_all_that_is_left() {
    let mut whole = plan(&[("p", &[]), ("q", &[])]);
    whole.strategy = Strategy::Sequential;
    let inner = |step: &mut goalmill_common::plan::Step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(plan(&[("inner", &[])])));
    };
    let mut submit = submission(Some(["p", "q"].into_iter().fold(whole, |whole, id| with(whole, id, inner))));
    submit.goal.budget = Budget { tokens: Some(100), cost: Some(4.0), seconds: None };
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    assert_eq!(budgets(&world), [("p".into(), 100, 4.0)]);
}

/// The tokens and the cost that each plan which was begun may use up.
fn budgets(world: &World) -> Vec<(StepId, u64, f64)> {
    let budget = |member: &Member| {
        let (parent, budget) = (member.state.parent()?, member.state.accepted().goal.budget);
        Some((parent.step.clone(), budget.tokens?, budget.cost?))
    };
    world.sub_plans().iter().filter_map(budget).collect()
}

#[test]
fn a_sub_plan_is_out_of_time_before_its_step_is() {
    let mut world = World::of(with(nested(), "p", |step| step.timeout_ms = Some(5_000)));
    world.complete("a", json!({"x": 5}));
    assert_eq!(child_of(&world).goal.deadline_ms, Some(world.now_ms + 4_999), "so the step hears what it has cost");
    world.now_ms += 4_999;
    let late = Failure::new(FailureClass::Timeout, "PLAN_TIMEOUT", "the plan's deadline has passed");
    world.command(ended(PlanStatus::Failed, Some(late))).unwrap();
    assert_eq!((world.code("p").as_str(), world.state.usage().tokens), ("STEP_TIMEOUT", 7), "its own time is over");
}

#[test]
fn a_minute_that_a_plan_step_names_is_not_taken_for_none() {
    let deadline = |step: Value| {
        let step = serde_json::from_value::<Step>(step).unwrap();
        assert_eq!(serde_json::from_str::<Step>(&serde_json::to_string(&step).unwrap()).unwrap(), step);
        let mut world = World::of(with(nested(), "p", |p| p.timeout_ms = step.timeout_ms));
        world.complete("a", json!({"x": 5}));
        (child_of(&world).goal.deadline_ms.unwrap(), world.now_ms)
    };
    let (told, now_ms) = deadline(json!({"id": "p", "kind": "plan", "timeout_ms": 60_000}));
    assert_eq!(told, now_ms + 59_999);
    let (untold, now_ms) = deadline(json!({"id": "p", "kind": "plan"}));
    assert!(untold > now_ms + 60_000, "as long as the plan has, as in plans stored before");
}

#[test]
fn a_failed_sub_plan_fails_its_step_once() {
    let mut world = begun();
    let failure = Failure::new(FailureClass::Transient, "HTTP_503", "down");
    world.command(ended(PlanStatus::Failed, Some(failure))).unwrap();
    assert_eq!((world.status("p"), world.state.status()), (StepStatus::Failed, PlanStatus::Failed));
}

#[test]
fn a_sub_plan_is_begun_again_after_a_restart_under_the_same_id() {
    let mut world = begun();
    let before = child_of(&world).clone();
    world.lose_sub_plans();
    world.restart();
    assert_eq!(*child_of(&world), before);
}

#[test]
fn the_end_of_a_plan_ends_its_sub_plans() {
    let mut world = begun();
    let plan_id = child_of(&world).plan_id.clone();
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(world.asked_of_sub_plans(), [(plan_id, "cancel")]);
}

#[test]
fn sub_plans_pause_and_go_on_with_their_parent() {
    let mut world = begun();
    let plan_id = child_of(&world).plan_id.clone();
    world.verb(Verb::Pause { reason: String::new() }).unwrap();
    world.verb(Verb::Resume { reason: String::new() }).unwrap();
    assert_eq!(world.asked_of_sub_plans(), [(plan_id.clone(), "pause"), (plan_id, "resume")]);
}

#[test]
fn a_sub_plan_tells_its_parent_how_it_ended() {
    let mut world = begun();
    world.enter("p");
    let task = world.dispatch("inner");
    let done = completed(&task, json!({"y": 2}));
    world.report(Report { tokens: Some(7), cost: Some(0.5), ..done }).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    world.leave();
    assert_eq!(world.outputs("p"), json!({"inner": {"y": 2}}));
    assert_eq!(world.state.usage(), Usage { tokens: 7, cost: 0.5 });
    world.restart();
    let again = Rejection::StaleAttempt { step: "p".into(), attempt: 1 };
    assert_eq!(world.rejected, [again], "after a restart it is said again");
}

#[test]
fn a_sub_plan_that_cannot_run_still_tells_its_parent() {
    let broken = |step: &mut Step| step.plan = Some(Box::new(plan(&[("a", &["a"])])));
    let mut world = World::of(with(nested(), "p", broken));
    world.complete("a", json!({"x": 5}));
    assert_eq!(world.sub_plan("p").state.status(), PlanStatus::Failed);
    assert_eq!((world.status("p"), world.code("p").as_str()), (StepStatus::Failed, "PLANNING_FAILED"));
}

#[test]
fn an_edit_of_a_nested_plan_may_go_no_deeper_than_what_is_left() {
    let deeper = |depth_max: u32| {
        let mut world = begun();
        world.context.limits.depth_max = depth_max;
        world.enter("p");
        let step = Step { kind: StepKind::Plan, description: "the rest".into(), ..Step::new("more", "") };
        let changes = vec![Change::AddStep { step: Box::new(step), before: Vec::new() }];
        world.verb(Verb::Edit { changes, revision: None, reason: String::new() })
    };
    deeper(2).unwrap();
    let Err(Rejection::Invalid { issues, .. }) = deeper(1) else { panic!("it is refused") };
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("PLAN_TOO_DEEP", "/steps/more/kind"));
}

#[test]
fn plans_are_not_nested_without_end() {
    let mut world = World::new();
    world.context.limits.depth_max = 0;
    world.submit(nested()).unwrap();
    world.complete("a", json!({"x": 5}));
    assert_eq!(world.code("p"), "DEPTH_EXCEEDED");
}

#[test]
fn a_sub_plan_is_not_given_to_an_agent_type() {
    let mut world = begun();
    let by = |agent_type: Option<&str>| {
        let agent_type = agent_type.map(Into::into);
        vec![Change::RetryStep { step: "p".into(), agent_type, action: None, inputs: None }]
    };
    let Err(Rejection::Invalid { issues, .. }) = edit(&mut world, by(Some("quick"))) else { panic!("it is refused") };
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("INVALID_VALUE", "/changes/0"));
    edit(&mut world, by(None)).unwrap();
    assert_eq!(world.status("p"), StepStatus::Running, "it begins a plan again");
    // Its plan names an agent type, as one of an earlier release may.
    assert_eq!(world.state.queue(world.index("p")).map(|queue| queue.as_str()), Some(""));
}

/// A plan step whose plan has booked, and a step after it.
fn booked() -> World {
    let inner = {
        let mut inner = plan(&[("book", &[]), ("pay", &["book"])]);
        inner.steps.push(Step { undoes: Some("book".into()), ..step("book:undo", &[]) });
        inner
    };
    let outer = with(plan(&[("w", &[]), ("p", &[]), ("z", &["p"])]), "p", |step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(inner));
    });
    let mut world = World::of(outer);
    world.complete("w", json!({}));
    world.enter("p");
    world.complete("book", json!({}));
    world.dispatch("pay");
    world.leave();
    world
}

#[test]
fn a_plan_whose_step_goes_on_without_it_undoes_its_work_before_the_plan_around_it_ends() {
    let reason = String::new;
    let remove = |step: &str| Change::RemoveStep { step: step.into() };
    let ways = [
        ("skipped", Verb::SkipStep { step: "p".into(), reason: reason() }),
        ("completed", Verb::CompleteStep { step: "p".into(), outputs: json!({}).into(), reason: reason() }),
        ("removed", Verb::Edit { changes: vec![remove("z"), remove("p")], revision: None, reason: reason() }),
    ];
    for (way, verb) in ways {
        let mut world = booked();
        world.verb(verb).unwrap();
        if way != "removed" {
            world.complete("z", json!({}));
        }
        assert_eq!(world.state.status(), PlanStatus::Running, "{way}");
        world.restart();
        world.enter("p");
        let undo = world.dispatch("book:undo");
        let report = Report { tokens: Some(5), ..completed(&undo, json!({})) };
        world.report(report).unwrap();
        assert_eq!(world.state.status(), PlanStatus::Cancelled, "{way}");
        world.leave();
        assert_eq!((world.state.status(), world.state.usage().tokens), (PlanStatus::Completed, 5), "{way}");
    }
}
