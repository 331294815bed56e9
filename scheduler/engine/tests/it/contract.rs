//! Goals as contracts: constraints that hold, criteria that are judged.

use goalmill_common::command::{GoalCorrection, Planned, RevisionStrategy, Submit, Verb};
use goalmill_common::constraint::ConstraintStatus as S;
use goalmill_common::criterion::{CriteriaPolicy, Criterion, CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::event::{CriteriaJudged, GoalChanged, ModelAnswered, ModelAsked};
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::plan::{Approval, Plan, RevisionPolicy, Strategy};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_engine::{Command, Effect, PlanAnswer, Timer, budget, constraints, criteria, explain, replan_context};
use serde_json::{Value, json};

use crate::revise::propose;
use crate::world::{START_MS, World, plan, planned, report, step, submission, with};

fn goal(plan: Plan, constraints: Value) -> Submit {
    let mut submit = submission(Some(plan));
    submit.goal.constraints.clone_from(constraints.as_object().expect("an object"));
    submit
}

fn world(submit: Submit) -> World {
    let mut world = World::new();
    world.submit_as(submit).expect("the plan is fit");
    world
}

fn with_cost(task: &Task, cost: f64) -> Report {
    Report { outputs: Some(json!({}).into()), cost: Some(cost), ..report(task, What::Completed) }
}

fn spend(world: &mut World, step: &str, cost: f64) {
    let task = world.dispatch(step);
    world.report(with_cost(&task, cost)).expect("the report is current");
}

fn constraint(world: &World, name: &str) -> (S, Option<f64>) {
    let views = constraints::constraint_views(&world.state, world.now_ms);
    let view = views.into_iter().find(|view| view.name == name).expect("the constraint exists");
    (view.status, view.measured)
}

fn two_steps() -> Plan {
    plan(&[("a", &[]), ("b", &["a"])])
}

fn revisable(plan: Plan) -> Plan {
    Plan { revision: Some(RevisionPolicy::default()), ..plan }
}

#[test]
fn a_broken_hard_constraint_fails_the_plan() {
    let mut world = world(goal(two_steps(), json!({"budget": {"value": "100 USD", "priority": 8}})));
    spend(&mut world, "a", 500.0);
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "CONSTRAINT_BROKEN"));
    assert_eq!(constraint(&world, "budget"), (S::Broken, Some(500.0)));
    assert_eq!(world.status("b"), StepStatus::Cancelled);
    world.restart();
}

/// A plan that a planner made, for a goal with these constraints and criteria.
fn planner_made(plan: Plan, constraints: Value, criteria: &[&str]) -> World {
    let mut submit = goal(two_steps(), constraints);
    submit.plan = None;
    submit.goal.success_criteria = criteria.iter().map(|text| (*text).into()).collect();
    let mut world = world(submit);
    let planned = Planned { planner: "rules".into(), ..planned(plan) };
    let answer = PlanAnswer::Plan(Box::new(planned));
    world.command(Command::Planned { revision: 0, answer }).expect("the plan is awaited");
    world
}

/// The text of a goal with a hard limit was read as a soft one; the plan waits for a person.
fn read_goal(approve: Option<Approval>) -> World {
    let mut submit = goal(two_steps(), json!({"max_emails": {"value": 3, "priority": 9}}));
    submit.plan = None;
    let mut world = world(submit);
    let mut changed = GoalChanged::from_goal(&world.state.accepted().goal);
    changed.constraints.insert("max_spend".into(), "10 USD".into());
    changed.success_criteria.push("a room for every night".into());
    changed.deadline_ms = Some(START_MS + 3_600_000);
    changed.read = ["/constraints/max_spend", "/success_criteria/0", "/deadline"].map(Into::into).to_vec();
    changed.model = "m".into();
    let plan = Plan { approve, ..two_steps() };
    let planned = Planned { planner: "llm".into(), goal: Some(Box::new(changed)), ..planned(plan) };
    let answer = PlanAnswer::Plan(Box::new(planned));
    world.command(Command::Planned { revision: 0, answer }).expect("the plan is awaited");
    world
}

