//! Conditions of the start of a step: dependencies, joins, conditions, phases, room, resources, people.

use goalmill_common::command::Verb;
use goalmill_common::plan::{Approval, ApprovalDefault, Join, OnFailure, Phase, Plan, Retry, Step, StepKind, Strategy};
use goalmill_common::report::{Report, What};
use goalmill_common::revision::Change;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, PlanAnswer, Rejection, StepIndex, Timer, explain};
use serde_json::json;

use crate::world::{START_MS, World, completed, permanent, plan, planned, report, step, submission, with};

#[test]
fn inputs_are_filled_in_from_what_came_before() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.inputs = json!({"price": "{{ steps.a.outputs.price }}", "text": "at {{ steps.a.outputs.price }}"}).into();
    });
    let mut world = World::of(plan);
    world.complete("a", json!({"price": 12}));
    assert_eq!(world.dispatch("b").inputs.value(), json!({"price": 12, "text": "at 12"}));
}

#[test]
fn inputs_see_what_is_over_and_nothing_else() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("other", &[])]), "c", |step| {
        step.inputs = json!({"x": "{{ steps.a.outputs.x }}", "y": "{{ steps.other.status }}"}).into();
    });
    let mut world = World::of(plan.clone());
    world.complete("other", json!({}));
    world.complete("a", json!({"x": 1}));
    world.complete("b", json!({}));
    assert_eq!(world.dispatch("c").inputs.value(), json!({"x": 1, "y": "completed"}));
    let mut world = World::of(plan);
    world.complete("a", json!({"x": 1}));
    world.complete("b", json!({}));
    world.command(Command::Dispatch(world.index("c"))).unwrap();
    assert_eq!(world.code("c"), "REF_UNRESOLVED");
}

#[test]
fn inputs_that_cannot_be_filled_in_fail_the_step_without_an_attempt() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.inputs = json!({"price": "{{ steps.a.outputs.price }}"}).into();
    });
    let mut world = World::of(plan);
    world.complete("a", json!({}));
    world.command(Command::Dispatch(StepIndex(1))).unwrap();
    assert_eq!((world.status("b"), world.code("b")), (StepStatus::Failed, "REF_UNRESOLVED".into()));
    assert_eq!(world.state.step(StepIndex(1)).unwrap().attempt, 0);
}

#[test]
fn a_false_condition_skips_the_step_and_satisfies_its_dependents() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]), "b", |step| {
        step.when = Some("steps.a.outputs.hits > 0".into());
    });
    let mut world = World::of(plan);
    world.complete("a", json!({"hits": 0}));
    assert_eq!((world.status("b"), world.status("c")), (StepStatus::Skipped, StepStatus::Ready));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_step_that_was_out_is_skipped_by_a_condition_that_an_edit_brings() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    world.dispatch("a");
    let fields = json!({"when": "false"}).as_object().unwrap().clone();
    let changes = vec![Change::SetFields { step: "a".into(), fields }];
    world.verb(Verb::Edit { changes, revision: None, reason: String::new() }).unwrap();
    assert_eq!((world.status("a"), world.status("b")), (StepStatus::Skipped, StepStatus::Ready));
}

#[test]
fn a_condition_without_a_value_fails_the_step() {
    let plan = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.when = Some("steps.a.outputs.hits > 0".into());
    });
    let mut world = World::of(plan);
    world.complete("a", json!({}));
    assert_eq!(world.status("b"), StepStatus::Failed);
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

