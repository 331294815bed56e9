//! Revisions: what asks for them, what they change, what they leave alone, and what ends them.

use goalmill_common::command::{Change, Proposal, RevisionStrategy, Verb};
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Budget;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{
    Approval, ApprovalDefault, Estimates, OnFailure, Phase, Plan, Question, RevisionPolicy, Step, Widen,
};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Decision, Effect, PlanAnswer, Rejection, Timer, replan_context, revise};
use serde_json::json;

use crate::world::{World, completed, failed, permanent, plan, planned, report, step, submission, transient, with};

/// `hotels` needs `steps_in_flight`, `budget` needs both; whatever fails is replanned.
fn trip() -> Plan {
    let mut plan = plan(&[
        ("steps_in_flight", &[]),
        ("hotels", &["steps_in_flight"]),
        ("tours", &[]),
        ("budget", &["hotels", "tours"]),
    ]);
    for step in &mut plan.steps {
        step.on_failure = OnFailure::Replan;
        step.retry.max = 0;
    }
    plan.steps[3].inputs = Json::from(json!({"price": "{{ steps.hotels.outputs.price }}"}));
    plan
}

#[test]
fn another_agent_does_the_step_again_and_nothing_else_is_touched() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.fail("steps_in_flight", permanent());
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert!(world.others.contains(&Effect::Plan { revision: 1 }));
    propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", Some("backup"))]).unwrap();
    assert_eq!((world.state.status(), world.state.revision()), (PlanStatus::Running, 1));
    assert!(near(confidence(&world), 0.9));
    assert_eq!(world.status("tours"), StepStatus::Queued, "what nobody changed keeps its attempt");
    let task = world.dispatch("steps_in_flight");
    assert_eq!((task.agent_type.as_str(), task.attempt), ("backup", 2), "attempts are counted on");
    world.report(completed(&task, json!({}))).unwrap();
    world.report(completed(&tours, json!({}))).unwrap();
    world.complete("hotels", json!({"price": 7}));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    world.restart();
}

#[test]
fn a_step_is_replaced_and_what_saw_it_sees_the_new_one() {
    let mut world = World::of(trip());
    world.complete("steps_in_flight", json!({}));
    world.fail("hotels", permanent());
    let with = vec![Step { description: "Search nearby".into(), ..step("hotels_alt", &["steps_in_flight"]) }];
    let change = Change::ReplaceStep { step: "hotels".into(), with };
    propose(&mut world, RevisionStrategy::InsertRecovery, vec![change]).unwrap();
    assert_eq!(world.status("hotels"), StepStatus::Revised);
    assert_eq!(world.status("steps_in_flight"), StepStatus::Completed, "what is done stays done");
    assert!(near(confidence(&world), 0.85));
    world.complete("hotels_alt", json!({"price": 447}));
    world.complete("tours", json!({}));
    let task = world.dispatch("budget");
    assert_eq!(task.inputs.value(), json!({"price": 447}));
    let record = &revise::revisions(&world.state)[0];
    assert_eq!(record.removed[0].id.as_str(), "hotels");
    assert_eq!(record.added[0].id.as_str(), "hotels_alt");
    assert_eq!(record.modified[0].before.dependencies[0].as_str(), "hotels");
    assert!(record.modified[0].after.dependencies.contains(&"hotels_alt".into()));
    assert_eq!((record.trigger.as_str(), record.step.as_ref().unwrap().as_str()), ("step_failure", "hotels"));
    assert_eq!(
        world.story().iter().rev().find(|word| word.starts_with("plan_revised")).map(String::as_str),
        Some("plan_revised")
    );
    world.restart();
}

#[test]
fn the_confidence_falls_by_the_strategy_and_by_a_tenth_for_each_revision_before() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", Some("b"))]).unwrap();
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::Workaround, vec![retry("steps_in_flight", Some("c"))]).unwrap();
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::Adjust, vec![retry("steps_in_flight", Some("d"))]).unwrap();
    let after: Vec<f64> = revise::revisions(&world.state).iter().map(|record| record.confidence_after).collect();
    assert_eq!(after, [0.9, 0.65, 0.37]);
    world.complete("tours", json!({"kept": true}));
    world.fail("steps_in_flight", permanent());
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert_eq!(world.plan_code(), "MAX_REVISIONS_EXCEEDED");
    assert!(world.state.ended().unwrap().reason.starts_with("max_revisions_exceeded"));
    assert_eq!(world.outputs("tours"), json!({"kept": true}), "partial results are kept");
}

