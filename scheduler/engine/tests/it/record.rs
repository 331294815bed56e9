//! The record of an attempt in the log: inputs, cost, phase, and why a step did not run.

use goalmill_common::command::{Change, RevisionStrategy};
use goalmill_common::config::RedactSettings;
use goalmill_common::event::{Event, Record, StepEvent, StepQueued};
use goalmill_common::plan::{OnFailure, Phase, Plan};
use goalmill_common::redaction::Redaction;
use goalmill_common::report::TokenSplit;
use goalmill_common::status::StepStatus;
use goalmill_engine::Effect;
use serde_json::{Value, json};

use crate::revise::propose;
use crate::world::{World, completed, failed, permanent, plan, step, transient, with};

/// `b` gets what `a` gave.
fn chain() -> World {
    World::of(with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.inputs = json!({"text": "{{ steps.a.outputs.text }}", "password": "hunter2"}).into();
    }))
}

fn queued(world: &World, step: &str) -> Vec<StepQueued> {
    let of = |record: &Record| {
        if let Event::Step { step: id, event: StepEvent::Queued(queued), .. } = &record.event
            && id.as_str() == step
        {
            Some(queued.as_ref().clone())
        } else {
            None
        }
    };
    world.log.iter().filter_map(of).collect()
}

fn data(world: &World, type_name: &str) -> Value {
    let found = world.log.iter().rev().find(|record| record.event.type_name() == type_name).expect("it happened");
    serde_json::from_str::<Value>(&found.to_line()).expect("a line is JSON")
}

#[test]
fn every_attempt_records_what_its_agent_received() {
    let mut world = chain();
    world.complete("a", json!({"text": "hello"}));
    world.fail("b", transient());
    world.step_due("b");
    let task = world.dispatch("b");
    let recorded = queued(&world, "b");
    assert_eq!(recorded.len(), 2);
    for queued in recorded {
        assert_eq!(queued.inputs.as_ref().map(|inputs| inputs.text()), Some(task.inputs.text()));
        assert_eq!(queued.inputs_bytes, 0);
    }
    world.restart();
}

#[test]
fn recorded_inputs_are_redacted_and_the_agent_gets_everything() {
    let mut world = chain();
    let settings = RedactSettings { fields: vec!["Password".into()], patterns: vec!["[0-9]{4}".into()] };
    world.context.recording.as_mut().unwrap().redaction = Redaction::new(&settings).unwrap();
    world.complete("a", json!({"text": "card 1234"}));
    let task = world.dispatch("b");
    assert_eq!(task.inputs.value(), json!({"text": "card 1234", "password": "hunter2"}));
    let recorded = queued(&world, "b")[0].inputs.as_ref().unwrap().value();
    assert_eq!(recorded, json!({"text": "card [redacted]", "password": "[redacted]"}));
}

#[test]
fn large_inputs_are_stored_before_the_log_refers_to_them() {
    let mut world = chain();
    world.context.limits.inline_bytes_max = 100;
    world.complete("a", json!({"text": "x".repeat(200)}));
    let task = world.dispatch("b");
    let recorded = queued(&world, "b").remove(0);
    let reference = recorded.inputs.unwrap().value();
    let stored = world.others.iter().find_map(|effect| {
        if let Effect::StoreInputs { key, inputs } = effect { Some((key.clone(), inputs.clone())) } else { None }
    });
    let (key, inputs) = stored.expect("the inputs are stored");
    assert_eq!((reference["$blob"].as_str(), inputs.text()), (Some(key.as_str()), task.inputs.text()));
    assert_eq!(
        (recorded.inputs_bytes, reference["bytes"].as_u64()),
        (inputs.text().len() as u64, Some(recorded.inputs_bytes))
    );
    assert!(key.starts_with("blob:") && !key.contains(task.token.as_str()), "readers do not learn the token: {key}");
    world.restart();
}

#[test]
fn the_recorded_inputs_of_a_plan_are_bounded() {
    let mut world = chain();
    world.context.recording.as_mut().unwrap().plan_bytes_max = 50;
    world.complete("a", json!({"text": "x".repeat(200)}));
    world.dispatch("b");
    let recorded = queued(&world, "b").remove(0);
    assert_eq!((recorded.inputs, recorded.inputs_bytes > 200), (None, true));
}

