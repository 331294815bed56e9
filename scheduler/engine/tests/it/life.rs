//! A plan's way from submission to its end, when nothing fails.

use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, Rejection, StepIndex};
use serde_json::json;

use crate::world::{World, completed, plan};

#[test]
fn a_submitted_plan_runs_to_its_end() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    world.complete("a", json!({"x": 1}));
    assert_eq!(world.status("b"), StepStatus::Ready);
    world.complete("b", json!({"y": 2}));
    assert_eq!(
        world.story(),
        [
            "goal_accepted", "plan_created", "plan_validated", "step_ready a", "step_queued a", "step_started a",
            "step_completed a", "step_ready b", "step_queued b", "step_started b", "step_completed b",
            "plan_completed",
        ]
    );
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!(world.outputs("b"), json!({"y": 2}));
    assert_eq!(world.acknowledged, ["a-1", "b-1"]);
    assert!(world.timers.is_empty(), "{:?}", world.timers);
    assert_eq!(world.others.last(), Some(&Effect::Ended));
}

#[test]
fn a_report_that_comes_twice_changes_nothing() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    let task = world.dispatch("a");
    world.report(completed(&task, json!({}))).unwrap();
    let again = world.report(completed(&task, json!({})));
    assert_eq!(again, Err(Rejection::StaleAttempt { step: "a".into(), attempt: 1 }));
}

#[test]
fn a_step_that_is_not_ready_is_not_dispatched() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    assert_eq!(world.command(Command::Dispatch(StepIndex(1))), Err(Rejection::NotDue));
    assert_eq!(world.command(Command::Dispatch(StepIndex(7))), Err(Rejection::NotDue));
    world.dispatch("a");
    assert_eq!(world.command(Command::Dispatch(StepIndex(0))), Err(Rejection::NotDue));
}
