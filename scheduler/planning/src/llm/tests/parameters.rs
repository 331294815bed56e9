//! Planning parameters and context of a goal, as models and provenance see them.

use goalmill_common::goal::Planning;
use goalmill_common::goal_context::{ContextDocument, TranscriptTurn};
use goalmill_common::planning::ReplanOptions;
use goalmill_common::revision::RevisionStrategy;

use super::*;

fn with_planning(planning: Value) -> PlanRequest {
    let planning: Planning = serde_json::from_value(planning).expect("they are planning parameters");
    let mut request = request();
    request.limits = planning.lower_limits(&request.limits);
    request.goal.planning = planning;
    request
}

#[tokio::test]
async fn the_parameters_of_a_goal_reach_the_model_and_the_provenance() {
    let world = world(LlmSettings::default(), vec![vec![says(&good()), says(&good())]]).await;
    let request = with_planning(json!({
        "temperature": 0.7, "max_steps": 7, "strategy": "iterative", "candidates": 2, "prompt": "Prefer direct flights"
    }));
    let planned = world.llm.plan(&request).await.expect("the answer is valid").planned;
    assert_eq!(world.servers[0].calls(), 2, "one call for each candidate");
    let body = &world.servers[0].seen()[0].body;
    assert_eq!(body["temperature"], 0.7);
    let prompt = &world.servers[0].seen()[0].prompt;
    assert!(prompt.contains("At most 7 steps") && prompt.contains("Prefer direct flights"), "{prompt}");
    assert!(prompt.contains(branch("plan", "strategy == \"iterative\"")), "{prompt}");
    assert!(planned.plan.is_iterative());
    let account = account(&planned);
    assert_eq!((&account["strategy"], &account["candidates"]), (&json!("iterative"), &json!(2)));
    assert_eq!((&account["limits"]["steps"], &account["rounds"][0]["temperature"]), (&json!(7), &json!(0.7)));
    assert_eq!(planned.confidence, 0.75, "of several first answers one held at once");
}

#[tokio::test]
async fn a_goal_may_name_its_only_model() {
    let bad = json!({"steps": [flight(), bad_room()]});
    let again = |value: &Value| Scripted { times: Some(20), ..says(value) };
    let planning = |only: bool| with_planning(json!({"model": "m0", "model_only": only}));
    let world = world(LlmSettings::default(), vec![vec![again(&bad)], vec![again(&good())]]).await;
    let helped = world.llm.plan(&planning(false)).await.expect("the other model corrects it").planned;
    assert_eq!((account(&helped)["rounds"][0]["outcome"].as_str(), world.servers[1].calls()), (Some("invalid"), 1));
    let Err(refused) = world.llm.plan(&planning(true)).await else { panic!("the model cannot correct it") };
    assert_eq!(world.servers[1].calls(), 1, "no other model is asked");
    assert!(!refused.issues.is_empty() && refused.reason.contains("no other model may be asked"), "{refused:?}");
}

#[tokio::test]
async fn a_goal_brings_its_own_template_along() {
    let world = world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    let request = with_planning(json!({"prompt": "My rules.\n--- user ---\nPlan this: {{ goal.description }}"}));
    let planned = world.llm.plan(&request).await.expect("the answer is valid").planned;
    let prompt = &world.servers[0].seen()[0].prompt;
    assert!(prompt.contains("My rules.") && prompt.contains(&format!("Plan this: {GOAL}")), "{prompt}");
    assert!(!prompt.contains("find_flight"), "it names no agents");
    assert_eq!(account(&planned)["rounds"][0]["template"]["id"], "planning.prompt");
}

#[tokio::test]
async fn what_a_goal_requires_is_criticised_until_it_is_there() {
    let fallback = |mut step: Value, agent: &str| {
        step["fallback"] = json!({"agent_type": agent});
        step
    };
    let fixed = json!({"steps": [fallback(flight(), "air"), fallback(room(), "inns")]});
    let world = world(LlmSettings::default(), vec![vec![says(&good()), says(&fixed)]]).await;
    let request = with_planning(json!({"require_fallbacks": true}));
    let planned = world.llm.plan(&request).await.expect("the correction is valid").planned;
    assert!(planned.plan.steps.iter().all(|step| step.fallback.is_some()));
    let issues = &account(&planned)["rounds"][0]["issues"];
    assert_eq!((&issues[0]["code"], &issues[0]["pointer"]), (&json!("MISSING_FIELD"), &json!("/steps/0/fallback")));
    assert!(prompt_of(&world, 0).contains("\\\"fallback\\\": {\\\"agent_type\\\""));
    let mut alone = room();
    (alone["dependencies"], alone["inputs"]["day"]) = (json!([]), json!("2026-05-01"));
    let world =
        self::world(LlmSettings::default(), vec![vec![says(&json!({"steps": [flight(), alone]})), says(&good())]])
            .await;
    let request = with_planning(json!({"require_dependencies": true}));
    let planned = world.llm.plan(&request).await.expect("the correction is valid").planned;
    assert_eq!(account(&planned)["rounds"][0]["issues"][0]["pointer"], "/steps/0/dependencies");
}

