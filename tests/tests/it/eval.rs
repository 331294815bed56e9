//! `goalmill eval`: models that plan well, after a correction, or not at all.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_demo::scripted::{Script, Scripted, ScriptedUsage};
use goalmill_tests::dev::program;
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use crate::layering::root;

#[tokio::test(flavor = "multi_thread")]
async fn the_example_is_evaluated_for_each_model() -> Result<()> {
    let (good, bad) =
        (ModelServer::start(Script::new(plans())).await?, ModelServer::start(Script::new(refusals())).await?);
    let at = start(&[&good, &bad]).await?;
    let file = root().join("docs/examples/goals.yaml");

    let output = eval(&at, &file, &["-o", "json"]).await?;
    let report = json_of(&output)?;
    assert_eq!(output.status.code(), Some(0), "without a least share every result is a result");
    let [first, second] = [&report["models"][0], &report["models"][1]];
    let figures = |model: &Value| {
        ["asked", "valid_at_first", "valid_after_repair", "met", "expecting"]
            .map(|name| model[name].as_u64().unwrap_or(99))
    };
    assert_eq!((first["model"].as_str(), figures(first)), (Some("m0"), [3, 2, 1, 1, 2]), "{report:#}");
    assert_eq!((first["input_tokens"].as_u64(), first["output_tokens"].as_u64()), (Some(400), Some(80)));
    assert_eq!(first["issue"], json!({"code": "UNKNOWN_AGENT", "plans": 1}), "{report:#}");
    assert_eq!((second["model"].as_str(), figures(second)), (Some("m1"), [3, 0, 0, 0, 2]));
    assert_eq!(second["issue"]["code"], "UNPARSEABLE");
    assert!(first["seconds_max"].as_f64() >= first["seconds_median"].as_f64(), "{first:#}");
    let outcomes: Vec<&str> = list(&report["answers"]).iter().filter_map(|answer| answer["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["first", "repaired", "first", "invalid", "invalid", "invalid"]);
    assert_eq!(report["answers"][1]["unmet"], json!(["no agent type `writer_agent`"]), "{report:#}");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_is_too_low_is_an_exit_code() -> Result<()> {
    let server = ModelServer::start(Script::new(plans())).await?;
    let at = start(&[&server]).await?;
    let file = root().join("docs/examples/goals.yaml");
    for (flags, code, note) in [
        (["--min-valid", "1"], 0, ""),
        (["--min-first", "0.6"], 0, ""),
        (
            ["--min-first", "0.7"],
            3,
            "model `m0`: 66.7 % of the plans are valid at the first answer, and 70.0 % are required",
        ),
    ] {
        let output = eval(&at, &file, &flags).await?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), errors.trim()), (Some(code), note), "{flags:?}");
    }
    let details = text(&eval(&at, &file, &["--models", "m0", "--repeat", "2", "--details"]).await?);
    let rows: Vec<&str> = details.lines().collect();
    assert_eq!(rows.len(), 1 + 6 + 1 + 2, "{details}");
    assert!(
        rows[1].contains("first") && rows[2].contains("repaired") && rows[2].contains("UNKNOWN_AGENT at /steps/0"),
        "{details}"
    );
    assert!(rows[9].starts_with("m0") && rows[9].contains("2/4"), "{details}");
    let lines = text(&eval(&at, &file, &["--details", "-o", "jsonl"]).await?);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_evaluated_is_refused_with_its_place() -> Result<()> {
    let server = ModelServer::start(Script::new(plans())).await?;
    let at = start(&[&server]).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("goals.yaml");
    for (goals, place) in [
        ("- Knit\n- description: Knit\n  expect:\n    step_max: 3\n", "goals.yaml:4"),
        ("goals:\n- description: Knit\n  priority: 99\n", "goals.yaml:3"),
        ("[]", "no goals"),
        ("- [", "line 2"),
    ] {
        std::fs::write(&file, goals)?;
        let output = eval(&at, &file, &[]).await?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(8) && errors.contains(place), "{goals}: {errors}");
    }
    assert_eq!(server.calls(), 0, "no model was asked");
    std::fs::write(&file, "- Knit\n")?;
    let unknown = eval(&at, &file, &["--models", "m0,m9"]).await?;
    let errors = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(5) && errors.contains("`m9`") && errors.contains("known: `m0`"), "{errors}");
    // The limits of the server are lower than those of the client.
    std::fs::write(&file, "- description: Knit\n  planning: {max_steps: 5}\n")?;
    let refused = eval(&at, &file, &[]).await?;
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(8) && errors.contains("goal 1") && errors.contains("/planning/max_steps"),
        "{errors}"
    );
    at.stop().await;
    Ok(())
}

/// A plan at first for two of the goals, and after a correction for the other one, which it plans without a writer.
fn plans() -> Vec<Scripted> {
    let step = |id: &str, agent: &str, action: &str, after: &[&str]| {
        json!({"id": id, "description": format!("Step {id} of the work"), "agent_type": agent, "action": action,
               "inputs": {}, "dependencies": after})
    };
    let says = |when: &[&str], steps: Value| Scripted {
        when: when.iter().map(|text| (*text).to_owned()).collect(),
        json: Some(json!({ "steps": steps })),
        usage: Some(ScriptedUsage { input: 100, output: 20 }),
        ..Scripted::default()
    };
    let research = || step("s1", "research_agent", "research", &[]);
    let compare = |agent: &str, action: &str| json!([step("s1", agent, action, &[])]);
    vec![
        says(&["archive is open"], json!([research()])),
        says(&["about bees"], json!([research(), step("s2", "writer_agent", "write", &["s1"])])),
        // The critique quotes the draft.
        says(&["oracle"], compare("analysis_agent", "compare")),
        says(&["note-taking apps"], compare("oracle", "divine")),
    ]
}

fn refusals() -> Vec<Scripted> {
    vec![Scripted { text: Some("I would rather not".into()), times: Some(1_000), ..Scripted::default() }]
}

/// An installation with the agents of the example, and models `m0`, `m1`, ….
async fn start(servers: &[&ModelServer]) -> Result<Installation> {
    let mut settings = settings();
    settings.models =
        (0..).zip(servers).map(|(n, server)| server.settings(&format!("m{n}"), Dialect::Openai)).collect();
    settings.limits.planned_steps_max = 4;
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    for (agent, actions) in
        [("research_agent", &["research"][..]), ("analysis_agent", &["compare"]), ("writer_agent", &["write"])]
    {
        let actions: Vec<Value> = actions.iter().map(|name| json!({"name": name})).collect();
        let (status, answer) = at.post("/v1/agents", &json!({"agent_type": agent, "actions": actions})).await?;
        anyhow::ensure!(status < 300, "{status}: {answer:#}");
    }
    Ok(at)
}

async fn eval(at: &Installation, file: &Path, flags: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::from(program());
    let server = at.url("");
    Ok(command.arg("eval").arg(file).args(["--server", server.trim_end_matches('/')]).args(flags).output().await?)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json_of(output: &Output) -> Result<Value> {
    serde_json::from_str(&text(output)).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
