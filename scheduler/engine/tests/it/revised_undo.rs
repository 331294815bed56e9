//! Revisions that remove steps that are done, or may be: their undo steps run first.

use goalmill_common::command::Verb;
use goalmill_common::plan::{OnFailure, Plan, Step, Strategy};
use goalmill_common::revision::Change;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Decision, Rejection, explain};
use serde_json::json;

use crate::world::{World, completed, failed, permanent, plan, step, with};

fn undo(target: &str) -> Step {
    let inputs = json!({"order": "{{ outputs.order | default('none') }}", "plan": "{{ plan.status }}"});
    Step { undoes: Some(target.into()), inputs: inputs.into(), ..step(&format!("{target}:undo"), &[]) }
}

/// Two bookings that can be undone, and a walk.
fn trip() -> Plan {
    let mut trip = plan(&[("hotel", &[]), ("flight", &["hotel"]), ("walk", &["flight"])]);
    trip.steps.extend([undo("hotel"), undo("flight")]);
    trip
}

fn booked_as(trip: Plan) -> World {
    let mut world = World::of(trip);
    world.complete("hotel", json!({"order": "h"}));
    world.now_ms += 5;
    world.complete("flight", json!({"order": "f"}));
    world
}

fn booked() -> World {
    booked_as(trip())
}

fn edit(world: &mut World, changes: Vec<Change>) -> Result<Decision, Rejection> {
    world.verb(Verb::Edit { changes, revision: None, reason: String::new() })
}

fn remove(id: &str) -> Change {
    Change::RemoveStep { step: id.into() }
}

/// Takes the dependencies of a step away.
fn free(id: &str) -> Change {
    let fields = serde_json::Map::from_iter([("dependencies".to_owned(), json!(null))]);
    Change::SetFields { step: id.into(), fields }
}

/// The steps whose tasks are in flight.
fn out(world: &mut World) -> Vec<String> {
    world.dispatch_all();
    let mut out: Vec<String> = world.open_tasks().iter().map(|task| task.step.to_string()).collect();
    out.sort();
    out
}

fn complete(world: &mut World, step: &str) {
    let task = world.open_tasks().into_iter().find(|task| task.step.as_str() == step).expect("it is in flight");
    world.report(completed(&task, json!({}))).expect("it is current");
}

