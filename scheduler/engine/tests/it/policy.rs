//! Policies hold for changes of a running plan too.

use goalmill_common::agent::Agent;
use goalmill_common::command::{Change, Proposal, RevisionStrategy};
use goalmill_common::goal::{Goal, Planning};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, RevisionPolicy, Step, StepKind, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::report::What;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, PlanAnswer, validate_revision};
use goalmill_plan::validate::{Catalogue, Policy, Rules};
use serde_json::json;

use crate::world::{World, permanent, plan, report, step, submission, with};

fn patterns(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

/// A world in which step `a` was about to run and its agent answered with this plan.
fn given(policy: Policy, sub_plan: &serde_json::Value) -> World {
    let mut world = World::new();
    world.context.policy = policy;
    world.submit(plan(&[("a", &[])])).expect("the plan is fit");
    let task = world.dispatch("a");
    let mut report = report(&task, What::Completed);
    report.sub_plan = Some(Json::from_value(sub_plan));
    report.sub_plans = ["*".to_owned()].into();
    world.report(report).expect("it is the current attempt");
    world
}

#[test]
fn a_plan_that_an_agent_gives_keeps_to_the_policy() {
    let sub_plan = json!({"steps": [
        {"id": "x", "agent_type": "mail", "action": "send"},
        {"id": "y", "agent_type": "w", "fallback": {"agent_type": "mail"}},
    ]});
    let free = given(Policy::default(), &sub_plan);
    assert_ne!(free.status("a"), StepStatus::Failed);
    let denied = given(Policy { deny: patterns(&["mail"]), ..Policy::default() }, &sub_plan);
    let failure = denied.state.step(denied.index("a")).and_then(|step| step.failure.cloned()).expect("it failed");
    assert_eq!(failure.code, "SUB_PLAN_INVALID");
    assert!(failure.message.contains("ACTION_DENIED at /steps/1/agent_type"), "{}", failure.message);
    let asked = given(Policy { approve: patterns(&["mail"]), ..Policy::default() }, &sub_plan);
    let steps = &asked.sub_plan("a").state.plan().steps;
    assert!(steps.iter().all(|step| step.approve.is_some()), "a person is asked: {steps:?}");
}

#[test]
fn steps_that_are_over_are_not_held_against_the_policy_again() {
    let mut world = World::of(plan(&[("steps_in_flight", &[]), ("hotels", &["steps_in_flight"])]));
    world.complete("steps_in_flight", json!({}));
    let catalogue = Catalogue::from_agents(&[Agent::named("w".into())]);
    let policy = Policy { allow: patterns(&["w/search"]), approve: patterns(&["w"]), ..Policy::default() };
    let rules = Rules { policy: &policy, ..Rules::planned(&catalogue) };
    let with = Step { action: "search".into(), ..step("hotels_2", &["steps_in_flight"]) };
    let changes = [Change::ReplaceStep { step: "hotels".into(), with: vec![with] }];
    let warnings =
        validate_revision(&world.state, &changes, &Limits::default(), &rules).expect("what is new is allowed");
    let asked: Vec<&str> =
        warnings.iter().filter(|issue| issue.code == "APPROVAL_REQUIRED").map(|issue| issue.pointer.as_str()).collect();
    assert!(asked.iter().all(|pointer| pointer.starts_with("/steps/hotels_2")), "{asked:?}");
}

#[test]
fn a_plan_cannot_allow_itself_what_the_installation_wants_a_person_to_see() {
    let mut plan = with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan);
    plan.revision = Some(RevisionPolicy { widen: Widen::Allow, ..RevisionPolicy::default() });
    let mut world = World::of(plan);
    world.fail("a", permanent());
    let wider = Issue {
        code: "APPROVAL_REQUIRED".into(),
        pointer: "/steps/b".into(),
        detail: "step `b` waits for a person".into(),
        hint: String::new(),
    };
    let change = Change::ReplaceStep { step: "a".into(), with: vec![step("b", &[])] };
    let proposal = Proposal { widens: vec![wider], ..Proposal::new(RevisionStrategy::InsertRecovery, vec![change]) };
    let answer = PlanAnswer::Revision(Box::new(proposal));
    world.command(Command::Planned { revision: 1, answer }).expect("it is waited for");
    assert_eq!((world.state.revision(), world.state.status()), (0, PlanStatus::Replanning), "a person is asked");
}

#[test]
fn a_part_that_is_planned_later_is_shown_to_whoever_must_agree_and_revised_as_the_goal_says() {
    let mut world = World::new();
    let mut submit = submission(Some(plan(&[("trip", &[])])));
    let revision = RevisionPolicy { confidence_floor: 0.5, ..RevisionPolicy::default() };
    let planning = Planning { require_approval: true, revision: Some(revision), ..Planning::default() };
    submit.goal = Goal { planning: planning.clone(), ..submit.goal };
    if let Some(planned) = &mut submit.plan {
        planned.plan.steps[0].kind = StepKind::Plan;
    }
    world.submit_as(submit).expect("the plan is fit");
    let approve = goalmill_common::command::Verb::Approve { reason: String::new() };
    world.command(Command::Verb(approve)).expect("it awaits that");
    assert_eq!(world.sub_plan("trip").state.accepted().goal.planning, planning);
}
