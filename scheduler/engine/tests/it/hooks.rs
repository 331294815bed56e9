//! Hooks that decide: what waits for them, and what their decisions change.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{Event, HookDecision, PlanEvent, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::{Approval, OnFailure, Plan, RevisionPolicy};
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, HookAnswer, HookQuestion, HookRuling, Rejection, Timer};
use serde_json::json;

use crate::world::{World, completed, permanent, plan, planned, with};

#[test]
fn a_plan_waits_for_its_hooks_also_after_a_restart() {
    let mut world = asking(HookPoint::OnPlanGenerated);
    world.submit(plan(&[("a", &[])])).unwrap();
    assert_eq!((world.state.status(), world.status("a")), (PlanStatus::AwaitingApproval, StepStatus::Pending));
    let told = world.state.explain(world.now_ms);
    assert!(!told.steps.iter().any(|step| step.hint.contains("plan approve")), "a person cannot: {told:?}");
    let before = question(&world, None);
    assert_eq!(before.data.value()["plan"]["steps"][0]["id"], "a");
    world.others.clear();
    world.restart();
    assert!(world.others.contains(&Effect::AskHooks { step: None }), "{:?}", world.others);
    assert_eq!(question(&world, None), before, "the question has the same id");
    answer(&mut world, &before, HookRuling::Allow).unwrap();
    assert_eq!((world.state.status(), world.status("a")), (PlanStatus::Running, StepStatus::Ready));
    assert_eq!(answer(&mut world, &before, HookRuling::Refuse), Err(Rejection::NotDue), "the second answer is late");
}

#[test]
fn a_refused_plan_fails_and_no_step_starts() {
    let mut world = asking(HookPoint::OnPlanGenerated);
    world.submit(plan(&[("a", &[])])).unwrap();
    decide(&mut world, None, HookRuling::Refuse);
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "HOOK_REFUSED"));
    assert!(world.tasks.is_empty());
}

#[test]
fn a_changed_plan_is_a_revision_of_the_hook() {
    let mut world = asking(HookPoint::OnPlanGenerated);
    let approve = Some(Approval::default());
    world.submit(Plan { approve, ..plan(&[("a", &[]), ("b", &["a"]), ("c", &[])]) }).unwrap();
    let other = with(plan(&[("a", &[]), ("b", &["a"]), ("d", &["b"])]), "b", |step| step.action = "check".into());
    decide(&mut world, None, HookRuling::ChangePlan(Box::new(planned(other))));
    assert_eq!(world.state.status(), PlanStatus::AwaitingApproval, "a person still approves the changed plan");
    let revised = world.log.iter().find_map(|record| match &record.event {
        Event::Plan(PlanEvent::Revised(revised)) => Some(revised.clone()),
        _ => None,
    });
    let revised = revised.expect("the change is a revision");
    assert_eq!(revised.planner, "hook:guard");
    assert_eq!(revised.provenance.as_ref().unwrap().value()["hook"], "guard");
    assert_eq!((revised.added[0].as_str(), revised.removed[0].as_str(), revised.modified[0].as_str()), ("d", "c", "b"));
    world.verb(goalmill_common::command::Verb::Approve { reason: String::new() }).unwrap();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!((world.status("c"), world.status("d")), (StepStatus::Revised, StepStatus::Completed));
}

#[test]
fn a_changed_plan_with_a_cycle_is_refused() {
    let mut world = asking(HookPoint::OnPlanGenerated);
    world.submit(plan(&[("a", &[])])).unwrap();
    let cycle = plan(&[("a", &["b"]), ("b", &["a"])]);
    decide(&mut world, None, HookRuling::ChangePlan(Box::new(planned(cycle))));
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "HOOK_REFUSED"));
    let decided = decisions(&world);
    assert!(!decided[0].2, "the decision says why");
}

