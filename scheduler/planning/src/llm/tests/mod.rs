use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use goalmill_common::agent::{Action, Agent};
use goalmill_common::clock::Clock;
use goalmill_common::command::{Change, Planned, RevisionStrategy};
use goalmill_common::config::{Dialect, LlmSettings, ModelSettings, ModelTag};
use goalmill_common::event::{ModelAnswered, ModelAsked, ToolsCalled};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Goal, Usage};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::random::Random;
use goalmill_common::replan_situation::{Situation, StepSituation};
use goalmill_common::revision::Trigger;
use goalmill_common::status::StepStatus;
use goalmill_demo::scripted::{Script, Scripted, ScriptedCall, ScriptedServer};
use goalmill_formats::DraftKind;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{Policy, Rules};
use goalmill_reader::ToolCatalogue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::parse_answer::{self, ParsedAnswer};
use super::*;
use crate::repair::{Edit, repair_list};
use crate::{CallLog, CallRecorder, Terms, ToolsPlanner, pipeline};

mod formats;
mod goal_reader;
mod meant_plans;
mod parameters;
mod plan_schema;
mod review;
mod stored_plans;
mod stream;
mod tools;
mod unrolled;

/// An answer, read, repaired and validated.
fn validate_answer(
    text: &str,
    actions: &ToolCatalogue,
    rules: &Rules<'_>,
) -> (Vec<Edit>, Result<ValidPlan, Vec<Issue>>) {
    let ParsedAnswer::Complete { value, mut edits, .. } =
        parse_answer::parse_plan_answer(text, actions, false, DraftKind::Answer)
    else {
        panic!("the answer cannot be read: {text}")
    };
    let repaired = repair_list(value, &Limits::default(), rules);
    edits.extend(repaired.edits);
    (edits, repaired.outcome)
}

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
        let server = ScriptedServer::start(Script::new(answers)).await.expect("a port is free");
        let tag = if at == 0 { ModelTag::Cheap } else { ModelTag::Strong };
        let model = server.settings(&format!("m{at}"), Dialect::Openai);
        models.push(ModelSettings { retries: 0, tags: [tag].into(), ..model });
        servers.push(server);
    }
    let models =
        ModelRegistry::from_settings(&models, Clock::system(), Random::seeded(1)).expect("the models are valid");
    let deps =
        Arc::new(LlmDeps::from_settings(&settings, timeout, &Arc::new(models)).expect("the shipped prompts are valid"));
    let route = without_routing();
    World { servers, llm: LlmPlanner::new(deps.clone(), route.clone()), tools: ToolsPlanner::new(deps, route) }
}

fn without_routing() -> RouteSteps {
    Arc::new(|_, _| Ok((Vec::new(), Vec::new())))
}

fn says(value: &Value) -> Scripted {
    Scripted { json: Some(value.clone()), ..Scripted::default() }
}

