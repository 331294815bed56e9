//! Plans that calls of an agent run: `submit_plan`, and other agents as tools.

use goalmill_common::agent::{Action, Agent};
use goalmill_common::call::CallWaitKind;
use serde_json::{Value, json};

use crate::world::{World, answers, calls, results, task};

fn planner() -> Value {
    json!({"tools": [{"name": "submit_plan", "agents": ["data_agent", "writer_agent"], "steps_max": 3, "plans_max": 2, "limit_seconds": 60}]})
}

fn steps() -> Value {
    json!([
        {"id": "read", "description": "Read it", "agent_type": "data_agent", "inputs": {"path": "a.csv"}},
        {"id": "write", "description": "Write it", "agent_type": "writer_agent", "dependencies": ["read"],
         "inputs": {"rows": "{{ steps.read.outputs.rows }}"}},
    ])
}

fn card() -> Agent {
    let action = |name: &str| Action {
        name: name.into(),
        description: format!("Does {name}."),
        inputs: Some(
            json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}).into(),
        ),
        outputs: None,
        side_effect: false,
    };
    let actions = vec![action("read"), action("join")];
    Agent { description: "Works with tables.".into(), actions, ..Agent::named("data_agent".into()) }
}

/// The tools that the model was offered first, by name.
fn offered(world: &World) -> Vec<(String, Value)> {
    let tools = world.seen()[0].body["tools"].as_array().cloned().unwrap_or_default();
    let entry =
        |tool: Value| (tool["function"]["name"].as_str().unwrap_or_default().to_owned(), tool["function"].clone());
    tools.into_iter().map(entry).collect()
}

#[tokio::test]
async fn the_plan_of_a_model_is_run_and_its_outputs_reach_the_model() {
    let plan = json!({"name": "two", "steps": steps()});
    for (outcome, part) in [
        (json!({"plan": "p0-x", "status": "completed", "outputs": {"write": {"text": "done"}}}), "p0-x"),
        (
            json!({"plan": "p0-x", "status": "failed", "error": {"code": "HTTP_404", "message": "gone"}}),
            "gone [HTTP_404]",
        ),
        (json!({"error": {"code": "DEPTH_EXCEEDED", "message": "too deep"}}), "too deep [DEPTH_EXCEEDED]"),
    ] {
        let replies = [calls([("submit_plan", plan.clone())]), answers(json!({"result": "x"}))];
        let mut world = World::new(planner(), replies).await;
        world.cards.push(card());
        let (ended, asked) = world.run_with(&task(json!({})), [outcome.clone()]).await;
        assert_eq!(ended.outputs(), json!({"result": "x"}));
        let wait = &asked[0];
        assert_eq!((asked.len(), wait.kind, wait.limit_ms), (1, CallWaitKind::Plan, Some(60_000)));
        assert_eq!(wait.plan.as_ref().expect("it has a plan").value(), plan);
        let told = results(&world.seen())[0].clone();
        assert_eq!(told["ok"], outcome.get("outputs").is_some(), "{told}");
        assert!(told.to_string().contains(part), "{told}");
        let (name, tool) = offered(&world)[0].clone();
        let said = tool["description"].as_str().unwrap_or_default().to_owned();
        assert_eq!(name, "submit_plan");
        assert!(said.contains("`data_agent`: Works with tables. Action `read`: Does read."), "{said}");
        assert!(said.contains("`writer_agent`"), "{said}");
    }
}

#[tokio::test]
async fn a_plan_that_is_not_valid_or_not_allowed_is_told_to_the_model_at_once() {
    let one = |step: Value| json!({"name": "x", "steps": [step]});
    let step = |agent: &str| json!({"id": "a", "description": "d", "agent_type": agent});
    let mut nested = step("data_agent");
    nested["plan"] = json!({"steps": [step("shell_agent")]});
    let mut cyclic = step("data_agent");
    cyclic["dependencies"] = json!(["a"]);
    let many =
        json!({"name": "x", "steps": [step("data_agent"), step("data_agent"), step("data_agent"), step("data_agent")]});
    let wrong = [one(step("shell_agent")), one(nested), one(cyclic), many, json!({"name": "x", "steps": []})];
    let parts = ["/steps/0/agent_type", "/steps/0", "itself", "/steps", "/steps"];
    let requests = wrong.map(|plan| calls([("submit_plan", plan)]));
    let replies: Vec<_> = requests.into_iter().chain([answers(json!({"result": "x"}))]).collect();
    let world = World::new(planner(), replies).await;
    let (ended, asked) = world.run_with(&task(json!({})), []).await;
    assert_eq!((ended.outputs(), asked.len()), (json!({"result": "x"}), 0));
    for (told, part) in results(&world.seen()).iter().zip(parts) {
        assert!(told["error"].as_str().is_some_and(|error| error.contains(part)), "{part}: {told}");
    }
}

