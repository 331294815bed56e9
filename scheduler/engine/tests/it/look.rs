//! Queries of the state of a plan.

use goalmill_common::command::Verb;
use goalmill_common::plan::{Approval, OnFailure};
use goalmill_common::report::What;
use goalmill_common::status::{Counts, PlanStatus};
use goalmill_engine::{AgentHealth, ExplainContext, StepIndex, SummarySnapshot, explain};
use serde_json::json;

use crate::world::{World, permanent, plan, report, transient, with};

/// The command that starts workers for the queue `w`.
const START: &str = "goalmill worker --agents w";

#[test]
fn a_summary_counts_and_results_keep_the_plans_order() {
    let mut world = World::of(with(plan(&[("b", &[]), ("a", &[]), ("c", &["b"])]), "b", |step| {
        step.on_failure = OnFailure::Continue;
    }));
    world.complete("a", json!({"x": 1}));
    world.fail("b", permanent());
    let counts = Counts { total: 3, completed: 1, failed: 1, skipped: 1, ..Counts::default() };
    assert_eq!((world.state.summary().counts, world.state.summary().progress), (counts, 1.0));
    let results = world.state.results();
    assert_eq!(serde_json::Value::Object(results.results), json!({"a": {"x": 1}}));
    assert_eq!(results.failures["b"]["code"], "NOT_FOUND");
    assert_eq!(results.status, PlanStatus::Partial);
    assert_eq!(world.state.view(false).steps[1].outputs, None);
}

#[test]
fn the_summary_in_redis_says_once_what_never_changes() {
    let mut world = World::of(plan(&[("a", &[])]));
    let names = |world: &World, shown: Option<&SummarySnapshot>| -> Vec<&str> {
        world.state.summary_fields(shown).into_iter().map(|(name, _)| name).collect()
    };
    let first = names(&world, None);
    assert!(
        first.contains(&"created")
            && first.contains(&"name")
            && first.contains(&"agents")
            && !first.contains(&"finished")
    );
    let shown = world.state.shown();
    assert_eq!(names(&world, Some(&shown)), [""; 0]);
    world.dispatch("a");
    assert_eq!(names(&world, Some(&shown)), ["counts", "progress", "begun"]);
    let shown = world.state.shown();
    world.finish();
    assert_eq!(names(&world, Some(&shown)), ["status", "counts", "progress", "finished"]);
}

#[test]
fn the_summary_says_what_waits_for_people_and_until_when() {
    let approve = |limit_ms| Some(Approval { limit_ms, ..Approval::default() });
    let document = with(plan(&[("a", &[]), ("b", &[]), ("c", &[])]), "a", |step| step.approve = approve(90_000));
    let mut world = World::of(with(document, "b", |step| step.approve = approve(30_000)));
    let first = world.state.summary().waits.expect("two steps wait");
    assert_eq!((first.count, first.due_at.clone()), (2, world.state.view(false).steps[1].due_at.clone()));
    let shown = world.state.shown();
    world.verb(Verb::ApproveStep { step: "b".into(), reason: String::new() }).expect("it waits");
    let second = world.state.summary().waits.expect("one step waits");
    assert_eq!((second.count, second.due_at), (1, world.state.view(false).steps[0].due_at.clone()));
    assert!(world.state.is_ahead_of(&shown));
    let fields = world.state.summary_fields(Some(&shown));
    assert!(fields.iter().any(|(name, text)| *name == "waits" && text.contains("\"count\":1")), "{fields:?}");
    world.verb(Verb::ApproveStep { step: "a".into(), reason: String::new() }).expect("it waits");
    let fields = world.state.summary_fields(None);
    assert!(fields.contains(&("waits", String::new())), "a new owner clears what the last one wrote: {fields:?}");
}

#[test]
fn an_explanation_goes_from_the_step_to_the_root_and_says_a_mend() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    world.dispatch("a");
    let told = explain::explain(&world.state, world.now_ms + 5_000);
    assert!(["3", "1", "2"].iter().all(|count| told.summary.contains(count)), "{told:?}");
    let c = told.steps.iter().find(|step| step.step_id.as_str() == "c").unwrap();
    assert_eq!(c.because.len(), 3);
    assert!(c.because[0].contains("`c`"), "{:?}", c.because);
    assert!(["`a`", "`w`", "5 s"].iter().all(|part| c.because[2].contains(part)), "{:?}", c.because);
    assert!(c.hint.contains(START), "{}", c.hint);
}

#[test]
fn a_queued_step_is_explained_by_who_serves_its_queue() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    world.dispatch("a");
    let told = |serving: AgentHealth| {
        let queues = [("w".into(), serving)].into();
        let around = ExplainContext { queues, lease_ms: 30_000, ..ExplainContext::default() };
        let told = explain::explain_with_context(&world.state, world.now_ms, &around);
        let a = told.steps.iter().find(|step| step.step_id.as_str() == "a").unwrap().clone();
        let b = told.steps.iter().find(|step| step.step_id.as_str() == "b").unwrap().clone();
        assert_eq!((a.because.last(), &a.hint), (b.because.last(), &b.hint), "the root is the same for both");
        (a.because.last().unwrap().clone(), a.hint)
    };
    let (because, hint) = told(AgentHealth { waiting: 1, ..AgentHealth::default() });
    assert!(because.contains("`w`"), "{because}");
    assert!(hint.contains(START), "{hint}");
    let (because, hint) = told(AgentHealth { waiting: 1, workers: 2, slots: 4, busy: 4, ..AgentHealth::default() });
    assert!(["4", "`w`", "2"].iter().all(|part| because.contains(part)), "{because}");
    assert!(hint.contains(START), "{hint}");
    let (because, hint) = told(AgentHealth { waiting: 1, workers: 1, slots: 4, busy: 1, ..AgentHealth::default() });
    assert!(["1", "`w`", "3 of 4"].iter().all(|part| because.contains(part)), "{because}");
    assert!(!hint.contains(START), "{hint}");
    let (because, hint) = told(AgentHealth { workers: 1, slots: 4, running: 1, ..AgentHealth::default() });
    assert_ne!(because, "");
    assert!(hint.contains("30 s"), "{hint}");
}

