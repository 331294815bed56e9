use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use goalmill_common::agent::{Action, Agent};
use goalmill_common::clock::Clock;
use goalmill_common::command::{Change, Planned, RevisionStrategy};
use goalmill_common::config::{Dialect, LlmSettings, ModelSettings, ModelTag};
use goalmill_common::event::{ModelAnswered, ModelAsked};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Goal, Usage};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::random::Random;
use goalmill_common::revision::{Situation, StepSituation, Trigger};
use goalmill_common::status::StepStatus;
use goalmill_engine::validate::Policy;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::model::scripted::{Script, Scripted, ScriptedCall, ScriptedServer};
use crate::planner::{Books, Checked, Ledger, ToolsPlanner, pipeline};

const GOAL: &str = "Fly to Rome and book a room there";

/// Servers, and the planners that ask them.
struct World {
    servers: Vec<ScriptedServer>,
    llm: LlmPlanner,
    tools: ToolsPlanner,
}

async fn world(settings: LlmSettings, scripts: Vec<Vec<Scripted>>) -> World {
    hurried_world(settings, Duration::MAX, scripts).await
}

async fn hurried_world(settings: LlmSettings, timeout: Duration, scripts: Vec<Vec<Scripted>>) -> World {
    let mut servers = Vec::new();
    let mut models = Vec::new();
    for (at, answers) in scripts.into_iter().enumerate() {
        let server = ScriptedServer::start(Script::of(answers)).await.expect("a port is free");
        let tag = if at == 0 { ModelTag::Cheap } else { ModelTag::Strong };
        let model = server.settings(&format!("m{at}"), Dialect::Openai);
        models.push(ModelSettings { retries: 0, tags: [tag].into(), ..model });
        servers.push(server);
    }
    let models = Models::from_settings(&models, Clock::system(), Random::seeded(1)).expect("the models are valid");
    let desk =
        Arc::new(Desk::from_settings(&settings, timeout, &Arc::new(models)).expect("the shipped prompts are valid"));
    let check: Validate = Arc::new(|plan, request| {
        let checked = pipeline::check(&plan, request, &[], &Policy::default())?;
        Ok(Checked { plan: checked.plan, warnings: checked.warnings, routes: Vec::new() })
    });
    World { servers, llm: LlmPlanner::new(desk.clone(), check.clone()), tools: ToolsPlanner::new(desk, check) }
}

fn says(value: &Value) -> Scripted {
    Scripted { json: Some(value.clone()), ..Scripted::default() }
}

fn agents() -> Vec<Agent> {
    let action = |name: &str, required: &[&str], gives: &[&str]| Action {
        name: name.into(),
        description: String::new(),
        inputs: Some(Json::of(&json!({
            "type": "object", "required": required, "additionalProperties": false,
            "properties": required.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>(),
        }))),
        outputs: Some(Json::of(&json!({
            "type": "object", "required": gives,
            "properties": gives.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>(),
        }))),
    };
    let agent = |name: &str, actions: Vec<Action>| Agent { actions, ..Agent::named(name.into()) };
    vec![
        agent("air", vec![action("find_flight", &["to"], &["day"])]),
        agent("rooms", vec![action("book_room", &["city", "day"], &["room"])]),
        agent("inns", vec![action("book_room", &["city", "day"], &["room"])]),
    ]
}

fn request() -> PlanRequest {
    let goal = Goal { description: GOAL.into(), ..Goal::default() };
    PlanRequest {
        goal,
        agents: agents(),
        limits: Limits::default(),
        now_ms: 1_750_000_000_000,
        revision: 0,
        ledger: Ledger::default(),
        weights: Default::default(),
    }
}

fn flight() -> Value {
    json!({"id": "flight", "description": "Find a flight", "agent_type": "air", "action": "find_flight",
           "inputs": {"to": "Rome"}, "dependencies": []})
}

fn room() -> Value {
    json!({"id": "room", "description": "Book a room", "agent_type": "rooms", "action": "book_room",
           "inputs": {"city": "Rome", "day": "{{ steps.flight.outputs.day }}"}, "dependencies": ["flight"]})
}

fn good() -> Value {
    json!({"steps": [flight(), room()]})
}

/// The room without its city and day.
fn bad_room() -> Value {
    json!({"id": "room", "description": "Book a room", "agent_type": "rooms", "action": "book_room", "inputs": {},
           "dependencies": ["flight"]})
}