#[test]
fn a_revision_that_would_leave_too_little_confidence_ends_the_plan() {
    let policy = RevisionPolicy { confidence_floor: 0.9, ..RevisionPolicy::default() };
    let mut world = World::of(Plan { revision: Some(policy), ..trip() });
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::Workaround, vec![retry("steps_in_flight", None)]).unwrap();
    assert_eq!(world.plan_code(), "LOW_CONFIDENCE");
    assert_eq!(world.state.revision(), 0, "it was not taken");
}

#[test]
fn decomposing_a_step_makes_it_a_plan_in_the_same_place() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    let inner = plan(&[("one", &[]), ("two", &["one"])]);
    let change = Change::DecomposeStep { step: "steps_in_flight".into(), plan: Some(Box::new(inner)) };
    propose(&mut world, RevisionStrategy::Decompose, vec![change]).unwrap();
    assert!(near(confidence(&world), 0.95));
    assert_eq!(world.status("steps_in_flight"), StepStatus::Running);
    assert_eq!(world.sub_plan("steps_in_flight").state.plan().steps.len(), 2);
}

#[test]
fn a_skipped_step_counts_as_done_and_leaves_the_plan_partial_unless_a_person_skips_it() {
    for (planner, removes, status) in
        [("rules", false, PlanStatus::Partial), ("llm", true, PlanStatus::Partial), ("", false, PlanStatus::Completed)]
    {
        let mut world = World::of(with(trip(), "budget", |step| step.inputs = Json::empty_object()));
        world.complete("steps_in_flight", json!({}));
        world.complete("tours", json!({}));
        world.fail("hotels", permanent());
        assert_eq!(world.status("budget"), StepStatus::Blocked);
        let fields = json!({"dependencies": ["tours"]}).as_object().cloned().unwrap_or_default();
        let changes = match removes {
            true => {
                vec![Change::RemoveStep { step: "hotels".into() }, Change::SetFields { step: "budget".into(), fields }]
            }
            false => vec![Change::SkipStep { step: "hotels".into(), reason: "camp".into() }],
        };
        let proposal = Proposal::new(RevisionStrategy::SkipAndContinue, changes);
        let proposal = Proposal { planner: planner.into(), ..proposal };
        let revision = world.state.revision() + 1;
        let answer = PlanAnswer::Revision(Box::new(proposal));
        world.command(Command::Planned { revision, answer }).unwrap();
        let gone = if removes { StepStatus::Revised } else { StepStatus::Skipped };
        assert_eq!(world.status("hotels"), gone);
        world.complete("budget", json!({}));
        assert_eq!(world.state.status(), status, "{planner}");
        world.restart();
    }
}

#[test]
fn an_attempt_whose_step_is_changed_is_recalled_and_its_report_refused() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.report(report(&tours, What::Started)).unwrap();
    world.fail("steps_in_flight", permanent());
    let changed = Step { action: "other".into(), ..step("tours", &[]) };
    let changes = vec![retry("steps_in_flight", None), Change::ModifyStep { step: Box::new(changed) }];
    propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
    assert!(world.cancelled.contains(&tours.token));
    let late = world.report(completed(&tours, json!({})));
    assert!(matches!(late, Err(Rejection::StaleAttempt { .. })));
    let again = world.dispatch("tours");
    assert_eq!((again.action.as_str(), again.attempt), ("other", 2));
    assert_eq!(world.state.in_flight(), 1);
}

#[test]
fn an_attempt_goes_on_when_only_words_about_its_step_change() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.fail("steps_in_flight", permanent());
    let spec = world.state.step(world.index("tours")).unwrap().spec.clone();
    let changed = Step { description: "see the town".into(), ..spec };
    let changes = vec![retry("steps_in_flight", None), Change::ModifyStep { step: Box::new(changed) }];
    propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
    world.report(completed(&tours, json!({}))).unwrap();
    assert_eq!(world.status("tours"), StepStatus::Completed);
}

#[test]
fn a_step_that_is_out_waits_again_when_what_it_needs_is_open_again() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.fail("steps_in_flight", permanent());
    let changes = vec![
        retry("steps_in_flight", None),
        Change::AddStep { step: Box::new(step("map", &[])), before: vec!["tours".into()] },
    ];
    propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
    assert_eq!(world.status("tours"), StepStatus::Pending);
    assert!(world.cancelled.contains(&tours.token));
    world.complete("map", json!({}));
    assert_eq!(world.status("tours"), StepStatus::Ready);
}