#[test]
fn a_hook_approves_or_refuses_in_place_of_a_person() {
    let waiting = || {
        let mut world = asking(HookPoint::OnPlanApproved);
        world.submit(Plan { approve: Some(Approval::default()), ..plan(&[("a", &[])]) }).unwrap();
        world
    };
    let mut world = waiting();
    decide(&mut world, None, HookRuling::Approve);
    assert_eq!(world.status("a"), StepStatus::Ready);
    let mut world = waiting();
    decide(&mut world, None, HookRuling::Refuse);
    assert_eq!(world.state.status(), PlanStatus::Rejected);
    let mut world = waiting();
    decide(&mut world, None, HookRuling::Allow);
    assert_eq!(world.state.status(), PlanStatus::AwaitingApproval, "a person decides");
    world.others.clear();
    world.restart();
    assert!(!world.others.contains(&Effect::AskHooks { step: None }), "the hooks have answered");
    let mut world = waiting();
    let late = question(&world, None);
    world.verb(goalmill_common::command::Verb::Approve { reason: String::new() }).unwrap();
    assert_eq!(answer(&mut world, &late, HookRuling::Refuse), Err(Rejection::NotDue));
}

#[test]
fn a_step_is_held_asked_about_again_and_gets_other_inputs() {
    let mut world = asking(HookPoint::OnStepStart);
    let steps = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.inputs = Json::from(json!({"from": "{{ steps.a.outputs.x }}"}));
    });
    world.submit(steps).unwrap();
    let first = question_of(&world, "a");
    decide(&mut world, Some("a"), HookRuling::Hold(5_000));
    assert_eq!(world.status("a"), StepStatus::AwaitingApproval);
    world.restart();
    let timer = Timer::Step(world.index("a"));
    assert_eq!(world.timers[&timer], world.now_ms + 5_000);
    world.step_due("a");
    assert_ne!(question_of(&world, "a").id, first.id, "it is another question");
    decide(&mut world, Some("a"), HookRuling::Allow);
    world.complete("a", json!({"x": 7}));
    assert_eq!(question_of(&world, "b").data.value()["inputs"], json!({"from": 7}), "the hook sees rendered inputs");
    decide(&mut world, Some("b"), HookRuling::ChangeInputs(Json::from(json!({"from": 8}))));
    world.restart();
    let task = world.dispatch("b");
    assert_eq!(task.inputs.value(), json!({"from": 8}));
    assert_eq!(decisions(&world).last().unwrap().0, HookDecision::Change);
}

#[test]
fn a_refused_step_fails_and_unusable_inputs_refuse_it() {
    let mut world = asking(HookPoint::OnStepStart);
    world.submit(Plan { continue_on_failure: true, ..plan(&[("a", &[]), ("b", &[])]) }).unwrap();
    decide(&mut world, Some("a"), HookRuling::Refuse);
    decide(&mut world, Some("b"), HookRuling::ChangeInputs(Json::from(json!([1]))));
    assert_eq!((world.code("a").as_str(), world.code("b").as_str()), ("HOOK_REFUSED", "HOOK_REFUSED"));
}

#[test]
fn a_person_may_let_a_held_step_go() {
    let mut world = asking(HookPoint::OnStepStart);
    world.submit(plan(&[("a", &[])])).unwrap();
    decide(&mut world, Some("a"), HookRuling::Hold(5_000));
    let verb = goalmill_common::command::Verb::ApproveStep { step: "a".into(), reason: String::new() };
    world.verb(verb).unwrap();
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn outputs_count_once_the_hooks_agree() {
    let mut world = asking(HookPoint::OnStepComplete);
    world.submit(plan(&[("a", &[]), ("b", &["a"])])).unwrap();
    let task = world.dispatch("a");
    world.report(completed(&task, json!({"x": 1}))).unwrap();
    assert_eq!((world.status("a"), world.status("b")), (StepStatus::AwaitingApproval, StepStatus::Pending));
    assert_eq!(world.acknowledged.len(), 1, "the task is done");
    world.restart();
    assert_eq!(question_of(&world, "a").data.value()["outputs"], json!({"x": 1}));
    decide(&mut world, Some("a"), HookRuling::Allow);
    assert_eq!(world.outputs("a"), json!({"x": 1}));
    assert_eq!(world.status("b"), StepStatus::Ready);
}

#[test]
fn outputs_that_a_hook_turns_into_a_failure_are_tried_again_by_its_class() {
    let mut world = asking(HookPoint::OnStepComplete);
    world.submit(with(plan(&[("a", &[])]), "a", |step| step.retry.max = 1)).unwrap();
    world.complete("a", json!({"x": 1}));
    let failure = Failure::new(FailureClass::Transient, "TOO_VAGUE", "say more");
    decide(&mut world, Some("a"), HookRuling::Fail(failure.clone()));
    assert_eq!(world.status("a"), StepStatus::Retrying);
    world.step_due("a");
    world.complete("a", json!({"x": 2}));
    decide(&mut world, Some("a"), HookRuling::Fail(failure));
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "TOO_VAGUE"));
}

