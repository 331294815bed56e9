//! Stored payloads are values: whatever reads one waits until it is loaded, or fails with the place, its size and the limit.

use goalmill_common::blob_ref;
use goalmill_common::criterion::{Criterion, Judgement};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::{Cache, Plan, Question, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, NeededPayload, Payload, StepIndex, criteria};
use serde_json::{Value, json};

use crate::world::{World, completed, plan, submission, with};

const KEY: &str = "blob:text";

fn stored() -> Value {
    json!({"text": blob_ref::to_json(KEY, 12).value(), "n": 1})
}

/// The payloads that were asked for last, and by which step.
fn asked(world: &World) -> (Option<StepIndex>, Vec<NeededPayload>) {
    let found = world.others.iter().rev().find_map(|effect| {
        let Effect::LoadPayloads { step, payloads } = effect else { return None };
        Some((*step, payloads.clone()))
    });
    found.expect("payloads were asked for")
}

fn loads(world: &World) -> usize {
    world.others.iter().filter(|effect| matches!(effect, Effect::LoadPayloads { .. })).count()
}

/// Answers the last request with this text.
fn load(world: &mut World, text: &str) {
    let (step, needed) = asked(world);
    let payload = Payload::parse(&json!(text).to_string()).expect("it is JSON");
    let payloads = needed.into_iter().map(|needed| (needed.key, Ok(payload.clone()))).collect();
    world.command(Command::PayloadsLoaded { step, payloads }).expect("they were asked for");
}

/// `b` after `a`, whose output `text` is stored.
fn chain(change: impl FnOnce(&mut goalmill_common::plan::Step)) -> World {
    let mut world = World::of(with(plan(&[("a", &[]), ("b", &["a"])]), "b", change));
    world.complete("a", stored());
    world
}

#[test]
fn inputs_are_sent_once_the_payload_is_there() {
    let mut world = chain(|b| b.inputs = json!({"n": "{{ steps.a.outputs.text | length }}"}).into());
    let b = world.index("b");
    world.command(Command::Dispatch(b)).expect("the step may go out");
    assert_eq!(world.status("b"), StepStatus::Ready);
    let (step, needed) = asked(&world);
    assert_eq!((step, needed[0].path.as_str(), needed[0].key.as_str()), (Some(b), "steps.a.outputs.text", KEY));
    load(&mut world, "word word ");
    assert_eq!(world.status("b"), StepStatus::Queued);
    assert_eq!(world.tasks.last().expect("it is sent").inputs.value(), json!({"n": 10}));
    world.restart();
}

#[test]
fn a_reference_that_is_passed_on_whole_needs_nothing() {
    let mut world = chain(|b| b.inputs = json!({"all": "{{ steps.a.outputs.text }}"}).into());
    let task = world.dispatch("b");
    assert_eq!(blob_ref::key(&task.inputs.value()["all"]), Some(KEY));
    assert_eq!(loads(&world), 0);
}

#[test]
fn a_condition_waits_and_then_decides() {
    for (text, status) in [("long enough", StepStatus::Ready), ("", StepStatus::Skipped)] {
        let mut world = chain(|b| b.when = Some("steps.a.outputs.text | length > 2".into()));
        assert_eq!(world.status("b"), StepStatus::Pending);
        assert_eq!(world.state.status(), PlanStatus::Running);
        load(&mut world, text);
        assert_eq!(world.status("b"), status);
        world.restart();
    }
}

#[test]
fn what_was_on_its_way_is_asked_for_again_after_a_restart() {
    let mut world = chain(|b| b.when = Some("steps.a.outputs.text | length > 2".into()));
    let before = loads(&world);
    world.restart();
    assert!(loads(&world) > before);
    load(&mut world, "long enough");
    assert_eq!(world.status("b"), StepStatus::Ready);
}

#[test]
fn steps_of_the_engine_questions_and_cache_keys_wait_too() {
    let mut world = chain(|b| {
        b.kind = StepKind::Finish;
        b.inputs = json!({"n": "{{ steps.a.outputs.text | upper }}"}).into();
    });
    assert_eq!(world.status("b"), StepStatus::Ready);
    load(&mut world, "done");
    assert_eq!((world.outputs("b"), world.state.status()), (json!({"n": "DONE"}), PlanStatus::Completed));

    let question =
        |text: &str| Question { question: text.into(), schema: None, default: None, limit_ms: 60_000, into: None };
    let mut world = chain(|b| b.ask = Some(question("Is {{ steps.a.outputs.text }} right?")));
    assert_eq!(world.status("b"), StepStatus::Pending);
    load(&mut world, "this");
    assert_eq!(world.status("b"), StepStatus::AwaitingApproval);

    let mut world = chain(|b| {
        b.cache = Some(Cache { key: "{{ steps.a.outputs.text }}".into(), ttl_ms: 1_000 });
    });
    world.command(Command::Dispatch(world.index("b"))).expect("the step may go out");
    load(&mut world, "key");
    let key = world.others.iter().find_map(|effect| {
        let Effect::CacheLookup { key, .. } = effect else { return None };
        Some(key.clone())
    });
    let (step, key) = (world.index("b"), key.expect("the cache is asked"));
    world.command(Command::CacheLookedUp { step, key, outputs: None }).expect("it was asked");
    assert_eq!(world.status("b"), StepStatus::Queued);
}