#[test]
fn reports_that_come_while_the_planner_thinks_count() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.fail("steps_in_flight", permanent());
    world.report(completed(&tours, json!({"n": 1}))).unwrap();
    assert_eq!(world.status("tours"), StepStatus::Completed);
    let seen = replan_context(&world.state, &world.context.limits).unwrap();
    assert_eq!((seen.trigger.as_str(), seen.revision, seen.revisions_left), ("step_failure", 1, 3));
    assert_eq!(seen.steps[&StepId::from("tours")].outputs.as_ref().unwrap().value(), json!({"n": 1}));
    assert_eq!(seen.steps[&StepId::from("steps_in_flight")].failure.as_ref().unwrap().code, "NOT_FOUND");
    let change = Change::RemoveStep { step: "tours".into() };
    propose(&mut world, RevisionStrategy::Workaround, vec![retry("steps_in_flight", None), change]).unwrap();
    let refused = replan_context(&world.state, &world.context.limits).unwrap().refused;
    assert_eq!(refused[0].issues[0].code, "STEP_FINAL", "what is completed cannot be removed");
}

#[test]
fn an_answer_that_comes_too_late_is_refused() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", None)]).unwrap();
    let late = propose_as(&mut world, 1, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", None)]);
    assert_eq!(late, Err(Rejection::StaleRevision { revision: 1 }));
}

#[test]
fn a_proposal_that_breaks_the_plan_is_asked_for_once_more_and_then_given_up() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    let bad = || vec![Change::AddStep { step: Box::new(step("x", &["nowhere"])), before: Vec::new() }];
    world.others.clear();
    propose(&mut world, RevisionStrategy::Workaround, bad()).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert!(world.others.contains(&Effect::Plan { revision: 1 }));
    let refused = replan_context(&world.state, &world.context.limits).unwrap().refused;
    assert_eq!(refused[0].issues[0].pointer, "/steps/x/dependencies/0");
    propose(&mut world, RevisionStrategy::Workaround, bad()).unwrap();
    assert_eq!(world.plan_code(), "NOT_FOUND", "it ends as the step says");
}

#[test]
fn a_second_failure_gets_its_own_revision() {
    let mut world = World::of(trip());
    let tours = world.dispatch("tours");
    world.fail("steps_in_flight", permanent());
    world.report(failed(&tours, permanent())).unwrap();
    propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", None)]).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert_eq!(replan_context(&world.state, &world.context.limits).unwrap().step, Some("tours".into()));
    propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("tours", None)]).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Running);
    assert_eq!(world.status("tours"), StepStatus::Ready);
}

#[test]
fn going_on_without_one_failed_step_says_nothing_about_another() {
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &["b"]), ("d", &["a"])]);
    for step in &mut plan.steps {
        (step.on_failure, step.retry.max) = (OnFailure::AskUser, 0);
    }
    let mut world = World::of(plan);
    let tasks = [world.dispatch("a"), world.dispatch("b")];
    for task in &tasks {
        world.report(failed(task, permanent())).unwrap();
    }
    let approve = || Command::Verb(Verb::Approve { reason: "without it".into() });
    world.command(approve()).unwrap();
    assert_eq!((world.state.status(), trigger(&world).as_str()), (PlanStatus::Replanning, "ask_user"));
    assert_eq!(world.status("c"), StepStatus::Blocked, "nobody was asked about `b` yet");
    world.command(approve()).unwrap();
    assert_eq!((world.status("c"), world.status("d")), (StepStatus::Skipped, StepStatus::Skipped));
    assert_eq!(world.state.status(), PlanStatus::Partial);
    world.restart();
}

#[test]
fn a_whole_plan_as_an_answer_keeps_what_is_done() {
    let mut world = World::of(trip());
    world.complete("steps_in_flight", json!({"kept": 1}));
    world.fail("hotels", permanent());
    let new = plan(&[("steps_in_flight", &[]), ("camping", &["steps_in_flight"]), ("sum", &["camping"])]);
    let answer = PlanAnswer::Plan(Box::new(planned(new)));
    world.command(Command::Planned { revision: 1, answer }).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Running);
    assert_eq!(world.status("budget"), StepStatus::Revised);
    assert_eq!(world.outputs("steps_in_flight"), json!({"kept": 1}));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Partial, "a step did fail");
}

#[test]
fn unexpected_results_and_broken_constraints_are_triggers_of_their_own() {
    let policy = Some(RevisionPolicy::default());
    let expects = |plan: Plan| with(plan, "a", |step| step.expected_outputs = vec!["n".into()]);
    let mut world = World::of(expects(Plan { revision: policy.clone(), ..plan(&[("a", &[]), ("b", &["a"])]) }));
    world.complete("a", json!({}));
    assert_eq!(trigger(&world), "unexpected_result");
    let mut world = World::of(Plan { revision: policy, ..plan(&[("a", &[]), ("b", &["a"])]) });
    world.fail("a", Failure::new(FailureClass::ConstraintViolation, "OVER_BUDGET", "2100 of 2000 dollars"));
    assert_eq!(trigger(&world), "constraint_violation");
    let mut world = World::of(expects(plan(&[("a", &[]), ("b", &["a"])])));
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Failed, "without a policy the plan is not revised");
}

