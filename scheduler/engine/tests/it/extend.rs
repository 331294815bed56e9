//! Steps that ask, turn out to be plans, or were done before; plans that begin while they are written, or go on from
//! others.

use goalmill_common::command::{Change, Planned, Proposal, RevisionStrategy, Verb};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Approval, Cache, OnFailure, Plan, Question, RevisionPolicy, StepKind};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Closing, Command, Effect, PlanAnswer, Rejection, SubPlanEnd, fork, replan_context};
use goalmill_plan::validate;
use serde_json::json;

use crate::world::{World, completed, failed, permanent, plan, planned, report, step, submission, with};

#[test]
fn a_step_asks_and_the_answer_is_what_it_gives() {
    let mut world = World::of(with(plan(&[("a", &[]), ("ask", &["a"]), ("b", &["ask"])]), "ask", |step| {
        step.kind = StepKind::Internal;
        step.ask = Some(question("Is {{ steps.a.outputs.n }} right?", None, None));
    }));
    world.complete("a", json!({"n": 3}));
    assert_eq!(world.status("ask"), StepStatus::AwaitingApproval);
    let view = world.state.view(false);
    assert_eq!(view.steps[1].question.as_ref().unwrap().question, "Is 3 right?");
    let approve = world.verb(Verb::ApproveStep { step: "ask".into(), reason: String::new() });
    assert!(matches!(approve, Err(Rejection::NotAllowed { .. })), "it wants an answer");
    assert!(matches!(say(&mut world, "ask", json!("maybe")), Err(Rejection::Invalid { .. })));
    say(&mut world, "ask", json!(true)).unwrap();
    assert_eq!(world.outputs("ask"), json!(true));
    assert_eq!(world.status("b"), StepStatus::Ready);
    world.restart();
}

#[test]
fn the_answer_becomes_an_input_and_then_approval_is_asked_for() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| {
        step.ask = Some(question("Sure?", None, Some("sure")));
        step.approve = Some(Approval::default());
        step.inputs = Json::from(json!({"x": 1}));
    }));
    say(&mut world, "a", json!(true)).unwrap();
    assert_eq!(world.status("a"), StepStatus::AwaitingApproval);
    world.verb(Verb::ApproveStep { step: "a".into(), reason: String::new() }).unwrap();
    assert_eq!(world.dispatch("a").inputs.value(), json!({"x": 1, "sure": true}));
}

#[test]
fn each_field_of_an_answer_becomes_an_input() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| {
        step.ask = Some(Question { schema: None, ..question("Who and where?", None, Some("*")) });
        step.inputs = Json::from(json!({"x": 1, "who": "<name>"}));
    }));
    say(&mut world, "a", json!({"who": "Ann", "where": "Rome"})).unwrap();
    assert_eq!(world.dispatch("a").inputs.value(), json!({"x": 1, "who": "Ann", "where": "Rome"}));
}

#[test]
fn silence_is_the_default_answer_or_a_failure() {
    let asks = |default: Option<serde_json::Value>| {
        World::of(with(plan(&[("a", &[])]), "a", |step| {
            step.kind = StepKind::Internal;
            step.ask = Some(question("Sure?", default, None));
        }))
    };
    let mut world = asks(Some(json!(false)));
    world.step_due("a");
    assert_eq!(world.outputs("a"), json!(false));
    assert_eq!(world.state.status(), PlanStatus::Completed);
    let mut world = asks(None);
    world.step_due("a");
    assert_eq!(world.plan_code(), "NO_ANSWER");
}

#[test]
fn a_step_that_is_too_complex_becomes_a_plan() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    let failure = Failure::new(FailureClass::Permanent, "TOO_COMPLEX", "three cities at once");
    world.fail("a", failure.clone());
    assert_eq!(world.status("a"), StepStatus::Running);
    assert_eq!(world.state.step(world.index("a")).unwrap().spec.kind, StepKind::Plan);
    assert_eq!(world.sub_plan("a").state.status(), PlanStatus::Planning, "the planners make it");
    let end = SubPlanEnd::new(PlanStatus::Completed, json!({"n": 1}).into(), Default::default(), None);
    let ended = Command::SubPlanEnded { step: "a".into(), attempt: 2, end };
    world.command(ended).unwrap();
    assert_eq!(world.outputs("a"), json!({"n": 1}));
    world.restart();

    let mut deep = World::new();
    deep.context.limits.depth_max = 0;
    deep.submit(plan(&[("a", &[])])).unwrap();
    deep.fail("a", failure);
    assert_eq!(deep.plan_code(), "TOO_COMPLEX", "plans are nested as deep as they may be");
}