#[test]
fn what_was_read_of_a_goal_is_what_holds() {
    let mut world = read_goal(None);
    assert_eq!(world.state.view(false).goal_read, ["/constraints/max_spend", "/success_criteria/0", "/deadline"]);
    let told = explain::explain(&world.state, world.now_ms).goal_read;
    assert_eq!(told[..2], ["max_spend: 10 USD", "reached when: a room for every night"]);
    assert_eq!(world.state.accepted().deadline_ms, START_MS + 3_600_000);
    spend(&mut world, "a", 11.0);
    assert_eq!(constraint(&world, "max_spend"), (S::Broken, Some(11.0)));
    assert_eq!(verdicts(&world).len(), 1);
    world.restart();
    assert_eq!(world.state.status(), PlanStatus::Running, "a constraint that was read is soft");
}

#[test]
fn a_person_corrects_what_was_read_before_the_plan_begins() {
    let mut world = read_goal(Some(Approval::default()));
    let constraints = json!({"max_spend": {"value": "5 USD", "priority": 9}}).as_object().cloned().unwrap_or_default();
    let correction = GoalCorrection {
        constraints,
        deadline_ms: Some(0),
        success_criteria: Some(Vec::new()),
        ..GoalCorrection::default()
    };
    let verb = || Verb::CorrectGoal { correction: Box::new(correction.clone()), reason: "less".into() };
    world.verb(verb()).expect("the plan waits");
    world.restart();
    let view = world.state.view(false);
    assert_eq!((view.goal_read, view.goal.success_criteria, view.goal.deadline_ms), (vec![], vec![], None));
    assert!(view.goal.constraints.contains_key("max_emails"), "what is not corrected stays");
    world.verb(Verb::Approve { reason: String::new() }).expect("the plan waits");
    assert!(world.verb(verb()).is_err(), "the plan runs");
    spend(&mut world, "a", 6.0);
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "CONSTRAINT_BROKEN"));
}

fn measure(world: &World, name: &str) -> (String, S, Option<f64>) {
    let views = constraints::constraint_views(&world.state, world.now_ms);
    let view = views.into_iter().find(|view| view.name == name).expect("the constraint exists");
    (view.measure, view.status, view.measured)
}

#[test]
fn what_the_run_spends_is_not_what_its_result_costs() {
    let budget = json!({"budget": "2000 USD", "max_spend": "5 USD"});
    let run = |outputs: Value| {
        let mut world =
            planner_made(two_steps(), budget.clone(), &["Total cost within budget", "Six speakers confirmed"]);
        spend(&mut world, "a", 0.5);
        let task = world.dispatch("b");
        let report = Report { outputs: Some(outputs.into()), cost: Some(0.25), ..report(&task, What::Completed) };
        world.report(report).expect("the report is current");
        world.restart();
        world
    };
    let unknown = run(json!({"text": "done"}));
    assert_eq!(measure(&unknown, "budget"), ("amount".into(), S::NotMeasured, None));
    assert_eq!(measure(&unknown, "max_spend"), ("spend".into(), S::Met, Some(0.75)));
    assert_eq!(verdicts(&unknown), [OPEN, OPEN]);
    let kept = run(json!({"total": 1_500.0, "currency": "USD"}));
    assert_eq!(measure(&kept, "budget"), ("amount".into(), S::Met, Some(1_500.0)));
    assert_eq!(verdicts(&kept), [MET, OPEN]);
    let broken = run(json!({"total": 2_500, "currency": "USD"}));
    assert_eq!(measure(&broken, "budget"), ("amount".into(), S::Broken, Some(2_500.0)));
    assert_eq!((broken.state.status(), verdicts(&broken)), (PlanStatus::Completed, vec![UNMET, OPEN]));
    let foreign = run(json!({"total": 2_500, "currency": "EUR"}));
    assert_eq!(measure(&foreign, "budget").1, S::NotMeasured, "another currency is another amount");
}