#[test]
fn too_many_failures_are_a_trigger_once() {
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[]), ("e", &[])]);
    (plan.revision, plan.continue_on_failure) = (Some(RevisionPolicy::default()), true);
    let mut world = World::of(plan);
    world.fail("a", permanent());
    assert_eq!(world.state.status(), PlanStatus::Running, "a fifth");
    world.fail("b", permanent());
    assert_eq!(trigger(&world), "failure_rate");
    give_up(&mut world);
    assert_eq!(world.state.status(), PlanStatus::Running, "the plan goes on without a revision");
    world.complete("c", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Running, "the same failures are no trigger again");
}

#[test]
fn a_revision_that_nothing_needs_is_left_out_for_want_of_confidence() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"])]);
    plan.revision = Some(RevisionPolicy { confidence_floor: 0.9, ..RevisionPolicy::default() });
    plan.budget = Budget { tokens: Some(100), ..Budget::default() };
    let mut world = World::of(plan);
    let task = world.dispatch("a");
    world.report(Report { tokens: Some(85), ..completed(&task, json!({})) }).unwrap();
    assert_eq!(trigger(&world), "budget_low");
    propose(&mut world, RevisionStrategy::Workaround, vec![retry("b", Some("cheap"))]).unwrap();
    assert_eq!(revise::revisions(&world.state).len(), 0);
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_budget_that_runs_low_is_a_trigger_once() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    plan.revision = Some(RevisionPolicy::default());
    plan.budget = Budget { tokens: Some(100), ..Budget::default() };
    let mut world = World::of(plan);
    let task = world.dispatch("a");
    world.report(Report { tokens: Some(85), ..completed(&task, json!({})) }).unwrap();
    assert_eq!(trigger(&world), "budget_low");
    assert_eq!(replan_context(&world.state, &world.context.limits).unwrap().left.tokens, Some(15));
    give_up(&mut world);
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Running);
}

#[test]
fn a_checkpoint_holds_the_next_phase_until_it_is_decided() {
    let mut plan = plan(&[("a", &[]), ("b", &[])]);
    let phase = |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: true };
    plan.phases = vec![phase("one"), phase("two")];
    plan.steps[0].phase = Some("one".into());
    plan.steps[1].phase = Some("two".into());
    let mut world = World::of(plan);
    world.complete("a", json!({}));
    assert_eq!(trigger(&world), "phase_checkpoint");
    assert_eq!(world.status("b"), StepStatus::Pending);
    let changes = vec![
        Change::AddPhase { phase: phase("between"), after: Some("one".into()), steps: vec![step("x", &[])] },
        Change::SkipStep { step: "b".into(), reason: String::new() },
    ];
    propose(&mut world, RevisionStrategy::Adjust, changes).unwrap();
    world.complete("x", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed, "the last checkpoint has nothing to revise");
    assert_eq!(world.state.plan().phases[1].id, "between");
    world.restart();
}

#[test]
fn new_information_in_a_report_is_a_trigger() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    let task = world.dispatch("a");
    let news = Json::from(json!({"cheaper": "on tuesdays"}));
    world.report(Report { adjustments: Some(news.clone()), ..completed(&task, json!({})) }).unwrap();
    assert_eq!(trigger(&world), "new_information");
    let seen = replan_context(&world.state, &world.context.limits).unwrap();
    assert_eq!(seen.information, Some(news.clone()));
    assert_eq!(seen.steps[&StepId::from("a")].adjustments, Some(news));
    give_up(&mut world);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_person_wants_another_way_and_says_which() {
    let mut world = World::of(trip());
    world
        .verb(Verb::Replan {
            reason: "rain".into(),
            hint: "museums".into(),
            options: goalmill_common::planning::ReplanOptions::default(),
        })
        .unwrap();
    let seen = replan_context(&world.state, &world.context.limits).unwrap();
    assert_eq!((seen.trigger.as_str(), seen.hint.as_str()), ("user_request", "museums"));
    let spec = world.state.step(world.index("tours")).unwrap().spec.clone();
    let step = Step { action: "museums".into(), ..spec };
    propose(&mut world, RevisionStrategy::Adjust, vec![Change::ModifyStep { step: Box::new(step) }]).unwrap();
    assert_eq!(world.dispatch("tours").action, "museums");
}