#[test]
fn any_starts_with_the_first_and_waits_for_no_other() {
    let mut world =
        World::of(with(plan(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "c", |step| step.join = Join::Any));
    world.complete("b", json!({}));
    assert_eq!(world.status("c"), StepStatus::Ready);
    world.complete("c", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Running);
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_join_that_can_no_longer_be_met_skips_all_that_follows() {
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"])]);
    plan = with(plan, "a", |step| step.on_failure = OnFailure::Continue);
    plan = with(plan, "b", |step| step.on_failure = OnFailure::Continue);
    plan = with(plan, "c", |step| step.join = Join::AtLeast(2));
    let mut world = World::of(plan);
    world.fail("a", permanent());
    assert_eq!((world.status("c"), world.status("d")), (StepStatus::Skipped, StepStatus::Skipped));
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Partial);
}

#[test]
fn more_than_there_are_can_never_be_met() {
    let mut world = World::of(with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| step.join = Join::AtLeast(2)));
    assert_eq!(world.status("b"), StepStatus::Skipped);
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn phases_run_in_order() {
    let phase = |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: false };
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &[]), ("free", &[])]);
    plan.phases = vec![phase("one"), phase("none"), phase("two")];
    for (id, name) in [("a", "one"), ("b", "one"), ("c", "two")] {
        plan = with(plan, id, |step| step.phase = Some(name.into()));
    }
    let mut world = World::of(plan);
    assert_eq!(world.status("c"), StepStatus::Pending);
    assert_eq!(world.status("free"), StepStatus::Ready);
    world.complete("a", json!({}));
    assert_eq!(world.status("c"), StepStatus::Pending);
    assert!(explain::explain(&world.state, world.now_ms).steps.iter().any(|s| s.because[0].contains("phase `one`")));
    world.complete("b", json!({}));
    assert_eq!(world.status("c"), StepStatus::Ready);
    world.finish();
    let phases: Vec<String> = world.story().into_iter().filter(|line| line.starts_with("phase")).collect();
    assert_eq!(phases, ["phase_started", "phase_completed", "phase_skipped", "phase_started", "phase_completed"]);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_sequential_plan_has_one_step_in_flight() {
    let mut world = World::of(Plan { strategy: Strategy::Sequential, ..plan(&[("a", &[]), ("b", &[])]) });
    let task = world.dispatch("a");
    assert!(!world.state.has_room());
    assert_eq!(world.command(Command::Dispatch(StepIndex(1))), Err(Rejection::NotDue));
    let decision = world.report(completed(&task, json!({}))).unwrap();
    assert!(decision.effects.contains(&Effect::Room));
    world.dispatch("b");
}

#[test]
fn an_adaptive_plan_widens_with_success_and_halves_on_failure() {
    let ids: Vec<String> = (0..30).map(|i| format!("s{i}")).collect();
    let steps = ids.iter().map(|id| Step { on_failure: OnFailure::Continue, ..step(id, &[]) }).collect();
    let mut world = World::of(Plan { strategy: Strategy::Adaptive, steps, ..Plan::default() });
    assert_eq!(world.state.width(), 1);
    let mut ids = ids.into_iter();
    for width in [2, 2, 3, 3, 3, 4] {
        world.complete(&ids.next().unwrap(), json!({}));
        assert_eq!(world.state.width(), width);
    }
    world.fail(&ids.next().unwrap(), permanent());
    assert_eq!(world.state.width(), 2);
    // Waiting for a worker much longer than running: the agents do not keep up.
    let task = world.dispatch(&ids.next().unwrap());
    world.now_ms += 10_000;
    let late =
        Report { started_ms: Some(world.now_ms - 50), finished_ms: Some(world.now_ms), ..completed(&task, json!({})) };
    world.report(late).unwrap();
    assert_eq!(world.state.width(), 1);
}

#[test]
fn steps_that_name_the_same_resource_exclude_each_other() {
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &[])]);
    for id in ["a", "b"] {
        plan = with(plan, id, |step| step.resource = Some("printer".into()));
    }
    let mut world = World::of(plan);
    let task = world.dispatch("a");
    assert!(!world.state.can_dispatch(world.index("b")));
    assert!(world.state.can_dispatch(world.index("c")));
    let decision = world.report(completed(&task, json!({}))).unwrap();
    assert!(decision.effects.contains(&Effect::Room));
    assert!(world.state.can_dispatch(world.index("b")));
}

