//! The same bad documents by every way in: the API, the stream, files at the command line, and registration.

use anyhow::{Context, Result};
use goalmill_common::wire::{Fields, GOAL_TYPE, NAMESPACE_FIELD, PLAN_TYPE};
use goalmill_tests::dev::program;
use goalmill_tests::installation::Installation;
use goalmill_tests::wait::{SOON, until_some};
use serde_json::{Value, json};

/// Codes and places of what is wrong.
type Found = Vec<(String, String)>;

fn found(problem: &Value) -> Found {
    let errors = problem["errors"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    errors.map(|error| (text(&error["code"]), text(&error["pointer"]))).collect()
}

async fn by_api(it: &Installation, path: &str, text: &str) -> Result<Value> {
    let request = it.http.post(it.url(path)).header("Content-Type", "application/json").body(text.to_owned());
    Ok(request.send().await?.json().await?)
}

async fn by_stream(it: &Installation, id: &str, kind: &str, text: &str, more: &[(&str, &[u8])]) -> Result<Value> {
    let fields = [("specversion", "1.0"), ("id", id), ("source", "urn:test"), ("type", kind), ("data", text)];
    let mut fields: Fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec();
    fields.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())));
    it.broker.submit(&fields).await?;
    let answered = until_some(SOON, async || {
        let answers = it.broker.answers(&[id.to_owned()]).await.ok()?;
        answers.into_iter().next().flatten()
    });
    Ok(serde_json::from_str(&answered.await.unwrap_or_default())?)
}

