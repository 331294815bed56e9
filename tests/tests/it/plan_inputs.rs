//! Inputs of plans: every way in, the places where expressions see them, and names that a plan does not get.

use anyhow::{Context, Result};
use goalmill_common::id::PlanId;
use goalmill_common::wire::{Fields, PLAN_TYPE};
use goalmill_tests::dev::program;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::wait::{SOON, until_some};
use serde_json::{Value, json};

/// A value that would be an expression in a plan.
const BRACES: &str = "{{ goal.description }} {% raw %}";

fn trip() -> Value {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer", "default": 3}});
    let text = "to {{ inputs.city }} {{ inputs.days }} {{ goal.metadata.inputs.city }}";
    json!({
        "input_schema": {"type": "object", "properties": properties, "required": ["city"]},
        "steps": [step("go", "echo", &[], json!({"to": text, "when": "{{ inputs.when | default('now') }}"}))],
    })
}

fn with_inputs(mut plan: Value, inputs: Value) -> Value {
    plan["inputs"] = inputs;
    plan
}

async fn by_stream(it: &Installation, id: &str, plan: &Value, inputs: Option<&str>) -> Result<Value> {
    let data = plan.to_string();
    let fields = [("specversion", "1.0"), ("id", id), ("type", PLAN_TYPE), ("data", &data)];
    let fields = fields.into_iter().chain(inputs.map(|inputs| ("inputs", inputs)));
    let fields: Fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect();
    it.broker.submit(&fields).await?;
    let answer =
        until_some(SOON, async || it.broker.answers(&[id.to_owned()]).await.ok()?.into_iter().next().flatten());
    Ok(serde_json::from_str(&answer.await.context("it is answered")?)?)
}

fn plan_id(answer: &Value) -> Result<PlanId> {
    Ok(answer["plan_id"].as_str().with_context(|| format!("it is accepted: {answer:#}"))?.into())
}