fn agents() -> Vec<Agent> {
    let action = |name: &str, required: &[&str], gives: &[&str]| Action {
        name: name.into(),
        description: String::new(),
        inputs: Some(Json::from_value(&json!({
            "type": "object", "required": required, "additionalProperties": false,
            "properties": required.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>(),
        }))),
        outputs: Some(Json::from_value(&json!({
            "type": "object", "required": gives,
            "properties": gives.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>(),
        }))),
        side_effect: false,
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
        is_part: false,
        call_log: CallLog::default(),
        terms: Default::default(),
        reading: None,
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

fn repairs(entry: &Value) -> Vec<&str> {
    entry["repairs"].as_array().into_iter().flatten().filter_map(|edit| edit["code"].as_str()).collect()
}

fn prompt_of(world: &World, call: usize) -> String {
    world.servers[0].seen()[call].body.to_string()
}

/// The literal text that a template writes first under a condition or in a loop, up to its first expression.
fn branch(template: &str, condition: &str) -> &'static str {
    let (_, text) = prompt_store::BUILT_IN.iter().find(|(name, _)| *name == template).expect("there is such a prompt");
    let (_, rest) = text.split_once(&format!("{condition} %}}")).expect("the template has this condition");
    let line = rest.trim_start().lines().next().expect("there is text under it");
    line.split(['{', '"', '`']).next().expect("a line has a beginning").trim_end()
}

#[tokio::test]
async fn a_plan_comes_with_its_whole_provenance() {
    let world = world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    let mut request = request();
    request.goal.constraints.insert("api_key".into(), "sk-abcdefghijkl123456".into());
    let planned = world.llm.plan(&request).await.expect("the answer is valid").planned;
    assert_eq!(ids(&planned), ["flight", "room"]);
    assert_eq!(planned.plan.name, GOAL);
    let account = account(&planned);
    let round = &account["rounds"][0];
    assert_eq!(round["template"], json!({"id": "plan", "version": "7"}));
    assert_eq!((&round["model"], &round["verdict"]), (&json!("m0"), &json!("exact")));
    assert!(round["raw"].as_str().is_some_and(|raw| raw.contains("find_flight")) || round["raw_calls"].is_array());
    let prompt = round["prompt"].to_string();
    assert!(prompt.contains("find_flight") && prompt.contains(GOAL), "{prompt}");
    assert!(!prompt.contains("abcdefghijkl") && prompt.contains("[redacted]"), "{prompt}");
    assert!(account["usage"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0));
}

#[tokio::test]
async fn what_is_certain_is_repaired_without_a_second_call_and_told() {
    let mut step = room();
    step["action"] = "Book Room".into();
    let answer = format!("Here is the plan:\n```json\n{}\n```", json!({"thought": "hm", "steps": [flight(), step]}));
    let world = world(LlmSettings::default(), vec![vec![Scripted { text: Some(answer), ..Scripted::default() }]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer can be repaired").planned;
    assert_eq!(world.servers[0].calls(), 1);
    let account = account(&planned);
    let codes: Vec<_> =
        account["rounds"][0]["repairs"].as_array().into_iter().flatten().map(|edit| edit["code"].clone()).collect();
    assert_eq!(codes, ["REMARK_DROPPED", "ACTION_NORMAL_FORM"]);
    assert_eq!(account["rounds"][0]["syntax_repairs"][0]["kind"], "prose_dropped");
}

#[tokio::test]
async fn a_critique_holds_the_issues_and_the_wrong_steps_only() {
    let fix = json!({"steps": [room()]});
    let first = json!({"steps": [flight(), bad_room()]});
    let world = world(LlmSettings::default(), vec![vec![says(&first), says(&fix)]]).await;
    let planned = world.llm.plan(&request()).await.expect("the correction is valid").planned;
    assert_eq!(ids(&planned), ["flight", "room"]);
    let critique = prompt_of(&world, 1);
    assert!(critique.contains("step `room`") && critique.contains("city"), "{critique}");
    assert!(!critique.contains("Find a flight") && critique.contains("flight: air, find_flight"), "{critique}");
    let account = account(&planned);
    assert_eq!(account["rounds"][0]["issues"][0]["code"], "INPUT_MISSING");
    assert_eq!(account["rounds"][1]["template"]["id"], "critique");
}

#[tokio::test]
async fn what_policy_forbids_is_told_at_its_place_in_the_draft() {
    let first = json!({"plan": {"tasks": [flight(), room()]}});
    let other = json!({"id": "room", "description": "Book a room", "agent_type": "inns", "action": "book_room",
                       "inputs": {"city": "Rome", "day": "{{ steps.flight.outputs.day }}"}, "dependencies": ["flight"]});
    let world = world(LlmSettings::default(), vec![vec![says(&first), says(&json!({"steps": [other]}))]]).await;
    let policy = Arc::new(Policy { deny: vec!["rooms/*".into()], approve: vec!["inns/*".into()], ..Policy::default() });
    let terms = Terms { policy, ..Terms::default() };
    let planned = world.llm.plan(&PlanRequest { terms, ..request() }).await.expect("the correction is allowed").planned;
    let issue = &account(&planned)["rounds"][0]["issues"][0];
    assert_eq!((&issue["code"], &issue["pointer"]), (&json!("ACTION_DENIED"), &json!("/plan/tasks/1/action")));
    assert!(planned.plan.steps[1].approve.is_some(), "a person is asked, as the policy demands");
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
    let planned = world.llm.plan(&request()).await.expect("the strong model corrects the plan").planned;
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
    let planned = world.llm.stream(&request(), sender).await.expect("the strong model corrects the plan").planned;
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], ["critique", "strong", "m1"]]);
}

#[tokio::test]
async fn after_two_useless_corrections_the_strong_model_starts_over() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let same = says(&json!({"steps": [bad_room()]}));
    let world = world(LlmSettings::default(), vec![vec![first], vec![same.clone(), same, says(&good())]]).await;
    let planned = world.llm.plan(&request()).await.expect("the strong model plans well").planned;
    let repair = ["critique", "strong", "m1"];
    assert_eq!(rounds(&account(&planned)), [["plan", "cheap", "m0"], repair, repair, ["plan", "strong", "m1"]]);
}

