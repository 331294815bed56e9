//! `/openapi.json`: it is sound, says all that there is, and what the API answers is what it says.

use std::collections::BTreeSet;

use anyhow::Result;
use goalmill_broker::DeadLetter;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::wait::SOON;
use reqwest::Method;
use serde_json::{Value, json};

/// An id of the form of a plan's, and of nothing that is there.
const ABSENT: &str = "p0-0000000000000000";

fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("it has paths");
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("a path has methods") {
            all.push((path.as_str(), method.as_str(), operation));
        }
    }
    all
}

/// All `$ref` of a document.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref") {
                found.push(to);
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The address with something in the place of each parameter.
fn filled(path: &str) -> String {
    let name = path.replace("{name}", "plan").replace("{agent_type}", "nobody").replace("{entry}", "1-0");
    let name = name.replace("{stored}", "trip@1");
    name.replace("{id}", ABSENT).replace("{step}", "a").replace("{question}", "a")
}

/// The address without its verb, and the verb.
fn split(path: &str) -> (&str, Option<&str>) {
    match path.rsplit_once("}:") {
        Some((_, verb)) => (&path[..path.len() - verb.len() - 1], Some(verb)),
        None => (path, None),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_sound() -> Result<()> {
    let it = Installation::embedded().await?;
    let document = it.get("/openapi.json").await?;
    it.stop().await;
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for to in found {
        let pointer = to.strip_prefix('#').expect("references stay within the document");
        assert!(document.pointer(pointer).is_some(), "`{to}` leads nowhere");
    }
    for (path, method, operation) in operations(&document) {
        let place = format!("{method} {path}");
        assert!(operation["operationId"].is_string() && operation["summary"].is_string(), "{place}");
        let parameters = operation["parameters"].as_array().expect("there is a list");
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let named: BTreeSet<&str> = in_path.filter_map(|parameter| parameter["name"].as_str()).collect();
        let wanted: BTreeSet<&str> = path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect();
        assert_eq!(named, wanted, "{place}");
        let responses = operation["responses"].as_object().expect("there are answers");
        assert!(responses.keys().any(|status| status.starts_with('2')), "{place}");
        for (status, response) in responses {
            assert!(response["description"].as_str().is_some_and(|text| !text.is_empty()), "{place} {status}");
            let is_refusal = status.starts_with(['4', '5']);
            assert_eq!(response["content"]["application/problem+json"].is_object(), is_refusal, "{place} {status}");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("there are schemas") {
        assert!(jsonschema::meta::is_valid(schema), "{name} is no JSON Schema");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_described_is_there_and_nothing_else_is() -> Result<()> {
    let it = Installation::embedded().await?;
    let document = it.get("/openapi.json").await?;
    let request = async |method: &str, path: &str| -> Result<reqwest::Response> {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())?;
        Ok(it.http.request(method, it.url(path)).send().await?)
    };
    let all = operations(&document);
    // A stream of MCP is opened and ended only within a session; without one, clients must get 405.
    let is_of_session = |path: &str, method: &str| path == "/mcp" && method != "post";
    for (path, method, operation) in all.iter().filter(|(path, method, _)| !is_of_session(path, method)) {
        let answer = request(method, &filled(path)).await?;
        let status = answer.status().as_u16();
        let body: Value = serde_json::from_str(&answer.text().await?).unwrap_or_default();
        let code = body["code"].as_str().unwrap_or_default();
        // To a wrong token, a callback is not there.
        let is_hidden = path.starts_with("/v1/callbacks/") && code == "NOT_FOUND";
        assert!(is_hidden || !matches!(code, "NOT_FOUND" | "METHOD_NOT_ALLOWED"), "{method} {path}: {body:#}");
        let described = &operation["responses"][status.to_string()];
        assert!(described.is_object(), "{method} {path} answers {status}");
        // MCP has errors of its own.
        if status >= 400 && !body["jsonrpc"].is_string() {
            let codes = described["description"].as_str().expect("it is text");
            assert!(codes.contains(&format!("`{code}`")), "{method} {path} refuses with {code}: {codes}");
        }
    }
    for path in all.iter().map(|(path, ..)| *path).collect::<BTreeSet<&str>>() {
        let here = all.iter().filter(|(other, ..)| *other == path);
        let methods: BTreeSet<String> = here.map(|(_, method, _)| method.to_ascii_uppercase()).collect();
        let refusal = request("PUT", &filled(path)).await?;
        let allowed = refusal.headers()["allow"].to_str()?;
        let allowed: BTreeSet<String> = allowed.split(',').filter(|name| *name != "HEAD").map(Into::into).collect();
        assert_eq!(methods, allowed, "{path}");
    }
    for address in all.iter().map(|(path, ..)| split(path).0).collect::<BTreeSet<&str>>() {
        let here = all.iter().filter(|(path, ..)| split(path).0 == address);
        let verbs: BTreeSet<&str> = here.filter_map(|(path, ..)| split(path).1).collect();
        if !verbs.is_empty() {
            let refusal: Value = request("POST", &format!("{}:dance", filled(address))).await?.json().await?;
            let detail = refusal["detail"].as_str().expect("a refusal says why");
            let known = detail.split_once("there are ").expect("it names the verbs that there are").1;
            assert_eq!(verbs, known.split(", ").collect(), "{address}");
        }
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_described() -> Result<()> {
    let it = Installation::embedded().await?;
    let document = it.get("/openapi.json").await?;
    let id = it.submit(&json!({"steps": [step("a", "echo", &[], json!({"x": 1}))]})).await?;
    it.await_end(&id, SOON).await?;
    it.broker.add_dead_letter(&letter()).await?;
    let (status, _) =
        it.post("/v1/stored-plans/trip/versions", &json!({"steps": [step("a", "echo", &[], json!({}))]})).await?;
    assert_eq!(status, 201);
    for (path, method, operation) in operations(&document) {
        let content = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        if method != "get" || content.is_null() {
            continue;
        }
        let mut schema = content.clone();
        schema["components"] = document["components"].clone();
        let answer = it.get(&filled(path).replace(ABSENT, id.as_str())).await?;
        let checked = jsonschema::validator_for(&schema)?;
        let wrong: Vec<String> = checked.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{path}: {wrong:?} in {answer:#}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_without_a_name_are_of_all() -> Result<()> {
    let it = Installation::embedded().await?;
    let plan = it.submit(&json!({"steps": [step("a", "echo", &[], json!({}))]})).await?;
    it.await_end(&plan, SOON).await?;
    for agent_type in ["nobody", "someone"] {
        it.broker.open_queue(&agent_type.into()).await?;
        it.broker.add_dead_letter(&DeadLetter { agent_type: agent_type.into(), ..letter() }).await?;
    }
    let letters = it.get("/v1/dead-letters").await?;
    let of: Vec<&str> = letters["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|letter| letter["agent_type"].as_str())
        .collect();
    assert_eq!(of, ["nobody", "someone"]);
    assert_eq!(letters["items"][0], it.get("/v1/dead-letters/nobody").await?["items"][0]);
    let events = it.get("/v1/events?types=plan_completed").await?;
    assert_eq!(events["items"][0]["plan_id"], plan.as_str());
    assert_eq!(events, it.get("/v1/logs?types=plan_completed").await?);
    it.stop().await;
    Ok(())
}

fn letter() -> DeadLetter {
    DeadLetter {
        agent_type: "nobody".into(),
        plan: ABSENT.into(),
        step: "a".into(),
        attempt: 3,
        code: "STEP_POISONED".into(),
        reason: "its workers were lost".into(),
        task: "{}".into(),
    }
}
