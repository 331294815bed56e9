use goalmill_common::agent::Action;
use goalmill_common::config::Gate;
use goalmill_common::plan::{Fallback, Plan, Step, StepKind};

use crate::*;

#[test]
fn steps_are_routed_to_the_most_similar_agent() {
    let router = router(RouterSettings::default());
    for (text, expected) in [
        ("Find a hotel near the Louvre", "hotel_agent"),
        ("book plane tickets to Rome", "flight_agent"),
        ("suggest museums and sights", "activity_agent"),
        ("check the total against the budget", "validation_agent"),
        ("Search acommodation", "hotel_agent"),
    ] {
        let choice = router.choose(text, "").expect("somebody fits");
        assert_eq!(choice.agent_type.as_str(), expected, "{text}");
        assert!(choice.candidates.len() <= CANDIDATES_MAX);
        assert_eq!(choice.candidates[0].agent_type, choice.agent_type);
    }
}

#[test]
fn a_step_without_a_match_is_refused_with_the_nearest_agents() {
    let router = router(RouterSettings { threshold: 0.3, ..RouterSettings::default() });
    let refused = router.choose("knit a sweater from hot wool", "").expect_err("nobody knits");
    assert!(!refused.candidates.is_empty());
    assert!(refused.candidates.iter().all(|c| c.similarity < 0.3));
    let empty = Router::new(RouterSettings::default());
    assert_eq!(empty.choose("anything", ""), Err(Unroutable { candidates: Vec::new(), confidence: 0.0 }));
}

#[test]
fn success_and_cost_order_only_the_candidates_inside_the_gate() {
    let twins = |share: f64| {
        let router = Router::new(RouterSettings { gate: Gate::Share(share), ..RouterSettings::default() });
        let mut dear = agent("translate_a", "translate texts", &[], &[]);
        dear.cost = 5.0;
        let mut weak = agent("translate_b", "translate texts", &[], &[]);
        weak.success_rate = 0.9;
        let mut far = agent("archive", "keep texts", &[], &[]);
        far.success_rate = 1.0;
        router.update_agents(vec![dear, weak, far]);
        router
    };
    assert_eq!(twins(0.3).choose("translate texts", "").map(|c| c.agent_type), Ok("translate_b".into()));

    let router = Router::new(RouterSettings { gate: Gate::Share(0.1), ..RouterSettings::default() });
    let mut right = agent("poet", "write poems about flowers", &[], &[]);
    right.success_rate = 0.2;
    router.update_agents(vec![right, agent("painter", "paint pictures of flowers", &[], &[])]);
    assert_eq!(router.choose("write poems about flowers", "").map(|c| c.agent_type), Ok("poet".into()));
    let open = Router::new(RouterSettings { gate: Gate::Off, ..RouterSettings::default() });
    let mut right = agent("poet", "write poems about flowers", &[], &[]);
    right.success_rate = 0.01;
    open.update_agents(vec![right, agent("painter", "paint pictures of flowers", &[], &[])]);
    assert_eq!(open.choose("write poems about flowers", "").map(|c| c.agent_type), Ok("painter".into()));
}

#[test]
fn the_score_is_that_of_the_formula() {
    assert!((score(0.95, 0.95, 0.015) - 0.901_146_25).abs() < 1e-9);
    assert!((score(0.88, 0.88, 0.010) - 0.773_625_6).abs() < 1e-9);
    assert_eq!(score(1.0, 1.0, 20.0), 0.0);
    assert_eq!(score(1.0, 7.0, -1.0), 1.0);
}

#[test]
fn an_action_of_the_same_name_ranks_before_similarity() {
    let router = router(RouterSettings::default());
    let choice = router.choose("Find a hotel near the Louvre", "search_flights").expect("the action is known");
    assert_eq!(choice.agent_type.as_str(), "flight_agent");
    let refused = router.choose("Find a hotel near the Louvre", "unknown_action").expect_err("words do not count");
    assert_eq!(refused, Unroutable { candidates: Vec::new(), confidence: 0.0 });
    let any = agent("helper", "does whatever it is asked", &[], &[]);
    router.update_agents(agents().into_iter().chain([any]).collect());
    let choice = router.choose("do whatever is asked", "unknown_action").expect("it takes any action");
    assert_eq!((choice.agent_type.as_str(), choice.candidates.len()), ("helper", 1));
    let choice = router.choose("do whatever is asked", "search_flights").expect("the action is known");
    assert_eq!(choice.agent_type.as_str(), "flight_agent", "the agent that has the action comes first");
}

