//! Planners in any language: a Python program that plans and revises as an agent.

use std::path::Path;

use anyhow::{Context, Result};
use goalmill_tests::dev::Dev;
use serde_json::{Value, json};

/// Fails once, answers with an agent that nobody is, corrects that, and helps when a step has failed.
const PLANNER: &str = r#"
import json, os, sys

call = json.load(sys.stdin)
task, inputs = call["task"], call["inputs"]
agents = [card["agent_type"] for card in inputs["agents"]]
with open("asked.jsonl", "a") as log:
    log.write(json.dumps({"action": task["action"], "agents": agents, "issues": inputs.get("issues"),
                          "goal": inputs.get("goal", {}).get("description"), "limits": inputs["limits"]}) + "\n")
if task["action"] == "plan" and not os.path.exists("tried"):
    open("tried", "w").close()
    sys.exit(75)
if task["action"] == "plan":
    agent = "echo" if inputs.get("issues") else "nobody"
    document = {"confidence": 0.7, "steps": [
        {"id": "greet", "agent_type": agent, "inputs": {"text": "hello"}},
        {"id": "send", "agent_type": "fail", "depends_on": ["greet"], "retry": 0,
         "inputs": {"text": "{{ steps.greet.outputs.text }}"}},
    ]}
else:
    failed = inputs["situation"]["step"]
    document = {"strategy": "retry_with_agent", "summary": "echo is there",
                "changes": [{"type": "retry_step", "step": failed, "agent_type": "echo"}]}
print(json.dumps({"outputs": document, "cost": 0.25}))
"#;

fn settings(dir: &Path, card: &str) -> Result<String> {
    std::fs::write(dir.join("planner.py"), PLANNER)?;
    Ok(format!(
        "[planner]\norder = [\"agent:my_planner\", \"rules\"]\ntimeout_ms = 30000\n\n[worker.agents.my_planner]\n\
         kind = \"command\"\nargv = [\"python3\", \"planner.py\"]\ndir = \"{}\"\nenv = [\"PATH\"]\n{card}",
        dir.display()
    ))
}

fn of_type<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == name).collect()
}

#[tokio::test]
async fn an_agent_plans_is_criticised_and_revises() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let card = "card = { description = \"Plans.\", plans = true }\n";
    let dev = Dev::start(&["--demo-agents"], &settings(dir.path(), card)?).await?;
    // Braces in a goal are no expression.
    let text = dev.says(&["submit", "Greet {{ somebody }} politely", "--wait", "-o", "json"], 0)?;
    let result: Value = serde_json::from_str(&text)?;
    let plan = result["plan_id"].as_str().context("it has an id")?;
    assert_eq!(result["status"], "completed", "{result:#}");
    assert_eq!(result["results"]["send"]["text"], "hello", "{result:#}");

    let events = dev.events(plan)?;
    let created = of_type(&events, "plan_created");
    assert_eq!(created[0]["data"]["planner"], "agent:my_planner", "{created:#?}");
    let rounds = created[0]["data"]["provenance"]["rounds"].as_array().context("it has rounds")?;
    assert_eq!(rounds.len(), 2, "{rounds:#?}");
    assert_eq!(rounds[0]["issues"][0]["code"], "UNKNOWN_AGENT", "{rounds:#?}");
    let revised = of_type(&events, "plan_revised");
    assert_eq!(revised[0]["data"]["planner"], "agent:my_planner", "{revised:#?}");
    let calls: Vec<(&Value, &Value)> = of_type(&events, "model_answered")
        .into_iter()
        .map(|event| (&event["data"]["planner"], &event["data"]["usage"]["cost"]))
        .collect();
    assert_eq!(calls, vec![(&json!("agent:my_planner"), &json!(0.25)); 3], "each answer is paid by the plan");
    assert_eq!(result["usage"]["cost"], 0.75, "{result:#}");

    let asked = std::fs::read_to_string(dir.path().join("asked.jsonl"))?;
    let asked: Vec<Value> = asked.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let actions: Vec<&str> = asked.iter().filter_map(|task| task["action"].as_str()).collect();
    assert_eq!(actions, ["plan", "plan", "plan", "revise"], "a step that failed is tried again");
    assert_eq!(asked[0]["goal"], "Greet {{ somebody }} politely");
    let agents = asked[0]["agents"].as_array().context("it is a list")?;
    assert!(agents.contains(&json!("echo")) && !agents.contains(&json!("my_planner")), "{agents:?}");
    assert!(asked[0]["limits"]["steps_max"].as_u64().is_some_and(|most| most > 0), "{asked:#?}");

    // The questions are plans: each with its retries and its cost.
    let question = rounds[0]["plan"].as_str().context("it has an id")?;
    let types: Vec<Value> = dev.events(question)?.iter().map(|event| event["type"].clone()).collect();
    assert!(types.contains(&json!("step_retrying")) && types.contains(&json!("plan_completed")), "{types:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_whose_card_does_not_say_that_it_plans_is_passed_over() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let dev = Dev::start(&["--demo-agents"], &settings(dir.path(), "")?).await?;
    // The generic plan of the rules waits for a person.
    let text = dev.says(&["submit", "Greet somebody", "--wait", "-o", "json"], 7)?;
    let result: Value = serde_json::from_str(&text)?;
    let events = dev.events(result["plan_id"].as_str().context("it has an id")?)?;
    let created = of_type(&events, "plan_created")[0];
    assert_eq!(created["data"]["planner"], "rules", "{created:#}");
    let tried = created["data"]["provenance"].to_string();
    assert!(tried.contains("the card of `my_planner` does not say `plans: true`"), "{tried}");
    assert!(!dir.path().join("asked.jsonl").exists(), "it was not asked");
    Ok(())
}
