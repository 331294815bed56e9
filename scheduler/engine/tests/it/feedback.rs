//! Reports besides success and failure: partial successes, several errors, suggested adjustments. And what a
//! plan's view makes of it.

use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass};
use goalmill_common::plan::{OnPartial, Phase, Plan, StepKind};
use goalmill_common::report::{Report, SuggestedAdjustment, What};
use goalmill_common::status::{PhaseStatus, PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_common::view::StepView;
use serde_json::json;

use crate::world::{World, completed, failed, permanent, plan, report, step, with};

fn error(code: &str) -> Failure {
    Failure::new(FailureClass::Transient, code, "not found")
}

fn partly(task: &Task, errors: Vec<Failure>) -> Report {
    Report { outputs: Some(json!({"found": 2}).into()), errors, ..report(task, What::PartialSuccess) }
}

fn suggestion(priority: u8) -> SuggestedAdjustment {
    SuggestedAdjustment { description: format!("do {priority}"), priority, step: Some("b".into()) }
}

fn view_of(world: &World, step: &str) -> StepView {
    world.state.view(true).steps.into_iter().find(|view| view.id.as_str() == step).expect("the step exists")
}

fn with_policy(on_partial: OnPartial) -> World {
    World::of(with(plan(&[("a", &[]), ("b", &["a"])]), "a", |step| step.on_partial = on_partial))
}

#[test]
fn after_a_partial_success_dependents_go_on_unless_their_condition_says_otherwise() {
    let mut plan = with(plan(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]), "c", |step| {
        step.when = Some("not steps.a.partial".into());
    });
    plan = with(plan, "a", |step| step.expected_outputs = vec!["missing".into()]);
    let mut world = World::of(plan);
    let task = world.dispatch("a");
    world.report(partly(&task, vec![error("NO_HOTEL"), error("NO_TOUR")])).unwrap();
    let a = view_of(&world, "a");
    assert_eq!((a.status, a.partial, a.errors.len()), (StepStatus::Completed, true, 2));
    assert_eq!((world.status("b"), world.status("c")), (StepStatus::Ready, StepStatus::Skipped));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Partial);
    world.restart();
}

#[test]
fn a_step_may_refuse_a_partial_success() {
    let mut world = with_policy(OnPartial::Fail);
    let task = world.dispatch("a");
    world.report(partly(&task, vec![error("NO_HOTEL")])).unwrap();
    assert_eq!((world.status("a"), world.code("a").as_str()), (StepStatus::Retrying, "PARTIAL_SUCCESS"));
    let failure = view_of(&world, "a").failure.unwrap();
    assert_eq!((failure.class, failure.errors[0].code.as_str()), (FailureClass::Transient, "NO_HOTEL"));
}

#[test]
fn a_partial_success_may_ask_for_a_revision() {
    let mut world = with_policy(OnPartial::Replan);
    let task = world.dispatch("a");
    let suggested_adjustments = vec![suggestion(3), suggestion(9)];
    world.report(Report { suggested_adjustments, ..partly(&task, Vec::new()) }).unwrap();
    assert_eq!((world.status("a"), world.state.status()), (StepStatus::Completed, PlanStatus::Replanning));
    let triggered = world.log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::ReplanTriggered(replan)) = &record.event { Some(replan.clone()) } else { None }
    });
    let triggered = triggered.unwrap();
    let information = triggered.information.unwrap().value();
    assert_eq!(triggered.trigger, "partial_success");
    assert_eq!(information["suggested_adjustments"][0]["priority"], 9, "the most urgent comes first");
    crate::revise::give_up(&mut world);
    assert_eq!(world.state.status(), PlanStatus::Running, "without a revision the plan goes on");
}

#[test]
fn only_an_urgent_suggestion_asks_for_a_revision() {
    for (priority, status) in [(7, PlanStatus::Running), (8, PlanStatus::Replanning), (200, PlanStatus::Replanning)] {
        let mut world = with_policy(OnPartial::Continue);
        let task = world.dispatch("a");
        let suggested_adjustments = vec![suggestion(priority)];
        world.report(Report { suggested_adjustments, ..completed(&task, json!({})) }).unwrap();
        assert_eq!(world.state.status(), status);
        assert_eq!(view_of(&world, "a").suggested_adjustments[0].priority, priority.min(10));
        world.restart();
    }
}

#[test]
fn a_failure_keeps_every_error_of_the_report_within_bounds() {
    let mut world = with_policy(OnPartial::Continue);
    let task = world.dispatch("a");
    let many = || (0..30).map(|n| error(&format!("E{n}"))).collect::<Vec<_>>();
    let nested = Failure { errors: many(), ..error("E0") };
    world
        .report(Report { failure: None, errors: [vec![nested], many()].concat(), ..failed(&task, permanent()) })
        .unwrap();
    let failure = view_of(&world, "a").failure.unwrap();
    assert_eq!(failure.code, "E0", "the first error counts");
    assert!(!failure.errors.is_empty() && failure.errors.len() <= ERRORS_MAX);
    assert!(failure.errors.iter().all(|error| error.errors.is_empty()));

    let mut world = with_policy(OnPartial::Continue);
    let task = world.dispatch("a");
    world.report(Report { errors: vec![error("E1")], ..failed(&task, permanent()) }).unwrap();
    assert_eq!(view_of(&world, "a").failure.unwrap().errors, [error("E1")]);
}

#[test]
fn a_view_says_what_runs_where_phases_stand_and_what_came_of_it() {
    use PhaseStatus::{Completed, Failed, Pending, Running, Skipped};

    let phase = |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: false };
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &[])]);
    for (id, name) in [("a", "one"), ("b", "two"), ("c", "three")] {
        plan = with(plan, id, |step| step.phase = Some(name.into()));
    }
    plan = with(plan, "b", |step| step.retry.max = 0);
    let mut world = World::of(Plan { phases: vec![phase("one"), phase("two"), phase("three")], ..plan });
    let phases = |world: &World| world.state.view(true).phases.iter().map(|phase| phase.status).collect::<Vec<_>>();
    assert_eq!(phases(&world), [Running, Pending, Pending]);
    assert_eq!(world.state.summary().execution_seconds, None);
    let task = world.dispatch("a");
    assert_eq!(world.state.view(true).current_steps, ["a".into()]);
    world.now_ms += 1_500;
    world.report(completed(&task, json!({"x": 1}))).unwrap();
    assert_eq!((phases(&world), world.state.view(true).final_output), (vec![Completed, Running, Pending], None));
    world.fail("b", permanent());
    assert_eq!(phases(&world), [Completed, Failed, Skipped]);
    assert_eq!(world.state.summary().execution_seconds, Some(1.5));
    assert_eq!(world.state.results().final_output.map(|json| json.value()), Some(json!({"x": 1})));
    assert_eq!(world.state.view(false).final_output, None);
}

#[test]
fn the_output_of_a_finish_step_is_that_of_the_plan() {
    let mut end = step("end", &["a"]);
    (end.kind, end.agent_type, end.inputs) = (StepKind::Finish, "".into(), json!({"answer": 42}).into());
    let mut world = World::of(Plan { steps: vec![step("a", &[]), end, step("later", &["end"])], ..Plan::default() });
    world.finish();
    assert_eq!(world.state.view(true).final_output.map(|json| json.value()), Some(json!({"answer": 42})));
}