#[test]
fn the_engine_does_messages_itself() {
    let mut plan = plan(&[("a", &[]), ("m", &["a"]), ("f", &["m"])]);
    plan = with(plan, "m", |step| {
        step.kind = StepKind::Message;
        step.inputs = json!({"text": "{{ steps.a.outputs.x }}"}).into();
    });
    plan = with(plan, "f", |step| step.kind = StepKind::Finish);
    let mut world = World::of(plan);
    world.complete("a", json!({"x": "hello"}));
    assert_eq!(world.outputs("m"), json!({"text": "hello"}));
    assert_eq!(world.story_of("m"), ["step_ready", "step_completed"]);
    assert_eq!(world.state.step(world.index("m")).unwrap().attempt, 1);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_long_chain_of_messages_needs_no_deep_stack() {
    let mut steps = vec![Step { kind: StepKind::Message, ..Step::new("s0", "") }];
    for i in 1..10_000 {
        steps.push(Step { kind: StepKind::Internal, ..step(&format!("s{i}"), &[&format!("s{}", i - 1)]) });
    }
    let world = World::of(Plan { steps, ..Plan::default() });
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!(world.state.critical_path_seconds(), 10_000.0);
}

#[test]
fn nothing_new_starts_while_a_plan_is_paused() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("m", &["a"]), ("r", &[])]);
    plan = with(plan, "m", |step| step.kind = StepKind::Message);
    plan = with(plan, "r", |step| step.retry = Retry { max: 1, ..Retry::default() });
    let mut world = World::of(plan);
    let (a, r) = (world.dispatch("a"), world.dispatch("r"));
    world.verb(Verb::Pause { reason: "lunch".into() }).unwrap();
    world.report(crate::world::failed(&r, crate::world::transient())).unwrap();
    world.step_due("r");
    assert_eq!(world.status("r"), StepStatus::Ready);
    assert_eq!(world.command(Command::Dispatch(world.index("r"))), Err(Rejection::NotDue));
    world.report(completed(&a, json!({}))).unwrap();
    assert_eq!((world.status("b"), world.status("m")), (StepStatus::Ready, StepStatus::Ready));
    let decision = world.verb(Verb::Resume { reason: String::new() }).unwrap();
    assert!(decision.effects.contains(&Effect::Room));
    assert_eq!(world.status("m"), StepStatus::Completed);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_cancelled_plan_leaves_nothing_behind() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    let task = world.dispatch("a");
    world.verb(Verb::Cancel { reason: "enough".into() }).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Cancelled);
    assert!(world.cancelled.contains(&task.token) && world.timers.is_empty());
    assert_eq!(world.state.summary().counts.skipped, 2);
    let again = world.verb(Verb::Cancel { reason: String::new() });
    assert_eq!(again, Err(Rejection::Final { status: PlanStatus::Cancelled }));
}

fn asks(default: ApprovalDefault) -> Option<Approval> {
    Some(Approval { limit_ms: 60_000, default })
}

#[test]
fn a_plan_that_needs_approval_waits_for_it() {
    let approve = asks(ApprovalDefault::Reject);
    let mut world = World::of(Plan { approve, ..plan(&[("a", &[])]) });
    assert_eq!(world.state.status(), PlanStatus::AwaitingApproval);
    assert_eq!(world.timers[&Timer::Plan], START_MS + 60_000);
    world.verb(Verb::Approve { reason: "fine".into() }).unwrap();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn an_approval_that_nobody_gives_has_a_default() {
    for (default, status) in
        [(ApprovalDefault::Reject, PlanStatus::Rejected), (ApprovalDefault::Approve, PlanStatus::Running)]
    {
        let mut world = World::of(Plan { approve: asks(default), ..plan(&[("a", &[])]) });
        world.due(Timer::Plan).unwrap();
        assert_eq!(world.state.status(), status);
    }
}

#[test]
fn a_step_that_needs_approval_waits_for_it() {
    let ask = |default| with(plan(&[("a", &[]), ("b", &["a"])]), "a", |step| step.approve = asks(default));
    let mut world = World::of(ask(ApprovalDefault::Reject));
    assert_eq!(world.status("a"), StepStatus::AwaitingApproval);
    world.verb(Verb::ApproveStep { step: "a".into(), reason: "fine".into() }).unwrap();
    assert!(world.timers.keys().all(|timer| *timer == Timer::Plan));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);

    let mut world = World::of(ask(ApprovalDefault::Reject));
    world.verb(Verb::RejectStep { step: "a".into(), reason: "no".into() }).unwrap();
    assert_eq!((world.code("a"), world.state.status()), ("REJECTED".into(), PlanStatus::Failed));

    let mut world = World::of(ask(ApprovalDefault::Approve));
    world.step_due("a");
    assert_eq!(world.status("a"), StepStatus::Ready);
}