#[test]
fn an_agent_gives_a_plan_in_place_of_a_result() {
    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    let inner =
        json!({"steps": [{"id": "x", "action": "one"}, {"id": "y", "agent_type": "other", "dependencies": ["x"]}]});
    let sub_plans = ["w".to_owned(), "other".to_owned()].into();
    let report = Report { sub_plan: Some(inner.into()), sub_plans, ..report(&task, What::Completed) };
    world.report(report).unwrap();
    let spec = world.state.step(world.index("a")).unwrap().spec.clone();
    let steps = &spec.plan.unwrap().steps;
    assert_eq!((steps[0].agent_type.as_str(), steps[1].agent_type.as_str()), ("w", "other"));

    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    let inner = json!({"steps": [{"id": "x", "dependencies": ["x"]}]});
    world.report(Report { sub_plan: Some(inner.into()), ..self::report(&task, What::Completed) }).unwrap();
    assert_eq!(world.plan_code(), "SUB_PLAN_INVALID");
}

#[test]
fn a_plan_in_place_of_a_result_has_steps_for_allowed_agents_only() {
    let plans = [
        json!({"steps": [{"id": "x"}]}),
        json!({"steps": [{"id": "x", "agent_type": "mail"}]}),
        json!({"steps": [{"id": "x", "agent_type": "free", "fallback": {"agent_type": "mail"}}]}),
        json!({"steps": [{"id": "p", "kind": "plan", "plan": {"steps": [{"id": "x", "agent_type": "mail"}]}}]}),
    ];
    let answered = |sub_plan: &serde_json::Value, allowed: &[&str]| {
        let mut world = World::of(plan(&[("a", &[])]));
        let task = world.dispatch("a");
        let sub_plans = allowed.iter().map(|agent| (*agent).to_owned()).collect();
        let sub_plan = Some(Json::from_value(sub_plan));
        world.report(Report { sub_plan, sub_plans, ..report(&task, What::Completed) }).expect("it is current");
        world
    };
    for sub_plan in &plans {
        for allowed in [&[] as &[&str], &["free"]] {
            let world = answered(sub_plan, allowed);
            assert_eq!(
                (world.plan_code().as_str(), world.sub_plans().len()),
                ("SUB_PLAN_NOT_ALLOWED", 0),
                "{sub_plan}"
            );
        }
        for allowed in [&["w", "mail", "free"] as &[&str], &["*"]] {
            assert_ne!(answered(sub_plan, allowed).sub_plans().len(), 0, "{sub_plan}");
        }
    }
    let inline = json!({"steps": [{"id": "x", "kind": "finish", "inputs": {"y": 1}}]});
    assert_eq!(answered(&inline, &[]).state.status(), PlanStatus::Completed, "the engine runs these steps itself");
}

#[test]
fn a_result_that_is_kept_is_not_made_again() {
    let cached = || {
        with(plan(&[("a", &[]), ("b", &["a"])]), "a", |step| {
            step.cache = Some(Cache { key: "{{ goal.description }}".into(), ttl_ms: 60_000 });
        })
    };
    let mut world = World::of(cached());
    let i = world.index("a");
    world.command(Command::Dispatch(i)).unwrap();
    assert!(world.tasks.is_empty(), "it is looked up first");
    let key = looked_up(&world);
    world.command(Command::CacheLookedUp { step: i, key: key.clone(), outputs: None }).unwrap();
    let task = world.tasks[0].clone();
    world.report(completed(&task, json!({"n": 1}))).unwrap();
    let keep = Effect::CacheStore { key: key.clone(), outputs: json!({"n": 1}).into(), ttl_ms: 60_000 };
    assert!(world.others.contains(&keep));

    let mut world = World::of(cached());
    world.command(Command::Dispatch(i)).unwrap();
    assert_eq!(looked_up(&world), key, "the same step has the same word");
    let outputs = Some(Json::from(json!({"n": 1})));
    world.command(Command::CacheLookedUp { step: i, key: key.clone(), outputs: outputs.clone() }).unwrap();
    assert_eq!((world.status("a"), world.tasks.len()), (StepStatus::Completed, 0));
    assert_eq!(world.status("b"), StepStatus::Ready);
    let again = world.command(Command::CacheLookedUp { step: i, key, outputs });
    assert_eq!(again, Err(Rejection::NotDue));
    world.restart();
}