#[test]
fn sub_plans_get_the_value_also_after_a_restart() {
    let mut world = chain(|b| {
        b.kind = StepKind::Plan;
        b.inputs = json!({"n": "{{ steps.a.outputs.text | length }}"}).into();
        b.plan = Some(Box::new(plan(&[("x", &[])])));
    });
    assert!(world.sub_plans().is_empty());
    load(&mut world, "four");
    assert_eq!(world.sub_plans().len(), 1);
    let inputs = |world: &World| world.sub_plan("b").state.accepted().goal.metadata["inputs"].clone();
    assert_eq!(inputs(&world), json!({"n": 4}));
    world.restart();
}

#[test]
fn a_payload_over_the_limit_fails_the_step_with_its_place() {
    let mut world = World::new();
    world.context.limits.expression_bytes_max = 10;
    let two = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |b| b.when = Some("steps.a.outputs.text == 'x'".into()));
    world.submit(two).expect("the plan is fit");
    world.complete("a", stored());
    assert_eq!((world.status("b"), world.code("b").as_str()), (StepStatus::Failed, "PAYLOAD_TOO_LARGE"));
    assert_eq!(loads(&world), 0);
}

#[test]
fn a_payload_that_is_gone_fails_the_step() {
    let mut world = chain(|b| b.when = Some("steps.a.outputs.text == 'x'".into()));
    let (step, needed) = asked(&world);
    let failure = Failure::new(FailureClass::Permanent, "BLOB_MISSING", "it has expired");
    let payloads = vec![(needed[0].key.clone(), Err(failure))];
    world.command(Command::PayloadsLoaded { step, payloads }).expect("they were asked for");
    assert_eq!((world.status("b"), world.code("b").as_str()), (StepStatus::Failed, "BLOB_MISSING"));
}

#[test]
fn criteria_wait_for_the_value_or_are_not_judged() {
    let judged = |answer: &dyn Fn(&mut World)| {
        let mut submit = submission(Some(plan(&[("a", &[])])));
        let check = Some("steps.a.outputs.text | length > 2".to_owned());
        submit.goal.success_criteria = vec![Criterion { check, ..Criterion::default() }];
        let mut world = World::new();
        world.submit_as(submit).expect("the plan is fit");
        world.complete("a", stored());
        assert_eq!(world.state.status(), PlanStatus::Running);
        world.restart();
        answer(&mut world);
        assert_eq!(world.state.status(), PlanStatus::Completed);
        criteria::verdicts(&world.state)[0].verdict
    };
    assert_eq!(judged(&|world| load(world, "long enough")), Judgement::Met);
    assert_eq!(judged(&|world| load(world, "")), Judgement::Unmet);
    let gone = |world: &mut World| {
        let (step, needed) = asked(world);
        let failure = Failure::new(FailureClass::Permanent, "BLOB_MISSING", "it has expired");
        let payloads = vec![(needed[0].key.clone(), Err(failure))];
        world.command(Command::PayloadsLoaded { step, payloads }).expect("they were asked for");
    };
    assert_eq!(judged(&gone), Judgement::NotJudged);
}

#[test]
fn a_step_that_judges_may_give_a_large_verdict() {
    let mut submit = submission(Some(with(plan(&[("a", &[])]), "a", |a| a.judges = vec!["c1".into()])));
    submit.goal.success_criteria = vec![Criterion { description: "it is good".into(), ..Criterion::default() }];
    let mut world = World::new();
    world.submit_as(submit).expect("the plan is fit");
    world.complete("a", json!({"verdict": blob_ref::to_json(KEY, 12).value()}));
    load(&mut world, "met");
    assert_eq!(criteria::verdicts(&world.state)[0].verdict, Judgement::Met);
}

#[test]
fn the_schema_of_outputs_sees_the_value() {
    let typed = |kind: &str| -> Plan {
        with(plan(&[("a", &[])]), "a", |a| {
            a.output_schema = Some(json!({"properties": {"text": {"type": kind}}}).into());
            a.retry.max = 0;
        })
    };
    for (kind, status) in [("string", StepStatus::Completed), ("number", StepStatus::Failed)] {
        let mut world = World::of(typed(kind));
        let task = world.dispatch("a");
        world.report(completed(&task, stored())).expect("the report is current");
        assert!(!world.status("a").is_final(), "{kind}");
        load(&mut world, "a text");
        assert_eq!(world.status("a"), status, "{kind}");
        assert_eq!(world.acknowledged.len(), 1);
    }
}
