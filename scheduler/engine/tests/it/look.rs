//! What a plan's state says about itself.

use goalmill_common::plan::OnFailure;
use goalmill_common::status::{Counts, PlanStatus};
use goalmill_engine::{Shown, StepIndex};
use serde_json::json;

use crate::world::{World, permanent, plan, transient, with};

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
    let names = |world: &World, shown: Option<&Shown>| -> Vec<&str> {
        world.state.summary_fields(shown).into_iter().map(|(name, _)| name).collect()
    };
    let first = names(&world, None);
    assert!(first.contains(&"created") && first.contains(&"name") && !first.contains(&"finished"));
    let shown = world.state.shown();
    assert_eq!(names(&world, Some(&shown)), [""; 0]);
    world.dispatch("a");
    assert_eq!(names(&world, Some(&shown)), ["counts", "progress"]);
    let shown = world.state.shown();
    world.finish();
    assert_eq!(names(&world, Some(&shown)), ["status", "counts", "progress", "finished"]);
}

#[test]
fn an_explanation_goes_from_the_step_to_the_root_and_says_a_mend() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    world.dispatch("a");
    let told = world.state.explain(world.now_ms + 5_000);
    assert_eq!(told.summary, "of 3 steps, 1 waiting for a worker, 2 waiting for other steps");
    let c = told.steps.iter().find(|step| step.step_id.as_str() == "c").unwrap();
    assert_eq!(c.because.len(), 3);
    assert_eq!(c.because[0], "`c` waits for 1 more of its 1 dependencies (1 are open)");
    assert!(c.because[2].starts_with("attempt 1 of `a` is in the queue `w` for 5 s"), "{:?}", c.because);
    assert_eq!(c.mend, "start workers for it: `goalmill worker --agents w`");
}

#[test]
fn an_explanation_names_the_failure_that_a_retry_waits_out() {
    let mut world = World::of(plan(&[("a", &[])]));
    world.fail("a", transient());
    let told = world.state.explain(world.now_ms);
    assert!(told.steps[0].because[0].contains("the service is down [HTTP_503]"), "{told:?}");
    assert!(told.steps[0].mend.contains("goalmill step retry"), "{told:?}");
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

#[test]
fn what_is_asked_of_no_plan_has_an_answer() {
    let world = World::new();
    assert_eq!((world.state.id(), world.state.plan_due(), world.state.next_due()), (None, None, None));
    assert_eq!(world.state.explain(0).steps, []);
    assert_eq!(world.state.view(true).steps, []);
    assert!(!world.state.admits(StepIndex(0)));
}
