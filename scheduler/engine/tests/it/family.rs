//! Families: one command, and the decisions of all plans that it reaches.

use goalmill_common::command::Verb;
use goalmill_common::event::{Event, FamilyGrew, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::plan::{ForEach, OnFailure, OnMax, Plan, Repeat, StepKind};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Decision, sub_plan};
use serde_json::json;

use crate::world::{World, plan, report, submission, with};

/// An agent answers with a plan of `steps` steps.
fn answer_with_plan(world: &mut World, step: &str, steps: usize) {
    let task = world.dispatch(step);
    let steps: Vec<_> = (0..steps).map(|i| json!({"id": format!("x{i}")})).collect();
    let sub_plan = Some(json!({"steps": steps}).into());
    world
        .report(Report { sub_plan, sub_plans: ["*".to_owned()].into(), ..report(&task, What::Completed) })
        .expect("it is current");
}

/// What the outermost plan was told of the plans inside it.
fn growth(world: &World) -> Vec<FamilyGrew> {
    let grown = world.log.iter().filter_map(|record| match &record.event {
        Event::Plan(PlanEvent::FamilyGrew(grown)) => Some(**grown),
        Event::Plan(_) | Event::Step { .. } => None,
    });
    grown.collect()
}

/// Sub-plans inside each other, at most.
const DEPTH: usize = 8;

#[test]
fn the_end_of_a_sub_plan_continues_its_parent_in_the_same_turn() {
    let mut world = begun(around(&[("p", &[]), ("z", &["p"])], tool()));
    assert_eq!(reached(&world), [0, 1], "the plan, then its sub-plan");
    world.enter("p");
    assert_eq!(world.log[0].actor.as_deref(), Some("engine"));
    world.complete("x", json!({"y": 2}));
    assert_eq!(reached(&world), [1, 0], "the sub-plan, then its parent");
    world.leave();
    assert_eq!(world.outputs("p"), json!({"x": {"y": 2}}));
    assert_eq!(world.status("z"), StepStatus::Ready);
}

#[test]
fn a_sub_plan_that_is_refused_fails_its_step() {
    let mut world = World::new();
    world.refuses_sub_plans = true;
    world.submit(around(&[("p", &[]), ("z", &["p"])], tool())).unwrap();
    assert_eq!(reached(&world), [0, 0], "the plan starts one, and is told");
    assert_eq!(world.code("p"), "PLAN_QUARANTINED");
    assert_eq!((world.state.status(), world.sub_plans().len()), (PlanStatus::Failed, 0));
}

#[test]
fn a_plan_of_somebody_else_with_the_id_of_a_sub_plan_is_not_taken_for_it() {
    let mut world = begun(around(&[("a", &[]), ("p", &["a"])], tool()));
    world.complete("a", json!({}));
    let id = world.sub_plans()[0].state.id().clone();
    let mut world = begun(around(&[("a", &[]), ("p", &["a"])], tool()));
    // The key of a client may derive to any id.
    world.add_plan(id, submission(Some(tool())));
    world.complete("a", json!({}));
    assert_eq!((world.code("p").as_str(), world.state.status()), ("SUB_PLAN_FAILED", PlanStatus::Failed));
    assert_eq!(statuses(&world)[1], PlanStatus::Running, "the other plan is left alone");
}

#[test]
fn a_sub_plan_over_the_limits_fails_its_step() {
    let mut world = World::new();
    world.context.limits.steps_max = 2;
    world.submit(around(&[("p", &[])], plan(&[("x", &[]), ("y", &[]), ("z", &[])]))).unwrap();
    assert_eq!(reached(&world), [0, 1, 0]);
    assert_eq!((world.code("p").as_str(), world.state.status()), ("PLANNING_FAILED", PlanStatus::Failed));
}

#[test]
fn an_answer_whose_plan_makes_the_family_too_large_fails_its_step() {
    let mut world = World::new();
    world.context.limits.family_steps_max = 8;
    world.submit(plan(&[("a", &[]), ("b", &[])])).unwrap();
    answer_with_plan(&mut world, "a", 4);
    assert_eq!(world.sub_plans().len(), 1, "2 steps, a plan and its 4 steps are 7");
    answer_with_plan(&mut world, "b", 4);
    assert_eq!((world.code("b").as_str(), world.state.status()), ("FAMILY_TOO_LARGE", PlanStatus::Failed));
    assert_eq!(statuses(&world), [PlanStatus::Failed, PlanStatus::Cancelled]);
}

#[test]
fn plans_at_any_depth_count_in_the_outermost_plan_also_when_they_have_ended() {
    let mut world = World::new();
    world.context.limits.family_steps_max = 13;
    world.submit(plan(&[("a", &[]), ("b", &[])])).unwrap();
    answer_with_plan(&mut world, "a", 1);
    world.enter("a");
    answer_with_plan(&mut world, "x0", 3);
    world.enter("x0");
    for step in ["x0", "x1", "x2"] {
        world.complete(step, json!({}));
    }
    assert_eq!(world.state.status(), PlanStatus::Completed);
    world.leave();
    world.leave();
    assert_eq!(world.status("a"), StepStatus::Completed);
    // 2, then 2, then 4 are 8: a plan with 4 steps is 5 more.
    answer_with_plan(&mut world, "b", 5);
    assert_eq!(world.code("b"), "FAMILY_TOO_LARGE");
}