fn ids(planned: &Planned) -> Vec<&str> {
    planned.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

fn account(planned: &Planned) -> Value {
    planned.provenance.as_ref().expect("a model's plan has an account").value()
}

fn prompt_of(world: &World, call: usize) -> String {
    world.servers[0].seen()[call].body.to_string()
}

#[tokio::test]
async fn a_plan_comes_with_its_whole_provenance() {
    let world = world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    let mut request = request();
    request.goal.constraints.insert("api_key".into(), "sk-abcdefghijkl123456".into());
    let planned = world.llm.plan(&request).await.expect("the answer is valid");
    assert_eq!(ids(&planned), ["flight", "room"]);
    assert_eq!(planned.plan.name, GOAL);
    let account = account(&planned);
    let round = &account["rounds"][0];
    assert_eq!(round["template"], json!({"id": "plan", "version": "2"}));
    assert_eq!((&round["model"], &round["verdict"]), (&json!("m0"), &json!("exact")));
    assert!(round["raw"].as_str().is_some_and(|raw| raw.contains("find_flight")) || round["raw_calls"].is_array());
    let prompt = round["prompt"].to_string();
    assert!(prompt.contains("find_flight") && prompt.contains(GOAL), "{prompt}");
    assert!(!prompt.contains("abcdefghijkl") && prompt.contains("[redacted]"), "{prompt}");
    assert!(account["usage"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0));
}

#[tokio::test]
async fn what_is_certain_is_mended_without_a_second_call_and_told() {
    let mut step = room();
    step["action"] = "Book Room".into();
    let answer = format!("Here is the plan:\n```json\n{}\n```", json!({"thought": "hm", "steps": [flight(), step]}));
    let world = world(LlmSettings::default(), vec![vec![Scripted { text: Some(answer), ..Scripted::default() }]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer can be mended");
    assert_eq!(world.servers[0].calls(), 1);
    let account = account(&planned);
    let codes: Vec<_> =
        account["rounds"][0]["mends"].as_array().into_iter().flatten().map(|edit| edit["code"].clone()).collect();
    assert_eq!(codes, ["REMARK_DROPPED", "ACTION_NORMAL_FORM"]);
    assert_eq!(account["rounds"][0]["repairs"][0]["kind"], "prose_dropped");
}

#[tokio::test]
async fn a_critique_holds_the_issues_and_the_wrong_steps_only() {
    let fix = json!({"steps": [room()]});
    let first = json!({"steps": [flight(), bad_room()]});
    let world = world(LlmSettings::default(), vec![vec![says(&first), says(&fix)]]).await;
    let planned = world.llm.plan(&request()).await.expect("the correction is valid");
    assert_eq!(ids(&planned), ["flight", "room"]);
    let critique = prompt_of(&world, 1);
    assert!(critique.contains("step `room`") && critique.contains("city"), "{critique}");
    assert!(!critique.contains("Find a flight") && critique.contains("flight: air, find_flight"), "{critique}");
    let account = account(&planned);
    assert_eq!(account["rounds"][0]["issues"][0]["code"], "INPUT_MISSING");
    assert_eq!(account["rounds"][1]["template"]["id"], "critique");
}

/// The rounds of an account: template, stage, and the model that answered.
fn rounds(account: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rounds = account["rounds"].as_array().into_iter().flatten();
    rounds.map(|round| [text(&round["template"]["id"]), text(&round["stage"]), text(&round["model"])]).collect()
}

#[tokio::test]
async fn a_cheap_model_writes_and_a_strong_one_corrects() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let answers = vec![says(&json!({"steps": [bad_room()]})), says(&json!({"steps": [room()]}))];
    let world = world(LlmSettings::default(), vec![vec![first], answers]).await;
    let planned = world.llm.plan(&request()).await.expect("the strong model corrects the plan");
    assert_eq!(ids(&planned), ["flight", "room"]);
    let repair = ["critique", "strong", "m1"];
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], repair, repair]);
    let critique = world.servers[1].seen()[0].body.to_string();
    assert!(critique.contains("step `room`") && !critique.contains("Find a flight"), "{critique}");
}

#[tokio::test]
async fn a_streamed_draft_is_corrected_by_a_strong_model_as_well() {
    let first = Scripted { chunk: Some(16), ..says(&json!({"steps": [flight(), bad_room()]})) };
    let world = world(LlmSettings::default(), vec![vec![first], vec![says(&json!({"steps": [room()]}))]]).await;
    let (sender, _parts) = mpsc::channel(100);
    let planned = world.llm.stream(&request(), sender).await.expect("the strong model corrects the plan");
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], ["critique", "strong", "m1"]]);
}

#[tokio::test]
async fn after_two_corrections_that_are_no_better_the_strong_model_writes_anew() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let same = says(&json!({"steps": [bad_room()]}));
    let world = world(LlmSettings::default(), vec![vec![first], vec![same.clone(), same, says(&good())]]).await;
    let planned = world.llm.plan(&request()).await.expect("the strong model plans well");
    let repair = ["critique", "strong", "m1"];
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], repair, repair, ["plan", "strong", "m1"]]);
}

#[tokio::test]
async fn without_a_strong_model_that_answers_the_others_correct() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let fix = says(&json!({"steps": [room()]}));
    let down = Scripted { times: Some(9), status: Some(500), error: Some("down".into()), ..Scripted::default() };
    let world = world(LlmSettings::default(), vec![vec![first, fix], vec![down]]).await;
    let planned = world.llm.plan(&request()).await.expect("the author corrects its own plan");
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], ["critique", "strong", "m0"]]);
    assert_eq!((world.servers[0].calls(), world.servers[1].calls()), (2, 1));
}