#[tokio::test]
async fn without_a_strong_model_that_answers_the_others_correct() {
    let first = says(&json!({"steps": [flight(), bad_room()]}));
    let fix = says(&json!({"steps": [room()]}));
    let down = Scripted { times: Some(9), status: Some(500), error: Some("down".into()), ..Scripted::default() };
    let world = world(LlmSettings::default(), vec![vec![first, fix], vec![down]]).await;
    let planned = world.llm.plan(&request()).await.expect("the author corrects its own plan").planned;
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
    assert!(error.reason.contains("under `models`"), "{error}");
}

#[tokio::test]
async fn a_model_that_only_thinks_is_told_with_the_settings_to_change() {
    let thought = || Scripted {
        thinking: Some("Let me see. ".repeat(20)),
        finish: Some("length".into()),
        times: Some(9),
        ..Scripted::default()
    };
    for candidates in [1, 2] {
        let settings = LlmSettings { candidates, ..LlmSettings::default() };
        let world = world(settings, vec![vec![thought()]]).await;
        let error = world.llm.plan(&request()).await.expect_err("there is no answer");
        assert!(error.reason.contains("thinking used up all"), "{error}");
        assert!(error.reason.contains("`reasoning_effort` of model `m0`"), "{error}");
    }
}

#[tokio::test]
async fn a_cut_answer_is_never_a_plan() {
    let cut = Scripted { truncate: Some(good().to_string().len() - 2), ..says(&good()) };
    let closed = Scripted { finish: Some("length".into()), ..says(&good()) };
    let world = world(LlmSettings::default(), vec![vec![cut, closed]]).await;
    let error = world.llm.plan(&request()).await.expect_err("each answer is cut");
    assert!(error.reason.contains("cut"), "{error}");
    assert_eq!(world.servers[0].calls(), 3);
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
    let planned = world.llm.plan(&request()).await.expect("one of three is valid").planned;
    assert_eq!((ids(&planned), world.servers[0].calls()), (vec!["flight", "room"], 3));
    let single = self::world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    let single = single.llm.plan(&request()).await.expect("it is valid").planned;
    assert_eq!(planned.confidence, single.confidence, "it was valid at once, whatever else was asked for");
}