#[test]
fn only_plans_that_the_outermost_plan_does_not_know_are_told_to_it() {
    let mut world = begun(around(&[("p", &[])], plan(&[("x", &[]), ("y", &[])])));
    world.enter("p");
    answer_with_plan(&mut world, "x", 3);
    world.leave();
    let told: Vec<u64> = growth(&world).iter().map(|grown| grown.steps).collect();
    assert_eq!(told, [4], "the plan of an answer, and its three steps");
}

#[test]
fn a_loop_over_a_plan_counts_its_text_each_time() {
    let inner = with(inline(), "x", |step| step.description = "x".repeat(10_000));
    let looping = with(around(&[("p", &[])], inner), "p", |step| {
        let repeat = Repeat { until: "1 == 2".into(), max: 20, delay_ms: 0, on_max: OnMax::Continue };
        step.repeat = Some(Box::new(repeat));
    });
    let mut world = World::new();
    world.context.limits.plan_outputs_bytes_max = 200_000;
    world.submit(looping.clone()).unwrap();
    assert_eq!((world.code("p").as_str(), world.state.status()), ("FAMILY_TOO_LARGE", PlanStatus::Failed));
    assert_eq!(world.sub_plans().len(), 6, "each counts about 31,000 bytes");
    let mut world = World::new();
    world.context.limits.plan_outputs_bytes_max = 1_000_000;
    world.submit(looping).unwrap();
    assert_eq!((world.state.status(), world.sub_plans().len()), (PlanStatus::Completed, 20));
}

#[test]
fn outputs_of_all_plans_of_a_family_count_together() {
    let steps: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    let ids: Vec<(&str, &[&str])> = steps.iter().map(|id| (id.as_str(), [].as_slice())).collect();
    let both = with(around(&[("p", &[]), ("q", &[])], plan(&ids)), "q", |step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(plan(&ids)));
    });
    let mut world = World::new();
    world.context.limits.plan_outputs_bytes_max = 100_000;
    world.submit(both).unwrap();
    let mut completed = 0;
    for (step, place) in steps.iter().flat_map(|step| ["p", "q"].map(|place| (step, place))) {
        world.enter(place);
        if world.state.status() == PlanStatus::Running {
            world.complete(step, json!({"text": "x".repeat(10_000)}));
            completed += 1;
        }
        world.leave();
    }
    assert!((8..12).contains(&completed), "{completed} outputs of 10,000 bytes");
    assert_eq!((world.state.status(), world.plan_code()), (PlanStatus::Failed, "PLAN_OUTPUTS_TOO_LARGE".into()));
    assert_eq!(statuses(&world), [PlanStatus::Failed, PlanStatus::Cancelled, PlanStatus::Cancelled]);
    assert!(growth(&world).len() <= completed, "it is told rarely");
}

#[test]
fn a_map_that_the_family_has_no_room_for_is_not_written() {
    let mut world = World::new();
    world.context.limits.plan_outputs_bytes_max = 100_000;
    let maps: Vec<String> = (0..4).map(|n| format!("m{n}")).collect();
    let ids: Vec<(&str, &[&str])> = maps.iter().map(|id| (id.as_str(), [].as_slice())).collect();
    let mut mapped = plan(&ids);
    for step in &mut mapped.steps {
        step.description = "x".repeat(1_000);
        step.on_failure = OnFailure::Continue;
        step.for_each =
            Some(Box::new(ForEach { items: json!((0..12).collect::<Vec<u32>>()).into(), ..ForEach::of_undo() }));
    }
    world.submit(mapped).unwrap();
    let expanded = world.log.iter().filter(|record| record.event.type_name() == "step_expanded").count();
    assert_eq!((expanded, world.sub_plans().len()), (2, 2), "each counts about 40,000 bytes");
    assert_eq!((world.code("m2").as_str(), world.code("m3").as_str()), ("FAMILY_TOO_LARGE", "FAMILY_TOO_LARGE"));
}

#[test]
fn pause_and_resume_reach_every_sub_plan() {
    let mut world = begun(chain(3, tool()));
    world.verb(Verb::Pause { reason: String::new() }).unwrap();
    assert_eq!((reached(&world), statuses(&world)), (vec![0, 1, 2, 3], vec![PlanStatus::Paused; 4]));
    world.verb(Verb::Resume { reason: String::new() }).unwrap();
    assert_eq!((reached(&world), statuses(&world)), (vec![0, 1, 2, 3], vec![PlanStatus::Running; 4]));
    let ids: Vec<PlanId> = world.sub_plans().iter().map(|member| member.state.id().clone()).collect();
    let asked = ["pause", "resume"].into_iter().flat_map(|verb| ids.iter().map(move |id| (id.clone(), verb)));
    assert_eq!(world.asked_of_sub_plans(), asked.collect::<Vec<_>>());
}