#[test]
fn a_planner_may_advise_to_give_up() {
    let mut world = World::of(trip());
    world.complete("tours", json!({"kept": 1}));
    world.fail("steps_in_flight", permanent());
    propose(&mut world, RevisionStrategy::Abort, Vec::new()).unwrap();
    assert_eq!(world.plan_code(), "NOT_FOUND");
    assert_eq!(world.outputs("tours"), json!({"kept": 1}));
}

#[test]
fn a_planner_that_advises_to_give_up_leaves_its_reason_in_the_log() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    let advice =
        Proposal { summary: "no airline flies there".into(), ..Proposal::new(RevisionStrategy::Abort, Vec::new()) };
    let decision = answer(&mut world, 1, PlanAnswer::Revision(Box::new(advice))).unwrap();
    let reasons: Vec<&str> = decision
        .records
        .iter()
        .filter_map(|record| {
            if let Event::Plan(PlanEvent::PlanningFailed(failed)) = &record.event {
                Some(failed.reason.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(reasons, ["no airline flies there"]);
}

#[test]
fn a_revision_that_leaves_the_failed_step_as_it_is_is_refused() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    let beside = || vec![Change::AddStep { step: Box::new(step("x", &[])), before: Vec::new() }];
    propose(&mut world, RevisionStrategy::Workaround, beside()).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    let refused = replan_context(&world.state, &world.context.limits).unwrap().refused;
    assert_eq!(refused[0].issues[0].code, "FAILED_STEP_UNTOUCHED");
    // A way around it is one, when all that waited for it takes that way.
    let around = Step { dependencies: vec!["x".into()], ..trip().steps[1].clone() };
    let changes = [beside(), vec![Change::ModifyStep { step: Box::new(around) }]].concat();
    propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
    assert_eq!((world.state.status(), world.state.revision()), (PlanStatus::Running, 1));
}

#[test]
fn a_person_must_agree_when_the_policy_says_so() {
    let approve = Some(Approval { limit_ms: 60_000, default: ApprovalDefault::Reject });
    let world = || {
        let policy = RevisionPolicy { approve, ..RevisionPolicy::default() };
        let mut world = World::of(Plan { revision: Some(policy), ..trip() });
        world.fail("steps_in_flight", permanent());
        propose(&mut world, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", Some("b"))]).unwrap();
        assert_eq!(revise::proposed(&world.state).unwrap().changes, ["retry steps_in_flight by b"]);
        world
    };
    let mut agreed = world();
    agreed.restart();
    assert!(!agreed.others.contains(&Effect::Plan { revision: 2 }));
    agreed.verb(Verb::Approve { reason: "fine".into() }).unwrap();
    assert_eq!(agreed.dispatch("steps_in_flight").agent_type.as_str(), "b");
    let mut refused = world();
    refused.verb(Verb::Reject { reason: "no".into() }).unwrap();
    assert_eq!(refused.plan_code(), "NOT_FOUND");
    let mut silent = world();
    silent.due(Timer::Plan).unwrap();
    assert_eq!(silent.state.status(), PlanStatus::Failed);
}

#[test]
fn a_revision_that_widens_is_refused_or_put_before_a_person() {
    let costs = |cost| Estimates { cost: Some(cost), ..Estimates::default() };
    let world = |widen| {
        let mut plan = with(trip(), "tours", |step| step.approve = Some(Approval::default()));
        plan.budget.cost = Some(10.0);
        plan.revision = Some(RevisionPolicy { widen, ..RevisionPolicy::default() });
        let mut world = World::of(plan);
        world.fail("steps_in_flight", permanent());
        let dear = Step { estimates: costs(11.0), ..step("dear", &[]) };
        let free = Step { on_failure: OnFailure::Replan, ..step("tours", &[]) };
        let changes = vec![
            retry("steps_in_flight", None),
            Change::AddStep { step: Box::new(dear), before: Vec::new() },
            Change::ModifyStep { step: Box::new(free) },
        ];
        propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
        world
    };
    let refused = replan_context(&world(Widen::Refuse).state, &World::new().context.limits).unwrap().refused;
    let codes: Vec<&str> = refused[0].issues.iter().map(|issue| issue.code.as_str()).collect();
    assert_eq!(codes, ["APPROVAL_DROPPED", "BUDGET_WIDENED"]);
    let mut asked = world(Widen::Approve);
    assert_eq!(revise::proposed(&asked.state).unwrap().widens.len(), 2);
    asked.verb(Verb::Approve { reason: String::new() }).unwrap();
    assert_eq!(asked.state.revision(), 1);
    assert_eq!(world(Widen::Allow).state.revision(), 1);
}

#[test]
fn what_a_person_agrees_to_may_do_no_more_than_was_shown() {
    let waiting = |widen| {
        let mut plan = with(trip(), "budget", |step| step.approve = Some(Approval::default()));
        plan.budget.cost = Some(10.0);
        plan.revision = Some(RevisionPolicy { widen, approve: Some(Approval::default()), ..RevisionPolicy::default() });
        let mut world = World::of(plan);
        let tours = world.dispatch("tours");
        world.fail("steps_in_flight", permanent());
        let estimates = Estimates { cost: Some(8.0), ..Estimates::default() };
        let dear = Step { estimates, ..step("dear", &[]) };
        let changes =
            vec![retry("steps_in_flight", None), Change::AddStep { step: Box::new(dear), before: Vec::new() }];
        propose(&mut world, RevisionStrategy::Workaround, changes).unwrap();
        assert!(revise::proposed(&world.state).unwrap().widens.is_empty(), "eight of ten dollars fit");
        (world, tours)
    };
    let spent = |widen| {
        let (mut world, tours) = waiting(widen);
        world.report(Report { cost: Some(5.0), ..completed(&tours, json!({})) }).unwrap();
        world.verb(Verb::Approve { reason: String::new() }).unwrap();
        world
    };
    for widen in [Widen::Refuse, Widen::Approve] {
        let refused = replan_context(&spent(widen).state, &World::new().context.limits).unwrap().refused;
        assert_eq!(refused[0].issues[0].code, "BUDGET_WIDENED", "it no longer fits what is left");
    }
    assert_eq!(spent(Widen::Allow).state.revision(), 1);

    let (mut world, _) = waiting(Widen::Refuse);
    let free = Change::ModifyStep { step: Box::new(step("budget", &["tours"])) };
    let mut changes = revise::proposed(&world.state).unwrap().proposal.changes.clone();
    changes.push(free.clone());
    let Err(Rejection::Invalid { issues, .. }) = edit(&mut world, changes) else { panic!("it is refused") };
    assert_eq!(issues[0].code, "APPROVAL_DROPPED", "the person's change takes the approval away");
    edit(&mut world, vec![free]).unwrap();
    assert_eq!(world.state.revision(), 1, "a person's own edit is theirs");
}

#[test]
fn what_the_catalogue_says_of_a_proposal_counts_too() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    let issue = goalmill_common::problem::Issue {
        code: "WRITES".into(),
        pointer: "/steps/steps_in_flight".into(),
        detail: "the backup agent may write".into(),
        hint: String::new(),
    };
    let proposal = Proposal {
        widens: vec![issue],
        ..Proposal::new(RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", Some("b"))])
    };
    answer(&mut world, 1, PlanAnswer::Revision(Box::new(proposal))).unwrap();
    assert_eq!(world.state.revision(), 0);
}

#[test]
fn a_planner_asks_a_person_and_gets_an_answer_of_the_right_kind() {
    let question = |default: Option<serde_json::Value>| Question {
        question: "which part of town?".into(),
        schema: Some(Json::from(json!({"type": "string"}))),
        default: default.map(Json::from),
        limit_ms: 60_000,
        into: None,
    };
    let ask = |world: &mut World, default| {
        let question = Some(question(default));
        let proposal = Proposal { question, ..Proposal::new(RevisionStrategy::AskUser, Vec::new()) };
        answer(world, 1, PlanAnswer::Revision(Box::new(proposal)))
    };
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    ask(&mut world, None).unwrap();
    let id = revise::open_question(&world.state).unwrap().id.clone();
    let say = |world: &mut World, answer: serde_json::Value| {
        world.verb(Verb::AnswerQuestion { question: id.clone(), answer: answer.into(), reason: String::new() })
    };
    assert!(matches!(say(&mut world, json!(7)), Err(Rejection::Invalid { .. })));
    world.others.clear();
    say(&mut world, json!("11e")).unwrap();
    assert!(world.others.contains(&Effect::Plan { revision: 1 }));
    let seen = replan_context(&world.state, &world.context.limits).unwrap();
    assert_eq!(seen.answers[0].answer.value(), json!("11e"));
    propose(&mut world, RevisionStrategy::Workaround, vec![retry("steps_in_flight", None)]).unwrap();

    let mut silent = World::of(trip());
    silent.fail("steps_in_flight", permanent());
    ask(&mut silent, Some(json!("1er"))).unwrap();
    silent.due(Timer::Plan).unwrap();
    assert!(replan_context(&silent.state, &silent.context.limits).unwrap().answers[0].by_default);
    ask(&mut silent, None).unwrap();
    silent.due(Timer::Plan).unwrap();
    assert_eq!(silent.plan_code(), "NOT_FOUND", "nobody answered, and there is no default");
}

#[test]
fn a_person_edits_a_plan_that_awaits_approval_and_one_that_runs() {
    let mut world = World::of(Plan { approve: Some(Approval::default()), ..trip() });
    let fields = json!({"priority": 9, "agent_type": "guide"});
    let fields = fields.as_object().unwrap().clone();
    edit(&mut world, vec![Change::SetFields { step: "tours".into(), fields }]).unwrap();
    assert_eq!(world.state.status(), PlanStatus::AwaitingApproval);
    assert!(near(confidence(&world), 1.0), "a person's edit costs no confidence");
    world.verb(Verb::Approve { reason: String::new() }).unwrap();
    assert_eq!(world.dispatch("tours").agent_type.as_str(), "guide");
    edit(&mut world, vec![Change::Order { steps: vec!["budget".into(), "hotels".into()] }]).unwrap_err();
    let fields = json!({"inputs": {}, "dependencies": ["tours"]}).as_object().unwrap().clone();
    edit(&mut world, vec![Change::SetFields { step: "budget".into(), fields }]).unwrap();
    edit(&mut world, vec![Change::Order { steps: vec!["budget".into(), "hotels".into()] }]).unwrap();
    let hotels = world.state.step(world.index("hotels")).unwrap().spec.dependencies.clone();
    assert_eq!(hotels, ["steps_in_flight".into(), "budget".into()]);
    assert_eq!(world.state.revision(), 3);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    world.restart();
}

#[test]
fn an_edit_that_breaks_the_plan_is_refused_with_the_issues() {
    let mut world = World::of(trip());
    let cycle = json!({"dependencies": ["budget"]}).as_object().unwrap().clone();
    let refused = edit(&mut world, vec![Change::SetFields { step: "steps_in_flight".into(), fields: cycle }]);
    let Err(Rejection::Invalid { issues, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(issues[0].code, "PLAN_CYCLE");
    let refused = edit(&mut world, vec![Change::RemoveStep { step: "hotel".into() }]);
    let Err(Rejection::Invalid { issues, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(issues[0].pointer, "/changes/0");
    assert!(issues[0].hint.contains("`hotels`"), "{issues:?}");
    let nothing = edit(&mut world, Vec::new());
    assert!(matches!(nothing, Err(Rejection::Invalid { .. })));
    let stale = world.verb(Verb::Edit { changes: Vec::new(), revision: Some(7), reason: String::new() });
    assert_eq!(stale, Err(Rejection::StaleRevision { revision: 0 }));
}

#[test]
fn a_step_that_starts_again_with_another_one_must_still_be_valid() {
    let mut plan = plan(&[("a", &[]), ("b", &["later"]), ("later", &[]), ("c", &["a", "b"])]);
    plan.continue_on_failure = true;
    plan.steps[0].retry.max = 0;
    plan.steps[3].inputs = Json::from(json!({"price": "{{ steps.b.outputs.price }}"}));
    let mut world = World::of(plan);
    world.fail("a", permanent());
    assert_eq!(world.status("c"), StepStatus::Skipped);
    let without_b = vec![retry("a", None), Change::RemoveStep { step: "b".into() }];
    let Err(Rejection::Invalid { issues, .. }) = edit(&mut world, without_b) else { panic!("`c` needs `b`") };
    assert!(issues.iter().any(|issue| issue.pointer.starts_with("/steps/c/")), "{issues:?}");
    edit(&mut world, vec![retry("a", None)]).unwrap();
    assert_eq!(world.status("c"), StepStatus::Pending);
}

#[test]
fn an_edit_while_the_planner_thinks_makes_its_answer_stale() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", permanent());
    edit(&mut world, vec![retry("steps_in_flight", Some("b"))]).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Running);
    let late = propose_as(&mut world, 1, RevisionStrategy::RetryWithAgent, vec![retry("steps_in_flight", None)]);
    assert_eq!(late, Err(Rejection::StaleRevision { revision: 1 }));
}

#[test]
fn what_was_skipped_because_of_a_failure_comes_back_with_it() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])]);
    plan.continue_on_failure = true;
    let mut world = World::of(plan);
    world.fail("a", permanent());
    assert_eq!(world.status("c"), StepStatus::Skipped);
    edit(&mut world, vec![retry("a", None)]).unwrap();
    assert_eq!((world.status("b"), world.status("c")), (StepStatus::Pending, StepStatus::Pending));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!(world.state.counts().completed, 4);
}