fn with_action(step: Step, action: &str) -> Step {
    Step { action: action.into(), ..step }
}

fn issues_of(steps: Vec<Step>, router: &Router) -> Vec<(String, String)> {
    let mut plan = Plan { steps, ..Plan::default() };
    let issues = route_plan(&mut plan, router).err().unwrap_or_default();
    issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect()
}

#[test]
fn a_step_goes_only_to_an_agent_that_has_its_action_or_takes_any() {
    let mut cards = agents();
    cards.push(agent("helper", "does whatever it is asked", &[], &[]));
    let closed = router(RouterSettings::default());
    let open = Router::new(RouterSettings::default());
    open.update_agents(cards);
    let inner = Plan { steps: vec![with_action(step("i", "hotel_agent", ""), "search_flights")], ..Plan::default() };
    let outer = Step { plan: Some(Box::new(inner)), kind: StepKind::Plan, ..Step::new("outer", "") };
    let steps = || {
        vec![
            with_action(step("a", "auto", "Find a hotel near the Louvre"), "web_search"),
            with_action(step("b", "hotel_agent", "Find a hotel"), "book_hotels"),
            with_action(step("c", "hotel_agent", "Find a hotel"), "search_hotels"),
            with_action(step("d", "later_agent", "Find a hotel"), "web_search"),
            step("e", "hotel_agent", "Find a hotel"),
            outer.clone(),
        ]
    };
    let refused = |pointer: &str| ("UNKNOWN_ACTION".to_owned(), pointer.to_owned());
    let inner = refused("/steps/5/plan/steps/0/action");
    let both = [refused("/steps/0/action"), refused("/steps/1/action"), inner.clone()];
    assert_eq!(issues_of(steps(), &closed), both);
    assert_eq!(issues_of(steps(), &open), [refused("/steps/1/action"), inner]);
}

#[test]
fn a_fallback_action_is_routed_as_an_action_of_its_own() {
    let router = router(RouterSettings::default());
    let fallback = |agent_type: Option<&str>, action: Option<&str>| {
        let agent_type = agent_type.map(AgentType::from);
        let fallback = Some(Fallback { agent_type, action: action.map(str::to_owned) });
        Step { fallback, ..with_action(step("s", "flight_agent", "Find a flight"), "search_flights") }
    };
    let routed = |step: Step| {
        let mut plan = Plan { steps: vec![step], ..Plan::default() };
        let routes = route_plan(&mut plan, &router).expect("somebody has the action");
        (plan.steps.remove(0).fallback.and_then(|fallback| fallback.agent_type), routes.fallbacks.len())
    };
    assert_eq!(routed(fallback(None, Some("search_hotels"))), (Some("hotel_agent".into()), 1));
    assert_eq!(routed(fallback(None, Some("search_flights"))), (None, 0), "its own agent has the action");
    assert_eq!(routed(fallback(Some("later_agent"), None)), (Some("later_agent".into()), 0));
    let auto = Step { agent_type: "auto".into(), ..fallback(None, Some("search_hotels")) };
    assert_eq!(routed(auto), (Some("hotel_agent".into()), 1), "the agent of the step is chosen first");
    let refused = [("UNKNOWN_ACTION".to_owned(), "/steps/0/fallback".to_owned())];
    assert_eq!(issues_of(vec![fallback(None, Some("swim"))], &router), refused);
    assert_eq!(issues_of(vec![fallback(Some("hotel_agent"), Some("swim"))], &router), refused);
    assert_eq!(
        issues_of(vec![fallback(Some("hotel_agent"), None)], &router),
        refused,
        "it lacks the action of the step"
    );
}