#[tokio::test]
async fn without_a_valid_plan_the_issues_of_the_best_answer_are_given() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let same = says(&json!({"steps": [bad_room()]}));
    let world = world(LlmSettings::default(), vec![vec![first, same.clone(), same]]).await;
    let error = world.llm.plan(&request()).await.expect_err("no answer is valid");
    assert!(error.issues.iter().all(|issue| issue.code == "INPUT_MISSING") && !error.issues.is_empty(), "{error:?}");
    assert!(error.reason.contains("no model can be asked"), "{error}");
}

#[tokio::test]
async fn a_cut_answer_is_never_a_plan() {
    let cut = Scripted { truncate: Some(good().to_string().len() - 2), ..says(&good()) };
    let closed = Scripted { finish: Some("length".into()), ..says(&good()) };
    let world = world(LlmSettings::default(), vec![vec![cut, closed]]).await;
    let error = world.llm.plan(&request()).await.expect_err("both answers are cut");
    assert!(error.reason.contains("cut"), "{error}");
    assert_eq!(world.servers[0].calls(), 2);
}

#[tokio::test]
async fn nothing_is_asked_that_the_budget_does_not_allow() {
    let world = world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    let mut request = request();
    request.goal.budget = Budget { tokens: Some(1_000), ..Budget::default() };
    let error = world.llm.plan(&request).await.expect_err("one answer alone may take more");
    assert!(error.reason.contains("budget"), "{error}");
    assert_eq!(world.servers[0].calls(), 0);
}

#[tokio::test]
async fn of_several_first_answers_the_one_with_the_fewest_issues_is_taken() {
    let settings = LlmSettings { candidates: 3, ..LlmSettings::default() };
    let bad = says(&json!({"steps": [flight(), bad_room()]}));
    let world = world(settings, vec![vec![bad.clone(), says(&good()), bad]]).await;
    let planned = world.llm.plan(&request()).await.expect("one of three is valid");
    assert_eq!((ids(&planned), world.servers[0].calls()), (vec!["flight", "room"], 3));
}

fn reviewing() -> LlmSettings {
    LlmSettings { review: true, ..LlmSettings::default() }
}

fn finds(step: &str, severity: &str) -> Scripted {
    says(&json!({"findings": [{"step": step, "severity": severity, "reason": "rooms are closed in May"}]}))
}

fn inn() -> Value {
    let mut inn = room();
    inn["agent_type"] = "inns".into();
    inn["description"] = "Book an inn".into();
    inn
}

fn told(planned: &Planned) -> Vec<(&str, &str)> {
    planned.warnings.iter().map(|issue| (issue.code.as_str(), issue.pointer.as_str())).collect()
}

#[tokio::test]
async fn what_a_review_calls_an_error_is_corrected_once() {
    let strong = vec![finds("room", "error"), says(&json!({"steps": [inn()]})), finds("room", "error")];
    let world = world(reviewing(), vec![vec![says(&good())], strong]).await;
    let planned = world.llm.plan(&request()).await.expect("the correction is valid");
    assert_eq!(planned.plan.steps[1].agent_type.as_str(), "inns");
    let account = account(&planned);
    let expected = [["plan", "cheap", "m0"], ["review", "strong", "m1"], ["critique", "strong", "m1"]];
    assert_eq!(rounds(&account), expected);
    assert_eq!(account["rounds"][1]["issues"][0]["code"], "REVIEW_ERROR");
    let seen = world.servers[1].seen();
    assert!(seen[0].body.to_string().contains("Find a flight"), "the whole plan is shown");
    assert!(seen[1].body.to_string().contains("rooms are closed in May"));
    assert_eq!((told(&planned), planned.confidence), (vec![], CONFIDENCE_AFTER_CRITIQUE));
}

#[tokio::test]
async fn what_a_review_finds_doubtful_is_told() {
    let world = world(reviewing(), vec![vec![says(&good())], vec![finds("room", "warning")]]).await;
    let World { servers, llm, .. } = world;
    let check: Validate = Arc::new(|plan, _: &PlanRequest| Ok(Checked { plan, warnings: vec![], routes: vec![] }));
    let pipeline = pipeline::Pipeline::new(vec![Arc::new(llm)], Duration::from_mins(1), check);
    let planned = pipeline.plan(&request()).await.expect("the plan is valid");
    assert_eq!((told(&planned), servers[1].calls()), (vec![("REVIEW_WARNING", "/steps/1")], 1));
    assert_eq!(planned.confidence, CONFIDENCE_AT_ONCE, "nothing was changed");
    let shown = goalmill_common::view::Preview::of(planned, 0.0, Default::default(), 0.0);
    assert_eq!((shown.valid, shown.warnings.len()), (true, 1), "a dry run shows it");
}

#[tokio::test]
async fn a_review_never_refuses_a_plan() {
    let same = says(&json!({"steps": [bad_room()]}));
    let down = || Scripted { times: Some(9), status: Some(500), error: Some("down".into()), ..Scripted::default() };
    let no_better = vec![finds("room", "error"), same.clone(), same];
    let unknown = finds("nobody", "error");
    for (cheap, strong, expected) in [
        (vec![], no_better, vec![("REVIEW_ERROR", "/steps/1")]),
        (vec![], vec![unknown, down()], vec![("REVIEW_ERROR", "")]),
        (vec![down()], vec![Scripted::text("It looks fine to me.")], vec![]),
        (vec![down()], vec![down()], vec![]),
    ] {
        let cheap = std::iter::once(says(&good())).chain(cheap).collect();
        let world = world(reviewing(), vec![cheap, strong]).await;
        let planned = world.llm.plan(&request()).await.expect("the plan stays");
        assert_eq!((ids(&planned), told(&planned)), (vec!["flight", "room"], expected));
    }
}

