//! Plans that are written part by part: a checkpoint at the end asks for the next one.

use goalmill_common::command::{Change, RevisionStrategy, Verb};
use goalmill_common::plan::{Phase, Plan, RevisionPolicy};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::json;

use crate::revise::{confidence, give_up, near, propose, trigger};
use crate::world::{World, completed, plan, step};

#[test]
fn an_iterative_plan_goes_on_until_the_planner_has_nothing_to_add() {
    let policy = RevisionPolicy { confidence_floor: 0.9, ..RevisionPolicy::default() };
    let mut world = World::of(Plan { revision: Some(policy), ..in_parts() });
    for part in ["two", "three"] {
        world.finish();
        assert_eq!(trigger(&world), "phase_checkpoint");
        propose(&mut world, RevisionStrategy::ReplanRemaining, vec![next_part(part)]).unwrap();
    }
    world.finish();
    assert!(near(confidence(&world), 1.0), "going on is what was planned");
    propose(&mut world, RevisionStrategy::ReplanRemaining, Vec::new()).unwrap();
    assert_eq!((world.state.status(), world.state.revision()), (PlanStatus::Completed, 2));
    assert_eq!(world.status("three"), StepStatus::Completed);
    world.restart();
}

#[test]
fn an_iterative_plan_at_the_limit_of_revisions_ends_with_that_word_unless_it_is_whole() {
    for is_whole in [true, false] {
        let policy = RevisionPolicy { max: Some(1), ..RevisionPolicy::default() };
        let mut world = World::of(Plan { revision: Some(policy), ..in_parts() });
        world.finish();
        propose(&mut world, RevisionStrategy::ReplanRemaining, vec![next_part("two")]).unwrap();
        world.finish();
        assert_eq!(trigger(&world), "phase_checkpoint", "only the planner knows whether it is whole");
        let changes = if is_whole { Vec::new() } else { vec![next_part("three")] };
        propose(&mut world, RevisionStrategy::ReplanRemaining, changes).unwrap();
        if is_whole {
            assert_eq!(world.state.status(), PlanStatus::Completed);
        } else {
            assert_eq!(world.state.status(), PlanStatus::Failed);
            assert_eq!(world.plan_code(), "MAX_REVISIONS_EXCEEDED");
        }
        assert_eq!(world.status("two"), StepStatus::Completed, "what was done is kept");
        world.restart();
    }
}

#[test]
fn an_iterative_plan_without_an_answer_is_not_whole() {
    let mut world = World::of(in_parts());
    world.finish();
    give_up(&mut world);
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert_eq!(world.plan_code(), "PLANNING_FAILED");
    assert_eq!(world.status("one"), StepStatus::Completed, "what was done is kept");
}

#[test]
fn a_paused_iterative_plan_asks_for_its_next_part_when_it_is_resumed() {
    let mut world = World::of(in_parts());
    let task = world.dispatch("one");
    world.verb(Verb::Pause { reason: String::new() }).unwrap();
    world.report(completed(&task, json!({}))).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Paused);
    world.verb(Verb::Resume { reason: String::new() }).unwrap();
    assert_eq!(trigger(&world), "phase_checkpoint");
}

/// The first part of a plan that is written part by part.
fn in_parts() -> Plan {
    let mut plan = plan(&[("one", &[])]);
    plan.phases = vec![Phase { id: "part_1".into(), description: String::new(), checkpoint: true }];
    plan.steps[0].phase = Some("part_1".into());
    plan.metadata.insert("planning".into(), "iterative".into());
    plan
}

fn next_part(id: &str) -> Change {
    let phase = Phase { id: format!("part_{id}"), description: String::new(), checkpoint: true };
    Change::AddPhase { phase, after: None, steps: vec![step(id, &[])] }
}