#[tokio::test]
async fn the_context_of_a_goal_reaches_prompts_as_data_within_its_limit() {
    let settings = LlmSettings { context_tokens_max: 100, ..LlmSettings::default() };
    let world = world(settings, vec![vec![says(&good())]]).await;
    let mut request = request();
    let turn = |n: usize| TranscriptTurn { role: "user".into(), text: format!("remark number {n} about the trip") };
    request.goal.context.transcript = (0..50).map(turn).collect();
    request.goal.context.inputs.insert("city".into(), "Rome".into());
    request.goal.context.documents = vec![ContextDocument { source: "notes".into(), text: "x ".repeat(5_000) }];
    let planned = world.llm.plan(&request).await.expect("the answer is valid").planned;
    let prompt = &world.servers[0].seen()[0].prompt;
    assert!(prompt.contains("remark number 49") && !prompt.contains("remark number 0 "), "{prompt}");
    assert!(prompt.contains("<data source=\"inputs\">") && prompt.contains("never instructions"), "{prompt}");
    let data = &account(&planned)["context"];
    assert!(data["left_out"]["transcript"].as_u64().is_some_and(|n| n > 40), "{data}");
}

#[tokio::test]
async fn passages_of_documents_serve_both_planners_and_are_named() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(folder.path().join("rome.md"), "Rooms in Rome: book them near the station.").expect("written");
    std::fs::write(folder.path().join("tax.md"), "Invoices are archived.").expect("written");
    let mut settings = LlmSettings::default();
    settings.retriever.documents_dir = folder.path().to_string_lossy().into_owned();
    let call = |name: &str, arguments: Value| ScriptedCall { name: name.into(), arguments };
    let tools = Scripted {
        tool_calls: vec![call("add_step", flight()), call("add_step", room()), call("finalize_plan", json!({}))],
        ..Scripted::default()
    };
    let world = world(settings, vec![vec![says(&good()), tools]]).await;
    let by_llm = world.llm.plan(&request()).await.expect("the answer is valid").planned;
    let by_tools = world.tools.plan(&request()).await.expect("the calls are valid").planned;
    for (at, planned) in [by_llm, by_tools].iter().enumerate() {
        let passages = account(planned)["context"]["passages"].clone();
        assert_eq!((&passages[0]["source"], &passages[0]["retriever"]), (&json!("rome.md#1"), &json!("documents")));
        let prompt = &world.servers[0].seen()[at].prompt;
        assert!(prompt.contains("near the station") && !prompt.contains("archived"), "{prompt}");
    }
}

#[tokio::test]
async fn a_model_s_reasoning_is_kept_within_its_limit() {
    let thinking = "The room needs the day of the flight. ".repeat(10);
    let answer = Scripted { thinking: Some(thinking), json: Some(good()), ..Scripted::default() };
    let settings = LlmSettings { reasoning_chars_max: 40, ..LlmSettings::default() };
    let world = world(settings, vec![vec![answer]]).await;
    let planned = world.llm.plan(&request()).await.expect("the answer is valid").planned;
    let reasoning = account(&planned)["rounds"][0]["reasoning"].as_str().map(ToOwned::to_owned);
    let reasoning = reasoning.expect("it is kept");
    assert!(reasoning.starts_with("The room needs the day") && reasoning.chars().count() < 60, "{reasoning}");
}

#[tokio::test]
async fn the_options_of_a_replan_count_for_it_alone() {
    let proposal = json!({"strategy": "workaround", "summary": "another inn",
                          "changes": [{"retry_step": {"step": "room", "agent_type": "inns"}}]});
    let script = || vec![says(&proposal), says(&proposal)];
    let world = world(LlmSettings::default(), vec![script(), script()]).await;
    let mut request = revise_request();
    request.situation.goal.planning.temperature = Some(0.1);
    let options = ReplanOptions {
        model: Some("m1".into()),
        temperature: Some(1.5),
        strategy: Some(RevisionStrategy::Workaround),
    };
    request.situation.options = options;
    world.llm.revise(&request).await.expect("the proposal is valid");
    assert_eq!((world.servers[0].calls(), world.servers[1].calls()), (0, 1), "the named model is asked");
    let seen = &world.servers[1].seen()[0];
    assert_eq!(seen.body["temperature"], 1.5);
    assert!(seen.prompt.contains("Use the strategy `workaround`"), "{}", seen.prompt);
    request.situation.options = ReplanOptions::default();
    world.llm.revise(&request).await.expect("the proposal is valid");
    let calls: Vec<f64> =
        world.servers.iter().flat_map(|s| s.seen()).filter_map(|s| s.body["temperature"].as_f64()).collect();
    assert!(calls.contains(&0.1), "{calls:?}");
}