#[tokio::test]
async fn a_review_that_hangs_leaves_the_plan_its_time() {
    let hangs = Scripted { times: Some(9), hang: true, ..Scripted::default() };
    let world = hurried_world(reviewing(), Duration::from_secs(2), vec![vec![says(&good()), hangs]]).await;
    let planned = tokio::time::timeout(Duration::from_secs(2), world.llm.plan(&request())).await;
    let planned = planned.expect("there is time left").expect("the plan stays");
    assert_eq!((ids(&planned), rounds(&account(&planned)).len()), (vec!["flight", "room"], 2));
}

#[tokio::test]
async fn of_several_plans_that_hold_the_one_with_the_fewest_errors_is_taken() {
    let settings = LlmSettings { candidates: 2, ..reviewing() };
    let when = |word: &str, answer: Scripted| Scripted { when: vec![word.into()], times: Some(1), ..answer };
    let strong = vec![when("Book a room", finds("room", "error")), when("Book an inn", says(&json!({"findings": []})))];
    let drafts = vec![says(&good()), says(&json!({"steps": [flight(), inn()]}))];
    let world = world(settings, vec![drafts, strong]).await;
    let planned = world.llm.plan(&request()).await.expect("both are valid");
    assert_eq!(planned.plan.steps[1].agent_type.as_str(), "inns");
    assert_eq!((told(&planned), world.servers[1].calls()), (vec![], 2));
}

#[tokio::test]
async fn a_plan_that_tools_built_is_reviewed_as_well() {
    let turns = vec![calls(&[("add_step", flight()), ("add_step", room())]), calls(&[("finalize_plan", json!({}))])];
    let strong = vec![finds("room", "error"), says(&json!({"steps": [inn()]}))];
    let world = world(reviewing(), vec![turns, strong]).await;
    let planned = world.tools.plan(&request()).await.expect("the correction is valid");
    assert_eq!((planned.plan.steps[1].agent_type.as_str(), told(&planned)), ("inns", vec![]));
}

#[tokio::test]
async fn steps_are_handed_over_before_the_rest_is_written() {
    let mut steps = vec![flight()];
    for n in 0..19 {
        let mut step = room();
        step["id"] = format!("room{n}").into();
        steps.push(step);
    }
    let text = json!({ "steps": steps }).to_string();
    let quarter = text.len() / 4;
    let chunk = 64;
    // The connection is cut a quarter into the plan: what came before it has been handed over.
    let cut = Scripted { chunk: Some(chunk), cut_after: Some(quarter / chunk), ..says(&json!({ "steps": steps })) };
    let world = world(LlmSettings::default(), vec![vec![cut]]).await;
    let (sender, mut parts) = mpsc::channel(100);
    let error = world.llm.stream(&request(), sender).await.expect_err("the rest never came");
    assert!(error.reason.contains("the rest of the plan did not come"), "{error}");
    let mut got = Vec::new();
    while let Ok(part) = parts.try_recv() {
        got.push(part);
    }
    assert!(matches!(&got[0], Part::Head(head) if head.name == GOAL && head.steps.is_empty()), "{got:?}");
    assert!(matches!(&got[1], Part::Step(step) if step.id.as_str() == "flight"), "{got:?}");
}

/// A streamed answer of twenty steps, the first of which has to be mended.
fn to_mend() -> (Scripted, String) {
    let mut first = flight();
    first["action"] = "Find Flight".into();
    first["thought"] = "hm".into();
    let rooms = (0..19).map(|n| {
        let mut step = room();
        step["id"] = format!("room{n}").into();
        step
    });
    let steps: Vec<Value> = std::iter::once(first).chain(rooms).collect();
    let plan = json!({ "steps": steps });
    (Scripted { chunk: Some(64), ..says(&plan) }, plan.to_string())
}

fn mends(entry: &Value) -> Vec<&str> {
    entry["mends"].as_array().into_iter().flatten().filter_map(|edit| edit["code"].as_str()).collect()
}

#[tokio::test]
async fn what_was_mended_in_steps_that_run_is_told_though_the_stream_breaks() {
    let (script, text) = to_mend();
    let cut = Scripted { cut_after: Some(text.len() / 2 / 64), ..script };
    let world = world(LlmSettings::default(), vec![vec![cut]]).await;
    let (request, (sender, _parts)) = (request(), mpsc::channel(100));
    world.llm.stream(&request, sender).await.expect_err("the rest never came");
    let told = request.ledger.told().expect("something was asked");
    assert_eq!(mends(&told["rounds"][0]), ["REMARK_DROPPED", "ACTION_NORMAL_FORM"], "{told:#}");
}

