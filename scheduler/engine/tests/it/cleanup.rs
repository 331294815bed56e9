//! Clean-up: `always` and undo steps.

use goalmill_common::command::{Submit, Verb};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Budget;
use goalmill_common::plan::{OnFailure, Phase, Plan, Question, Step, StepKind, StepWait, UndoOn};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Timer, explain};
use serde_json::json;

use crate::world::{World, permanent, plan, step, submission, with};

fn undo(target: &str) -> Step {
    let inputs = json!({"order": "{{ outputs.order | default('none') }}", "was": "{{ inputs.room | default('?') }}"});
    let undoes = Some(target.into());
    Step { undoes, inputs: inputs.into(), ..step(&format!("{target}:undo"), &[]) }
}

fn always(id: &str, after: &[&str]) -> Step {
    let inputs = json!({"as": "{{ plan.status }}", "why": "{{ plan.failure.message if plan.failure else '' }}"});
    Step { always: true, inputs: inputs.into(), ..step(id, after) }
}

/// Two bookings, a payment, and what to do at the end.
fn trip() -> Plan {
    let mut trip = plan(&[("hotel", &[]), ("flight", &["hotel"]), ("pay", &["flight"])]);
    trip.steps[0].inputs = json!({"room": 7}).into();
    trip.steps.extend([undo("hotel"), undo("flight"), always("report", &[]), always("tidy", &["report"])]);
    trip
}

fn booked() -> World {
    let mut world = World::of(trip());
    world.complete("hotel", json!({"order": "h"}));
    world.now_ms += 5;
    world.complete("flight", json!({"order": "f"}));
    world
}

/// The steps whose tasks are in flight.
fn out(world: &mut World) -> Vec<String> {
    world.dispatch_all();
    world.open_tasks().iter().map(|task| task.step.to_string()).collect()
}

#[test]
fn what_was_done_is_undone_in_reverse_order_and_then_always_steps_run() {
    let mut world = booked();
    assert_eq!(out(&mut world), ["pay"]);
    world.now_ms += 5;
    let task = world.open_tasks().remove(0);
    world.report(crate::world::failed(&task, permanent())).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Running);
    assert_eq!(out(&mut world), ["flight:undo"]);
    assert_eq!(world.open_tasks()[0].inputs.value(), json!({"order": "f", "was": "?"}));
    let task = world.open_tasks().remove(0);
    world.report(crate::world::completed(&task, json!({}))).unwrap();
    assert_eq!(out(&mut world), ["hotel:undo"]);
    assert_eq!(world.open_tasks()[0].inputs.value(), json!({"order": "h", "was": 7}));
    world.restart();
    let task = world.open_tasks().remove(0);
    world.report(crate::world::completed(&task, json!({}))).unwrap();
    assert_eq!(out(&mut world), ["report"]);
    let told = world.open_tasks()[0].inputs.value();
    assert!(told["as"] == "failed" && told["why"].as_str().unwrap().contains("`pay` failed"), "{told}");
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Failed);
    let steps = ["hotel:undo", "flight:undo", "report", "tidy"].map(|step| world.status(step));
    assert_eq!(steps, [StepStatus::Completed; 4]);
    assert!(world.state.ended().unwrap().reason.contains("`pay` failed"), "the outcome stays");
}

#[test]
fn the_explanation_tells_what_clean_up_waits_for_and_that_it_runs() {
    let mut world = booked();
    let explained = |world: &World| serde_json::to_string(&explain::explain(&world.state, world.now_ms)).unwrap();
    assert!(explained(&world).contains("`report` is a clean-up step"), "{}", explained(&world));
    world.fail("pay", permanent());
    assert!(explained(&world).contains("it ends as failed once its clean-up steps have run"), "{}", explained(&world));
}

#[test]
fn a_plan_that_completes_undoes_nothing_and_runs_always_steps() {
    let mut world = booked();
    world.complete("pay", json!({}));
    assert_eq!(world.status("hotel:undo"), StepStatus::Skipped);
    assert_eq!(out(&mut world), ["report"]);
    world.finish();
    assert_eq!((world.state.status(), world.status("tidy")), (PlanStatus::Completed, StepStatus::Completed));
}