/// Exit code, and everything that is said.
fn by_file(it: &Installation, command: &[&str], text: &str) -> Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("document.json");
    std::fs::write(&path, text)?;
    let file = path.display().to_string();
    let words: Vec<&str> = command.iter().map(|word| if *word == "FILE" { file.as_str() } else { word }).collect();
    let output = program().args(words).args(["--server", &it.url("")]).output()?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.code(), said))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_document_is_refused_by_the_api_the_stream_and_from_files() -> Result<()> {
    let it = Installation::embedded().await?;
    let goals = [
        r#"{"description": "x", "temprature": 0.2}"#,
        r#"{"description": "x", "namespace": "../x"}"#,
        r#"{"description": "x", "planning": {"model": "no-such-model"}}"#,
        r#"{"description": "x", "planning": {"planner": "no-such-planner"}}"#,
        r#"{"description": "x", "planning": {"revision": "often"}}"#,
        r#"{"description": "x", "execution": {"kind": "llm"}}"#,
        r#"{"description": "x", "description": "y"}"#,
        r#"{"description": "x", "constraints": {"budget": {"value": "5 USD", "of": "no output"}}}"#,
    ];
    let plans = [
        r#"{"steps": [{"id": "a", "agent_type": "echo", "matrix": [1]}]}"#,
        r#"{"steps": [{"id": "a", "agent_type": "echo"}], "on_exit": []}"#,
        r#"{"steps": [{"id": "a", "agent_type": "echo", "id": "b"}]}"#,
        r#"{"goal": {"description": "x", "namespace": "../x"}, "steps": [{"id": "a", "agent_type": "echo"}]}"#,
    ];
    let all = goals.map(|text| ("/v1/goals", GOAL_TYPE, text)).into_iter();
    for (n, (path, kind, text)) in all.chain(plans.map(|text| ("/v1/plans", PLAN_TYPE, text))).enumerate() {
        let refused = by_api(&it, path, text).await?;
        let expected = found(&refused);
        assert!(!expected.is_empty(), "{text}: {refused:#}");
        let answer = by_stream(&it, &format!("bad-{n}"), kind, text, &[]).await?;
        assert_eq!(found(&answer), expected, "{text}: {answer:#}");
        let command: &[&str] = if kind == GOAL_TYPE { &["submit", "--file", "FILE"] } else { &["run", "FILE"] };
        let (code, said) = by_file(&it, command, text)?;
        assert_eq!(code, Some(8), "{text}: {said}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_no_agent_has_is_refused_by_every_way_in() -> Result<()> {
    let it = Installation::embedded().await?;
    let card = r#"{"agent_type": "painter", "description": "Paints a picture", "actions": [{"name": "paint"}]}"#;
    by_api(&it, "/v1/agents", card).await?;
    // It takes any action, and is asked only by those who name it or say `auto`.
    let open = r#"{"agent_type": "helper", "description": "Paints a picture, and walls"}"#;
    by_api(&it, "/v1/agents", open).await?;
    let refused = |place: &str| vec![("UNKNOWN_ACTION".to_owned(), place.to_owned())];
    let auto = r#"{"steps": [{"id": "a", "action": "paint_walls", "description": "Paint a picture"}]}"#;
    // The scheduler reads the card after it was registered.
    let is_read = until_some(SOON, async || {
        let answer = by_api(&it, "/v1/plans", auto).await.ok()?;
        (found(&answer) == refused("/steps/0/action")).then_some(())
    });
    assert!(is_read.await.is_some(), "an `auto` step goes to no agent without its action");
    let named = |more: &str| format!(r#"{{"steps": [{{"id": "a", "agent_type": "painter"{more}}}]}}"#);
    let plans = [
        (auto.to_owned(), "/steps/0/action"),
        (auto.replace("\"id\"", "\"for_each\": [1], \"id\""), "/steps/0/action"),
        (auto.replace("\"id\"", "\"repeat\": {\"until\": \"true\", \"max\": 2}, \"id\""), "/steps/0/action"),
        (format!(r#"{{"steps": [{{"id": "p", "plan": {auto}}}]}}"#), "/steps/0/plan/steps/0/action"),
        (named(r#", "action": "paint", "undo": {"action": "unpaint"}"#), "/steps/1/action"),
        (named(r#", "action": "paint_walls""#), "/steps/0/action"),
        (named(r#", "action": "paint", "fallback": {"action": "sing"}"#), "/steps/0/fallback"),
    ];
    for (n, (text, place)) in plans.iter().enumerate() {
        let answer = by_api(&it, "/v1/plans", text).await?;
        assert_eq!((&answer["code"], found(&answer)), (&json!("UNROUTABLE"), refused(place)), "{text}: {answer:#}");
        let answer = by_stream(&it, &format!("unknown-{n}"), PLAN_TYPE, text, &[]).await?;
        assert_eq!(found(&answer), refused(place), "{text}: {answer:#}");
        let (code, said) = by_file(&it, &["run", "FILE"], text)?;
        assert!(code.is_some_and(|code| code != 0) && said.contains("UNKNOWN_ACTION"), "{text}: {code:?} {said}");
        // What is stored may be run when its agents are there.
        let stored = by_api(&it, &format!("/v1/stored-plans/unknown-{n}/versions"), text).await?;
        assert_eq!(stored["version"], 1, "{text}: {stored:#}");
        let answer = by_api(&it, &format!("/v1/stored-plans/unknown-{n}:run"), "{}").await?;
        assert!(answer.to_string().contains("UNKNOWN_ACTION"), "{text}: {answer:#}");
    }
    let right = [
        named(r#", "action": "paint""#),
        named(""),
        named("").replace("painter", "comes_later"),
        named(r#", "action": "sing""#).replace("painter", "helper"),
        auto.replace("\"id\"", "\"agent_type\": \"auto\", \"id\""),
    ];
    let mut ids = Vec::new();
    for text in right {
        let answer = by_api(&it, "/v1/plans", &text).await?;
        ids.push(answer["plan_id"].as_str().with_context(|| format!("{text}: {answer:#}"))?.to_owned());
    }
    // Edits, the verbs of plan actions and MCP are ways in too.
    let edit = r#"{"changes": [{"set_fields": {"step": "a", "fields": {"action": "paint_walls"}}}]}"#;
    let answer = by_api(&it, &format!("/v1/plans/{}:edit", ids[0]), edit).await?;
    assert!(answer.to_string().contains("UNKNOWN_ACTION"), "{answer:#}");
    let answer = by_api(&it, "/v1/actions/execute", &format!(r#"{{"plan": {auto}}}"#)).await?;
    assert!(answer.to_string().contains("UNKNOWN_ACTION"), "{answer:#}");
    let hint = by_api(&it, "/v1/plans", auto).await?["errors"][0]["hint"].clone();
    assert!(hint.as_str().is_some_and(|hint| hint.contains("`paint`")), "the nearest name is a hint: {hint}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_card_is_refused_by_the_api_and_at_the_command_line() -> Result<()> {
    let it = Installation::embedded().await?;
    for card in [
        r#"{"agent_type": "painter", "colour": "red"}"#,
        r#"{"agent_type": "painter", "actions": [{"name": "n", "input": {}}]}"#,
        r#"{"agent_type": "painter", "success_rate": 7}"#,
        r#"{"agent_type": "painter", "cost": 1, "cost_per_invocation": 2}"#,
        r#"{"agent_type": "painter", "cost": 1, "cost": 2}"#,
    ] {
        let refused = by_api(&it, "/v1/agents", card).await?;
        assert!(!found(&refused).is_empty(), "{card}: {refused:#}");
        let (code, said) = by_file(&it, &["agent", "register", "FILE"], card)?;
        assert_eq!(code, Some(8), "{card}: {said}");
    }
    let agents = it.get("/v1/agents").await?;
    let names = agents["items"].as_array().into_iter().flatten().map(|agent| &agent["agent_type"]);
    assert!(!names.into_iter().any(|name| name == "painter"), "{agents:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_a_field_that_cannot_be_read_is_refused() -> Result<()> {
    let it = Installation::embedded().await?;
    let plan = json!({"steps": [{"id": "a", "agent_type": "echo"}]}).to_string();
    for (n, (name, value)) in
        [(NAMESPACE_FIELD, &b"../x"[..]), (NAMESPACE_FIELD, b"caf\xe9"), ("traceparent", b"caf\xe9")]
            .into_iter()
            .enumerate()
    {
        let answer = by_stream(&it, &format!("entry-{n}"), PLAN_TYPE, &plan, &[(name, value)]).await?;
        assert_eq!(answer["code"], "INVALID_ENTRY", "{answer:#}");
        let places: Vec<String> = found(&answer).into_iter().map(|(_, place)| place).collect();
        assert_eq!(places, [format!("/{name}")], "{answer:#}");
    }
    it.stop().await;
    Ok(())
}