#[tokio::test]
async fn what_was_mended_in_steps_that_run_is_told_though_nobody_waits_for_the_rest() {
    let (script, text) = to_mend();
    let hangs = Scripted { hang_after: Some(text.len() / 2 / 64), ..script };
    let world = world(LlmSettings::default(), vec![vec![hangs]]).await;
    let (request, (sender, mut parts)) = (request(), mpsc::channel(100));
    let two_steps =
        async { while !matches!(parts.recv().await, Some(Part::Step(step)) if step.id.as_str() == "room0") {} };
    tokio::select! {
        ended = world.llm.stream(&request, sender) => panic!("the model is silent: {ended:?}"),
        () = two_steps => {}
    }
    let told = request.ledger.told().expect("something was asked");
    let begun = &told["rounds"][0];
    assert_eq!((&begun["begun"][0], mends(begun)), (&json!("flight"), vec!["REMARK_DROPPED", "ACTION_NORMAL_FORM"]));
}

#[tokio::test]
async fn a_streamed_plan_is_the_plan_that_was_handed_over_and_its_bad_end_is_criticised() {
    let first = Scripted { chunk: Some(16), ..says(&json!({"steps": [flight(), bad_room()]})) };
    let world = world(LlmSettings::default(), vec![vec![first, says(&json!({"steps": [room()]}))]]).await;
    let (sender, mut parts) = mpsc::channel(100);
    let planned = world.llm.stream(&request(), sender).await.expect("the correction is valid");
    let mut steps = Vec::new();
    while let Ok(part) = parts.try_recv() {
        if let Part::Step(step) = part {
            steps.push(*step);
        }
    }
    assert_eq!(steps, planned.plan.steps[..1]);
    assert_eq!(ids(&planned), ["flight", "room"]);
}