#[test]
fn a_cancelled_plan_undoes_what_may_be_done_and_a_second_cancel_is_refused() {
    let mut world = booked();
    assert_eq!(out(&mut world), ["pay"]);
    let mut two = trip();
    two.steps.push(undo("pay"));
    let mut world = {
        world = World::of(two);
        world.complete("hotel", json!({"order": "h"}));
        world
    };
    assert_eq!(out(&mut world), ["flight"], "a worker may have begun it");
    world.verb(Verb::Cancel { reason: "rain".into() }).unwrap();
    assert!(world.verb(Verb::Cancel { reason: "again".into() }).is_err());
    assert_eq!(world.status("flight"), StepStatus::Cancelled);
    assert_eq!(world.status("pay:undo"), StepStatus::Skipped, "nobody began to pay");
    assert_eq!(out(&mut world), ["flight:undo"]);
    assert_eq!(world.open_tasks()[0].inputs.value()["order"], "none");
    world.finish();
    assert_eq!((world.state.status(), world.status("hotel:undo")), (PlanStatus::Cancelled, StepStatus::Completed));
}

#[test]
fn a_wait_that_is_ready_does_not_begin_in_the_clean_up_of_a_large_plan() {
    let mut large = plan(&[("a", &[]), ("pause", &["a"])]);
    large.steps[1].kind = StepKind::Wait;
    large.steps[1].wait = Some(Box::new(StepWait { for_ms: Some(1_000), ..StepWait::default() }));
    large.steps[1].agent_type = "".into();
    // So many are cancelled without an event each.
    large.steps.extend((0..1_000).map(|n| step(&format!("s{n}"), &["pause"])));
    large.steps.push(always("report", &[]));
    let mut world = World::of(large);
    let task = world.dispatch("a");
    world.verb(Verb::Pause { reason: String::new() }).unwrap();
    world.report(crate::world::completed(&task, json!({}))).unwrap();
    assert_eq!(world.status("pause"), StepStatus::Ready);
    world.verb(Verb::Cancel { reason: "rain".into() }).unwrap();
    assert_eq!(world.status("pause"), StepStatus::Cancelled);
    assert_eq!(out(&mut world), ["report"]);
}

#[test]
fn what_a_person_has_done_is_not_undone() {
    let mut world = World::of(trip());
    let outputs = json!({"order": "by hand"}).into();
    world.verb(Verb::CompleteStep { step: "hotel".into(), outputs, reason: String::new() }).expect("it is open");
    world.complete("flight", json!({"order": "f"}));
    world.fail("pay", permanent());
    assert_eq!(world.status("hotel:undo"), StepStatus::Skipped);
    assert_eq!(out(&mut world), ["flight:undo"]);
}

