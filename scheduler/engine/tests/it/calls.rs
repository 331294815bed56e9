//! Calls of language models: charged when they are settled, and known when nobody saw their end.

use goalmill_common::event::{Event, ModelAnswered, ModelAsked, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::plan::{OnFailure, Step};
use goalmill_common::view::ModelCalls;
use goalmill_engine::{Command, Decision, PlanAnswer, Rejection, budget};
use serde_json::json;

use crate::world::{World, plan, planned, step, submission};

#[test]
fn what_a_call_takes_is_charged_and_its_answer_is_kept_until_the_plan_is_there() {
    let mut world = goal();
    ask(&mut world, 0, 1).unwrap();
    assert_eq!(calls(&world), ModelCalls { open: 1, unsettled: usage(900), ..ModelCalls::default() });
    settle(&mut world, 0, 1);
    assert_eq!(world.state.view(false).summary.usage, usage(150));
    assert_eq!(calls(&world), ModelCalls { settled: 1, ..ModelCalls::default() });
    assert_eq!(budget::model_answers(&world.state).len(), 1);
    take_plan(&mut world);
    assert!(budget::model_answers(&world.state).is_empty(), "nobody needs it any more");
    assert_eq!(calls(&world).settled, 1);
}

#[test]
fn a_call_whose_scheduler_ended_is_lost_whether_it_is_made_again_or_not() {
    let mut world = goal();
    ask(&mut world, 0, 1).unwrap();
    world.restart();
    ask(&mut world, 0, 1).unwrap();
    assert_eq!(repeats(&world), 1);
    settle(&mut world, 0, 1);
    ask(&mut world, 0, 2).unwrap();
    world.restart();
    take_plan(&mut world);
    assert_eq!(repeats(&world), 1, "another planner made the plan");
    let expected = ModelCalls { settled: 1, lost: 2, unsettled: usage(1_800), ..ModelCalls::default() };
    assert_eq!(calls(&world), expected);
    assert_eq!(world.state.view(false).summary.usage, usage(150), "what a lost call took is not known");
}

#[test]
fn planners_that_nobody_waits_for_ask_no_more_and_what_they_took_counts() {
    let mut world = failing();
    assert!(matches!(ask(&mut world, 0, 1), Err(Rejection::StaleRevision { .. })));
    ask(&mut world, 1, 1).unwrap();
    let failed = PlanAnswer::Failed { reason: "no idea".into(), issues: Vec::new(), provenance: None };
    world.command(Command::Planned { revision: 1, answer: failed }).unwrap();
    assert!(world.state.is_final());
    assert_eq!(calls(&world).lost, 1);
    assert!(ask(&mut world, 1, 2).is_err());

    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    let replan = goalmill_common::command::Verb::Replan {
        reason: "better".into(),
        hint: String::new(),
        options: goalmill_common::planning::ReplanOptions::default(),
    };
    world.verb(replan).unwrap();
    ask(&mut world, 1, 1).unwrap();
    let failed = PlanAnswer::Failed { reason: "too late".into(), issues: Vec::new(), provenance: None };
    world.command(Command::Planned { revision: 1, answer: failed }).unwrap();
    assert_eq!(calls(&world).lost, 1);
    settle(&mut world, 1, 1);
    assert_eq!((calls(&world).lost, calls(&world).settled), (0, 1), "it came to an end after all");
    assert_eq!(world.state.view(false).summary.usage, usage(150));
    assert!(budget::model_answers(&world.state).is_empty());
}

#[test]
fn a_call_that_was_never_sent_is_not_counted() {
    let mut world = goal();
    for (call, error, settled) in [(1, "LLM_OVER_BUDGET", 0), (2, "LLM_NONE", 0), (3, "LLM_FAILED", 1)] {
        ask(&mut world, 0, call).unwrap();
        let error = error.to_owned();
        let answered = ModelAnswered { planner: "llm".into(), call, error, ..ModelAnswered::default() };
        world.command(Command::ModelAnswered(Box::new(answered))).expect("it is taken");
        assert_eq!((calls(&world).settled, calls(&world).open), (settled, 0));
    }
}

#[test]
fn numbers_that_are_none_are_not_written_down() {
    let mut world = goal();
    let reserved = Usage { tokens: 1, cost: f64::NAN };
    let asked = ModelAsked { planner: "llm".into(), call: 1, reserved, ..ModelAsked::default() };
    world.command(Command::ModelAsked(Box::new(asked))).unwrap();
    let usage = Usage { tokens: 1, cost: f64::NEG_INFINITY };
    let answered = ModelAnswered { planner: "llm".into(), call: 1, usage, ..ModelAnswered::default() };
    world.command(Command::ModelAnswered(Box::new(answered))).unwrap();
    assert_eq!(world.state.view(false).summary.usage, Usage { tokens: 1, cost: 0.0 });
    world.restart();
}

fn goal() -> World {
    let mut world = World::new();
    world.submit_as(submission(None)).expect("it is taken");
    world
}

/// A plan whose only step has failed, and which waits for a revision.
fn failing() -> World {
    let mut spec = plan(&[]);
    spec.steps = vec![Step { on_failure: OnFailure::Replan, ..step("a", &[]) }];
    let mut world = World::of(spec);
    world.fail("a", Failure::new(FailureClass::Permanent, "NO", "no"));
    world
}

fn take_plan(world: &mut World) {
    let answer = PlanAnswer::Plan(Box::new(planned(plan(&[("a", &[])]))));
    world.command(Command::Planned { revision: 0, answer }).expect("it is taken");
}

fn ask(world: &mut World, revision: u32, call: u32) -> Result<Decision, Rejection> {
    let (planner, template) = ("llm".into(), "plan".into());
    let asked = ModelAsked { revision, planner, call, template, reserved: usage(900), repeated: false };
    world.command(Command::ModelAsked(Box::new(asked)))
}

fn settle(world: &mut World, revision: u32, call: u32) {
    let answer = Some(Json::from_value(&json!({"text": "{}"})));
    let answered =
        ModelAnswered { revision, planner: "llm".into(), call, usage: usage(150), answer, ..ModelAnswered::default() };
    world.command(Command::ModelAnswered(Box::new(answered))).expect("it is taken");
}

fn usage(tokens: u64) -> Usage {
    Usage { tokens, cost: 0.0 }
}

fn calls(world: &World) -> ModelCalls {
    world.state.view(false).model_calls.unwrap_or_default()
}

fn repeats(world: &World) -> usize {
    let is_repeated = |event: &Event| matches!(event, Event::Plan(PlanEvent::ModelAsked(asked)) if asked.repeated);
    world.log.iter().filter(|record| is_repeated(&record.event)).count()
}