#[test]
fn an_agent_that_takes_any_action_keeps_a_fallback_action_that_nobody_else_has() {
    let router = Router::new(RouterSettings::default());
    let cook = agent("cook", "cooks soup and bread", &[], &["make_soup"]);
    router.update_agents(vec![agent("w", "", &[], &[]), agent("fallback", "fallback f1", &[], &[]), cook]);
    for (action, expected) in [("f1", None), ("make_soup", Some("cook"))] {
        let fallback = Some(Fallback { agent_type: None, action: Some(action.into()) });
        let step = Step { fallback, ..with_action(step("s", "w", ""), "a1") };
        let mut plan = Plan { steps: vec![step], ..Plan::default() };
        route_plan(&mut plan, &router).expect("its agent type takes any action");
        let agent_type = plan.steps.remove(0).fallback.and_then(|fallback| fallback.agent_type);
        assert_eq!(agent_type, expected.map(AgentType::from), "{action}");
    }
}

#[test]
fn similarity_orders_agents_with_the_same_action() {
    let router = Router::new(RouterSettings::default());
    router.update_agents(vec![
        agent("flights", "plane tickets", &[], &["search"]),
        agent("hotels", "rooms for a night", &[], &["search"]),
    ]);
    let choice = router.choose("rooms in Rome", "search").expect("both have the action");
    assert_eq!(choice.agent_type.as_str(), "hotels");
}

#[test]
fn an_agent_type_with_a_live_worker_ranks_before_one_without() {
    let router = Router::new(RouterSettings::default());
    let mut dear = agent("lodging_agent", "Finds hotels and inns for a number of nights.", &[], &["find_room"]);
    (dear.success_rate, dear.cost) = (0.5, 5.0);
    router.update_agents(agents().into_iter().chain([dear]).collect());
    let text = "Find a hotel near the Louvre";
    let chosen = |text: &str, action: &str| router.choose(text, action).expect("somebody fits");
    let live = |names: &[&str]| router.update_live(Arc::new(names.iter().map(|name| AgentType::from(*name)).collect()));
    assert_eq!(chosen(text, "").agent_type.as_str(), "hotel_agent", "nothing is known of workers");
    live(&[]);
    assert_eq!(chosen(text, "").agent_type.as_str(), "hotel_agent", "none is live: the best one");
    live(&["lodging_agent", "flight_agent"]);
    let choice = chosen(text, "");
    assert_eq!(choice.agent_type.as_str(), "lodging_agent");
    let lives: Vec<f64> = choice.candidates.iter().map(|candidate| candidate.factors["live"]).collect();
    assert_eq!(lives[..2], [1.0, 0.0], "{choice:?}");
    live(&["flight_agent", "validation_agent"]);
    let choice = chosen(text, "");
    assert_eq!(choice.agent_type.as_str(), "hotel_agent", "a live worker for something else does not help");
    assert_eq!(chosen("anything", "search_hotels").agent_type.as_str(), "hotel_agent", "only this one has the action");
    live(&["hotel_agent", "lodging_agent"]);
    assert_eq!(chosen(text, "").agent_type.as_str(), "hotel_agent");
}

#[test]
fn a_missing_live_worker_gives_one_warning_per_agent_type() {
    let router = router(RouterSettings::default());
    router.update_live(Arc::new(BTreeSet::from([AgentType::from("flight_agent")])));
    let mut plan = Plan {
        steps: ["find a hotel", "find a hotel for the second night", "find a flight", "check the limits of a budget"]
            .into_iter()
            .enumerate()
            .map(|(n, text)| step(&format!("s{n}"), "auto", text))
            .collect(),
        ..Plan::default()
    };
    let routed = route_plan(&mut plan, &router).expect("everything can be routed");
    let told: Vec<_> = routed.warnings.iter().map(|w| (w.code.as_str(), w.pointer.as_str())).collect();
    assert_eq!(told, [("NO_LIVE_WORKER", "/steps/0/agent_type"), ("NO_LIVE_WORKER", "/steps/3/agent_type")]);
    assert!(routed.warnings[0].detail.contains("`hotel_agent`"));
}