#[test]
fn an_id_is_never_used_again() {
    let mut world = World::of(trip());
    edit(&mut world, vec![Change::ReplaceStep { step: "tours".into(), with: vec![step("walk", &[])] }]).unwrap();
    let again = Change::AddStep { step: Box::new(step("tours", &[])), before: Vec::new() };
    let refused = edit(&mut world, vec![again]);
    let Err(Rejection::Invalid { issues, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(issues[0].code, "DUPLICATE_STEP_ID");
}

#[test]
fn a_revision_is_told_step_by_step() {
    let mut world = World::of(trip());
    world.fail("steps_in_flight", transient());
    let change = Change::ReplaceStep { step: "steps_in_flight".into(), with: vec![step("trains", &[])] };
    propose(&mut world, RevisionStrategy::Workaround, vec![change]).unwrap();
    let story = world.story();
    let from = story.iter().position(|word| word == "replan_triggered").unwrap();
    assert_eq!(
        story[from..],
        [
            "replan_triggered",
            "step_blocked hotels",
            "step_added trains",
            "step_modified hotels",
            "step_removed steps_in_flight",
            "plan_revised",
            "step_ready trains"
        ]
    );
    let revised = world.log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::Revised(revised)) = &record.event { Some(revised) } else { None }
    });
    assert_eq!(revised.unwrap().changes, ["+ trains", "- steps_in_flight"]);
    // An exported log reads back, and folds.
    for record in &world.log {
        let line = goalmill_common::event::Record::from_line(&record.to_line()).unwrap();
        assert_eq!(line.event.type_name(), record.event.type_name());
    }
}