#[tokio::test]
async fn an_iterative_plan_ends_in_a_checkpoint() {
    let settings = LlmSettings { strategy: PlanningStrategy::Iterative, ..LlmSettings::default() };
    let world = world(settings, vec![vec![says(&json!({"steps": [flight()]}))]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer is valid");
    assert!(planned.plan.phases[0].checkpoint);
    assert_eq!(planned.plan.steps[0].phase.as_deref(), Some("part_1"));
    assert!(prompt_of(&world, 0).contains("You are asked again with their results"));
}

#[tokio::test]
async fn a_hierarchical_plan_may_leave_parts_to_be_planned() {
    let settings = LlmSettings { strategy: PlanningStrategy::Hierarchical, ..LlmSettings::default() };
    let part = json!({"id": "stay", "kind": "plan", "description": "Find and book a room in Rome", "dependencies": ["flight"]});
    let world = world(settings, vec![vec![says(&json!({"steps": [flight(), part]}))]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer is valid");
    assert_eq!(planned.plan.steps[1].kind, goalmill_common::plan::Kind::Plan);
    assert!(prompt_of(&world, 0).contains("It is planned when it is reached"));
    assert!(prompt_of(&world, 0).contains("3 more levels of plans at most"));
}

#[tokio::test]
async fn a_plan_as_deep_as_it_may_be_is_told_so_and_has_its_parts_mended() {
    let settings = LlmSettings { strategy: PlanningStrategy::Hierarchical, ..LlmSettings::default() };
    let part = json!({"id": "room", "kind": "plan", "description": "Find and book a room in Rome", "dependencies": ["flight"]});
    let answers = vec![says(&json!({"steps": [flight(), part]})), says(&json!({"steps": [room()]}))];
    let world = world(settings, vec![answers]).await;
    let deep = PlanRequest { limits: Limits::default().inside(3), ..request() };
    let planned = world.llm.plan(&deep).await.expect("the correction is valid");
    assert_eq!(ids(&planned), ["flight", "room"]);
    assert!(planned.plan.steps.iter().all(|step| step.kind == goalmill_common::plan::Kind::Tool));
    assert!(prompt_of(&world, 0).contains("nested as deep as plans may be"));
    assert!(prompt_of(&world, 1).contains("write its steps in place of it, each with an agent"));
}

#[tokio::test]
async fn a_remembered_plan_is_an_example_for_a_goal_like_it() {
    let settings = LlmSettings { memory_plans: 10, ..LlmSettings::default() };
    let world = world(settings, vec![vec![says(&good()), says(&good())]]).await;
    for _ in 0..2 {
        world.llm.plan(&request()).await.expect("the answer is valid");
    }
    assert!(!prompt_of(&world, 0).contains("An earlier goal"));
    assert!(prompt_of(&world, 1).contains("An earlier goal"));
}

/// Keeps what is written down.
#[derive(Default)]
struct Notes {
    asked: Mutex<Vec<ModelAsked>>,
    answered: Mutex<Vec<ModelAnswered>>,
}

#[async_trait]
impl Books for Notes {
    async fn asked(&self, call: ModelAsked) -> bool {
        self.asked.lock().expect("nobody panics with it").push(call);
        true
    }

    async fn answered(&self, call: ModelAnswered) {
        self.answered.lock().expect("nobody panics with it").push(call);
    }
}

impl Notes {
    fn kept(&self) -> Vec<ModelAnswered> {
        self.answered.lock().expect("nobody panics with it").clone()
    }

    fn tokens(&self) -> u64 {
        self.kept().iter().map(|answered| answered.usage.tokens).sum()
    }
}

#[tokio::test]
async fn calls_are_written_down_and_answers_that_were_are_not_asked_for_again() {
    let bad =
        json!({"steps": [flight(), {"id": "room", "agent_type": "nobody", "description": "x", "dependencies": []}]});
    let script = || vec![vec![says(&bad), says(&json!({"steps": [room()]}))]];
    let notes = Arc::new(Notes::default());
    let ledger = Ledger::new(0, notes.clone(), &[]);
    let first = world(LlmSettings::default(), script()).await;
    let planned = first.llm.plan(&PlanRequest { ledger, ..request() }).await.expect("the second answer is valid");
    let asked = notes.asked.lock().expect("nobody panics with it").clone();
    let templates: Vec<_> = asked.iter().map(|call| (call.call, call.template.as_str())).collect();
    assert_eq!(templates, [(1, "plan"), (2, "critique")]);
    assert!(asked.iter().all(|call| call.reserved.tokens > 4_096), "{asked:?}");
    let spent = planned.provenance.expect("there is one").value()["usage"]["tokens"].as_u64();
    assert_eq!(Some(notes.tokens()), spent);

    // The scheduler ended after the first answer: the other one makes the second call alone, and pays for it alone.
    let again = Arc::new(Notes::default());
    let ledger = Ledger::new(0, again.clone(), &notes.kept()[..1]);
    let second = world(LlmSettings::default(), vec![vec![says(&json!({"steps": [room()]}))]]).await;
    let same = second.llm.plan(&PlanRequest { ledger, ..request() }).await.expect("the answers are the same");
    assert_eq!(same.plan, planned.plan);
    assert_eq!(second.servers[0].calls(), 1);
    assert_eq!(again.kept().iter().map(|answered| answered.call).collect::<Vec<_>>(), [2]);
    assert_eq!(same.provenance.expect("there is one").value()["usage"]["tokens"].as_u64(), spent);
}

#[tokio::test]
async fn what_a_planner_spent_in_vain_is_written_down_and_told() {
    let settings = LlmSettings { stalled_max: 1, ..LlmSettings::default() };
    let script = vec![vec![Scripted::text("I would rather not"), Scripted::text("No."), Scripted::text("No.")]];
    let World { servers, llm, .. } = world(settings, script).await;
    let notes = Arc::new(Notes::default());
    let ledger = Ledger::new(0, notes.clone(), &[]);
    let check: Validate = Arc::new(|plan, _: &PlanRequest| Ok(Checked { plan, warnings: vec![], routes: vec![] }));
    let limit = std::time::Duration::from_mins(1);
    let pipeline = pipeline::Pipeline::new(vec![Arc::new(llm)], limit, check);
    let error = pipeline.plan(&PlanRequest { ledger, ..request() }).await.expect_err("the model writes no plan");
    let told = error.provenance.expect("there is one").value();
    let tried = &told["tried"][0];
    assert_eq!(tried["planner"], "llm", "{told:#}");
    assert!(tried["rounds"][0]["raw"] == "I would rather not" && tried["rounds"][0]["prompt"].is_null(), "{told:#}");
    assert_eq!(tried["usage"]["tokens"].as_u64(), Some(notes.tokens()), "{told:#}");
    assert!(notes.tokens() > 0 && servers[0].calls() > 0);
}

fn revise_request() -> ReviseRequest {
    let step = |value: Value| serde_json::from_value::<Step>(value).expect("it is a step");
    let at = |status: StepStatus, failure: Option<Failure>| StepSituation {
        status,
        attempt: 1,
        outputs: (status == StepStatus::Completed).then(|| Json::of(&json!({"day": "2026-05-01"}))),
        failure,
        adjustments: None,
    };
    let failure = Failure::new(FailureClass::Permanent, "FULLY_BOOKED", "no room left");
    let situation = Situation {
        plan_id: "s0-p".into(),
        revision: 1,
        goal: request().goal,
        plan: Plan { steps: vec![step(flight()), step(room())], ..Plan::default() },
        steps: BTreeMap::from([
            ("flight".into(), at(StepStatus::Completed, None)),
            ("room".into(), at(StepStatus::Failed, Some(failure))),
        ]),
        trigger: "step_failure".into(),
        step: Some("room".into()),
        reason: "no room left".into(),
        hint: String::new(),
        information: None,
        confidence: 0.7,
        confidence_floor: 0.3,
        revisions: Vec::new(),
        revisions_left: 3,
        usage: Usage::default(),
        left: Budget::default(),
        deadline_ms: u64::MAX,
        refused: Vec::new(),
        answers: Vec::new(),
    };
    ReviseRequest {
        situation,
        agents: agents(),
        limits: Limits::default(),
        now_ms: 1_750_000_000_000,
        ledger: Ledger::default(),
    }
}

#[tokio::test]
async fn a_revision_asks_a_strong_model_first() {
    let skip = json!({"strategy": "skip_and_continue", "summary": "no room",
                      "changes": [{"skip_step": {"step": "room", "reason": "fully booked"}}]});
    let turns = vec![
        says(&skip),
        calls(&[("skip_step", json!({"step": "room", "reason": "fully booked"}))]),
        calls(&[("finalize_plan", json!({"strategy": "skip_and_continue", "summary": "no room"}))]),
    ];
    let world = world(LlmSettings::default(), vec![vec![], turns]).await;
    for proposal in [world.llm.revise(&revise_request()).await, world.tools.revise(&revise_request()).await] {
        assert_eq!(proposal.expect("the strong model has one").strategy, RevisionStrategy::SkipAndContinue);
    }
    assert_eq!((world.servers[0].calls(), world.servers[1].calls()), (0, 3));
}

#[tokio::test]
async fn a_revision_is_read_checked_and_paid_for() {
    let mut inn = room();
    inn["id"] = "inn".into();
    inn["agent_type"] = "inns".into();
    let forbidden = json!({"strategy": "workaround", "summary": "another flight",
                           "changes": [{"retry_step": {"step": "flight"}}]});
    let proposal = json!({"strategy": "workaround", "summary": "an inn instead",
                          "changes": [{"type": "replace_step", "step": "room", "with": [inn]}]});
    let world = world(LlmSettings::default(), vec![vec![says(&forbidden), says(&proposal)]]).await;
    let proposal = world.llm.revise(&revise_request()).await.expect("the second answer is valid");
    assert_eq!((proposal.strategy, proposal.planner.as_str()), (RevisionStrategy::Workaround, "llm"));
    let [Change::ReplaceStep { step, with }] = proposal.changes.as_slice() else { panic!("{proposal:?}") };
    assert_eq!((step.as_str(), with[0].agent_type.as_str()), ("room", "inns"));
    assert!(proposal.usage.tokens > 0 && proposal.provenance.is_some());
    assert!(prompt_of(&world, 0).contains("FULLY_BOOKED") && prompt_of(&world, 0).contains("2026-05-01"));
    assert!(prompt_of(&world, 1).contains("is completed and stays as it is"));
}

fn calls(calls: &[(&str, Value)]) -> Scripted {
    let call = |(name, arguments): &(&str, Value)| ScriptedCall { name: (*name).into(), arguments: arguments.clone() };
    Scripted { tool_calls: calls.iter().map(call).collect(), ..Scripted::default() }
}

#[tokio::test]
async fn tools_build_a_plan_and_each_call_is_checked_at_once() {
    let turns = vec![
        calls(&[("create_plan", json!({"name": "trip"})), ("add_step", flight()), ("add_step", bad_room())]),
        calls(&[("finalize_plan", json!({}))]),
        calls(&[("modify_step", json!({"id": "room", "inputs": room()["inputs"]})), ("finalize_plan", json!({}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan");
    assert_eq!((ids(&planned), planned.planner.as_str()), (vec!["flight", "room"], "tools"));
    let account = account(&planned);
    let calls: Vec<(String, bool)> = account["rounds"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry.get("call")?.as_str()?.to_owned(), entry["ok"] == json!(true))))
        .collect();
    let expected = [
        ("create_plan", true),
        ("add_step", true),
        ("add_step", false),
        ("finalize_plan", false),
        ("modify_step", true),
        ("finalize_plan", true),
    ];
    assert_eq!(calls, expected.map(|(name, ok)| (name.to_owned(), ok)));
    assert!(prompt_of(&world, 1).contains("INPUT") || prompt_of(&world, 1).contains("city"));
}

/// The time of a planner whose first model takes half of it.
const HURRY: Duration = Duration::from_secs(4);

async fn world_with_one_that_hangs(settings: LlmSettings, answers: Vec<Scripted>) -> World {
    let hangs = Scripted { times: Some(99), hang: true, ..Scripted::default() };
    hurried_world(settings, HURRY, vec![vec![hangs], answers]).await
}

async fn in_time(world: &World, planning: impl Future<Output = Result<Planned, PlanningError>>) {
    let planned = tokio::time::timeout(HURRY, planning).await.expect("the other model is asked in time");
    assert_eq!(ids(&planned.expect("the other model's plan is valid")), ["flight", "room"]);
    let standings = world.llm.desk.models.standings();
    assert!(standings[0].rates.success < 1.0 && standings[1].rates.success == 1.0, "{standings:?}");
}

#[tokio::test]
async fn a_model_that_hangs_leaves_time_for_the_next_one() {
    let steps = [("add_step", flight()), ("add_step", room())];
    let turns = vec![calls(&steps[..1]), calls(&steps[1..]), calls(&[("finalize_plan", json!({}))])];
    let twice = LlmSettings { candidates: 2, ..LlmSettings::default() };
    let once = LlmSettings::default;
    let ((whole, streamed), (several, tools)) = tokio::join!(
        futures_util::future::join(
            world_with_one_that_hangs(once(), vec![says(&good())]),
            world_with_one_that_hangs(once(), vec![says(&good())]),
        ),
        futures_util::future::join(
            world_with_one_that_hangs(twice, vec![says(&good()), says(&good())]),
            world_with_one_that_hangs(once(), turns),
        ),
    );
    let (request, (parts, _taken)) = (request(), mpsc::channel(100));
    tokio::join!(
        in_time(&whole, whole.llm.plan(&request)),
        in_time(&streamed, streamed.llm.stream(&request, parts)),
        in_time(&several, several.llm.plan(&request)),
        in_time(&tools, tools.tools.plan(&request)),
    );
    let asked = [&whole, &streamed, &several, &tools].map(|world| world.servers[0].calls());
    assert_eq!(asked, [1, 1, 2, 1], "it is not asked again for the same plan");
}

#[tokio::test]
async fn calls_beyond_those_of_one_turn_are_answered_and_not_run() {
    let status = ("get_plan_status", json!({}));
    let mut many = vec![status; 51];
    many[0] = ("add_step", flight());
    many[50] = ("remove_step", json!({"id": "flight"}));
    let world = world(LlmSettings::default(), vec![vec![calls(&many), calls(&[("finalize_plan", json!({}))])]]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan");
    assert_eq!(ids(&planned), ["flight"], "the last call was not run");
    let account = account(&planned);
    let rounds = account["rounds"].as_array().expect("there are some");
    assert_eq!(rounds.iter().filter(|entry| entry.get("call").is_some()).count(), 50 + 1);
    assert!(rounds.contains(&json!({"calls_not_run": 1})), "{account:#}");
    assert!(prompt_of(&world, 1).contains("one turn may have 50 calls"));
}

#[tokio::test]
async fn what_is_mended_in_a_revision_by_tools_is_told() {
    let turns = vec![
        calls(&[("retry_step", json!({"step": "room", "agent_type": "inns"}))]),
        calls(&[(
            "add_step",
            json!({"id": "back", "description": "Fly back", "agent_type": "air", "action": "Find Flight",
                                    "inputs": {"to": "Oslo"}, "dependencies": []}),
        )]),
        calls(&[("finalize_plan", json!({"strategy": "workaround", "summary": "an inn"}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let proposal = world.tools.revise(&revise_request()).await.expect("the calls give a proposal");
    let account = proposal.provenance.expect("there is one").value();
    assert!(mends(&account).contains(&"ACTION_NORMAL_FORM"), "{account:#}");
}

#[tokio::test]
async fn tools_plan_by_the_strategy_and_go_on_until_nothing_is_missing() {
    let strategy = |strategy| LlmSettings { strategy, ..LlmSettings::default() };
    let end = || ("finalize_plan", json!({"strategy": "replan_remaining", "summary": "all is done"}));
    let part =
        [("add_phase", json!({"id": "part_2"})), ("retry_step", json!({"step": "room", "agent_type": "inns"})), end()];
    let turns = vec![calls(&[("add_step", flight()), end()]), calls(&part), calls(&[end()])];
    let world = world(strategy(PlanningStrategy::Iterative), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan");
    assert!(planned.plan.is_iterative() && planned.plan.phases[0].checkpoint, "{:?}", planned.plan);
    assert!(prompt_of(&world, 0).contains("You are asked again with their results"));
    let mut checkpoint = revise_request();
    checkpoint.situation.trigger = Trigger::PhaseCheckpoint.as_str().into();
    checkpoint.situation.plan.metadata.insert("planning".into(), "iterative".into());
    let next = world.tools.revise(&checkpoint).await.expect("the calls give a part");
    let is_kept_up = |change: &Change| matches!(change, Change::AddPhase { phase, .. } if phase.checkpoint);
    assert!(next.changes.iter().any(is_kept_up), "{next:?}");
    assert!(prompt_of(&world, 1).contains("This plan is written part by part"));
    let whole = world.tools.revise(&checkpoint).await.expect("no changes mean that it is whole");
    assert_eq!((whole.changes.len(), whole.summary.as_str()), (0, "all is done"));

    let hierarchical =
        self::world(strategy(PlanningStrategy::Hierarchical), vec![vec![calls(&[("add_step", flight()), end()])]])
            .await;
    hierarchical.tools.plan(&request()).await.expect("the calls give a plan");
    assert!(prompt_of(&hierarchical, 0).contains("3 more levels of plans at most"));
}

#[tokio::test]
async fn tools_revise_a_plan_and_refuse_what_does_not_hold() {
    let turns = vec![
        calls(&[("skip_step", json!({"step": "flight", "reason": "why not"}))]),
        calls(&[("retry_step", json!({"step": "room", "agent_type": "inns"}))]),
        calls(&[("finalize_plan", json!({"strategy": "retry_with_agent", "summary": "an inn"}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let proposal = world.tools.revise(&revise_request()).await.expect("the calls give a proposal");
    assert_eq!((proposal.strategy, proposal.changes.len()), (RevisionStrategy::RetryWithAgent, 1));
    assert!(matches!(&proposal.changes[0], Change::RetryStep { step, .. } if step.as_str() == "room"));
    let endless = World {
        ..self::world(
            LlmSettings { turns_max: 2, ..LlmSettings::default() },
            vec![vec![calls(&[("get_plan_status", json!({}))]), calls(&[("get_plan_status", json!({}))])]],
        )
        .await
    };
    let error = endless.tools.revise(&revise_request()).await.expect_err("it never ends");
    assert!(error.reason.contains("turns_max"), "{error}");
}
