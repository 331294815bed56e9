//! Dependencies by status: steps that run when another one has failed, or was skipped.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::{DependencyStatus, OnFailure, Plan, Step};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::json;

use crate::world::{World, permanent, plan, step};

fn after(id: &str, dependency: &str, status: &[DependencyStatus]) -> Step {
    let mut step = step(id, &[dependency]);
    step.dependency_status.insert(dependency.into(), status.to_vec());
    step
}

/// A payment, a receipt behind it, and a notice for the case that the payment fails.
fn pay() -> Plan {
    let mut pay = plan(&[("pay", &[]), ("receipt", &["pay"])]);
    pay.steps.push(after("notice", "pay", &[DependencyStatus::Failed]));
    pay
}

#[test]
fn a_failure_that_a_step_handles_does_not_fail_the_plan() {
    for policy in [OnFailure::Abort, OnFailure::Replan, OnFailure::AskUser, OnFailure::Continue] {
        let mut pay = pay();
        pay.steps[0].on_failure = policy;
        pay.steps[2].inputs = json!({"why": "{{ steps.pay.failure.message }}"}).into();
        let mut world = World::of(pay);
        world.fail("pay", Failure::new(FailureClass::Permanent, "DECLINED", "the card is declined"));
        assert_eq!(world.state.status(), PlanStatus::Running, "{policy:?}");
        assert_eq!(world.status("receipt"), StepStatus::Skipped);
        world.restart();
        world.dispatch_all();
        assert_eq!(world.open_tasks()[0].inputs.value(), json!({"why": "the card is declined"}));
        world.finish();
        let steps = ["pay", "receipt", "notice"].map(|step| world.status(step));
        assert_eq!(steps, [StepStatus::Failed, StepStatus::Skipped, StepStatus::Completed]);
        assert_eq!(world.state.status(), PlanStatus::Completed, "{policy:?}");
    }
}

#[test]
fn a_step_for_the_failure_is_skipped_when_there_is_none_and_so_is_what_follows_it() {
    let mut pay = pay();
    pay.steps.push(step("apology", &["notice"]));
    pay.steps.push(after("end", "notice", &[DependencyStatus::Completed, DependencyStatus::Skipped]));
    let mut world = World::of(pay);
    world.complete("pay", json!({}));
    world.finish();
    let steps = ["receipt", "notice", "apology", "end"].map(|step| world.status(step));
    assert_eq!(steps, [StepStatus::Completed, StepStatus::Skipped, StepStatus::Skipped, StepStatus::Completed]);
    assert_eq!(world.state.status(), PlanStatus::Completed);
    let notice = world.state.step(world.index("notice")).unwrap();
    assert_eq!(notice.reason, "`pay` is completed, not failed");
}

#[test]
fn a_plan_fails_with_a_failure_that_no_step_has_handled() {
    let mut world = World::of({
        let mut pay = pay();
        pay.steps[2].when = Some("false".into());
        pay
    });
    world.fail("pay", permanent());
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert!(world.state.ended().unwrap().reason.contains("step `pay` failed"), "{:?}", world.state.ended());

    // The failure of the handling step is one of its own.
    let mut world = World::of(pay());
    world.fail("pay", permanent());
    world.fail("notice", permanent());
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert!(world.state.ended().unwrap().reason.contains("step `notice` failed"), "{:?}", world.state.ended());

    // A policy that goes on goes on.
    let mut world = World::of({
        let mut pay = pay();
        pay.steps[0].on_failure = OnFailure::Continue;
        pay.steps[2].when = Some("false".into());
        pay
    });
    world.fail("pay", permanent());
    assert_eq!(world.state.status(), PlanStatus::Partial);
}

#[test]
fn completed_means_that_a_skip_is_not_enough() {
    let mut trip = plan(&[("search", &[]), ("book", &["search"])]);
    trip.steps[0].when = Some("false".into());
    trip.steps.push(after("pay", "search", &[DependencyStatus::Completed]));
    trip.steps.push(after("note", "search", &[DependencyStatus::Skipped]));
    let mut world = World::of(trip);
    world.finish();
    let steps = ["search", "book", "pay", "note"].map(|step| world.status(step));
    assert_eq!(steps, [StepStatus::Skipped, StepStatus::Completed, StepStatus::Skipped, StepStatus::Completed]);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}