/// Outputs and inputs of two or three completed steps, the limit, and what is known of the amount.
#[test]
fn several_amounts_are_known_only_where_they_hold_either_way() {
    let usd = |name: &str, amount: f64| json!({name: amount, "currency": "USD"});
    let flights = || usd("total", 612.0);
    let part = || usd("total", 116.4);
    let none = || json!({});
    let sums = |path: &str| json!({"x": format!("{{{{ {path} }}}}")});
    let unknown = (S::NotMeasured, None);
    for (steps, limit, expected) in [
        // Neither contains the other: 728.40 together, 116.40 at least.
        (vec![(none(), flights()), (none(), part())], 500, unknown),
        (vec![(none(), flights()), (none(), part())], 100, (S::Broken, Some(728.4))),
        (vec![(none(), flights()), (none(), part())], 1_000, (S::Met, Some(728.4))),
        // A total that reads it contains it; a part that reads it does not, nor does a total below it.
        (vec![(none(), flights()), (sums("steps.s0.outputs.total"), usd("total", 700.0))], 800, (S::Low, Some(700.0))),
        (vec![(none(), flights()), (sums("steps.s0.outputs.total"), usd("price", 700.0))], 800, unknown),
        (vec![(none(), flights()), (sums("steps.s0.outputs.total"), part())], 500, unknown),
        (vec![(none(), flights()), (sums("steps.s0.outputs.best"), usd("total", 700.0))], 800, unknown),
        // By way of a step without an amount.
        (
            vec![
                (none(), flights()),
                (sums("steps.s0.outputs.total"), json!({"n": 612})),
                (sums("steps.s1.outputs.n"), usd("total", 650.0)),
            ],
            700,
            (S::Low, Some(650.0)),
        ),
        // One of several offers is taken in place of the first choice.
        (
            vec![(none(), flights()), (sums("steps.s0.outputs.offers[1].price"), usd("total", 380.0))],
            500,
            (S::Met, Some(380.0)),
        ),
        // Other currencies and money without one.
        (vec![(none(), part()), (none(), json!({"total": 300, "currency": "EUR"}))], 500, unknown),
        (vec![(none(), part()), (none(), json!({"price": 300}))], 500, unknown),
        (vec![(none(), part()), (none(), json!({"total": 300}))], 500, (S::Met, Some(116.4))),
    ] {
        let ids: Vec<String> = (0..steps.len()).map(|n| format!("s{n}")).collect();
        let mut made = Plan::default();
        for (id, (inputs, _)) in ids.iter().zip(&steps) {
            let mut step = step(id, &[]);
            step.inputs = inputs.clone().into();
            if inputs.to_string().contains("steps.s") {
                let before = if inputs.to_string().contains("steps.s1") { "s1" } else { "s0" };
                step.dependencies = vec![before.into()];
            }
            made.steps.push(step);
        }
        let mut world = planner_made(made, json!({"budget": format!("{limit} USD")}), &[]);
        for (id, (_, outputs)) in ids.iter().zip(&steps) {
            let mut outputs = outputs.clone();
            outputs["best"] = json!({"offer": 1});
            outputs["offers"] = json!([{"price": 612}, {"price": 380}]);
            world.complete(id, outputs);
        }
        let (_, status, measured) = measure(&world, "budget");
        let rounded = measured.map(|amount| (amount * 100.0).round() / 100.0);
        assert_eq!((status, rounded), expected, "{limit}: {steps:?}");
        world.restart();
    }
}

#[test]
fn a_constraint_names_the_expression_of_its_amount() {
    let limit =
        json!({"budget": {"value": "100 USD", "hard": true, "of": "steps.a.outputs.rooms + steps.b.outputs.meals"}});
    for (meals, status) in [(40, PlanStatus::Completed), (60, PlanStatus::Failed)] {
        let mut world = planner_made(two_steps(), limit.clone(), &[]);
        world.complete("a", json!({"rooms": 50}));
        world.complete("b", json!({"meals": meals}));
        assert_eq!(world.state.status(), status);
        assert_eq!(constraint(&world, "budget").1, Some(f64::from(50 + meals)));
    }
}

#[test]
fn criteria_that_a_text_implies_are_judged_or_listed() {
    let mut made = two_steps();
    made.metadata.insert("success_criteria".into(), json!(["flight", "≥ 5 activities", "total ≤ 2000 USD", "fun"]));
    let checks = json!([
        "steps.a.outputs.total > 0",
        "steps.a.outputs.activities | length >= 5",
        "steps.b.outputs.total <= 2000",
        null
    ]);
    made.metadata.insert("success_checks".into(), checks);
    let mut world = planner_made(made.clone(), json!({}), &[]);
    world.complete("a", json!({"total": 300, "activities": [1, 2]}));
    world.complete("b", json!({"text": "no number"}));
    assert_eq!((world.state.status(), verdicts(&world)), (PlanStatus::Completed, vec![MET, UNMET, OPEN, OPEN]));
    let ids: Vec<String> = criteria::verdicts(&world.state).into_iter().map(|verdict| verdict.criterion).collect();
    assert_eq!(ids, ["implied-1", "implied-2", "implied-3", "implied-4"]);
    world.restart();
    let own = planner_made(made, json!({}), &["It is short"]);
    assert_eq!(verdicts(&own), [OPEN], "the caller's criteria win");
}

