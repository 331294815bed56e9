//! Hooks that decide: what waits for them, and what their decisions change.

use goalmill_common::command::Verb;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{Event, HookDecision, PlanEvent, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::plan::{Approval, Cache, OnFailure, Plan, RevisionPolicy, StepKind};
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{
    Command, Effect, HookAnswer, HookQuestion, HookRuling, Rejection, SubPlanEnd, Timer, explain, people,
};
use serde_json::json;

use crate::world::{World, completed, permanent, plan, planned, transient, with};

#[test]
fn a_plan_waits_for_its_hooks_also_after_a_restart() {
    let mut world = asking(HookPoint::OnPlanGenerated);
    world.submit(plan(&[("a", &[])])).unwrap();
    assert_eq!((world.state.status(), world.status("a")), (PlanStatus::AwaitingApproval, StepStatus::Pending));
    let told = explain::explain(&world.state, world.now_ms);
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
    let revised = world.log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::Revised(revised)) = &record.event { Some(revised.clone()) } else { None }
    });
    let revised = revised.expect("the change is a revision");
    assert_eq!(revised.planner, "hook:guard");
    assert_eq!(revised.provenance.as_ref().unwrap().value()["hook"], "guard");
    assert_eq!((revised.added[0].as_str(), revised.removed[0].as_str(), revised.modified[0].as_str()), ("d", "c", "b"));
    world.verb(Verb::Approve { reason: String::new() }).unwrap();
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
    world.verb(Verb::Approve { reason: String::new() }).unwrap();
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
    let verb = Verb::ApproveStep { step: "a".into(), reason: String::new() };
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
fn the_hooks_are_asked_about_what_the_engine_completes() {
    let inline = with(plan(&[("a", &[]), ("b", &["a"])]), "a", |step| {
        (step.kind, step.inputs) = (StepKind::Message, Json::from(json!({"text": "hello"})));
    });
    let waiting = || {
        let mut world = asking(HookPoint::OnStepComplete);
        world.submit(Plan { continue_on_failure: true, ..inline.clone() }).unwrap();
        world
    };
    let mut world = waiting();
    world.restart();
    assert_eq!((world.status("a"), world.status("b")), (StepStatus::AwaitingApproval, StepStatus::Pending));
    assert_eq!(question_of(&world, "a").data.value()["outputs"], json!({"text": "hello"}));
    decide(&mut world, Some("a"), HookRuling::Allow);
    assert_eq!((world.status("b"), world.outputs("a")), (StepStatus::Ready, json!({"text": "hello"})));
    let mut world = waiting();
    decide(&mut world, Some("a"), HookRuling::Fail(transient()));
    assert_eq!(world.status("a"), StepStatus::Failed, "it would give the same again");
}

#[test]
fn the_hooks_are_asked_about_the_outputs_of_a_sub_plan() {
    let ended = |world: &mut World| {
        let (status, outputs) = (PlanStatus::Completed, Json::from(json!({"x": 1})));
        let usage = Usage { cost: 0.5, tokens: 7 };
        let ended =
            Command::SubPlanEnded { step: "a".into(), attempt: 1, end: SubPlanEnd::new(status, outputs, usage, None) };
        world.command(ended).unwrap();
        assert_eq!(world.status("a"), StepStatus::AwaitingApproval);
        assert_eq!(question_of(world, "a").data.value()["tokens"], 7);
    };
    let nested = || {
        let mut world = asking(HookPoint::OnStepComplete);
        world.submit(with(plan(&[("a", &[])]), "a", |step| step.kind = StepKind::Plan)).unwrap();
        world
    };
    let mut world = nested();
    ended(&mut world);
    world.restart();
    decide(&mut world, Some("a"), HookRuling::Allow);
    assert_eq!((world.state.status(), world.state.usage().tokens), (PlanStatus::Completed, 7));
    let mut world = nested();
    ended(&mut world);
    decide(&mut world, Some("a"), HookRuling::Refuse);
    assert_eq!((world.plan_code().as_str(), world.state.usage().tokens), ("HOOK_REFUSED", 7));
}