#[test]
fn a_cache_without_a_key_goes_by_agent_action_and_all_inputs() {
    let word = |action: &str, city: &str| {
        let document = json!({"steps": [{"id": "a", "agent_type": "w", "action": action, "cache": {"ttl": "1m"},
                                         "inputs": {"city": city, "nights": "{{ 1 + 1 }}"}}]});
        let mut world = World::of(validate::validate_plan(&document, &Limits::default()).unwrap().into_plan());
        let i = world.index("a");
        world.command(Command::Dispatch(i)).unwrap();
        looked_up(&world)
    };
    assert_eq!(word("book", "Rome"), word("book", "Rome"));
    assert_ne!(word("book", "Rome"), word("book", "Oslo"));
    assert_ne!(word("book", "Rome"), word("find", "Rome"));
}

#[test]
fn what_is_kept_and_does_not_fit_is_made_again() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| {
        step.cache = Some(Cache { key: "k".into(), ttl_ms: 1 });
        step.expected_outputs = vec!["n".into()];
    }));
    let i = world.index("a");
    world.command(Command::Dispatch(i)).unwrap();
    let key = looked_up(&world);
    world.command(Command::CacheLookedUp { step: i, key, outputs: Some(Json::empty_object()) }).unwrap();
    assert_eq!(world.status("a"), StepStatus::Queued);
}

#[test]
fn a_plan_begins_while_it_is_written() {
    let mut world = World::new();
    world.submit_as(submission(None)).unwrap();
    let answer = PlanAnswer::Open(Box::new(planned(plan(&[("a", &[])]))));
    world.command(Command::Planned { revision: 0, answer }).unwrap();
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Running, "more is to come");
    let bad = world.command(Command::AddSteps { steps: vec![step("b", &["zz"])] });
    assert!(matches!(bad, Err(Rejection::Invalid { .. })));
    world.command(Command::AddSteps { steps: vec![step("b", &["a"]), step("c", &["b"])] }).unwrap();
    world.complete("b", json!({}));
    world.complete("c", json!({}));
    let whole = Closing::Whole { confidence: 0.7, provenance: None, warnings: Vec::new(), routes: Vec::new() };
    world.command(Command::ClosePlan(Box::new(whole.clone()))).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert!((world.state.view(false).confidence - 0.7).abs() < 1e-9);
    assert!(world.command(Command::ClosePlan(Box::new(whole))).is_err());
}

#[test]
fn what_a_revision_cost_while_the_plan_was_written_stays_paid() {
    let mut world = World::new();
    world.submit_as(submission(None)).unwrap();
    let begun = with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan);
    let open = PlanAnswer::Open(Box::new(Planned { confidence: 0.75, ..planned(begun) }));
    world.command(Command::Planned { revision: 0, answer: open }).unwrap();
    world.fail("a", permanent());
    let again = Change::RetryStep { step: "a".into(), agent_type: Some("other".into()), action: None, inputs: None };
    let proposal = Proposal::new(RevisionStrategy::RetryWithAgent, vec![again]);
    world.command(Command::Planned { revision: 1, answer: PlanAnswer::Revision(Box::new(proposal)) }).unwrap();
    assert!((world.state.view(false).confidence - 0.65).abs() < 1e-9);
    let whole = Closing::Whole { confidence: 0.6, provenance: None, warnings: Vec::new(), routes: Vec::new() };
    world.command(Command::ClosePlan(Box::new(whole))).unwrap();
    assert!((world.state.view(false).confidence - 0.5).abs() < 1e-9, "0.6 as it is written, less 0.1");
    world.restart();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_plan_whose_rest_is_of_no_use_is_repaired_around_what_ran() {
    let begin = || {
        let mut world = World::new();
        world.submit_as(submission(None)).unwrap();
        let answer = PlanAnswer::Open(Box::new(planned(plan(&[("a", &[])]))));
        world.command(Command::Planned { revision: 0, answer }).unwrap();
        world.complete("a", json!({"kept": 1}));
        world
    };
    for is_restarted in [false, true] {
        let mut world = begin();
        if is_restarted {
            world.restart();
        } else {
            let broken = Closing::Broken { reason: "the text is cut off".into(), issues: Vec::new(), provenance: None };
            world.command(Command::ClosePlan(Box::new(broken))).unwrap();
        }
        assert_eq!(replan_context(&world.state, &world.context.limits).unwrap().trigger, "incomplete_plan");
        let rest = PlanAnswer::Plan(Box::new(planned(plan(&[("a", &[]), ("b", &["a"])]))));
        world.command(Command::Planned { revision: 1, answer: rest }).unwrap();
        assert_eq!(world.outputs("a"), json!({"kept": 1}));
        world.finish();
        assert_eq!(world.state.status(), PlanStatus::Completed);
    }

    let mut silent = begin();
    silent.due(goalmill_engine::Timer::Plan).unwrap();
    assert_eq!(silent.state.status(), PlanStatus::Replanning);
    let failed = PlanAnswer::Failed { reason: "no idea".into(), issues: Vec::new(), provenance: None };
    silent.command(Command::Planned { revision: 1, answer: failed }).unwrap();
    assert_eq!(silent.plan_code(), "PLANNING_FAILED");
}

