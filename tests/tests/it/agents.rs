//! `goalmill dev --model`: a goal that no rule knows, planned and done by a scripted model.

use std::path::Path;

use anyhow::{Context, Result};
use goalmill_tests::dev::{Dev, program};
use serde_json::{Value, json};

const GOAL: &str = "Tell the garden club in a Markdown file which of tea and coffee grounds feed roses better";
const REPORT: &str = "# Tea or coffee for roses\n\n| | tea | coffee |\n|---|---|---|\n| nitrogen | 4 % | 2 % |\n";

/// What a scripted model answers to the planner and to the agents.
fn script() -> Value {
    let planner = "You plan work for software agents";
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let usage = json!({"input": 1_000, "output": 100});
    json!({"answers": [
        {"when": planner, "times": 1, "json": {"steps": [
            {"id": "facts", "description": "Find what both hold", "agent_type": "research_agent", "action": "research",
             "inputs": {"topic": "nutrients of tea leaves and coffee grounds"}, "dependencies": []},
            {"id": "report", "description": "Write it to roses.md", "agent_type": "writer_agent", "action": "write",
             "inputs": {"title": "Tea or coffee for roses", "findings": "{{ steps.facts.outputs.findings }}"},
             "dependencies": ["facts"]},
        ]}},
        {"when": "You are a researcher", "times": 1, "usage": usage,
         "tool_calls": [call("search_outputs", json!({"query": "nutrients"}))]},
        {"when": "You are a researcher", "times": 1, "usage": usage,
         "tool_calls": [call("final_answer", json!({"findings": "tea"}))]},
        {"when": "You are a researcher", "times": 1, "usage": usage, "tool_calls": [call("final_answer",
            json!({"findings": [{"text": "Tea has 4 % nitrogen, coffee 2 %.", "source": "model knowledge"}]}))]},
        {"when": ["You are a writer", "Tea has 4 % nitrogen"], "times": 1, "usage": usage,
         "tool_calls": [call("write_file", json!({"path": "roses.md", "text": REPORT}))]},
        {"when": "You are a writer", "times": 1, "usage": usage,
         "tool_calls": [call("final_answer", json!({"text": REPORT, "path": "roses.md"}))]},
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_without_a_rule_is_planned_and_done_by_a_model() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (file, files) = (dir.path().join("script.json"), dir.path().join("files"));
    std::fs::write(&file, script().to_string())?;
    let config = format!("[worker]\nfiles_dir = {:?}\n", files.display().to_string());
    let dev = Dev::start(&["--model", "scripted", "--model-script", &file.display().to_string()], &config).await?;
    let ended: Value = serde_json::from_str(&dev.says(&["submit", GOAL, "--wait", "-o", "json"], 0)?)?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(ended["results"]["report"]["path"], "roses.md", "{ended:#}");
    let plan = ended["plan_id"].as_str().context("it has an id")?;
    let report = std::fs::read_to_string(files.join(plan).join("roses.md"))?;
    assert_eq!((report.as_str(), table_rows(&report)), (REPORT, 1));
    let events = dev.events(plan)?;
    let tokens = |step: &str| {
        let of = |event: &&Value| event["type"] == "call_recorded" && event["step_id"] == step;
        let usage = |event: &Value, part: &str| event["data"]["usage"][part].as_u64().unwrap_or(0);
        let all = |event: &Value| usage(event, "prompt_tokens") + usage(event, "completion_tokens");
        events.iter().filter(of).map(all).sum::<u64>()
    };
    assert_eq!((tokens("facts"), tokens("report")), (3_300, 2_200), "each call of a model is recorded with its usage");
    let is_end = |event: &&Value| event["type"] == "step_completed";
    let is_silent = |event: &Value| event["data"]["tokens"].as_u64().unwrap_or(0) == 0;
    assert!(events.iter().filter(is_end).all(is_silent), "no usage is counted twice");
    let shown: Value = serde_json::from_str(&dev.says(&["plan", "get", plan, "-o", "json"], 0)?)?;
    assert!(shown["usage"]["tokens"].as_u64() >= Some(5_500), "{shown:#}");
    let agents = dev.says(&["agent", "list", "-o", "name"], 0)?;
    assert!(agents.contains("code_agent") && !agents.contains("flight_agent"), "no demo agent is served: {agents}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_work_at_once_never_use_more_than_the_budget_of_their_plan() -> Result<()> {
    const BUDGET: u64 = 6_000;
    let dir = tempfile::tempdir()?;
    let (script, plan) = (dir.path().join("script.json"), dir.path().join("plan.json"));
    let again = json!({"when": "You spend", "usage": {"input": 100, "output": 400},
                       "tool_calls": [{"name": "list_files", "arguments": {}}]});
    std::fs::write(&script, json!({"answers": [again]}).to_string())?;
    let step = |id: &str| json!({"id": id, "agent_type": "spender", "on_failure": "continue"});
    let document = json!({"name": "two", "steps": [step("a"), step("b")], "budget": {"tokens": BUDGET}});
    std::fs::write(&plan, document.to_string())?;
    let config = format!(
        "[worker]\nfiles_dir = {:?}\n[worker.agents.spender]\nkind = \"llm\"\nsystem = \"You spend.\"\n\
         tools = [\"list_files\"]\noutput_tokens_max = 1000\n",
        dir.path().join("files").display().to_string()
    );
    let dev = Dev::start(&["--model", "scripted", "--model-script", &script.display().to_string()], &config).await?;
    let ended: Value =
        serde_json::from_str(&dev.says(&["run", &plan.display().to_string(), "--wait", "-o", "json"], 3)?)?;
    for step in ["a", "b"] {
        assert_eq!(ended["failures"][step]["code"], "BUDGET_EXCEEDED", "{ended:#}");
    }
    let used = ended["usage"]["tokens"].as_u64().context("it has used some")?;
    assert!(used <= BUDGET && used > BUDGET / 2, "{used} tokens were used: {ended:#}");
    let id = ended["plan_id"].as_str().context("it has an id")?;
    let events = dev.events(id)?;
    let suspended = events.iter().filter(|event| event["type"] == "step_suspended").count();
    assert!(suspended > 0, "a step has waited for the budget");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_hands_work_to_others_and_shows_what_its_model_writes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (script, plan) = (dir.path().join("script.json"), dir.path().join("plan.json"));
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let steps = json!([{"id": "sum", "description": "Add them", "agent_type": "adder", "inputs": {"numbers": [1, 2]}}]);
    let answers = json!({"answers": [
        {"when": ["You lead", "\"sum\":7"], "tool_calls": [call("final_answer", json!({"result": "3 and 7"}))]},
        {"when": ["You lead", "\"sum\":3"],
         "tool_calls": [call("adder", json!({"task": "handed over", "inputs": {"numbers": [3, 4]}}))]},
        {"when": "You lead", "chunk": 40, "chunk_delay_ms": 400,
         "tool_calls": [call("submit_plan", json!({"name": "by a plan, which is written slowly", "steps": steps}))]},
    ]});
    std::fs::write(&script, answers.to_string())?;
    std::fs::write(&plan, json!({"name": "lead", "steps": [{"id": "a", "agent_type": "lead"}]}).to_string())?;
    let config = format!(
        "[worker]\nfiles_dir = {:?}\n[worker.agents.adder]\nkind = \"transform\"\n\
         expression = \"{{'sum': inputs.numbers | sum}}\"\n\
         [worker.agents.lead]\nkind = \"llm\"\nsystem = \"You lead.\"\nstream = true\n\
         tools = [{{ name = \"submit_plan\", agents = [\"adder\"] }}, {{ agent = \"adder\" }}]\n",
        dir.path().join("files").display().to_string()
    );
    let dev = Dev::start(&["--model", "scripted", "--model-script", &script.display().to_string()], &config).await?;
    let ended: Value =
        serde_json::from_str(&dev.says(&["run", &plan.display().to_string(), "--wait", "-o", "json"], 0)?)?;
    assert_eq!(ended["results"]["a"]["result"], "3 and 7", "{ended:#}");
    let events = dev.events(ended["plan_id"].as_str().context("it has an id")?)?;
    let outcomes: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "step_resumed")
        .map(|event| &event["data"]["call"]["outcome"])
        .collect();
    let sums: Vec<&Value> =
        outcomes.iter().filter_map(|outcome| outcome["outputs"].as_object()?.values().next()).collect();
    assert_eq!(sums, [&json!({"sum": 3}), &json!({"sum": 7})], "{outcomes:?}");
    let shows = |event: &Value| {
        let message = event["data"]["message"].as_str().unwrap_or_default();
        event["type"] == "step_progress" && message.contains("the model writes: ") && message.contains("plan")
    };
    assert!(events.iter().any(shows), "what the model writes is progress of the step");
    let child = outcomes[0]["plan"].as_str().context("the call has a plan")?;
    let child: Value = serde_json::from_str(&dev.says(&["plan", "get", child, "-o", "json"], 0)?)?;
    assert_eq!((&child["status"], &child["parent"]), (&json!("completed"), &ended["plan_id"]), "{child:#}");
    Ok(())
}

/// Rows of the tables in a Markdown text, without their heads.
fn table_rows(text: &str) -> usize {
    let is_rule = |line: &&str| line.starts_with("|---");
    let rows = text.lines().filter(|line| line.starts_with('|')).count();
    rows - 2 * text.lines().filter(is_rule).count()
}

#[test]
fn a_model_that_cannot_be_used_is_refused_with_what_to_do() -> Result<()> {
    for (model, part) in [
        ("gpt-4.1", "OPENAI_API_KEY"),
        ("claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("unheard-of", "GOALMILL_LLM_BASE_URL"),
        ("scripted", "--model-script"),
    ] {
        let output = program().args(["dev", "--model", model, "--listen", "127.0.0.1:0"]).output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
    Ok(())
}

#[test]
fn doctor_asks_each_model_one_question() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("goalmill.toml");
    std::fs::write(&config, "[[models]]\nname = \"gone\"\nbase_url = \"http://127.0.0.1:1/v1\"\nretries = 0\n")?;
    let said = doctor(&config)?;
    let check = said["checks"].as_array().and_then(|all| all.iter().find(|check| check["topic"] == "models"));
    let check = check.context("the model is checked")?;
    assert_eq!(check["level"], "problem", "{check:#}");
    assert!(check["detail"].as_str().is_some_and(|detail| detail.contains("`gone`")), "{check:#}");
    assert!(check["hint"].as_str().is_some_and(|hint| hint.contains("LLM_UNREACHABLE")), "{check:#}");
    Ok(())
}

fn doctor(config: &Path) -> Result<Value> {
    let nobody = "http://127.0.0.1:1";
    let output = program().args(["doctor", "--server", nobody, "-o", "json", "--config"]).arg(config).output()?;
    serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