#[test]
fn what_timed_out_before_its_first_attempt_is_not_undone() {
    let question = Question {
        question: "which room?".into(),
        schema: None,
        default: None,
        limit_ms: 1_000,
        into: Some("room".into()),
    };
    let mut world = World::of(with(trip(), "hotel", |hotel| hotel.ask = Some(question)));
    world.now_ms += 1_000;
    world.step_due("hotel");
    assert_eq!(world.code("hotel"), "NO_ANSWER");
    assert_eq!(world.status("hotel:undo"), StepStatus::Skipped);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

#[test]
fn a_failing_undo_step_does_not_stop_the_others_and_is_told_in_the_end() {
    let mut world = booked();
    world.fail("pay", permanent());
    world.fail("flight:undo", permanent());
    world.complete("hotel:undo", json!({}));
    world.fail("report", permanent());
    assert_eq!(world.status("tidy"), StepStatus::Skipped);
    assert_eq!(world.state.status(), PlanStatus::Failed);
    let reason = world.state.ended().unwrap().reason.clone();
    assert!(reason.ends_with("clean-up steps that did not succeed: `flight:undo`, `report`"), "{reason}");
}

#[test]
fn the_plan_says_after_which_outcomes_it_is_undone() {
    let only_failed = Plan { undo_on: Some(vec![UndoOn::Failed]), ..trip() };
    let mut world = World::of(only_failed);
    world.complete("hotel", json!({}));
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(world.status("hotel:undo"), StepStatus::Skipped);
    world.finish();
    assert_eq!((world.state.status(), world.status("report")), (PlanStatus::Cancelled, StepStatus::Completed));
}

#[test]
fn clean_up_runs_after_the_deadline_and_without_budget_but_not_for_ever() {
    let mut submit = submission(Some(trip()));
    submit.goal.deadline_ms = Some(World::new().now_ms + 10_000);
    submit.goal.budget = Budget { tokens: Some(1), ..Budget::default() };
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    world.complete("hotel", json!({}));
    world.due(Timer::Plan).unwrap();
    assert_eq!(out(&mut world), ["hotel:undo"]);
    world.due(Timer::Plan).unwrap();
    assert_eq!((world.state.status(), world.plan_code()), (PlanStatus::Failed, "PLAN_TIMEOUT".into()));
    assert_eq!(world.status("hotel:undo"), StepStatus::Cancelled);
    assert!(world.state.ended().unwrap().reason.contains("did not succeed: `hotel:undo`, `report`, `tidy`"));
}

#[test]
fn what_ends_a_plan_for_as_long_as_it_is_true_does_not_end_its_clean_up() {
    type Change = fn(&mut World, &mut Submit);
    let ways: [(&str, Change); 5] = [
        ("BUDGET_EXCEEDED", |_, submit| submit.goal.budget.cost = Some(1.5)),
        ("BUDGET_EXCEEDED", |_, submit| submit.goal.budget.tokens = Some(15)),
        ("FAILURES_EXCEEDED", |_, submit| {
            let plan = &mut submit.plan.as_mut().unwrap().plan;
            plan.failures_max = Some(0);
            plan.steps[1].on_failure = OnFailure::Continue;
        }),
        ("PLAN_OUTPUTS_TOO_LARGE", |world, _| world.context.limits.plan_outputs_bytes_max = 20),
        ("EVENTS_EXCEEDED", |world, submit| {
            submit.plan.as_mut().unwrap().plan.steps.retain(|step| step.id.as_str() != "flight:undo");
            world.context.limits.events_max = 13;
        }),
    ];
    for (code, change) in ways {
        let mut world = World::new();
        let mut submit = submission(Some(trip()));
        change(&mut world, &mut submit);
        world.submit_as(submit).unwrap();
        for step in ["hotel", "flight", "pay"] {
            if world.status(step) != StepStatus::Ready {
                break;
            }
            let task = world.dispatch(step);
            if world.status(step) == StepStatus::Cancelled {
                break;
            }
            let mut done = crate::world::completed(&task, json!({"order": "0123456789"}));
            (done.cost, done.tokens) = (Some(1.0), Some(10));
            if code == "FAILURES_EXCEEDED" && step == "flight" {
                done = crate::world::failed(&task, permanent());
            }
            world.report(done).unwrap();
        }
        assert_eq!(world.state.status(), PlanStatus::Running, "{code}: {:?}", world.story());
        world.restart();
        world.finish();
        assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, code));
        for step in ["hotel:undo", "report", "tidy"] {
            assert_eq!(world.status(step), StepStatus::Completed, "{code}: `{step}`");
        }
    }
}

#[test]
fn a_clean_up_that_writes_too_many_events_ends() {
    let mut world = World::of(trip());
    world.complete("hotel", json!({}));
    let before = world.state.seq();
    world.context.limits.events_max = before;
    world.dispatch("flight");
    assert_eq!((world.state.status(), world.status("flight")), (PlanStatus::Running, StepStatus::Cancelled));
    let asked = Failure { retry_after_ms: Some(1), ..Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down") };
    while !world.state.is_final() {
        assert!(
            world.state.seq() < 3 * before && world.status("flight:undo") == StepStatus::Ready,
            "{:?}",
            world.story()
        );
        let task = world.dispatch("flight:undo");
        world.report(crate::world::failed(&task, asked.clone())).unwrap();
        if world.status("flight:undo") == StepStatus::Retrying {
            world.step_due("flight:undo");
        }
    }
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "EVENTS_EXCEEDED"));
}

#[test]
fn steps_of_one_millisecond_are_undone_in_reverse_order_and_after_a_clock_that_goes_back_too() {
    for back_ms in [0, 5_000] {
        let mut steps = plan(&[("c", &["b"]), ("b", &["a"]), ("a", &[]), ("d", &["c"])]);
        steps.steps.extend(["a", "b", "c"].map(undo));
        let mut world = World::of(steps);
        for step in ["a", "b", "c"] {
            world.complete(step, json!({}));
            world.now_ms -= back_ms;
        }
        world.fail("d", permanent());
        for step in ["c:undo", "b:undo", "a:undo"] {
            assert_eq!(out(&mut world), [step]);
            let task = world.open_tasks().remove(0);
            world.report(crate::world::completed(&task, json!({}))).unwrap();
        }
        assert_eq!(world.state.status(), PlanStatus::Failed);
    }
}

