//! `goalmill model check` against servers of different powers.

use anyhow::{Context, Result};
use goalmill_common::config::Dialect;
use goalmill_demo::scripted::{Feature, Script, Scripted, ScriptedCall};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::process::binary;
use serde_json::{Value, json};
use tokio::process::Command;

/// The answers of a model that can do everything; the last one is for the tool's result.
fn able() -> Vec<Scripted> {
    let says = |when: &str, scripted: Scripted| Scripted { when: vec![when.into()], ..scripted };
    let steps = json!({"steps": [
        {"id": "a", "agent_type": "research_agent", "dependencies": []},
        {"id": "b", "work": {"agent_type": "writer_agent"}, "dependencies": ["a"]},
    ]});
    let call = ScriptedCall { name: "add".into(), arguments: json!({"a": 1234, "b": 4321}) };
    vec![
        says("5555", Scripted::text("The sum is 5,555.")),
        says("ready", Scripted::text("ready")),
        says(
            "Count",
            Scripted { chunk: Some(4), ..Scripted::text("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20") },
        ),
        says("bees", Scripted { json: Some(steps), ..Scripted::default() }),
        says("add 1234", Scripted { tool_calls: vec![call], ..Scripted::default() }),
    ]
}

/// Exit code and output of a check.
async fn check(script: Script, dialect: Dialect) -> Result<(Option<i32>, Value)> {
    let server = ModelServer::start(script).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("goalmill.yaml");
    std::fs::write(&file, serde_json::to_string(&json!({"models": [server.settings("one", dialect)]}))?)?;
    let mut command = Command::new(binary());
    command.args(["model", "check", "one", "-o", "json", "--config"]).arg(&file);
    let output = command.output().await?;
    let text = String::from_utf8(output.stdout)?;
    let value =
        serde_json::from_str(&text).with_context(|| format!("{text} {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code(), value))
}

/// What passed, with its mode.
fn passed(check: &Value) -> Vec<String> {
    let probes = check["probes"].as_array().expect("a list").iter().filter(|probe| probe["passed"] == true);
    probes.map(|probe| format!("{}: {}", text(&probe["probe"]), text(&probe["mode"]))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_model_that_can_do_everything_passes_in_each_dialect() -> Result<()> {
    let modes = [
        (Dialect::Openai, "json_schema"),
        (Dialect::Responses, "json_schema"),
        (Dialect::Anthropic, "forced_tool"),
        (Dialect::Ollama, "json_schema"),
    ];
    for (dialect, mode) in modes {
        let (code, found) = check(Script::new(able()), dialect).await?;
        let all = ["text: text", "stream: text", &format!("plan: {mode}"), "tool call: tools", "tool result: tools"];
        assert_eq!(passed(&found), all, "{found:#}");
        assert_eq!((code, &found["usable"]), (Some(0), &json!(true)));
    }
    Ok(())
}

#[tokio::test]
async fn a_server_without_schemas_is_used_in_the_next_mode() -> Result<()> {
    let script = Script { refuses: [Feature::JsonSchema, Feature::ForcedTool].into(), ..Script::new(able()) };
    let (code, found) = check(script, Dialect::Openai).await?;
    assert!(passed(&found).contains(&"plan: json_object".to_owned()), "{found:#}");
    assert_eq!(code, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_model_that_calls_no_tool_is_not_usable() -> Result<()> {
    let mut answers = able();
    answers[4].tool_calls = Vec::new();
    answers[4].text = Some("The sum is 5556.".into());
    let (code, found) = check(Script::new(answers), Dialect::Openai).await?;
    assert_eq!((code, &found["usable"]), (Some(1), &json!(false)));
    assert_eq!(found["probes"][3]["detail"], "the model called no tool", "{found:#}");
    Ok(())
}

#[tokio::test]
async fn a_call_in_the_text_is_a_call() -> Result<()> {
    let mut answers = able();
    answers[4].tool_calls = Vec::new();
    answers[4].text = Some("{\"name\": \"add\", \"arguments\": {\"a\": 1234, \"b\": 4321}}".into());
    let (code, found) = check(Script::new(answers), Dialect::Openai).await?;
    assert_eq!((code, passed(&found).len()), (Some(0), 5), "{found:#}");
    assert!(text(&found["probes"][3]["detail"]).contains("in the text"), "{found:#}");
    Ok(())
}

#[tokio::test]
async fn an_answer_in_one_piece_is_told() -> Result<()> {
    let mut answers = able();
    answers[2].chunk = Some(1_000);
    let (code, found) = check(Script::new(answers), Dialect::Openai).await?;
    assert_eq!((code, &found["probes"][1]["passed"]), (Some(0), &json!(false)), "{found:#}");
    Ok(())
}

#[tokio::test]
async fn a_refused_key_is_told_once() -> Result<()> {
    let refusal = Scripted { times: Some(99), ..Scripted::status(401, "Incorrect API key provided") };
    let (code, found) = check(Script::new([refusal]), Dialect::Openai).await?;
    assert_eq!((code, found["probes"].as_array().map(Vec::len)), (Some(1), Some(1)), "{found:#}");
    assert!(text(&found["probes"][0]["detail"]).contains("Incorrect API key"), "{found:#}");
    Ok(())
}