#[tokio::test]
async fn an_iterative_plan_ends_in_a_checkpoint() {
    let settings = LlmSettings { strategy: PlanningStrategy::Iterative, ..LlmSettings::default() };
    let world = world(settings, vec![vec![says(&json!({"steps": [flight()]}))]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer is valid").planned;
    assert!(planned.plan.phases[0].checkpoint);
    assert_eq!(planned.plan.steps[0].phase.as_deref(), Some("part_1"));
    assert!(prompt_of(&world, 0).contains(branch("plan", "strategy == \"iterative\"")));
}

#[tokio::test]
async fn a_hierarchical_plan_may_leave_parts_to_be_planned() {
    let settings = LlmSettings { strategy: PlanningStrategy::Hierarchical, ..LlmSettings::default() };
    let part = json!({"id": "stay", "kind": "plan", "description": "Find and book a room in Rome", "dependencies": ["flight"]});
    let world = world(settings, vec![vec![says(&json!({"steps": [flight(), part]}))]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer is valid").planned;
    assert_eq!(planned.plan.steps[1].kind, goalmill_common::plan::StepKind::Plan);
    let prompt = prompt_of(&world, 0);
    let (_, levels) =
        prompt.split_once(branch("plan", "strategy == \"hierarchical\" and limits.levels")).expect("it is there");
    assert!(levels.contains(" 3 "), "{prompt}");
}

#[tokio::test]
async fn a_plan_as_deep_as_it_may_be_is_told_so_and_has_its_parts_repaired() {
    let settings = LlmSettings { strategy: PlanningStrategy::Hierarchical, ..LlmSettings::default() };
    let part = json!({"id": "room", "kind": "plan", "description": "Find and book a room in Rome", "dependencies": ["flight"]});
    let answers = vec![says(&json!({"steps": [flight(), part]})), says(&json!({"steps": [room()]}))];
    let world = world(settings, vec![answers]).await;
    let deep = PlanRequest { limits: Limits::default().inside(3), ..request() };
    let planned = world.llm.plan(&deep).await.expect("the correction is valid").planned;
    assert_eq!(ids(&planned), ["flight", "room"]);
    assert!(planned.plan.steps.iter().all(|step| step.kind == goalmill_common::plan::StepKind::Tool));
    assert!(prompt_of(&world, 0).contains(branch("plan", "strategy == \"hierarchical\"")));
    assert!(prompt_of(&world, 1).contains("`room`"));
}

#[tokio::test]
async fn a_remembered_plan_is_an_example_for_a_goal_like_it() {
    let settings = LlmSettings { memory_plans: 10, ..LlmSettings::default() };
    let world = world(settings, vec![vec![says(&good()), says(&good())]]).await;
    for _ in 0..2 {
        world.llm.plan(&request()).await.expect("the answer is valid");
    }
    let example = branch("plan", "example in examples");
    assert!(!prompt_of(&world, 0).contains(example));
    assert!(prompt_of(&world, 1).contains(example));
}

/// Keeps what is written down.
#[derive(Default)]
struct Notes {
    asked: Mutex<Vec<ModelAsked>>,
    answered: Mutex<Vec<ModelAnswered>>,
    tools: Mutex<Vec<ToolsCalled>>,
}

#[async_trait]
impl CallRecorder for Notes {
    async fn asked(&self, call: ModelAsked) -> bool {
        self.asked.lock().expect("nobody panics with it").push(call);
        true
    }

    async fn tools_called(&self, called: ToolsCalled) {
        self.tools.lock().expect("nobody panics with it").push(called);
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
    let call_log = CallLog::new(0, notes.clone(), &[]);
    let first = world(LlmSettings::default(), script()).await;
    let planned =
        first.llm.plan(&PlanRequest { call_log, ..request() }).await.expect("the second answer is valid").planned;
    let asked = notes.asked.lock().expect("nobody panics with it").clone();
    let templates: Vec<_> = asked.iter().map(|call| (call.call, call.template.as_str())).collect();
    assert_eq!(templates, [(1, "plan"), (2, "critique")]);
    assert!(asked.iter().all(|call| call.reserved.tokens > 4_096), "{asked:?}");
    let spent = planned.provenance.expect("there is one").value()["usage"]["tokens"].as_u64();
    assert_eq!(Some(notes.tokens()), spent);

    // The scheduler ended after the first answer: the other one makes the second call alone, and pays for it alone.
    let again = Arc::new(Notes::default());
    let call_log = CallLog::new(0, again.clone(), &notes.kept()[..1]);
    let second = world(LlmSettings::default(), vec![vec![says(&json!({"steps": [room()]}))]]).await;
    let same = second.llm.plan(&PlanRequest { call_log, ..request() }).await.expect("the answers are the same").planned;
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
    let call_log = CallLog::new(0, notes.clone(), &[]);
    let limit = std::time::Duration::from_mins(1);
    let pipeline = pipeline::Pipeline::new(vec![Arc::new(llm)], limit, without_routing());
    let error = pipeline.plan_goal(&PlanRequest { call_log, ..request() }).await.expect_err("the model writes no plan");
    let told = error.provenance.expect("there is one").value();
    let tried = &told["tried"][0];
    assert_eq!(tried["planner"], "llm", "{told:#}");
    assert_eq!(tried["rounds"][0]["raw"], "I would rather not", "{told:#}");
    let asked = tried["rounds"][0]["prompt"].to_string();
    assert!(asked.contains(&request().goal.description), "{told:#}");
    assert_eq!(tried["usage"]["tokens"].as_u64(), Some(notes.tokens()), "{told:#}");
    assert!(notes.tokens() > 0 && servers[0].calls() > 0);
}

fn revise_request() -> ReviseRequest {
    let step = |value: Value| serde_json::from_value::<Step>(value).expect("it is a step");
    let at = |status: StepStatus, failure: Option<Failure>| StepSituation {
        status,
        attempt: 1,
        outputs: (status == StepStatus::Completed).then(|| Json::from_value(&json!({"day": "2026-05-01"}))),
        failure,
        may_be_done: false,
        adjustments: None,
    };
    let failure = Failure::new(FailureClass::Permanent, "FULLY_BOOKED", "no room left");
    let situation = Situation {
        relaxed: Vec::new(),
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
        chosen: None,
        options: Default::default(),
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
        call_log: CallLog::default(),
        terms: Default::default(),
    }
}

#[test]
fn a_plan_in_any_layout_is_a_revision() {
    let request = revise_request();
    let replan = crate::replan_context::ReplanContext::new(&request);
    let mut inn = room();
    inn["agent_type"] = "inns".into();
    let mut subtask = inn.clone();
    let id = subtask.as_object_mut().and_then(|map| map.remove("id")).expect("it has an id");
    subtask["task_id"] = id;
    for answer in [
        json!({"steps": [flight(), inn]}),
        json!({"plan": {"steps": [flight(), inn]}}),
        json!({"plan": {"subtasks": [flight(), subtask]}}),
        json!({"plan": {"tasks": [flight(), inn]}}),
        json!({"plan": [flight(), inn]}),
        json!({"strategy": "sequential", "subtasks": [flight(), subtask]}),
    ] {
        let proposal = crate::parse_proposal::parse_proposal(&answer, &replan, &Default::default(), &mut Vec::new());
        let proposal = proposal.unwrap_or_else(|issues| panic!("{answer}: {issues:#?}"));
        assert_eq!(proposal.strategy, RevisionStrategy::ReplanRemaining, "{answer}");
        let [Change::ModifyStep { step }] = proposal.changes.as_slice() else { panic!("{answer}: {proposal:?}") };
        assert_eq!((step.id.as_str(), step.agent_type.as_str()), ("room", "inns"), "{answer}");
    }
}

#[test]
fn a_plan_written_again_without_a_dependency_has_none() {
    let mut request = revise_request();
    request.situation.plan.steps[1].dependencies = vec!["flight".into()];
    request.situation.plan.steps[1].inputs = Json::from_value(&json!({"city": "Rome", "day": "2026-05-01"}));
    let (mut written, replan) = (room(), crate::replan_context::ReplanContext::new(&request));
    written.as_object_mut().expect("it is a step").remove("dependencies");
    written["inputs"] = json!({"city": "Rome", "day": "2026-05-01"});
    let answer = json!({"steps": [flight(), written]});
    let proposal = crate::parse_proposal::parse_proposal(&answer, &replan, &Default::default(), &mut Vec::new());
    let proposal = proposal.unwrap_or_else(|issues| panic!("{issues:#?}"));
    let [Change::ModifyStep { step }] = proposal.changes.as_slice() else { panic!("{proposal:?}") };
    assert_eq!(step.dependencies, []);
}

/// What a proposal for a plan whose step `room` may have an undo step changes, and of which steps.
fn changed(request: &ReviseRequest, answer: &Value) -> Vec<String> {
    let replan = crate::replan_context::ReplanContext::new(request);
    let proposal = crate::parse_proposal::parse_proposal(answer, &replan, &Default::default(), &mut Vec::new());
    let proposal = proposal.unwrap_or_else(|issues| panic!("{answer}: {issues:#?}"));
    let changes = proposal.changes.iter().map(|change| serde_json::to_value(change).expect("it has a JSON text"));
    let told = |change: Value| {
        let (name, body) = change.as_object().and_then(|map| map.iter().next()).expect("it has a name");
        let id = body["step"].as_str().or_else(|| body["step"]["id"].as_str()).unwrap_or_default();
        format!("{name} {id}")
    };
    changes.map(told).collect()
}

#[test]
fn a_revision_brings_the_undo_of_its_steps_and_keeps_clean_up() {
    let undo = json!({"agent_type": "rooms", "action": "book_room", "inputs": {"city": "Rome", "day": "x"}});
    let mut with_undo = room();
    (with_undo["undo"], with_undo["agent_type"]) = (undo.clone(), "inns".into());
    let by = |change: Value| json!({"strategy": "workaround", "summary": "Another way", "changes": [change]});
    let mut request = revise_request();
    let modify = by(json!({"modify_step": {"step": with_undo}}));
    assert_eq!(changed(&request, &modify), ["modify_step room", "add_step room:undo"]);
    let cleanup = |id: &str, mark: &str, of: Value| {
        let mut step = undo.clone();
        (step["id"], step[mark]) = (id.into(), of);
        serde_json::from_value::<Step>(step).expect("it is a step")
    };
    request.situation.plan.steps.push(cleanup("room:undo", "undoes", json!("room")));
    request.situation.plan.steps.push(cleanup("tell", "always", json!(true)));
    with_undo["undo"]["inputs"]["day"] = "y".into();
    let modify = by(json!({"modify_step": {"step": with_undo}}));
    assert_eq!(changed(&request, &modify), ["modify_step room", "modify_step room:undo"]);
    let remove = by(json!({"remove_step": {"step": "room"}}));
    assert_eq!(changed(&request, &remove), ["remove_step room"]);
    let mut inn = room();
    inn["agent_type"] = "inns".into();
    assert_eq!(changed(&request, &json!({"steps": [flight(), inn]})), ["modify_step room"]);
    let mut map = room();
    (map["id"], map["for_each"], map["inputs"]["city"]) =
        ("rooms".into(), json!(["Rome", "Oslo"]), "{{ item }}".into());
    assert_eq!(changed(&request, &by(json!({"add_step": {"step": map, "before": []}}))), ["add_step rooms"]);
}

#[test]
fn changes_may_name_steps_that_stand_beside_them() {
    let inn = |id: &str| {
        let mut step = room();
        (step["id"], step["agent_type"]) = (id.into(), "inns".into());
        plan_schema::with_work(step)
    };
    let answer = json!({"strategy": "workaround", "summary": "Another way", "question": null,
                        "steps": [inn("s1"), inn("room"), inn("s2"), inn("s3")], "changes": [
        {"add_step": {"step": "s1", "before": ["room"]}}, {"modify_step": {"step": "room"}},
        {"replace_step": {"step": "room", "with": ["s2"]}},
        {"add_phase": {"phase": {"id": "more", "checkpoint": false}, "steps": ["s3"]}}]});
    let request = revise_request();
    let replan = crate::replan_context::ReplanContext::new(&request);
    let read = |answer: &Value| {
        let proposal = crate::parse_proposal::parse_proposal(answer, &replan, &Default::default(), &mut Vec::new());
        proposal.map(|proposal| serde_json::to_value(proposal.changes).expect("it has a JSON text"))
    };
    let changes = read(&answer).expect("it is a proposal");
    for at in ["/0/add_step/step", "/1/modify_step/step", "/2/replace_step/with/0", "/3/add_phase/steps/0"] {
        assert_eq!(changes.pointer(at).map(|step| &step["agent_type"]), Some(&json!("inns")), "{at}: {changes}");
    }
    let mut without = answer.clone();
    without["steps"] = json!([]);
    assert!(read(&without).is_err(), "they name nothing");
}

#[test]
fn what_an_agent_says_in_words_steers_wherever_it_says_it() {
    let too_complex = "This is too complex, decompose further";
    let mut in_message = revise_request();
    let mut in_errors = in_message.clone();
    let mut suggested = in_message.clone();
    let mut adjusted = in_message.clone();
    let failed = |message: &str| Failure::new(FailureClass::Transient, "TASK_FAILED", message);
    let set = |request: &mut ReviseRequest, failure: Failure| {
        let at = request.situation.steps.get_mut(&StepId::from("room")).expect("there is such a step");
        at.failure = Some(failure);
        request.situation.plan.steps[1].description = "Book a room".into();
    };
    set(&mut in_message, failed(too_complex));
    set(&mut in_errors, Failure { errors: vec![failed(too_complex)], ..failed("no") });
    set(&mut suggested, failed("no"));
    let told = json!({"suggested_adjustments": [{"description": too_complex, "priority": 5}]});
    suggested.situation.information = Some(Json::from_value(&told));
    set(&mut adjusted, failed("no"));
    adjusted.situation.steps.get_mut(&StepId::from("room")).expect("there is one").adjustments =
        Some(Json::from_value(&told));
    for request in [in_message, in_errors, suggested, adjusted] {
        let proposal = crate::revise::revise(&request, || None).expect("rules see a way");
        assert_eq!(proposal.strategy, RevisionStrategy::Decompose, "{:?}", request.situation);
    }
}

#[test]
fn news_about_an_open_step_in_words_change_that_step() {
    for (text, expected) in [
        ("too complex, decompose further", RevisionStrategy::Decompose),
        ("skip it, there is nothing to book", RevisionStrategy::SkipAndContinue),
    ] {
        let mut request = revise_request();
        request.situation.trigger = "new_information".into();
        request.situation.step = Some("flight".into());
        request.situation.plan.steps[1].description = "Book a room".into();
        let at = request.situation.steps.get_mut(&StepId::from("room")).expect("there is such a step");
        (at.status, at.failure) = (StepStatus::Pending, None);
        let told = json!({"suggested_adjustments": [{"description": text, "priority": 8, "step": "room"}]});
        request.situation.information = Some(Json::from_value(&told));
        let proposal = crate::revise::revise(&request, || None).expect("rules see a way");
        assert_eq!(proposal.strategy, expected, "{text}");
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
    assert!(prompt_of(&world, 1).contains("`flight`"));
}

#[tokio::test]
async fn rules_try_a_step_again_with_an_agent_that_has_a_live_worker() {
    let room = agents().into_iter().find(|agent| agent.actions.iter().any(|a| a.name == "book_room"));
    let room = room.expect("the agent of `room`");
    // By price and success the first one would be taken.
    let gone = Agent { agent_type: "gone".into(), success_rate: 1.0, cost: 0.0, ..room.clone() };
    let live = Agent { agent_type: "live".into(), success_rate: 0.5, cost: 9.0, ..room };
    let beat = json!({"worker": "w1", "agents": ["live"], "slots": 1, "busy": 0, "version": "1", "host": "h", "started_ms": 0});
    let worker = serde_json::from_value(beat).expect("it is a heartbeat");
    let mut request = revise_request();
    request.situation.reason = "unavailable".into();
    for at in request.situation.steps.values_mut() {
        at.failure = at.failure.take().map(|failure| Failure {
            class: FailureClass::Transient,
            code: "UNAVAILABLE".into(),
            message: "offline".into(),
            ..failure
        });
    }
    request.agents = vec![gone, live];
    let taken = |proposal: goalmill_common::command::Proposal| match proposal.changes.as_slice() {
        [Change::RetryStep { agent_type: Some(agent_type), .. }] => agent_type.to_string(),
        other => panic!("{other:?}"),
    };
    let rules = crate::RulesPlanner::built_in();
    assert_eq!(taken(rules.revise(&request).await.expect("there are two")), "gone", "none is live: the better one");
    request.terms.workers = vec![worker].into();
    assert_eq!(taken(rules.revise(&request).await.expect("one is live")), "live");
}

#[tokio::test]
async fn rules_give_a_step_to_no_agent_without_its_action() {
    let rules = crate::RulesPlanner::built_in();
    let mut request = revise_request();
    let fail = |request: &mut ReviseRequest, class: FailureClass, code: &str, message: &str| {
        for at in request.situation.steps.values_mut().filter(|at| at.failure.is_some()) {
            at.failure = Some(Failure::new(class, code, message));
        }
    };
    let change = |agents: Vec<Agent>, request: &ReviseRequest| {
        let request = ReviseRequest { agents, ..request.clone() };
        let rules = rules.clone();
        async move { rules.revise(&request).await.expect("rules always say something").strategy }
    };
    let of =
        |names: &[&str]| agents().into_iter().filter(|a| names.contains(&a.agent_type.as_str())).collect::<Vec<_>>();
    let like = || {
        let mut like = of(&["rooms"]).remove(0);
        like.agent_type = "book_a_room_in_rome".into();
        like.actions[0].name = "book_rooms".into();
        like
    };
    let (retry, abort) = (RevisionStrategy::RetryWithAgent, RevisionStrategy::Abort);
    fail(&mut request, FailureClass::Transient, "HTTP_503", "service unavailable");
    assert_eq!(change(of(&["rooms", "inns"]), &request).await, retry);
    assert_eq!(change([of(&["rooms", "air"]), vec![like()]].concat(), &request).await, abort, "words do not count");
    let mut acts = of(&["rooms", "inns"]);
    acts.iter_mut().for_each(|agent| agent.actions[0].side_effect = true);
    assert_eq!(change(acts, &request).await, abort, "what changes something is not done by another agent");
    fail(&mut request, FailureClass::Permanent, "DECLINED", "the card was declined");
    assert_eq!(change(of(&["rooms", "inns"]), &request).await, abort, "it will fail again");
    fail(&mut request, FailureClass::Permanent, "UNAVAILABLE", "the card service is unavailable: declined");
    assert_eq!(change(of(&["rooms", "inns"]), &request).await, abort, "the class counts, not the words");
    fail(&mut request, FailureClass::Transient, "UNAVAILABLE", "Service unavailable; decompose further");
    assert_eq!(change(of(&["rooms", "inns"]), &request).await, retry, "the error leads, the advice follows");
}

#[test]
fn a_proposal_gives_a_failed_step_only_to_an_agent_with_the_same_action() {
    let mut request = revise_request();
    let retry = |agent: &str| {
        vec![Change::RetryStep { step: "room".into(), agent_type: Some(agent.into()), action: None, inputs: None }]
    };
    let codes = |request: &ReviseRequest, agent: &str| {
        let issues = crate::revise::substitute_issues(request, &retry(agent));
        issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect::<Vec<_>>()
    };
    let place = "/changes/0/agent_type".to_owned();
    assert_eq!(codes(&request, "air"), [("UNKNOWN_ACTION".to_owned(), place.clone())]);
    assert_eq!(codes(&request, "rooms"), []);
    for at in request.situation.steps.values_mut().filter(|at| at.failure.is_some()) {
        at.failure = Some(Failure::new(FailureClass::Transient, "HTTP_503", "no answer"));
    }
    assert_eq!(codes(&request, "inns"), []);
    request.agents.iter_mut().for_each(|agent| agent.actions[0].side_effect = true);
    assert_eq!(codes(&request, "inns"), [("ACTION_DENIED".to_owned(), place.clone())]);
    let fields = json!({"agent_type": "inns"}).as_object().cloned().unwrap_or_default();
    let other = Step { agent_type: "inns".into(), ..request.situation.plan.steps[1].clone() };
    for change in [Change::SetFields { step: "room".into(), fields }, Change::ModifyStep { step: Box::new(other) }] {
        let issues = crate::revise::substitute_issues(&request, std::slice::from_ref(&change));
        assert_eq!(issues.len(), 1, "{change:?}");
    }
    // The declared fallback may try what was certainly not done.
    request.situation.plan.steps[1].fallback =
        Some(serde_json::from_value(json!({"agent_type": "inns"})).expect("it is a fallback"));
    assert_eq!(codes(&request, "inns"), []);
    request.situation.steps.values_mut().for_each(|at| at.may_be_done = true);
    assert_eq!(codes(&request, "inns"), [("ACTION_DENIED".to_owned(), place)]);
    request.situation.trigger = Trigger::UserRequest.as_str().into();
    assert_eq!(codes(&request, "inns"), [], "a person decides");
}

#[tokio::test]
async fn a_whole_plan_as_the_answer_to_a_revision_is_what_remains() {
    let mut inn = room();
    inn["id"] = "inn".into();
    inn["agent_type"] = "inns".into();
    let whole = json!({"steps": [flight(), inn]});
    let world = world(LlmSettings::default(), vec![vec![says(&whole)]]).await;
    let proposal = world.llm.revise(&revise_request()).await.expect("the plan is valid");
    assert_eq!(proposal.strategy, RevisionStrategy::ReplanRemaining);
    let [Change::AddStep { step, .. }, Change::RemoveStep { step: gone }] = proposal.changes.as_slice() else {
        panic!("{proposal:?}")
    };
    assert_eq!((step.id.as_str(), gone.as_str()), ("inn", "room"));
}

#[tokio::test]
async fn a_new_phase_of_another_form_goes_back_to_the_model() {
    let phase = |phase: Value, steps: Value| {
        json!({"strategy": "workaround", "summary": "an inn",
               "changes": [{"skip_step": {"step": "room"}}, {"add_phase": {"phase": phase, "steps": steps}}]})
    };
    let mut inn = room();
    inn["id"] = "inn".into();
    let inside = phase(json!({"id": "more", "steps": [inn.clone()]}), json!([]));
    let text = phase(json!("more"), json!([inn.clone()]));
    let good =
        json!({"strategy": "skip_and_continue", "summary": "no room", "changes": [{"skip_step": {"step": "room"}}]});
    let world = world(LlmSettings::default(), vec![vec![], vec![says(&inside), says(&text), says(&good)]]).await;
    world.llm.revise(&revise_request()).await.expect("the third answer is valid");
    let critique = |n: usize| world.servers[1].seen()[n].body.to_string();
    assert!(critique(1).contains("/changes/1/add_phase/phase/steps"));
    assert!(critique(2).contains("/changes/1/add_phase/phase"));
}

fn calls(calls: &[(&str, Value)]) -> Scripted {
    let call = |(name, arguments): &(&str, Value)| ScriptedCall { name: (*name).into(), arguments: arguments.clone() };
    Scripted { tool_calls: calls.iter().map(call).collect(), ..Scripted::default() }
}

/// The time of a planner whose first model takes half of it.
const HURRY: Duration = Duration::from_secs(12);

async fn world_with_one_that_hangs(settings: LlmSettings, answers: Vec<Scripted>) -> World {
    let hangs = Scripted { times: Some(99), hang: true, ..Scripted::default() };
    hurried_world(settings, HURRY, vec![vec![hangs], answers]).await
}

async fn in_time(world: &World, planning: impl Future<Output = Result<PlannerAnswer, PlanningError>>) {
    let planned = tokio::time::timeout(HURRY, planning).await.expect("the other model is asked in time");
    assert_eq!(ids(&planned.expect("the other model's plan is valid").planned), ["flight", "room"]);
    let standings = world.llm.deps.models.stats();
    assert!(standings[0].rates.success < 1.0 && standings[1].rates.success == 1.0, "{standings:?}");
}

#[tokio::test]
async fn a_cut_answer_gets_more_tokens_and_keeps_the_mode() {
    let cut = |truncate: usize| Scripted { truncate: Some(truncate), ..says(&good()) };
    let world = world(LlmSettings::default(), vec![vec![cut(60), cut(90), cut(120), says(&good())]]).await;
    let planned = world.llm.plan(&request()).await.expect("the last answer is whole").planned;
    assert_eq!(ids(&planned), ["flight", "room"]);
    let seen = world.servers[0].seen();
    let limits: Vec<u64> = seen.iter().filter_map(|call| call.body["max_tokens"].as_u64()).collect();
    assert_eq!(limits, [4_096, 8_192, 16_384, 32_768]);
    assert!(seen.iter().all(|call| call.body["response_format"]["type"] == "json_schema"));
    assert!(prompt_of(&world, 1).contains("write shorter descriptions"));
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