#[test]
fn a_hook_chooses_the_strategy_before_the_planners_are_asked() {
    let mut world = asking(HookPoint::OnRevisionNeeded);
    let steps = with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan);
    world.submit(Plan { revision: Some(RevisionPolicy::default()), ..steps }).unwrap();
    world.fail("a", permanent());
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert!(world.state.revision_hook().is_none());
    let question = HookQuestion { id: "q".into(), point: HookPoint::OnRevisionNeeded, step: None, data: Json::null() };
    world.others.clear();
    let strategy = RevisionStrategy::SkipAndContinue;
    answer(&mut world, &question, HookRuling::Choose { strategy, hint: "cheaply".into() }).unwrap();
    assert!(world.others.contains(&Effect::Plan { revision: 1 }), "the planners are asked");
    world.restart();
    let decided = world.state.revision_hook().expect("the decision is recorded");
    assert_eq!((decided.strategy, decided.hint.as_str()), (Some(strategy), "cheaply"));
    assert_eq!(answer(&mut world, &question, HookRuling::Refuse), Err(Rejection::NotDue), "it is decided");
}

#[test]
fn a_refused_revision_ends_the_replan() {
    let mut world = asking(HookPoint::OnRevisionNeeded);
    let steps = with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan);
    world.submit(Plan { revision: Some(RevisionPolicy::default()), ..steps }).unwrap();
    world.fail("a", permanent());
    let question = HookQuestion { id: "q".into(), point: HookPoint::OnRevisionNeeded, step: None, data: Json::null() };
    answer(&mut world, &question, HookRuling::Refuse).unwrap();
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "NOT_FOUND"));
}

#[test]
fn without_hooks_nothing_is_asked() {
    let mut world = World::of(plan(&[("a", &[])]));
    world.finish();
    assert!(!world.story().iter().any(|event| event.contains("hook")), "{:?}", world.story());
}

fn asking(point: HookPoint) -> World {
    let mut world = World::new();
    world.context.hooks = [point].into_iter().collect();
    world
}

fn question(world: &World, step: Option<&str>) -> HookQuestion {
    let step = step.map(|step| world.index(step));
    world.state.hook_question(step, &world.context).expect("the hooks are asked")
}

fn question_of(world: &World, step: &str) -> HookQuestion {
    question(world, Some(step))
}

fn answer(world: &mut World, question: &HookQuestion, ruling: HookRuling) -> Result<(), Rejection> {
    let answer = HookAnswer {
        id: question.id.clone(),
        point: question.point,
        step: question.step.clone(),
        hook: "guard".into(),
        by_default: false,
        reason: "because".into(),
        ruling,
    };
    world.command(Command::HookAnswered(Box::new(answer))).map(drop)
}

fn decide(world: &mut World, step: Option<&str>, ruling: HookRuling) {
    let question = question(world, step);
    answer(world, &question, ruling).expect("the hooks are awaited");
}

/// Decision, hook, whether there are no issues.
fn decisions(world: &World) -> Vec<(HookDecision, String, bool)> {
    let of = |event: &Event| match event {
        Event::Plan(PlanEvent::HookDecided(decided)) | Event::Step { event: StepEvent::HookDecided(decided), .. } => {
            Some((decided.decision, decided.hook.clone(), decided.issues.is_empty()))
        }
        Event::Plan(_) | Event::Step { .. } => None,
    };
    world.log.iter().filter_map(|record| of(&record.event)).collect()
}