#[tokio::test]
async fn an_agent_submits_so_many_plans() {
    let again = || calls([("submit_plan", json!({"name": "x", "steps": steps()}))]);
    let world = World::new(planner(), [again(), again(), again(), answers(json!({"result": "x"}))]).await;
    let done = || json!({"plan": "p", "status": "completed", "outputs": {}});
    let (ended, asked) = world.run_with(&task(json!({})), [done(), done(), done()]).await;
    assert_eq!((ended.outputs(), asked.len()), (json!({"result": "x"}), 2));
    let last = results(&world.seen()).pop().expect("there are three");
    assert!(last["error"].as_str().is_some_and(|error| error.contains("plans_max")), "{last}");
}

#[tokio::test]
async fn another_agent_is_a_tool_with_the_schema_of_its_card() {
    let settings = json!({"tools": [{"agent": "data_agent"}, {"agent": "other_agent"}]});
    let replies = [
        calls([
            ("data_agent__read", json!({"task": "Read {{ it }}", "inputs": {"path": "{{ goal }}"}})),
            ("data_agent__read", json!({"task": "Read it", "inputs": {"way": 1}})),
            ("data_agent__drop", json!({"task": "x"})),
            ("other_agent", json!({"task": "Do it"})),
        ]),
        answers(json!({"result": "x"})),
    ];
    let mut world = World::new(settings, replies).await;
    world.cards.push(card());
    let done = |outputs: Value| json!({"plan": "p0-x", "status": "completed", "outputs": {"call": outputs}});
    let (ended, asked) = world.run_with(&task(json!({})), [done(json!({"rows": 3})), done(json!({"y": 1}))]).await;
    assert_eq!((ended.outputs(), asked.len()), (json!({"result": "x"}), 2));
    let names: Vec<String> = offered(&world).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["data_agent__read", "data_agent__join", "other_agent", "final_answer"]);
    let read = &offered(&world)[0].1;
    assert_eq!(read["parameters"]["properties"]["inputs"]["required"], json!(["path"]));
    let step = asked[0].plan.as_ref().expect("it has a plan").value()["steps"][0].clone();
    assert_eq!((&step["agent_type"], &step["action"]), (&json!("data_agent"), &json!("read")));
    assert_eq!(
        (&step["description"], &step["inputs"]),
        (&json!("Read {{ it }}"), &json!("{{ goal.metadata.inputs }}"))
    );
    assert_eq!(asked[0].inputs.as_ref().expect("it has inputs").value(), json!({"path": "{{ goal }}"}));
    let told = results(&world.seen());
    assert_eq!((&told[0]["data"], &told[3]["data"]), (&json!({"rows": 3}), &json!({"y": 1})));
    assert!(told[1]["error"].as_str().is_some_and(|error| error.contains("/inputs")), "{}", told[1]);
    assert!(told[2]["error"].as_str().is_some_and(|error| error.contains("no such tool")), "{}", told[2]);
}

#[tokio::test]
async fn a_person_agrees_before_another_agent_works() {
    let settings =
        json!({"tools": [{"agent": "other_agent", "policy": "approve"}, {"agent": "third", "policy": "deny"}]});
    for (decisions, kinds) in [
        (vec![json!({"approved": false})], vec![CallWaitKind::Approval]),
        (
            vec![json!({"approved": true}), json!({"plan": "p", "status": "completed", "outputs": {}})],
            vec![CallWaitKind::Approval, CallWaitKind::Plan],
        ),
    ] {
        let replies = [calls([("other_agent", json!({"task": "Do it"}))]), answers(json!({"result": "x"}))];
        let world = World::new(settings.clone(), replies).await;
        let (ended, asked) = world.run_with(&task(json!({})), decisions).await;
        assert_eq!(ended.outputs(), json!({"result": "x"}));
        assert_eq!(asked.iter().map(|wait| wait.kind).collect::<Vec<_>>(), kinds);
        assert!(offered(&world).iter().all(|(name, _)| name != "third"));
    }
}
