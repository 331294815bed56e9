//! Drafts, revisions and planning agents that use stored plans.

use goalmill_common::stored_plan::StoredPlanVersion;

use super::*;
use crate::OfferedPlans;
use crate::agent_planner::{AgentPlanner, PlanningAgents, PlanningQuestion, PlanningReply};

/// A stored plan `trip@3`, which takes a city.
fn offered() -> Terms {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let steps = json!([
        {"id": "find", "agent_type": "air", "action": "find_flight", "inputs": {"to": "{{ goal.metadata.inputs.city }}"}},
        {"id": "again", "agent_type": "air", "action": "find_flight", "inputs": {"to": "Rome"}},
    ]);
    let trip = json!({"name": "trip", "version": 3, "description": "Plans a whole trip", "steps": 2, "actor": "ann",
                      "stored_at": "2026-01-01T00:00:00Z", "input_schema": schema.clone(),
                      "document": {"input_schema": schema, "steps": steps}});
    let trip: StoredPlanVersion = serde_json::from_value(trip).expect("it is a version");
    Terms { stored_plans: Arc::new(OfferedPlans::new(vec![trip], BTreeMap::new())), ..Terms::default() }
}

fn uses(id: &str, plan: &str, dependencies: &[&str]) -> Value {
    json!({"id": id, "description": "Plan the trip", "use": plan, "inputs": {"city": "Rome"}, "dependencies": dependencies})
}

/// The stored plan that a step uses, and how many steps it has.
fn used(step: &Step) -> (Option<&str>, Option<usize>) {
    (step.stored.as_deref(), step.plan.as_ref().map(|plan| plan.steps.len()))
}

#[tokio::test]
async fn a_draft_uses_stored_plans_and_one_that_is_not_offered_is_criticised() {
    let answers = vec![
        says(&json!({"steps": [flight(), uses("rest", "hotel", &["flight"])]})),
        says(&json!({"steps": [uses("rest", "trip", &["flight"])]})),
    ];
    let world = world(LlmSettings::default(), vec![answers]).await;
    let request = PlanRequest { terms: offered(), ..request() };
    let planned = world.llm.plan(&request).await.expect("the correction is valid").planned;
    assert_eq!(ids(&planned), ["flight", "rest"]);
    assert_eq!(used(&planned.plan.steps[1]), (Some("trip@3"), Some(2)));
    let issue = &account(&planned)["rounds"][0]["issues"][0];
    assert_eq!((&issue["code"], &issue["pointer"]), (&json!("STORED_PLAN_NOT_FOUND"), &json!("/steps/1/use")));
    for call in [0, 1] {
        assert!(prompt_of(&world, call).contains("`trip@3`: Plans a whole trip"), "{}", prompt_of(&world, call));
    }
    let critique = prompt_of(&world, 1);
    assert!(critique.contains("use one of `trip@3`") && !critique.contains("goal.metadata.inputs.city"), "{critique}");
}

#[tokio::test]
async fn prompts_and_schemas_say_nothing_of_stored_plans_where_there_are_none() {
    let world = world(LlmSettings::default(), vec![vec![says(&good())]]).await;
    world.llm.plan(&request()).await.expect("the answer is valid");
    let body = prompt_of(&world, 0);
    assert!(!body.contains("tored plan") && !body.contains("\"use\""), "{body}");
}

#[tokio::test]
async fn tools_add_steps_that_use_stored_plans() {
    let turns = vec![calls(&[("add_step", uses("all", "trip@3", &[])), ("finalize_plan", json!({}))])];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let request = PlanRequest { terms: offered(), ..request() };
    let planned = world.tools.plan(&request).await.expect("the calls give a plan").planned;
    assert_eq!(used(&planned.plan.steps[0]), (Some("trip@3"), Some(2)));
    let body = world.servers[0].seen()[0].body.clone();
    assert!(
        body["tools"].to_string().contains("trip@3") && body["messages"].to_string().contains("Plans a whole trip")
    );
}

#[tokio::test]
async fn a_revision_uses_stored_plans_and_keeps_those_that_are_in_use() {
    let mut request = ReviseRequest { terms: offered(), ..revise_request() };
    // A version that is offered no more.
    let old = json!({"steps": [{"id": "old", "agent_type": "air", "action": "find_flight", "inputs": {"to": "Rome"}}]});
    let mut running = uses("tour", "trip@1", &[]);
    (running["kind"], running["plan"]) = (json!("plan"), old);
    let running: Step = serde_json::from_value(running).expect("it is a step");
    request.situation.plan.steps.push(running);
    let proposal = |change: Value| json!({"strategy": "workaround", "summary": "Another way", "changes": [change]});
    let modified = || json!({"modify_step": {"step": uses("tour", "trip@1", &["flight"])}});
    let forged = json!({"set_fields": {"step": "tour", "fields": {"use": "trip@7"}}});
    let answers = vec![
        says(&proposal(forged)),
        says(&json!({"strategy": "workaround", "summary": "Another way",
                     "changes": [modified(), {"replace_step": {"step": "room", "with": [uses("rest", "trip", &["flight"])]}}]})),
    ];
    let world = world(LlmSettings::default(), vec![answers]).await;
    let revised = world.llm.revise(&request).await.expect("the second proposal holds");
    let [Change::ModifyStep { step: kept }, Change::ReplaceStep { with, .. }] = revised.changes.as_slice() else {
        panic!("{revised:?}");
    };
    assert_eq!((used(kept), used(&with[0])), ((Some("trip@1"), Some(1)), (Some("trip@3"), Some(2))));
    assert!(prompt_of(&world, 0).contains("Plans a whole trip"));
    let critique = prompt_of(&world, 1);
    assert!(critique.contains("no stored plan `trip@7`") && critique.contains("use `trip@3`"), "{critique}");
}

/// Answers with one document after the other, and keeps the questions.
struct Answers(Mutex<(Vec<Value>, Vec<Value>)>);

#[async_trait]
impl PlanningAgents for Answers {
    async fn ask(&self, question: PlanningQuestion) -> PlanningReply {
        let mut kept = self.0.lock().expect("nobody panicked");
        kept.1.push(question.inputs);
        let answer = kept.0.remove(0);
        PlanningReply { outputs: Ok(Json::from_value(&answer)), usage: Usage::default(), plan: None }
    }
}

#[tokio::test]
async fn an_agent_that_plans_gets_the_stored_plans_and_uses_them() {
    let answers = vec![json!({"steps": [uses("all", "trip@2", &[])]}), json!({"steps": [uses("all", "trip@3", &[])]})];
    let agents = Arc::new(Answers(Mutex::new((answers, Vec::new()))));
    let planner = AgentPlanner::new("agent:mine", agents.clone()).expect("the name is valid");
    let request = PlanRequest { terms: offered(), ..request() };
    let planned = planner.plan(&request).await.expect("the second answer is valid").planned;
    assert_eq!(used(&planned.plan.steps[0]), (Some("trip@3"), Some(2)));
    let questions = agents.0.lock().expect("nobody panicked").1.clone();
    assert_eq!(questions[0]["stored_plans"][0]["name"], "trip@3");
    assert_eq!(questions[1]["issues"][0]["hint"], "use `trip@3`", "{}", questions[1]);
    assert_eq!(questions[1]["draft"]["steps"][0].get("plan"), None);
}