#[test]
fn ties_are_broken_by_name() {
    let router = Router::new(RouterSettings::default());
    router.update_agents(["c", "a", "b"].map(|name| agent(name, "do things", &[], &[])).into());
    let order: Vec<String> = router.route("do things").iter().map(|c| c.agent_type.to_string()).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn nested_plans_are_routed() {
    let router = router(RouterSettings::default());
    let mut inner = step("stay", "auto", "find a hotel for three nights");
    inner.id = "inner".into();
    let mut outer = Step::new("sub", "");
    outer.kind = StepKind::Plan;
    outer.plan = Some(Box::new(Plan { steps: vec![inner], ..Plan::default() }));
    let mut finish = step("finish", "auto", "");
    finish.kind = StepKind::Finish;
    let mut plan = Plan {
        steps: vec![step("fly", "TBD", "find a flight"), step("fixed", "own_agent", "find a flight"), outer, finish],
        ..Plan::default()
    };
    let routed = route_plan(&mut plan, &router).expect("everything can be routed");
    assert_eq!(routed.warnings, [], "it is not known who lives");
    let routes = routed.routes;
    let routed: Vec<_> = routes.iter().map(|r| (r.step.as_str(), r.agent_type.as_str())).collect();
    assert_eq!(routed, [("fly", "flight_agent"), ("inner", "hotel_agent")]);
    assert_eq!(plan.steps[0].agent_type.as_str(), "flight_agent");
    assert_eq!(plan.steps[1].agent_type.as_str(), "own_agent");
    let inner = plan.steps[2].plan.as_ref().map(|p| p.steps[0].agent_type.clone());
    assert_eq!(inner, Some("hotel_agent".into()));
}

#[test]
fn every_step_that_cannot_be_routed_is_named() {
    let router = router(RouterSettings { threshold: 0.5, ..RouterSettings::default() });
    let inner = Plan { steps: vec![step("purl", "auto", "purl hot wool")], ..Plan::default() };
    let mut outer = Step::new("sub", "");
    outer.plan = Some(Box::new(inner));
    let mut plan = Plan { steps: vec![step("knit", "auto", "knit with hot wool"), outer], ..Plan::default() };
    let issues = route_plan(&mut plan, &router).expect_err("nobody knits");
    let places: Vec<_> = issues.iter().map(|i| (i.code.as_str(), i.pointer.as_str())).collect();
    assert_eq!(places, [("UNROUTABLE", "/steps/0/agent_type"), ("UNROUTABLE", "/steps/1/plan/steps/0/agent_type")]);
    assert!(issues[0].detail.contains("`hotel_agent`") && !issues[0].hint.is_empty(), "{:?}", issues[0]);
}

#[test]
fn a_large_registry_gives_the_same_answers() {
    let router = Router::new(RouterSettings::default());
    let noise =
        (0..500).map(|i| agent(&format!("worker_{i}"), &format!("handles requests of queue number {i}"), &[], &[]));
    router.update_agents(agents().into_iter().chain(noise).collect());
    assert_eq!(router.choose("Find a hotel near the Louvre", "").map(|c| c.agent_type), Ok("hotel_agent".into()));
    assert_eq!(router.choose("requests of queue number 77", "").map(|c| c.agent_type), Ok("worker_77".into()));
}

fn router(settings: RouterSettings) -> Router {
    let router = Router::new(settings);
    router.update_agents(agents());
    router
}

fn agents() -> Vec<Agent> {
    vec![
        agent("flight_agent", "Finds return flights between two cities.", &["find plane tickets"], &["search_flights"]),
        agent("hotel_agent", "Finds hotels for a number of nights.", &["find accommodation"], &["search_hotels"]),
        agent("activity_agent", "Finds things to do.", &["suggest sights and museums"], &["find_activities"]),
        agent(
            "validation_agent",
            "Adds up costs and compares them with a budget.",
            &["check limits"],
            &["validate_budget"],
        ),
    ]
}

fn agent(name: &str, description: &str, capabilities: &[&str], actions: &[&str]) -> Agent {
    let action = |name: &&str| Action {
        name: (*name).into(),
        description: String::new(),
        inputs: None,
        outputs: None,
        side_effect: false,
    };
    Agent {
        description: description.into(),
        capabilities: capabilities.iter().map(|c| (*c).into()).collect(),
        actions: actions.iter().map(action).collect(),
        ..Agent::named(name.into())
    }
}

fn step(id: &str, agent_type: &str, description: &str) -> Step {
    Step { description: description.into(), ..Step::new(id, agent_type) }
}

#[test]
fn outcomes_change_the_selected_agent() {
    let router = Router::new(RouterSettings { learn: true, ..RouterSettings::default() });
    router.update_agents(agents());
    let text = "somewhere to sleep near the station";
    for _ in 0..20 {
        router.record_match("somewhere to sleep close to the airport", &"hotel_agent".into(), true);
        router.record_match("how do we get there by plane", &"flight_agent".into(), true);
    }
    let choice = router.choose(text, "").expect("outcomes tell who does it");
    assert_eq!(choice.agent_type.as_str(), "hotel_agent");
    assert!(choice.candidates[0].factors["learned"] > 0.0);
}

#[test]
fn outcomes_are_ignored_unless_learning_is_on() {
    let router = router(RouterSettings::default());
    router.record_match("find a hotel", &"hotel_agent".into(), true);
    router.record_no_match("say hello");
    assert!(router.learner.is_none());
}

#[test]
fn measured_success_orders_candidates_inside_the_gate() {
    let router = Router::new(RouterSettings { local_model: String::new(), ..RouterSettings::default() });
    router.update_agents(["east", "west"].map(|name| agent(name, "translate texts", &[], &[])).into());
    assert_eq!(router.choose("translate texts", "").map(|c| c.agent_type), Ok("east".into()));
    let now_ms = Clock::system().now_ms();
    for _ in 0..10 {
        router.record_outcome(&"east".into(), "", false, Some(5), now_ms);
        router.record_outcome(&"west".into(), "", true, Some(7), now_ms);
    }
    let choice = router.choose("translate texts", "").expect("both fit");
    assert_eq!((choice.agent_type.as_str(), choice.candidates[0].latency_ms), ("west", Some(7)));
    assert!(choice.candidates[0].factors["outcomes"] > 9.0);
}

#[tokio::test]
async fn a_failed_endpoint_does_not_prevent_routing() {
    let settings = RouterSettings { embed_url: "http://127.0.0.1:1/v1".into(), ..RouterSettings::default() };
    let router = router(settings);
    router.prefetch(&["Find a hotel near the Louvre".to_owned()]).await;
    let choice = router.choose("Find a hotel near the Louvre", "").expect("the words fit");
    assert_eq!(choice.agent_type.as_str(), "hotel_agent");
    assert!(!choice.candidates[0].factors.contains_key("remote"));
}

#[tokio::test]
async fn remote_vectors_are_combined_with_other_scorers() {
    use axum::routing::post;
    use axum::{Json, Router as Routes};
    use serde_json::{Value, json};

    async fn embed(Json(request): Json<Value>) -> Json<Value> {
        let vector = |text: &Value| match text.as_str().unwrap_or_default() {
            text if text.contains("bed") || text.contains("otel") => json!([1.0, 0.0]),
            _ => json!([0.0, 1.0]),
        };
        let texts = request["input"].as_array().cloned().unwrap_or_default();
        let rows = texts.iter().enumerate().map(|(index, text)| json!({"index": index, "embedding": vector(text)}));
        Json(json!({"data": rows.collect::<Vec<_>>()}))
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let served = axum::serve(listener, Routes::new().route("/v1/embeddings", post(embed))).into_future();
    let embed_url = format!("http://{address}/v1");
    let router = router(RouterSettings { embed_url, embed_timeout_ms: 60_000, ..RouterSettings::default() });
    let text = "a bed for one night";
    let asked = async {
        assert!(!router.rank(text, "", 1).candidates.iter().any(|c| c.factors.contains_key("remote")));
        router.prefetch(&[]).await;
        router.rank(text, "", 5)
    };
    let ranking = tokio::select! {
        ranking = asked => ranking,
        _ = served => unreachable!("the endpoint serves for ever"),
    };
    assert_eq!(ranking.candidates[0].agent_type.as_str(), "hotel_agent");
    assert!(ranking.candidates[0].factors["remote"] > 0.99, "{ranking:?}");
}