#[test]
fn the_last_step_may_break_a_hard_constraint_too() {
    let mut world = world(goal(plan(&[("a", &[])]), json!({"budget": {"value": "100 USD", "hard": true}})));
    spend(&mut world, "a", 100.01);
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "CONSTRAINT_BROKEN"));
}

#[test]
fn a_broken_soft_constraint_is_recorded_and_the_plan_goes_on() {
    let mut world = world(goal(two_steps(), json!({"budget": "100 USD"})));
    spend(&mut world, "a", 85.0);
    assert_eq!(constraint(&world, "budget"), (S::Low, Some(85.0)));
    spend(&mut world, "b", 20.0);
    assert_eq!((world.state.status(), constraint(&world, "budget").0), (PlanStatus::Completed, S::Broken));
    let changes = world.story().iter().filter(|event| *event == "constraint_changed").count();
    assert_eq!(changes, 2);
    world.restart();
}

#[test]
fn currencies_are_added_up_by_themselves() {
    let mut world = world(goal(two_steps(), json!({"budget": {"value": "100 EUR", "priority": 9}})));
    spend(&mut world, "a", 500.0);
    assert_eq!(constraint(&world, "budget"), (S::NotMeasured, None), "dollars say nothing of euros");
    let task = world.dispatch("b");
    let euros = Report { currency: Some("eur".into()), ..with_cost(&task, 101.0) };
    world.report(euros).unwrap();
    assert_eq!(constraint(&world, "budget"), (S::Broken, Some(101.0)));
    assert_eq!(world.state.usage().cost, 500.0, "euros are no dollars");
}

#[test]
fn named_measures_and_tokens_are_added_up() {
    let limits = json!({"max_emails": {"value": 3, "priority": 8}, "tokens": {"max": 100}, "min_sources": 2});
    let mut world = world(goal(two_steps(), limits));
    let measured = |task: &Task, emails: f64| Report {
        measures: [("emails".to_owned(), emails), ("sources".to_owned(), 1.0)].into(),
        tokens: Some(60),
        ..with_cost(task, 0.0)
    };
    let task = world.dispatch("a");
    world.report(measured(&task, 3.0)).unwrap();
    assert_eq!((constraint(&world, "max_emails"), constraint(&world, "tokens").0), ((S::Low, Some(3.0)), S::Met));
    let task = world.dispatch("b");
    world.report(measured(&task, 0.0)).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!((constraint(&world, "tokens").0, constraint(&world, "min_sources")), (S::Broken, (S::Met, Some(2.0))));
}

#[test]
fn a_hard_floor_fails_a_plan_that_stays_below_it() {
    let mut world = world(goal(plan(&[("a", &[])]), json!({"min_sources": {"value": 2, "hard": true}})));
    spend(&mut world, "a", 0.0);
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "CONSTRAINT_BROKEN"));
}