#[test]
fn a_plan_goes_on_from_another_ones_results() {
    let mut first = World::of(Plan {
        approve: Some(Approval::default()),
        ..plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])])
    });
    first.verb(Verb::Approve { reason: String::new() }).unwrap();
    first.complete("a", json!({"n": 1}));
    first.complete("d", json!({}));
    first.complete("b", json!({"n": 2}));
    first.fail("c", permanent());
    assert!(first.state.is_final());
    let submit = fork(&first.state, &first.state, Some(&"b".into()), "fork-1".into(), "cli".into()).unwrap();
    let mut second = World::new();
    second.submit_as(submit).unwrap();
    assert_eq!(second.state.status(), PlanStatus::AwaitingApproval);
    second.restart();
    second.verb(Verb::Approve { reason: String::new() }).unwrap();
    assert_eq!((second.status("a"), second.status("d")), (StepStatus::Completed, StepStatus::Completed));
    assert_eq!(second.status("b"), StepStatus::Ready, "it is done again");
    assert_eq!(second.state.view(false).forked_from, Some(first.state.id().clone()));
    second.finish();
    assert_eq!(second.state.status(), PlanStatus::Completed);
    assert_eq!(second.tasks.len(), 2);
    let unknown = fork(&first.state, &first.state, Some(&"zz".into()), "x".into(), "cli".into());
    assert!(matches!(unknown, Err(Rejection::UnknownStep { .. })));
}

#[test]
fn a_fork_that_one_planner_is_to_plan_does_not_run_without_it() {
    let mut first = World::of(plan(&[("a", &[]), ("b", &["a"])]));
    first.finish();
    let forked = |only: bool, max: Option<u32>| {
        let mut submit = fork(&first.state, &first.state, Some(&"b".into()), "fork".into(), "cli".into()).unwrap();
        submit.goal.planning.planner_only = only;
        submit.fork.as_mut().unwrap().replan = Some("the fork is to be planned anew".into());
        submit.plan.as_mut().unwrap().plan.revision = Some(RevisionPolicy { max, ..RevisionPolicy::default() });
        let mut second = World::new();
        second.submit_as(submit).unwrap();
        second
    };
    let unanswered = |only: bool| {
        let mut second = forked(only, None);
        second.restart();
        let answer = PlanAnswer::Failed { reason: "no domain fits".into(), issues: vec![], provenance: None };
        second.command(Command::Planned { revision: 1, answer }).unwrap();
        second
    };
    assert_eq!(unanswered(false).state.status(), PlanStatus::Running, "it goes on with the plan there is");
    let failed = unanswered(true);
    assert_eq!(failed.state.status(), PlanStatus::Failed);
    let failure = failed.state.view(true).failure.unwrap();
    assert_eq!(failure.code, "PLANNING_FAILED");
    assert!(failure.message.ends_with(": no domain fits"), "{failure:?}");
    let unasked = forked(true, Some(0));
    assert_eq!(unasked.state.view(true).failure.unwrap().code, "MAX_REVISIONS_EXCEEDED");
    assert!(failed.tasks.is_empty() && unasked.tasks.is_empty());
}

#[test]
fn a_failure_with_suggestions_takes_them_to_the_planner() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.on_failure = OnFailure::Replan));
    let task = world.dispatch("a");
    let news = Some(Json::from(json!({"nearby": ["11e"]})));
    world.report(Report { adjustments: news.clone(), ..failed(&task, permanent()) }).unwrap();
    assert_eq!(replan_context(&world.state, &world.context.limits).unwrap().information, news);
}

fn question(text: &str, default: Option<serde_json::Value>, into: Option<&str>) -> Question {
    Question {
        question: text.into(),
        schema: Some(Json::from(json!({"type": "boolean"}))),
        default: default.map(Json::from),
        limit_ms: 60_000,
        into: into.map(Into::into),
    }
}

fn say(world: &mut World, question: &str, answer: serde_json::Value) -> Result<(), Rejection> {
    let (question, reason) = (question.to_owned(), String::new());
    world.verb(Verb::AnswerQuestion { question, answer: answer.into(), reason }).map(drop)
}

fn looked_up(world: &World) -> String {
    let key = world.others.iter().rev().find_map(|effect| {
        let Effect::CacheLookup { key, .. } = effect else { return None };
        Some(key.clone())
    });
    key.expect("it was looked up")
}