#[test]
fn a_person_can_skip_complete_and_hurry_steps() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let task = world.dispatch("a");
    world.verb(Verb::SkipStep { step: "a".into(), reason: "not needed".into() }).unwrap();
    assert!(world.cancelled.contains(&task.token));
    let outputs = json!({"by": "hand"}).into();
    world.verb(Verb::CompleteStep { step: "b".into(), outputs, reason: String::new() }).unwrap();
    assert_eq!((world.outputs("b"), world.status("c")), (json!({"by": "hand"}), StepStatus::Ready));
    let early = world.verb(Verb::RetryStep { step: "c".into(), reason: String::new() });
    assert!(matches!(early, Err(Rejection::NotAllowed { reason }) if reason.contains("`c` is ready")));
    world.fail("c", crate::world::transient());
    world.verb(Verb::RetryStep { step: "c".into(), reason: String::new() }).unwrap();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    let unknown = world.verb(Verb::SkipStep { step: "zz".into(), reason: String::new() });
    assert_eq!(unknown, Err(Rejection::Final { status: PlanStatus::Completed }));
}

#[test]
fn a_person_who_is_asked_may_go_on_without_the_failed_step() {
    for (answer, status) in [(true, PlanStatus::Partial), (false, PlanStatus::Failed)] {
        let mut world = World::of(with(plan(&[("a", &[]), ("b", &["a"]), ("c", &[])]), "a", |step| {
            step.on_failure = OnFailure::AskUser;
        }));
        world.fail("a", permanent());
        assert_eq!(world.state.status(), PlanStatus::Replanning);
        assert!(!world.others.contains(&Effect::Plan { revision: 1 }), "a person is asked, no planner");
        let reason = String::new();
        world.verb(if answer { Verb::Approve { reason } } else { Verb::Reject { reason } }).unwrap();
        world.finish();
        assert_eq!(world.state.status(), status);
    }
}

#[test]
fn a_replan_that_a_person_wished_for_and_nobody_can_do_changes_nothing() {
    let mut world = World::of(plan(&[("a", &[])]));
    world
        .verb(Verb::Replan {
            reason: "cheaper".into(),
            hint: String::new(),
            options: goalmill_common::planning::ReplanOptions::default(),
        })
        .unwrap();
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    let answer = PlanAnswer::Plan(Box::new(planned(plan(&[("z", &[])]))));
    world.command(Command::Planned { revision: 1, answer }).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Running);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_goal_is_planned_and_then_run() {
    let mut world = World::new();
    let decision = world.submit_as(submission(None)).unwrap();
    assert!(decision.effects.contains(&Effect::Plan { revision: 0 }));
    world.restart();
    assert!(world.others.iter().filter(|effect| **effect == Effect::Plan { revision: 0 }).count() == 2);
    let answer = PlanAnswer::Plan(Box::new(planned(plan(&[("a", &[])]))));
    world.command(Command::Planned { revision: 0, answer: answer.clone() }).unwrap();
    let again = world.command(Command::Planned { revision: 0, answer });
    assert_eq!(again, Err(Rejection::StaleRevision { revision: 0 }));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_plan_that_cannot_run_is_refused() {
    let cycle = plan(&[("a", &["b"]), ("b", &["a"])]);
    let mut world = World::new();
    assert!(matches!(world.submit(cycle.clone()), Err(Rejection::NotAllowed { .. })));
    world.submit_as(submission(None)).unwrap();
    let answer = PlanAnswer::Plan(Box::new(planned(cycle)));
    world.command(Command::Planned { revision: 0, answer }).unwrap();
    assert_eq!(world.plan_code(), "PLANNING_FAILED");
}

#[test]
fn started_and_progress_are_recorded_once() {
    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    let begun = Report { started_ms: Some(START_MS - 5), ..report(&task, What::Started) };
    world.report(begun.clone()).unwrap();
    assert_eq!(world.report(begun), Err(Rejection::StaleAttempt { step: "a".into(), attempt: 1 }));
    world.report(Report { progress: Some(0.5), ..report(&task, What::Progress) }).unwrap();
    let view = world.state.view(true);
    assert_eq!((view.steps[0].progress, view.steps[0].status), (Some(0.5), StepStatus::Running));
    world.report(completed(&task, json!({}))).unwrap();
    assert_eq!(world.story_of("a"), ["step_ready", "step_queued", "step_started", "step_progress", "step_completed"]);
}

#[test]
fn a_forged_report_changes_nothing() {
    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    let forged = Report { token: "guess".into(), ..completed(&task, json!({})) };
    assert_eq!(world.report(forged), Err(Rejection::StaleAttempt { step: "a".into(), attempt: 1 }));
    let unknown = Report { step: "zz".into(), ..completed(&task, json!({})) };
    assert_eq!(world.report(unknown), Err(Rejection::UnknownStep { step: "zz".into() }));
}