#[test]
fn a_condition_of_an_always_step_reads_the_outcome() {
    let mut conditional = trip();
    conditional.steps[5].when = Some("plan.status == 'failed'".into());
    let mut world = World::of(conditional);
    for step in ["hotel", "flight", "pay"] {
        world.complete(step, json!({}));
    }
    assert_eq!(world.status("report"), StepStatus::Skipped);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_condition_of_an_undo_step_reads_what_the_step_got_and_gave() {
    let mut conditional = trip();
    conditional.steps[3].when = Some("inputs.room > 6 and outputs.order == 'h'".into());
    conditional.steps[3].inputs = json!({}).into();
    let mut world = World::of(conditional);
    world.complete("hotel", json!({"order": "h"}));
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(out(&mut world), ["hotel:undo"]);
}

#[test]
fn steps_of_the_clean_up_wait_for_the_outcome_whatever_people_ask() {
    let mut world = booked();
    for verb in [
        Verb::SkipStep { step: "report".into(), reason: String::new() },
        Verb::CompleteStep { step: "hotel:undo".into(), outputs: json!({}).into(), reason: String::new() },
    ] {
        assert!(world.verb(verb).is_err());
    }
    world.restart();
    assert_eq!(out(&mut world), ["pay"]);
    assert_eq!((world.status("report"), world.state.counts().pending), (StepStatus::Pending, 4));
}

#[test]
fn a_step_that_may_fail_without_harm_starts_no_clean_up() {
    let lenient = with(trip(), "pay", |step| step.on_failure = OnFailure::Continue);
    let mut world = World::of(lenient);
    world.complete("hotel", json!({}));
    world.complete("flight", json!({}));
    world.fail("pay", Failure::new(FailureClass::Permanent, "X", "no"));
    assert_eq!(world.status("hotel:undo"), StepStatus::Skipped);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Partial);
}

#[test]
fn an_undo_step_can_be_skipped_by_hand_and_failed_steps_are_retried() {
    let mut world = booked();
    world.fail("pay", permanent());
    world.verb(Verb::SkipStep { step: "flight:undo".into(), reason: "gone".into() }).unwrap();
    world.fail("hotel:undo", crate::world::transient());
    assert_eq!(world.status("hotel:undo"), StepStatus::Retrying);
    world.step_due("hotel:undo");
    world.complete("hotel:undo", json!({}));
    world.finish();
    assert_eq!((world.state.status(), world.status("tidy")), (PlanStatus::Failed, StepStatus::Completed));
}

#[test]
fn an_undo_step_is_none_of_the_steps_that_a_plan_may_have() {
    let ids: Vec<String> = (0..6_000).map(|n| format!("s{n}")).collect();
    let steps = ids.iter().flat_map(|id| [step(id, &[]), undo(id)]).collect();
    let world = World::of(Plan { steps, ..Plan::default() });
    assert!(world.context.limits.steps_max < 12_000);
    assert_eq!(world.state.status(), PlanStatus::Running);
}

#[test]
fn no_phase_moves_once_the_outcome_is_known() {
    for kind in [StepKind::Message, StepKind::Tool] {
        let phase = |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: true };
        let mut trip = plan(&[("book", &[]), ("pay", &[])]);
        trip.phases = vec![phase("one"), phase("two")];
        for (step, phase) in [(0, "one"), (1, "two")] {
            trip.steps[step].phase = Some(phase.into());
        }
        trip.steps[0].when = Some("1 < 'text'".into());
        trip.steps.push(Step { kind, ..always("report", &[]) });
        let mut world = World::of(trip);
        world.finish();
        assert_eq!(world.state.status(), PlanStatus::Failed, "{kind:?}");
        assert_eq!((world.status("book"), world.status("report")), (StepStatus::Failed, StepStatus::Completed));
        let story = world.story();
        assert!(!story.iter().any(|event| event.contains("replan") || event.contains("phase_failed")), "{story:?}");
    }
}