#[test]
fn nothing_is_recorded_when_it_is_off() {
    let mut world = chain();
    world.context.recording = None;
    world.complete("a", json!({"text": "hello"}));
    world.dispatch("b");
    assert_eq!(queued(&world, "b")[0].inputs, None);
}

#[test]
fn an_outcome_says_how_long_the_attempt_ran_and_which_tokens_it_took() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &[])]));
    let task = world.dispatch("a");
    let mut report = completed(&task, json!({}));
    (report.started_ms, report.finished_ms) = (Some(1_000), Some(3_500));
    report.usage = Some(TokenSplit { prompt_tokens: 70, completion_tokens: 5 });
    world.report(report).unwrap();
    let done = data(&world, "step_completed")["data"].clone();
    assert_eq!(done["usage"], json!({"prompt_tokens": 70, "completion_tokens": 5}));
    assert_eq!((done["tokens"].as_u64(), done["duration_ms"].as_u64()), (Some(75), Some(2_500)));

    let task = world.dispatch("b");
    let mut report = failed(&task, permanent());
    (report.started_ms, report.finished_ms, report.tokens) = (Some(1_000), Some(1_250), Some(9));
    report.usage = Some(TokenSplit { prompt_tokens: 4, completion_tokens: 5 });
    world.report(report).unwrap();
    let done = data(&world, "step_failed")["data"].clone();
    assert_eq!((done["tokens"].as_u64(), done["duration_ms"].as_u64()), (Some(9), Some(250)));
}

#[test]
fn events_of_steps_name_their_phase() {
    let phase = Phase { id: "one".into(), description: String::new(), checkpoint: false };
    let with_phase = with(plan(&[("a", &[]), ("free", &[])]), "a", |step| step.phase = Some("one".into()));
    let mut world = World::of(Plan { phases: vec![phase], ..with_phase });
    world.finish();
    for record in &world.log {
        let expected = record.event.step().is_some_and(|step| step.as_str() == "a").then_some("one");
        if record.event.step().is_some() {
            assert_eq!(record.event.phase(), expected, "{record:?}");
            assert_eq!(Record::from_line(&record.to_line()).unwrap(), *record);
        }
    }
    assert_eq!(data(&world, "phase_completed")["data"]["phase"], "one");
}

#[test]
fn every_step_that_a_revision_ends_says_so_in_an_event_of_its_own() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["a"])]), "a", |step| {
        (step.on_failure, step.retry.max) = (OnFailure::Replan, 0);
    });
    let mut world = World::of(plan);
    world.fail("a", permanent());
    let skip = |step: &str| Change::SkipStep { step: step.into(), reason: "it rains".into() };
    let changes = vec![skip("a"), skip("d"), Change::RemoveStep { step: "c".into() }];
    propose(&mut world, RevisionStrategy::SkipAndContinue, changes).unwrap();
    assert!(world.story_of("a").ends_with(&["step_failed".into(), "step_skipped".into()]));
    assert_eq!(world.story_of("d").last().map(String::as_str), Some("step_skipped"));
    let skipped = data(&world, "step_skipped");
    assert_eq!((&skipped["data"]["cause"], &skipped["data"]["reason"]), (&json!("revision"), &json!("it rains")));
    assert!(data(&world, "step_removed")["data"]["reason"].as_str().is_some_and(|why| why.contains('1')));
    assert_eq!(world.status("b"), StepStatus::Ready, "what is skipped by a revision counts as done");
    world.finish();
    world.restart();
}

#[test]
fn a_planner_that_aborts_leaves_its_reason_at_the_end_of_the_plan() {
    let mut failing = step("a", &[]);
    (failing.on_failure, failing.retry.max) = (OnFailure::Replan, 0);
    let mut world = World::of(Plan { steps: vec![failing, step("b", &["a"])], ..Plan::default() });
    world.fail("a", permanent());
    crate::revise::propose_with(&mut world, RevisionStrategy::Abort, Vec::new(), "the trip is off").unwrap();
    let end = data(&world, "plan_failed");
    assert_eq!(end["data"]["reason"], "the trip is off");
    assert!(
        data(&world, "step_cancelled")["data"]["reason"].as_str().is_some_and(|why| why.contains("the trip is off"))
    );
}