#[test]
fn a_task_that_is_on_no_stream_is_the_cause_and_not_its_worker() {
    let mut world = World::of(plan(&[("a", &[])]));
    world.dispatch("a");
    let queues = [("w".into(), AgentHealth { workers: 1, slots: 4, ..AgentHealth::default() })].into();
    let around = ExplainContext { queues, lease_ms: 30_000, ..ExplainContext::default() };
    let told = explain::explain_with_context(&world.state, world.now_ms, &around).steps.remove(0);
    assert!(told.because[1].contains("TASK_MISSING"), "{told:?}");
    assert_ne!(told.hint, "");
}

#[test]
fn a_task_in_the_hands_of_a_lost_worker_asks_for_patience_when_others_live() {
    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    let around = |workers| ExplainContext {
        queues: [("w".into(), AgentHealth { workers, slots: workers, running: 1, ..AgentHealth::default() })].into(),
        lease_ms: 30_000,
        ..ExplainContext::default()
    };
    let told = explain::explain_with_context(&world.state, world.now_ms, &around(1)).steps.remove(0);
    assert!(told.because[1].contains("30 s"), "{told:?}");
    assert!(told.hint.contains("30 s") && told.hint.contains("`w`"), "{told:?}");
    let told = explain::explain_with_context(&world.state, world.now_ms, &around(0)).steps.remove(0);
    assert!(told.hint.contains(START), "{told:?}");
    world.report(report(&task, What::Started)).expect("it is the current attempt");
    let told = explain::explain_with_context(&world.state, world.now_ms, &around(1)).steps.remove(0);
    let worker = world.state.step(StepIndex(0)).unwrap().worker.unwrap().clone();
    assert!(told.because[1].contains(worker.as_str()), "{told:?}");
    assert!(told.hint.contains("30 s"), "{told:?}");
    let around = ExplainContext { workers: [worker].into(), ..around(1) };
    let told = explain::explain_with_context(&world.state, world.now_ms, &around).steps.remove(0);
    assert_eq!(told.because.len(), 1);
    assert!(told.hint.contains("goalmill step skip"), "{told:?}");
}

#[test]
fn a_paused_queue_is_why_a_ready_step_is_not_out() {
    let world = World::of(plan(&[("a", &[])]));
    let queues = [("w".into(), AgentHealth { paused: true, workers: 1, ..AgentHealth::default() })].into();
    let told = explain::explain_with_context(&world.state, 0, &ExplainContext { queues, ..ExplainContext::default() })
        .steps
        .remove(0);
    assert!(told.because[1].contains("`w`"), "{told:?}");
    assert!(told.hint.contains("`goalmill queue resume w`"), "{told:?}");
}

#[test]
fn a_step_that_awaits_approval_is_repaired_by_its_own_approval_while_the_plan_is_replanned() {
    let plan = with(plan(&[("a", &[]), ("b", &[]), ("c", &["b"])]), "a", |step| step.on_failure = OnFailure::AskUser);
    let mut world = World::of(with(plan, "b", |step| step.approve = Some(Approval::default())));
    world.fail("a", permanent());
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    let told = explain::explain(&world.state, world.now_ms);
    let hint = |name: &str| told.steps.iter().find(|step| step.step_id.as_str() == name).map(|step| step.hint.clone());
    for step in ["b", "c"] {
        let hint = hint(step).unwrap();
        assert!(hint.contains("`goalmill step approve") && hint.contains(" b`"), "{step}: {hint}");
    }
    if let Some(hint) = hint("a") {
        assert!(hint.contains("`goalmill plan approve"), "{hint}");
    }
}

#[test]
fn an_explanation_names_the_failure_that_a_retry_waits_out() {
    let mut world = World::of(plan(&[("a", &[])]));
    world.fail("a", transient());
    let told = explain::explain(&world.state, world.now_ms);
    assert!(told.steps[0].because[0].contains("HTTP_503"), "{told:?}");
    assert!(told.steps[0].hint.contains("goalmill step retry"), "{told:?}");
}

#[test]
fn long_chains_rank_before_short_ones() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &[])]);
    plan = with(plan, "b", |step| step.estimates.seconds = Some(10.0));
    let world = World::of(plan);
    let ranks: Vec<f64> = (0..3).map(|i| world.state.rank(StepIndex(i))).collect();
    assert_eq!(ranks, [11.0, 10.0, 1.0]);
    assert_eq!(world.state.critical_path_seconds(), 11.0);
    assert_eq!(world.state.rank(StepIndex(99)), 0.0);
}