#[test]
fn what_a_revision_removes_is_undone_in_reverse_order_before_the_new_steps() {
    let mut world = booked();
    let add = Change::AddStep { step: Box::new(step("train", &[])), before: Vec::new() };
    edit(&mut world, vec![free("walk"), remove("hotel"), remove("flight"), add]).unwrap();
    assert_eq!(world.status("hotel"), StepStatus::Revised);
    assert_eq!(out(&mut world), ["flight:undo", "walk"], "what was ready goes on");
    let undoing = world.open_tasks().into_iter().find(|task| task.step.as_str() == "flight:undo").unwrap();
    assert_eq!(undoing.inputs.value(), json!({"order": "f", "plan": "running"}));
    world.restart();
    let explained = serde_json::to_string(&explain::explain(&world.state, world.now_ms)).unwrap();
    assert!(explained.contains("`train` waits until `flight:undo` has taken back"), "{explained}");
    complete(&mut world, "flight:undo");
    assert_eq!(out(&mut world), ["hotel:undo", "walk"]);
    complete(&mut world, "hotel:undo");
    assert_eq!(out(&mut world), ["train", "walk"]);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_step_that_was_replaced_is_undone_and_one_that_never_began_takes_its_undo_step_along() {
    let mut world = booked();
    let with = vec![step("bus", &["hotel"])];
    edit(&mut world, vec![Change::ReplaceStep { step: "flight".into(), with }]).unwrap();
    assert_eq!(out(&mut world), ["flight:undo"]);
    complete(&mut world, "flight:undo");
    assert_eq!(out(&mut world), ["bus"]);

    let mut world = World::of(trip());
    edit(&mut world, vec![free("walk"), remove("flight")]).unwrap();
    assert_eq!([world.status("flight"), world.status("flight:undo")], [StepStatus::Revised; 2]);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn an_attempt_that_was_withdrawn_is_undone_too() {
    let mut world = World::of(trip());
    world.dispatch("hotel");
    edit(&mut world, vec![free("flight"), remove("hotel")]).unwrap();
    assert_eq!(out(&mut world), ["hotel:undo"]);
    complete(&mut world, "hotel:undo");
    assert_eq!(out(&mut world), ["flight"]);
}

#[test]
fn only_a_completed_step_that_can_be_undone_is_removed() {
    let is_kept = |refused: &Rejection| matches!(refused, Rejection::Invalid { issues, .. } if issues.iter().any(|issue| issue.code == "STEP_FINAL"));
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    world.complete("a", json!({}));
    let refused = edit(&mut world, vec![free("b"), remove("a")]).unwrap_err();
    assert!(is_kept(&refused), "{refused:?}");
    let mut world = booked();
    let refused = edit(&mut world, vec![free("walk"), remove("flight"), remove("flight:undo")]).unwrap_err();
    assert!(is_kept(&refused), "{refused:?}");
    assert_eq!(world.status("flight"), StepStatus::Completed);
}

#[test]
fn an_undo_step_that_fails_follows_its_policy_and_can_be_retried() {
    for (policy, status) in [(OnFailure::Abort, PlanStatus::Failed), (OnFailure::Continue, PlanStatus::Partial)] {
        let mut world = booked_as(with(trip(), "flight:undo", |undo| undo.on_failure = policy));
        edit(&mut world, vec![free("walk"), remove("flight")]).unwrap();
        world.dispatch_all();
        let undoing = world.open_tasks().into_iter().find(|task| task.step.as_str() == "flight:undo").unwrap();
        world.report(failed(&undoing, permanent())).unwrap();
        world.finish();
        assert_eq!(world.state.status(), status, "{policy:?}");
        let undone = if status == PlanStatus::Failed { StepStatus::Completed } else { StepStatus::Skipped };
        assert_eq!(world.status("hotel:undo"), undone);
    }
    let mut world = booked_as(with(trip(), "flight:undo", |undo| undo.on_failure = OnFailure::Continue));
    edit(&mut world, vec![free("walk"), remove("flight")]).unwrap();
    world.dispatch_all();
    let undoing = world.open_tasks().into_iter().find(|task| task.step.as_str() == "flight:undo").unwrap();
    world.report(failed(&undoing, permanent())).unwrap();
    let again = Change::RetryStep { step: "flight:undo".into(), agent_type: None, action: None, inputs: None };
    edit(&mut world, vec![again]).unwrap();
    assert_eq!(out(&mut world), ["flight:undo", "walk"]);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_plan_that_ends_meanwhile_undoes_it_at_its_end() {
    let mut world = booked();
    edit(&mut world, vec![free("walk"), remove("flight")]).unwrap();
    assert_eq!(out(&mut world), ["flight:undo", "walk"]);
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(out(&mut world), ["flight:undo"], "it begins again");
    assert_eq!(world.open_tasks()[0].attempt, 2);
    complete(&mut world, "flight:undo");
    assert_eq!(out(&mut world), ["hotel:undo"]);
    complete(&mut world, "hotel:undo");
    assert_eq!(world.state.status(), PlanStatus::Cancelled);
}

#[test]
fn a_sequential_plan_that_is_cancelled_undoes_what_a_revision_removed() {
    // The undo step is ready when the clean-up begins, and in the second round in flight.
    for is_out in [false, true] {
        let mut world = booked_as(Plan { strategy: Strategy::Sequential, ..trip() });
        edit(&mut world, vec![free("walk"), remove("flight")]).unwrap();
        if is_out {
            assert_eq!(out(&mut world), ["flight:undo"], "`walk` is ready, and waits for it");
        }
        world.verb(Verb::Cancel { reason: String::new() }).unwrap();
        world.restart();
        assert_eq!(out(&mut world), ["flight:undo"]);
        complete(&mut world, "flight:undo");
        assert_eq!(out(&mut world), ["hotel:undo"]);
        complete(&mut world, "hotel:undo");
        assert_eq!(world.state.status(), PlanStatus::Cancelled);
    }
}
