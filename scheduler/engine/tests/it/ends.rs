//! State that ends: reasons and questions that had a cause, and steps that the end of a plan takes with it.

use goalmill_common::command::{Change, RevisionStrategy, Verb};
use goalmill_common::event::{Event, PlanEvent, Record};
use goalmill_common::json::Json;
use goalmill_common::plan::{Approval, OnFailure, Plan, Question, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::StepView;
use goalmill_engine::replay;
use serde_json::json;

use crate::revise::propose;
use crate::world::{World, permanent, plan, with};

/// `b` needs `a`, whose failure is replanned.
fn replanned() -> World {
    let plan = with(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]), "a", |step| {
        (step.on_failure, step.retry.max) = (OnFailure::Replan, 0);
    });
    let mut world = World::of(plan);
    world.fail("a", permanent());
    assert_eq!((world.status("b"), seen(&world, "b").reason.is_empty()), (StepStatus::Blocked, false));
    world
}

#[test]
fn the_reason_of_a_step_ends_with_its_cause() {
    let mut world = replanned();
    let change = Change::SkipStep { step: "a".into(), reason: "camp".into() };
    propose(&mut world, RevisionStrategy::SkipAndContinue, vec![change]).unwrap();
    assert_eq!((seen(&world, "b").reason.as_str(), world.status("b")), ("", StepStatus::Ready));
    world.complete("b", json!({}));
    assert_eq!(seen(&world, "b").reason, "");
    assert_ne!(seen(&world, "a").reason, "", "this is why it is skipped");
    world.restart();

    let mut world = replanned();
    let outputs = Json::from(json!({}));
    world.verb(Verb::CompleteStep { step: "b".into(), outputs, reason: "by phone".into() }).unwrap();
    assert_eq!((world.status("b"), seen(&world, "b").reason.as_str()), (StepStatus::Completed, ""));

    let mut world = replanned();
    world.verb(Verb::Cancel { reason: "enough".into() }).unwrap();
    assert!(seen(&world, "b").reason.contains("cancelled"));
}

#[test]
fn the_question_of_a_step_ends_with_the_step() {
    let ask = Question { default: None, ..serde_json::from_value(json!({"question": "Sure?"})).unwrap() };
    let asking = || {
        let world = World::of(with(plan(&[("a", &[]), ("b", &["a"])]), "a", |step| {
            (step.kind, step.ask) = (StepKind::Internal, Some(ask.clone()));
        }));
        assert!(seen(&world, "a").question.is_some());
        world
    };
    let skip = Verb::SkipStep { step: "a".into(), reason: "no".into() };
    for verb in [skip, Verb::Cancel { reason: String::new() }] {
        let mut world = asking();
        world.verb(verb).unwrap();
        assert_eq!(seen(&world, "a").question, None);
    }
}

#[test]
fn the_end_of_a_plan_cancels_each_open_step_with_an_event() {
    let steps: [(&str, &[&str]); 4] = [("a", &[]), ("b", &[]), ("c", &["a"]), ("d", &["c"])];
    let cancelled = |world: &World| {
        assert_eq!(listed(world), Vec::<String>::new());
        let is_it = |line: &String| line.starts_with("step_cancelled");
        world.story().into_iter().filter(is_it).collect::<Vec<_>>()
    };
    let mut world = World::of(plan(&steps));
    world.complete("a", json!({}));
    world.dispatch("b");
    world.verb(Verb::Cancel { reason: "enough".into() }).unwrap();
    assert_eq!(cancelled(&world), ["step_cancelled b", "step_cancelled c", "step_cancelled d"]);
    assert!(seen(&world, "d").reason.contains("enough"), "the reason of the plan's end is that of its steps");

    let mut world = World::of(with(plan(&steps), "b", |step| {
        (step.on_failure, step.retry.max) = (OnFailure::Abort, 0);
    }));
    world.fail("b", permanent());
    assert_eq!((world.state.status(), cancelled(&world).len()), (PlanStatus::Failed, 3));
    assert!(seen(&world, "c").reason.contains("failed"));

    let mut world = World::of(Plan { approve: Some(Approval::default()), ..plan(&steps) });
    world.verb(Verb::Reject { reason: "too dear".into() }).unwrap();
    assert_eq!((world.state.status(), cancelled(&world).len()), (PlanStatus::Rejected, 4));
    assert!(seen(&world, "c").reason.contains("rejected"));

    let mut world = World::of(plan(&steps));
    world.finish();
    assert_eq!((world.state.status(), cancelled(&world)), (PlanStatus::Completed, Vec::new()));
}

#[test]
fn the_end_of_a_large_plan_is_one_event_that_is_smaller_than_the_plan() {
    let ids: Vec<String> = (0..10_000).map(|n| format!("step_{n}")).collect();
    let steps: Vec<(&str, &[&str])> =
        ids.iter().map(|id| (id.as_str(), &["step_0"][..usize::from(id != "step_0")])).collect();
    let mut world = World::of(plan(&steps));
    let decision = world.verb(Verb::Cancel { reason: "enough".into() }).unwrap();
    assert_eq!((decision.records.len(), listed(&world).len()), (1, ids.len()));
    let created = world.log.iter().find(|record| matches!(record.event, Event::Plan(PlanEvent::PlanCreated(_))));
    let (plan, end) = (created.unwrap().event.weight(), decision.records[0].event.weight());
    let line = decision.records[0].to_line().len();
    assert!(line < end + 100 && end < plan, "{line} bytes, by estimate {end}; the plan has {plan}");
}

#[test]
fn a_log_whose_end_lists_nothing_gives_the_same_state() {
    let ids: Vec<String> = (0..2_000).map(|n| format!("step_{n}")).collect();
    let steps: Vec<(&str, &[&str])> = ids.iter().map(|id| (id.as_str(), &[][..])).collect();
    let mut world = World::of(plan(&steps));
    world.verb(Verb::Cancel { reason: "enough".into() }).unwrap();
    assert!(world.log.last().unwrap().event.concerns("step_7"));
    let last = world.log.last().unwrap().to_line();
    let (head, _) = last.split_once(r#","cancelled":["#).expect("the end lists what it cancels");
    let older = format!("{head}}}}}");
    let mut state = None;
    let before = world.log[..world.log.len() - 1].iter().cloned();
    for record in before.chain([Record::from_line(&older).unwrap()]) {
        replay(&mut state, &record).unwrap();
    }
    assert_eq!(state, world.state.0);
}

fn seen(world: &World, step: &str) -> StepView {
    let found = world.state.view(false).steps.into_iter().find(|view| view.id.as_str() == step);
    found.expect("the step exists")
}

/// The steps that the last event lists as cancelled.
fn listed(world: &World) -> Vec<String> {
    let cancelled = match &world.log.last().expect("the plan has events").event {
        Event::Plan(PlanEvent::Completed(end) | PlanEvent::Failed(end) | PlanEvent::Cancelled(end)) => &end.cancelled,
        Event::Plan(PlanEvent::Rejected(rejected)) => &rejected.cancelled,
        Event::Plan(_) | Event::Step { .. } => panic!("the plan goes on: {:?}", world.log.last()),
    };
    cancelled.iter().map(ToString::to_string).collect()
}