/// Runs `goalmill` with the plan in `plan.json` and `inputs` in `inputs.yaml`; gives the exit code and what it says.
fn command(it: &Installation, words: &[&str], inputs: &str) -> Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("plan.json"), trip().to_string())?;
    std::fs::write(dir.path().join("inputs.yaml"), inputs)?;
    let output = program().current_dir(dir.path()).args(words).args(["--server", &it.url("")]).output()?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.code(), said))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_sees_its_inputs_by_every_way_in() -> Result<()> {
    let it = Installation::embedded().await?;
    let given = json!({"city": BRACES, "days": 2});
    let seen = json!({"to": format!("to {BRACES} 2 {BRACES}"), "when": "now"});
    let by_http = it.submit(&with_inputs(trip(), given.clone())).await?;
    let in_document = by_stream(&it, "in-document", &with_inputs(trip(), given.clone()), None).await?;
    let in_entry =
        by_stream(&it, "in-entry", &with_inputs(trip(), json!({"days": 9})), Some(&given.to_string())).await?;
    for plan in [by_http.clone(), plan_id(&in_document)?, plan_id(&in_entry)?] {
        let ended = it.await_end(&plan, SOON).await?;
        assert_eq!(ended["steps"][0]["outputs"], seen, "{ended:#}");
        assert_eq!(ended["goal"]["metadata"]["inputs"], given);
    }
    for words in [
        &["--input", "city=Paris"][..],
        &["--input", "@inputs.yaml"],
        &["--input", "@inputs.yaml", "--input", "city=Paris"],
    ] {
        let words = [&["run", "plan.json", "--wait", "-o", "json"], words].concat();
        let (code, said) = command(&it, &words, "city: Paris")?;
        assert!(code == Some(0) && said.contains("to Paris 3 Paris"), "{said}");
    }
    // What continues from a plan, and what is submitted as it was exported, has its inputs.
    let (status, fork) = it.post(&format!("/v1/plans/{by_http}:fork"), &json!({"step": "go"})).await?;
    assert_eq!(status, 202, "{fork:#}");
    let ended = it.await_end(&plan_id(&fork)?, SOON).await?;
    assert_eq!(ended["steps"][0]["outputs"], seen, "{ended:#}");
    let (_, exported) = command(&it, &["plan", "export", by_http.as_str(), "-o", "json"], "")?;
    let ended = it.await_end(&it.submit(&serde_json::from_str(&exported)?).await?, SOON).await?;
    assert_eq!(ended["steps"][0]["outputs"], seen, "{ended:#}");
    let (_, difference) = command(&it, &["plan", "diff", by_http.as_str(), plan_id(&fork)?.as_str()], "")?;
    assert!(difference.contains("inputs") && difference.contains("goal.description"), "{difference}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_plan_does_not_get_are_refused() -> Result<()> {
    let it = Installation::embedded().await?;
    let reads = |text: &str| json!({"steps": [step("a", "echo", &[], json!({"text": text}))]});
    let place = "/steps/0/inputs/text";
    for (plan, code, pointer, help) in [
        (with_inputs(reads("{{ inputs.citty }}"), json!({"city": "Oslo"})), "INPUT_UNKNOWN", place, "`city`"),
        (reads("{{ inputs.city }}"), "INPUT_MISSING", place, "--input city="),
        (trip(), "INPUT_MISSING", "/steps/0/inputs/to", "--input city="),
        (with_inputs(trip(), json!({"city": 7})), "INPUT_INVALID", "/inputs/city", "input_schema"),
        (with_inputs(trip(), json!([7])), "WRONG_TYPE", "/inputs", ""),
    ] {
        let (status, refused) = it.post("/v1/plans", &plan).await?;
        let error = &refused["errors"][0];
        assert_eq!((status, &error["code"], &error["pointer"]), (422, &json!(code), &json!(pointer)), "{refused:#}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains(help)), "{refused:#}");
    }
    let unread = json!({"input_schema": {"required": ["city"]}, "steps": [step("a", "echo", &[], json!({}))]});
    let (_, refused) = it.post("/v1/plans", &unread).await?;
    assert_eq!(refused["errors"][0]["detail"], "the plan needs the input `city`", "{refused:#}");
    let answer = by_stream(&it, "odd", &trip(), Some("[1]")).await?;
    assert_eq!(answer["errors"][0]["pointer"], "/inputs", "{answer:#}");
    // While no values are known, names are checked by the schema.
    assert_eq!(it.post("/v1/plans:validate", &trip()).await?.0, 200);
    assert_eq!(it.post("/v1/stored-plans/any/versions", &reads("{{ inputs.city }}")).await?.0, 201);
    assert_eq!(command(&it, &["plan", "validate", "plan.json"], "")?.0, Some(0));
    for words in [&["plan", "validate", "plan.json", "--input", "days=1"][..], &["run", "plan.json", "--dry-run"]] {
        let (code, said) = command(&it, words, "")?;
        assert!(code == Some(8) && said.contains("INPUT_MISSING") && said.contains("--input city="), "{said}");
    }
    // The same id with other inputs is another submission.
    let city = |city: &str| json!({ "city": city }).to_string();
    by_stream(&it, "same", &trip(), Some(&city("Oslo"))).await?;
    let send = async |city: &str| -> Result<u16> {
        let request = it.http.post(it.url("/v1/plans")).header("Idempotency-Key", "same");
        Ok(request.json(&with_inputs(trip(), json!({ "city": city }))).send().await?.status().as_u16())
    };
    assert_eq!((send("Oslo").await?, send("Rome").await?), (202, 409));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_those_of_the_plan_unless_a_step_has_its_own_there() -> Result<()> {
    let it = Installation::embedded().await?;
    let inside =
        json!([step("note", "echo", &[], json!({"text": "{{ inputs.city }} {{ inputs.rank | default('none') }}"}))]);
    let plan = json!({
        "inputs": {"city": "Oslo", "rank": 1, "all": ["a", "b"]},
        "steps": [
            {"id": "map", "agent_type": "echo", "for_each": "{{ inputs.all }}", "when": "inputs.rank == 1",
             "inputs": {"text": "{{ item }} {{ inputs.city }}"}},
            {"id": "loop", "agent_type": "echo", "repeat": {"until": "iteration > inputs.rank", "max": 3},
             "inputs": {"text": "{{ iteration }} {{ inputs.city }}"}},
            {"id": "inner", "plan": inside, "inputs": {"city": "Rome to {{ inputs.city }}"}},
            {"id": "cached", "agent_type": "echo", "inputs": {"x": "own"}, "cache": {"key": "{{ inputs.x }} {{ goal.metadata.inputs.city }}"}},
            {"id": "done", "agent_type": "echo", "inputs": {"x": "{{ inputs.city }}"},
             "undo": {"action": "undo", "inputs": {"x": "{{ inputs.x }}", "city": "{{ goal.metadata.inputs.city }}"}}},
            {"id": "end", "agent_type": "fail", "depends_on": ["map", "loop", "inner", "cached", "done"], "inputs": {"class": "permanent"}},
        ],
    });
    let ended = it.await_end(&it.submit(&plan).await?, SOON).await?;
    let outputs = |id: &str| {
        let steps = ended["steps"].as_array().into_iter().flatten();
        steps.clone().find(|step| step["id"] == *id).map(|step| step["outputs"].clone()).unwrap_or_default()
    };
    assert_eq!(outputs("map"), json!([{"text": "a Oslo"}, {"text": "b Oslo"}]), "{ended:#}");
    assert_eq!(outputs("loop"), json!({"text": "2 Oslo"}));
    assert_eq!(outputs("inner"), json!({"note": {"text": "Rome to Oslo none"}}));
    assert_eq!(outputs("cached"), json!({"x": "own"}));
    assert_eq!(outputs("done:undo"), json!({"x": "Oslo", "city": "Oslo"}), "{ended:#}");
    it.stop().await;
    Ok(())
}