#[test]
fn a_cancellation_reaches_every_sub_plan_and_their_reports_change_nothing() {
    let mut world = begun(chain(3, tool()));
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    // Each is asked, and ends after the plan inside it.
    assert_eq!((reached(&world), statuses(&world)), (vec![0, 1, 2, 3, 2, 1, 0], vec![PlanStatus::Cancelled; 4]));
    assert!(world.rejected.is_empty());
}

#[test]
fn nobody_waits_for_a_sub_plan_that_is_gone() {
    let mut world = begun(chain(2, tool()));
    world.lose_sub_plans();
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!((reached(&world), world.state.status()), (vec![0, 0], PlanStatus::Cancelled));
    assert!(world.rejected.is_empty());
}

#[test]
fn the_failure_of_the_innermost_plan_fails_all_around_it() {
    let mut world = begun(chain(DEPTH, tool()));
    assert_eq!(reached(&world), (0..=DEPTH).collect::<Vec<_>>());
    (0..DEPTH).for_each(|_| world.enter("p"));
    assert_eq!(sub_plan::depth(&world.state) as usize, DEPTH);
    world.fail("x", Failure::new(FailureClass::Permanent, "NOT_FOUND", "there is no such thing"));
    assert_eq!(reached(&world), (0..=DEPTH).rev().collect::<Vec<_>>());
    assert_eq!(statuses(&world), vec![PlanStatus::Failed; DEPTH + 1]);
    world.leave();
    assert_eq!(world.plan_code(), "NOT_FOUND");
}

#[test]
fn sub_plans_that_end_at_once_end_all_around_them_with_the_submission() {
    let world = begun(chain(DEPTH, inline()));
    assert_eq!(reached(&world), (0..=DEPTH).chain((0..DEPTH).rev()).collect::<Vec<_>>());
    assert_eq!(statuses(&world), vec![PlanStatus::Completed; DEPTH + 1]);
    assert!(world.rejected.is_empty());
}

#[test]
fn plans_decide_in_the_order_of_the_requests() {
    let both = with(around(&[("p", &[]), ("q", &[]), ("z", &["p", "q"])], inline()), "q", |step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(inline()));
    });
    let world = begun(both);
    assert_eq!(reached(&world), [0, 1, 2, 0, 0], "both begin before the first report");
    assert_eq!(world.status("z"), StepStatus::Ready);
}

#[test]
fn a_restart_starts_no_sub_plan_twice() {
    let mut world = begun(chain(2, tool()));
    world.restart();
    assert_eq!((reached(&world), world.sub_plans().len()), (vec![0, 1, 2], 2));
    (0..2).for_each(|_| world.enter("p"));
    world.complete("x", json!({}));
    assert_eq!((reached(&world), statuses(&world)), (vec![2, 1, 0], vec![PlanStatus::Completed; 3]));
}

#[test]
fn a_restart_starts_sub_plans_that_are_missing_under_the_same_ids() {
    let mut world = begun(chain(2, tool()));
    let ids = |world: &World| world.sub_plans().iter().map(|member| member.state.id().clone()).collect::<Vec<_>>();
    let before = ids(&world);
    world.lose_sub_plans();
    world.restart();
    assert_eq!((reached(&world), ids(&world)), (vec![0, 1, 2], before));
}

fn begun(plan: Plan) -> World {
    let mut world = World::new();
    world.context.limits.depth_max = u32::try_from(DEPTH).expect("it is small");
    world.submit(plan).expect("the plan is fit");
    world
}

/// The plans that decided something since the last command, by their place: 0 is the submitted one. It is told of the
/// growth of others besides.
fn reached(world: &World) -> Vec<usize> {
    let counts = |decision: &Decision| {
        let mut records = decision.records.iter();
        !decision.records.is_empty() && records.all(|record| record.event.type_name() == "family_grew")
    };
    world.decided.iter().filter(|(_, decision)| !counts(decision)).map(|(place, _)| *place).collect()
}

/// The statuses of all plans, the submitted one first.
fn statuses(world: &World) -> Vec<PlanStatus> {
    world.members().iter().map(|member| member.state.status()).collect()
}

/// A plan of these steps, whose step `p` is the plan `inner`.
fn around(steps: &[(&str, &[&str])], inner: Plan) -> Plan {
    with(plan(steps), "p", |step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(inner));
    })
}

/// `depth` plans around `inner`, each in the step `p` of the next.
fn chain(depth: usize, inner: Plan) -> Plan {
    (0..depth).fold(inner, |inner, _| around(&[("p", &[])], inner))
}

/// A plan that waits for a worker.
fn tool() -> Plan {
    plan(&[("x", &[])])
}

/// A plan that ends when it begins.
fn inline() -> Plan {
    with(plan(&[("x", &[])]), "x", |step| {
        step.kind = StepKind::Finish;
        step.inputs = json!({"text": "done"}).into();
    })
}