#[test]
fn refused_outputs_of_the_cache_are_made_anew() {
    let cached = || {
        let mut world = asking(HookPoint::OnStepComplete);
        let steps = with(plan(&[("a", &[])]), "a", |step| {
            step.cache = Some(Cache { key: "k".into(), ttl_ms: 60_000 });
            step.retry.max = 1;
        });
        world.submit(steps).unwrap();
        world.command(Command::Dispatch(world.index("a"))).unwrap();
        let key = world
            .others
            .iter()
            .find_map(|effect| if let Effect::CacheLookup { key, .. } = effect { Some(key.clone()) } else { None });
        let (step, key) = (world.index("a"), key.expect("the cache is asked"));
        let outputs = Some(Json::from(json!({"x": 1})));
        world.command(Command::CacheLookedUp { step, key, outputs }).unwrap();
        assert_eq!((world.status("a"), world.tasks.len()), (StepStatus::AwaitingApproval, 0));
        assert_eq!(question_of(&world, "a").data.value()["cached"], true);
        world
    };
    let mut world = cached();
    world.restart();
    decide(&mut world, Some("a"), HookRuling::Allow);
    assert_eq!((world.state.status(), world.outputs("a")), (PlanStatus::Completed, json!({"x": 1})));
    let mut world = cached();
    decide(&mut world, Some("a"), HookRuling::Fail(transient()));
    assert_eq!(world.status("a"), StepStatus::Retrying);
    world.restart();
    world.step_due("a");
    world.complete("a", json!({"x": 2}));
    assert_eq!(question_of(&world, "a").data.value()["cached"], false, "a worker made them");
    decide(&mut world, Some("a"), HookRuling::Allow);
    assert_eq!((world.state.status(), world.outputs("a")), (PlanStatus::Completed, json!({"x": 2})));
}

#[test]
fn inputs_of_a_hook_outlast_its_decision_about_outputs() {
    let mut world = World::new();
    world.context.hooks = [HookPoint::OnStepStart, HookPoint::OnStepComplete].into_iter().collect();
    world.submit(with(plan(&[("a", &[])]), "a", |step| step.retry.max = 1)).unwrap();
    decide(&mut world, Some("a"), HookRuling::ChangeInputs(Json::from(json!({"n": 8}))));
    world.complete("a", json!({}));
    assert_eq!(question_of(&world, "a").data.value()["inputs"], json!({"n": 8}));
    decide(&mut world, Some("a"), HookRuling::Fail(transient()));
    world.step_due("a");
    world.restart();
    assert_eq!(world.dispatch("a").inputs.value(), json!({"n": 8}), "also of the next attempt");
}

#[test]
fn a_hook_chooses_the_strategy_before_the_planners_are_asked() {
    let mut world = asking(HookPoint::OnRevisionNeeded);
    let steps = with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan);
    world.submit(Plan { revision: Some(RevisionPolicy::default()), ..steps }).unwrap();
    world.fail("a", permanent());
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert!(people::revision_hook(&world.state).is_none());
    let question = HookQuestion { id: "q".into(), point: HookPoint::OnRevisionNeeded, step: None, data: Json::null() };
    world.others.clear();
    let strategy = RevisionStrategy::SkipAndContinue;
    answer(&mut world, &question, HookRuling::Choose { strategy, hint: "cheaply".into() }).unwrap();
    assert!(world.others.contains(&Effect::Plan { revision: 1 }), "the planners are asked");
    world.restart();
    let decided = people::revision_hook(&world.state).expect("the decision is recorded");
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

#[test]
fn an_answer_about_a_step_that_a_person_skipped_is_refused() {
    let mut world = asking(HookPoint::OnStepStart);
    world.submit(plan(&[("a", &[]), ("b", &["a"])])).unwrap();
    let asked = question_of(&world, "a");
    world.verb(Verb::SkipStep { step: "a".into(), reason: String::new() }).unwrap();
    assert_eq!(answer(&mut world, &asked, HookRuling::Allow), Err(Rejection::NotDue));
    assert_eq!(world.status("a"), StepStatus::Skipped);
}

fn asking(point: HookPoint) -> World {
    let mut world = World::new();
    world.context.hooks = [point].into_iter().collect();
    world
}

fn question(world: &World, step: Option<&str>) -> HookQuestion {
    let step = step.map(|step| world.index(step));
    people::hook_question(&world.state, step, &world.context).expect("the hooks are asked")
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
