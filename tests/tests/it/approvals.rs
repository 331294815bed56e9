//! People in the loop, over the API: approvals, edits, questions, forks.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::wait::{SOON, until, until_some};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_plan_is_edited_and_approved_in_one_request() -> Result<()> {
    let installation = Installation::embedded().await?;
    let id = installation.submit(&waiting()).await?;
    let edits = json!([{"set_fields": {"step": "a", "fields": {"inputs": {"x": 2}, "timeout": "5s"}}}]);
    let body = json!({"changes": edits, "actor": "cli:ann", "reason": "two will do"});
    let (status, answer) = installation.post(&format!("/v1/plans/{id}:approve"), &body).await?;
    assert_eq!(status, 200, "{answer:#}");
    assert_eq!(installation.await_end(&id, LIMIT).await?["status"], "completed");
    let results = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(results["results"]["b"]["y"], json!(2), "{results:#}");
    for kind in ["plan_revised", "plan_approved"] {
        let event = event(&installation, &id, kind).await?;
        assert_eq!(event["actor"], "cli:ann", "{event:#}");
        assert!(event["data"].to_string().contains("two will do"), "{event:#}");
    }
    let revisions = installation.get(&format!("/v1/plans/{id}/revisions")).await?;
    assert_eq!(revisions["items"][0]["actor"], "cli:ann", "{revisions:#}");
    assert_eq!(revisions["items"][0]["modified"][0]["after"]["timeout_ms"], 5_000);
    let before = installation.get(&format!("/v1/plans/{id}/graph?revision=0")).await?;
    assert_eq!(before["steps"][0]["inputs"], json!({"x": 1}));
    assert_eq!(get_status(&installation, &format!("/v1/plans/{id}/graph?revision=9")).await?, 404);
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_breaks_the_plan_is_refused_with_its_places() -> Result<()> {
    let installation = Installation::embedded().await?;
    let id = installation.submit(&waiting()).await?;
    let path = format!("/v1/plans/{id}:edit");
    let pointers = |answer: &Value| -> Vec<String> {
        let errors = answer["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().filter_map(|e| e["pointer"].as_str().map(Into::into)).collect()
    };
    let unknown = json!({"set_fields": {"step": "b", "fields": {"dependencies": ["ghost"]}}});
    let nonsense = json!({"fly": {}});
    let (status, answer) = installation.post(&path, &json!({"changes": [unknown, nonsense]})).await?;
    let found = pointers(&answer);
    assert_eq!(status, 422, "{answer:#}");
    assert!(found.iter().any(|p| p.starts_with("/changes/0/set_fields/fields/dependencies")), "{found:?}");
    assert!(found.contains(&"/changes/1".to_owned()), "{found:?}");

    let mut plan = installation.get(&format!("/v1/plans/{id}/graph")).await?;
    plan["steps"][0]["dependencies"] = json!(["b"]);
    plan["max_parallel"] = json!(1);
    let (status, answer) = installation.post(&path, &json!({"plan": plan})).await?;
    assert_eq!((status, pointers(&answer)), (422, vec!["/max_parallel".to_owned()]), "{answer:#}");
    plan.as_object_mut().expect("a plan is an object").remove("max_parallel");
    let (status, answer) = installation.post(&path, &json!({"plan": plan})).await?;
    let found = pointers(&answer);
    assert_eq!(status, 422, "{answer:#}");
    assert!(!found.is_empty() && found.iter().all(|p| p.starts_with("/steps/")), "{answer:#}");

    let (status, answer) = installation.post(&path, &json!({})).await?;
    assert_eq!((status, pointers(&answer)), (400, vec!["/changes".to_owned()]), "{answer:#}");
    let view = installation.get(&format!("/v1/plans/{id}")).await?;
    assert_eq!((&view["status"], &view["revision"]), (&json!("awaiting_approval"), &json!(0)));
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_asks_for_anybody_is_routed() -> Result<()> {
    let installation = Installation::embedded().await?;
    let sleeps = json!({"approve": {}, "steps": [step("a", "sleep", &[], json!({}))]});
    let id = installation.submit(&sleeps).await?;
    let fields = json!({"agent_type": "auto", "description": "echo the inputs", "inputs": {"x": 1}});
    let change = json!({"set_fields": {"step": "a", "fields": fields}});
    let (path, body) = (format!("/v1/plans/{id}:edit"), json!({"changes": [change]}));
    let taken = async || installation.post(&path, &body).await.is_ok_and(|(status, _)| status == 200);
    until(SOON, taken).await;
    let edited = installation.get(&format!("/v1/plans/{id}/steps/a")).await?;
    assert_eq!(edited["agent_type"], "echo", "{edited:#}");
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_edited_as_a_whole_gains_and_loses_steps() -> Result<()> {
    let installation = Installation::embedded().await?;
    let id = installation.submit(&waiting()).await?;
    let mut plan = installation.get(&format!("/v1/plans/{id}/graph")).await?;
    let steps = plan["steps"].as_array_mut().expect("a plan has steps");
    steps.remove(1);
    steps.push(json!({"id": "c", "agent": "echo", "depends_on": ["a"], "inputs": {"z": "{{ steps.a.outputs.x }}"}}));
    let path = format!("/v1/plans/{id}:edit");
    let stale = json!({"plan": plan, "revision": 7});
    assert_eq!(installation.post(&path, &stale).await?.0, 409);
    let (status, answer) = installation.post(&path, &json!({"plan": plan, "reason": "c is enough"})).await?;
    assert_eq!(status, 200, "{answer:#}");
    assert_eq!(installation.post(&format!("/v1/plans/{id}:approve"), &json!({})).await?.0, 200);
    installation.await_end(&id, LIMIT).await?;
    let results = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(results["results"], json!({"a": {"x": 1}, "c": {"z": 1}}));
    let exported = installation.get(&format!("/v1/plans/{id}/graph")).await?;
    assert_eq!(exported["steps"].as_array().map(Vec::len), Some(2), "what was removed is not exported");
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_the_default() -> Result<()> {
    let installation = Installation::embedded().await?;
    for (default, end, kind) in [("approve", "completed", "plan_approved"), ("reject", "rejected", "plan_rejected")] {
        let mut plan = waiting();
        plan["approve"] = json!({"limit_ms": 50, "default": default});
        let id = installation.submit(&plan).await?;
        assert_eq!(installation.await_end(&id, LIMIT).await?["status"], end);
        let event = event(&installation, &id, kind).await?;
        assert!(event["data"]["reason"].is_string(), "{event:#}");
    }
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_takes_the_answer_that_fits() -> Result<()> {
    let installation = Installation::embedded().await?;
    let mut asking = step("a", "echo", &[], json!({}));
    asking["ask"] = json!({"question": "How many?", "schema": {"type": "integer"}, "into": "n"});
    let id = installation.submit(&json!({"steps": [asking]})).await?;
    let listed = format!("/v1/plans/{id}/questions");
    let asked = until_some(LIMIT, async || {
        let page = installation.get(&listed).await.ok()?;
        page["items"].get(0).cloned()
    });
    let asked = asked.await.expect("it is asked");
    assert_eq!((&asked["id"], &asked["question"]), (&json!("a"), &json!("How many?")));
    let (status, answer) = installation.post(&format!("{listed}/a:answer"), &json!({"answer": "two"})).await?;
    assert_eq!((status, &answer["errors"][0]["pointer"]), (422, &json!("/answer")), "{answer:#}");
    let (status, answer) = installation.post(&format!("{listed}/a:answer"), &json!({})).await?;
    assert_eq!((status, &answer["errors"][0]["code"]), (400, &json!("MISSING_FIELD")), "{answer:#}");
    let path = format!("/v1/plans/{id}/steps/a:answer");
    let (status, answer) =
        installation.post(&path, &json!({"answer": 2, "actor": "cli:bob", "reason": "a pair"})).await?;
    assert_eq!(status, 200, "{answer:#}");
    assert_eq!(installation.await_end(&id, LIMIT).await?["steps"][0]["outputs"]["n"], 2);
    assert_eq!(installation.get(&listed).await?["items"], json!([]));
    let event = event(&installation, &id, "step_question_answered").await?;
    assert_eq!((&event["actor"], &event["data"]["reason"]), (&json!("cli:bob"), &json!("a pair")));
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_keeps_what_was_done_and_does_the_rest_again() -> Result<()> {
    let installation = Installation::embedded().await?;
    let mut plan = waiting();
    plan.as_object_mut().expect("a plan is an object").remove("approve");
    let id = installation.submit(&plan).await?;
    installation.await_end(&id, LIMIT).await?;
    let path = format!("/v1/plans/{id}:fork");
    let request = || {
        let body = json!({"step": "b", "inputs": {"b": {"w": 9}}, "reason": "what if", "actor": "cli:ann"});
        installation.http.post(installation.url(&path)).header("idempotency-key", "fork-1").json(&body)
    };
    let answer: Value = request().send().await?.json().await?;
    let fork = PlanId::from(answer["plan_id"].as_str().expect("it is accepted"));
    let again: Value = request().send().await?.json().await?;
    assert_eq!(again["plan_id"], answer["plan_id"], "the same key gives the same fork");
    let view = installation.await_end(&fork, LIMIT).await?;
    assert_eq!((&view["status"], &view["forked_from"]), (&json!("completed"), &json!(id.as_str())));
    let attempts: Vec<&Value> =
        view["steps"].as_array().expect("there are steps").iter().map(|s| &s["attempt"]).collect();
    assert_eq!(attempts, [&json!(0), &json!(1)], "{view:#}");
    assert_eq!(view["steps"][1]["outputs"], json!({"y": 1, "w": 9}));

    for (body, status, place) in [
        (json!({"step": "ghost"}), 404, ""),
        (json!({"revision": 3}), 404, ""),
        (json!({"stpe": "b"}), 400, ""),
        (json!({"inputs": {"ghost": {}}}), 422, "/inputs/ghost"),
        (json!({"inputs": {"b": {"w": "{{ steps.nowhere.outputs.x }}"}}}), 422, "/inputs/b/w"),
    ] {
        let (got, answer) = installation.post(&path, &body).await?;
        assert_eq!(got, status, "{answer:#}");
        assert_eq!(answer["errors"][0]["pointer"].as_str().unwrap_or_default(), place, "{answer:#}");
    }
    installation.stop().await;
    Ok(())
}

/// Two steps, the second of which says what the first one gave.
fn waiting() -> Value {
    json!({
        "approve": {},
        "steps": [
            step("a", "echo", &[], json!({"x": 1})),
            step("b", "echo", &["a"], json!({"y": "{{ steps.a.outputs.x }}"})),
        ]
    })
}

async fn event(installation: &Installation, plan: &PlanId, kind: &str) -> Result<Value> {
    let log = installation.log(plan).await?;
    let mut lines = log.iter().map(|record| serde_json::from_str::<Value>(&record.to_line()).expect("a line is JSON"));
    Ok(lines.rfind(|line| line["type"] == kind).expect("there is such an event"))
}

async fn get_status(installation: &Installation, path: &str) -> Result<u16> {
    Ok(installation.http.get(installation.url(path)).send().await?.status().as_u16())
}