#[test]
fn a_sub_plan_need_not_reach_a_floor_by_itself() {
    let mut submit = goal(plan(&[("a", &[])]), json!({"min_sources": {"value": 2, "hard": true}}));
    let plan = "p0-1".into();
    submit.parent = Some(goalmill_common::event::Parent { plan, step: "s".into(), attempt: 1, depth: 1, root: None });
    let mut world = world(submit);
    spend(&mut world, "a", 0.0);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_step_whose_estimate_would_break_a_hard_limit_is_not_started() {
    let costly = with(two_steps(), "b", |step| step.estimates.cost = Some(60.0));
    let mut world = world(goal(costly, json!({"budget": {"value": "100 USD", "hard": true}})));
    spend(&mut world, "a", 50.0);
    world.command(Command::Dispatch(world.index("b"))).unwrap();
    assert_eq!((world.tasks.len(), world.code("b").as_str()), (1, "CONSTRAINT_BROKEN"));
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

#[test]
fn estimates_of_steps_in_flight_are_reserved() {
    let mut costly = plan(&[("a", &[]), ("b", &[])]);
    costly.steps.iter_mut().for_each(|step| step.estimates.cost = Some(60.0));
    let mut world = world(goal(costly, json!({"budget": {"value": "100 USD", "hard": true}})));
    assert_eq!(world.dispatch_all(), 1, "both together would exceed the limit");
    let room = world.others.iter().filter(|effect| **effect == Effect::Room).count();
    let task = world.open_tasks().remove(0);
    world.report(with_cost(&task, 40.0)).unwrap();
    assert!(world.others.iter().filter(|effect| **effect == Effect::Room).count() > room, "its reservation is free");
    assert_eq!(world.dispatch_all(), 1, "40 and 60 fit");
    world.restart();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_hard_violation_asks_for_a_revision_and_relaxes_the_lowest_soft_constraint() {
    let limits = json!({
        "budget": {"value": "100 USD", "priority": 9}, "max_emails": {"value": 3, "priority": 4},
        "max_calls": {"value": 3, "priority": 2},
    });
    let mut world = world(goal(revisable(two_steps()), limits));
    spend(&mut world, "a", 101.0);
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert_eq!((constraint(&world, "max_calls").0, constraint(&world, "max_emails").0), (S::Relaxed, S::NotMeasured));
    let situation = replan_context(&world.state, &world.context.limits).expect("there is a plan");
    assert_eq!(
        (situation.relaxed.as_slice(), situation.trigger.as_str()),
        (&["max_calls".to_owned()][..], "constraint_violation")
    );
    assert!(!situation.goal.constraints.contains_key("max_calls"));
    let skip = goalmill_common::command::Change::SkipStep { step: "b".into(), reason: String::new() };
    propose(&mut world, RevisionStrategy::Adjust, vec![skip]).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Completed, "the violation was answered by a revision");
    world.restart();
}

#[test]
fn time_alone_breaks_a_constraint_on_time() {
    let limits = json!({"max_time": {"value": "10 seconds", "hard": true}});
    let mut world = world(goal(plan(&[("a", &[])]), limits));
    world.dispatch("a");
    world.due(Timer::Plan).unwrap();
    assert_eq!(constraint(&world, "max_time").0, S::Low);
    world.due(Timer::Plan).unwrap();
    assert_eq!((world.state.status(), world.plan_code().as_str()), (PlanStatus::Failed, "CONSTRAINT_BROKEN"));
}

#[test]
fn steps_that_would_end_after_the_deadline_do_not_start() {
    let long = with(two_steps(), "a", |step| step.estimates.seconds = Some(3_600.0));
    let deadline = goalmill_common::clock::rfc3339(crate::world::START_MS + 1_800_000);
    let mut world = world(goal(long, json!({"deadline": {"value": deadline, "priority": 10}})));
    world.command(Command::Dispatch(world.index("a"))).unwrap();
    assert_eq!((world.tasks.len(), world.code("a").as_str()), (0, "CONSTRAINT_BROKEN"));
}

#[test]
fn words_are_not_measured() {
    let mut world = world(goal(plan(&[("a", &[])]), json!({"quality": {"value": "at least good", "priority": 9}})));
    spend(&mut world, "a", 1.0);
    assert_eq!((world.state.status(), constraint(&world, "quality")), (PlanStatus::Completed, (S::NotMeasured, None)));
}

fn judged(plan: Plan, criteria: &[&str], policy: CriteriaPolicy) -> World {
    let mut submit = submission(Some(plan));
    submit.goal.success_criteria = criteria
        .iter()
        .map(|text| {
            let check = text.contains("steps.").then(|| (*text).to_owned());
            Criterion {
                description: if check.is_some() { String::new() } else { (*text).to_owned() },
                check,
                ..Criterion::default()
            }
        })
        .collect();
    submit.goal.criteria = policy;
    world(submit)
}

fn verdicts(world: &World) -> Vec<(Judgement, Option<JudgeKind>)> {
    criteria::verdicts(&world.state).into_iter().map(|verdict| (verdict.verdict, verdict.judge)).collect()
}

const MET: (Judgement, Option<JudgeKind>) = (Judgement::Met, Some(JudgeKind::Expression));
const UNMET: (Judgement, Option<JudgeKind>) = (Judgement::Unmet, Some(JudgeKind::Expression));
const OPEN: (Judgement, Option<JudgeKind>) = (Judgement::NotJudged, None);

#[test]
fn expressions_judge_and_words_stay_open() {
    let criteria = ["steps.a.outputs.n >= 3", "steps.b.outputs.n >= 3", "The moon is made of cheese"];
    let mut world = judged(two_steps(), &criteria, CriteriaPolicy::Report);
    world.complete("a", json!({"n": 3}));
    world.complete("b", json!({"n": 2}));
    assert_eq!((world.state.status(), verdicts(&world)), (PlanStatus::Completed, vec![MET, UNMET, OPEN]));
    assert_eq!(criteria::verdicts(&world.state)[1].evidence, "steps.b.outputs.n = 2");
    world.restart();
}

#[test]
fn an_expression_about_a_step_that_did_not_run_is_unmet() {
    let skipping = with(two_steps(), "b", |step| step.when = Some("steps.a.outputs.n > 5".into()));
    let mut world = judged(skipping, &["steps.b.outputs.n == 1", "steps.zz.outputs.n == 1"], CriteriaPolicy::Report);
    world.complete("a", json!({"n": 3}));
    assert_eq!((world.state.status(), verdicts(&world)), (PlanStatus::Completed, vec![UNMET, UNMET]));
}

#[test]
fn steps_judge_what_they_name() {
    let judging = with(two_steps(), "b", |step| step.judges = vec!["c1".into(), "c2".into(), "c3".into()]);
    let mut world = judged(judging, &["it is short", "it is true", "it is new"], CriteriaPolicy::Report);
    world.complete("a", json!({}));
    let outputs = json!({"verdicts": {"c1": {"verdict": "met", "evidence": "40 words"}, "c2": false}});
    world.complete("b", outputs);
    let by_step = |verdict| (verdict, Some(JudgeKind::Step));
    assert_eq!(verdicts(&world), [by_step(Judgement::Met), by_step(Judgement::Unmet), OPEN]);
    assert_eq!(
        (criteria::verdicts(&world.state)[0].evidence.as_str(), criteria::verdicts(&world.state)[0].by.as_str()),
        ("40 words", "b")
    );
}

#[test]
fn a_model_judges_what_nothing_else_does() {
    let mut submit = submission(Some(plan(&[("a", &[])])));
    submit.goal.success_criteria = vec!["it is short".into(), "it is true".into()];
    let mut world = World::new();
    world.context.judge_model = true;
    world.submit_as(submit).unwrap();
    world.complete("a", json!({}));
    assert_eq!(world.others.iter().filter(|effect| **effect == Effect::Judge).count(), 1);
    assert_eq!(world.state.status(), PlanStatus::Running);
    world.restart();
    assert!(world.others.iter().filter(|effect| **effect == Effect::Judge).count() > 1, "a new owner asks again");
    let verdict = |id: &str, verdict| CriterionVerdict {
        criterion: id.into(),
        description: String::new(),
        verdict,
        judge: None,
        by: "small".into(),
        evidence: "seen".into(),
    };
    let usage = Usage { cost: 0.5, tokens: 10 };
    let verdicts_of = vec![verdict("c1", Judgement::Met), verdict("forged", Judgement::Met)];
    let answer = CriteriaJudged { verdicts: verdicts_of, usage, ..CriteriaJudged::default() };
    world.command(Command::Judged(Box::new(answer))).unwrap();
    assert_eq!((world.state.status(), world.state.usage()), (PlanStatus::Completed, usage));
    assert_eq!(verdicts(&world), [(Judgement::Met, Some(JudgeKind::Model)), OPEN]);
}

#[test]
fn a_judges_model_call_is_in_the_log_and_its_answer_survives_a_takeover() {
    let mut submit = submission(Some(plan(&[("a", &[])])));
    submit.goal.success_criteria = vec!["it is short".into()];
    let mut world = World::new();
    world.context.judge_model = true;
    world.submit_as(submit).unwrap();
    let asked = |planner: &str| {
        let asked = ModelAsked { planner: planner.into(), call: 1, ..ModelAsked::default() };
        Command::ModelAsked(Box::new(asked))
    };
    assert!(world.command(asked("judge")).is_err(), "nobody waits for a judge yet");
    world.complete("a", json!({}));
    assert!(world.command(asked("llm")).is_err(), "nobody waits for a planner");
    world.command(asked("judge")).unwrap();
    let usage = Usage { cost: 0.5, tokens: 10 };
    let answer = Some(Json::empty_object());
    let answered = ModelAnswered { planner: "judge".into(), call: 1, usage, answer, ..ModelAnswered::default() };
    world.command(Command::ModelAnswered(Box::new(answered))).unwrap();
    world.restart();
    assert_eq!(budget::model_answers(&world.state).len(), 1, "the next owner does not pay again");
    world.command(Command::Judged(Box::default())).unwrap();
    assert_eq!((world.state.status(), world.state.usage()), (PlanStatus::Completed, usage));
    assert!(budget::model_answers(&world.state).is_empty());
}

#[test]
fn a_model_that_does_not_answer_leaves_criteria_open() {
    let mut submit = submission(Some(plan(&[("a", &[])])));
    submit.goal.success_criteria = vec!["it is short".into()];
    let mut world = World::new();
    world.context.judge_model = true;
    world.submit_as(submit).unwrap();
    world.complete("a", json!({}));
    world.due(Timer::Plan).unwrap();
    assert_eq!((world.state.status(), verdicts(&world)), (PlanStatus::Completed, vec![OPEN]));
}

#[test]
fn a_person_is_asked_for_each_doubtful_criterion() {
    let criteria = ["steps.a.outputs.n == 1", "it is nice", "steps.a.outputs.n == 2"];
    let mut world = judged(plan(&[("a", &[])]), &criteria, CriteriaPolicy::Ask);
    world.complete("a", json!({"n": 1}));
    let question = |world: &World| world.state.view(false).question.expect("a question is open").id;
    assert_eq!(question(&world), "c2");
    let answer = |world: &mut World, id: &str, answer: Value| {
        world.verb(Verb::AnswerQuestion { question: id.into(), answer: answer.into(), reason: "seen".into() })
    };
    assert!(answer(&mut world, "c2", json!("perhaps")).is_err());
    assert!(answer(&mut world, "c1", json!("met")).is_err(), "nobody asks about it");
    world.restart();
    answer(&mut world, "c2", json!({"verdict": "met", "evidence": "it smiles"})).unwrap();
    assert_eq!((world.state.status(), question(&world).as_str()), (PlanStatus::Running, "c3"));
    answer(&mut world, "c3", json!("unmet")).unwrap();
    let by_person = |verdict| (verdict, Some(JudgeKind::Person));
    assert_eq!(verdicts(&world), [MET, by_person(Judgement::Met), by_person(Judgement::Unmet)]);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn required_criteria_decide_how_the_plan_ends() {
    for (n, criteria, status) in [
        (1, vec!["steps.a.outputs.n == 1"], PlanStatus::Completed),
        (2, vec!["steps.a.outputs.n == 1"], PlanStatus::Failed),
        (2, vec!["steps.a.outputs.n == 1", "steps.a.outputs.n == 2"], PlanStatus::Partial),
        (2, vec!["words alone"], PlanStatus::Completed),
    ] {
        let mut world = judged(plan(&[("a", &[])]), &criteria, CriteriaPolicy::Require);
        world.complete("a", json!({"n": n}));
        assert_eq!(world.state.status(), status, "{n} {criteria:?}");
        world.restart();
    }
}

#[test]
fn an_unmet_required_criterion_asks_for_a_revision_once() {
    let criteria = ["steps.a.outputs.n == 2"];
    let mut world = judged(revisable(plan(&[("a", &[])])), &criteria, CriteriaPolicy::Require);
    world.complete("a", json!({"n": 1}));
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    let situation = replan_context(&world.state, &world.context.limits).expect("there is a plan");
    assert_eq!(situation.trigger, "criterion_unmet");
    let again = goalmill_common::plan::Step::new("again", "w");
    let add = goalmill_common::command::Change::AddStep { step: Box::new(again), before: Vec::new() };
    propose(&mut world, RevisionStrategy::Workaround, vec![add]).unwrap();
    assert_eq!(verdicts(&world), [OPEN], "a revision makes verdicts void");
    world.complete("again", json!({"n": 2}));
    assert_eq!((world.state.status(), verdicts(&world)), (PlanStatus::Failed, vec![UNMET]));
    world.restart();
}

#[test]
fn a_sequential_plan_with_limits_finishes() {
    let mut steps = plan(&[("a", &[]), ("b", &[]), ("c", &[])]);
    steps.strategy = Strategy::Sequential;
    steps.steps.iter_mut().for_each(|step| step.estimates.tokens = Some(40));
    let mut world = world(goal(steps, json!({"tokens": {"max": 120, "hard": true}})));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}