#[test]
fn a_sub_plan_is_stopped_when_its_step_is_replaced() {
    let mut plan = plan(&[("a", &[]), ("b", &[])]);
    plan.steps[0].kind = goalmill_common::plan::StepKind::Plan;
    plan.steps[0].description = "in pieces".into();
    let mut world = World::of(plan);
    assert_eq!(world.status("a"), StepStatus::Running);
    edit(&mut world, vec![Change::RemoveStep { step: "a".into() }]).unwrap();
    assert_eq!(world.sub_plan("a").state.status(), PlanStatus::Cancelled);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_plan_without_revisions_reads_as_before() {
    let world = World::of(plan(&[("a", &[])]));
    assert!(revise::revisions(&world.state).is_empty());
    assert_eq!(revise::live_plan(&world.state), *world.state.plan().as_ref());
    drop(submission(None));
}

fn retry(step: &str, agent_type: Option<&str>) -> Change {
    Change::RetryStep { step: step.into(), agent_type: agent_type.map(Into::into), action: None, inputs: None }
}

pub fn propose(world: &mut World, strategy: RevisionStrategy, changes: Vec<Change>) -> Result<Decision, Rejection> {
    let revision = world.state.revision() + 1;
    propose_as(world, revision, strategy, changes)
}

/// A proposal with a reason.
pub fn propose_with(
    world: &mut World,
    strategy: RevisionStrategy,
    changes: Vec<Change>,
    summary: &str,
) -> Result<Decision, Rejection> {
    let revision = world.state.revision() + 1;
    let proposal = Proposal { summary: summary.into(), ..Proposal::new(strategy, changes) };
    answer(world, revision, PlanAnswer::Revision(Box::new(proposal)))
}

fn propose_as(
    world: &mut World,
    revision: u32,
    strategy: RevisionStrategy,
    changes: Vec<Change>,
) -> Result<Decision, Rejection> {
    answer(world, revision, PlanAnswer::Revision(Box::new(Proposal::new(strategy, changes))))
}

fn answer(world: &mut World, revision: u32, answer: PlanAnswer) -> Result<Decision, Rejection> {
    world.command(Command::Planned { revision, answer })
}

pub fn give_up(world: &mut World) {
    let failed = PlanAnswer::Failed { reason: "no idea".into(), issues: Vec::new(), provenance: None };
    let revision = world.state.revision() + 1;
    answer(world, revision, failed).expect("a planner may always fail");
}

pub fn edit(world: &mut World, changes: Vec<Change>) -> Result<Decision, Rejection> {
    world.verb(Verb::Edit { changes, revision: None, reason: "better".into() })
}

pub fn trigger(world: &World) -> String {
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    replan_context(&world.state, &world.context.limits).expect("a plan that replans has a situation").trigger
}

pub fn confidence(world: &World) -> f64 {
    world.state.view(false).confidence
}

pub fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}
