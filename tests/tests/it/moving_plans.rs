//! Plans that move: maps, loops, waits and clean-up, as the examples of the documentation have them and as planners write
//! them, in a real installation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::wait::until_some;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn example_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name)
}

/// Runs an example to its end; returns its events and its results by step.
async fn example(name: &str, code: i32) -> Result<(Vec<Value>, Value)> {
    let dev = Dev::start(&["--demo-agents"], "").await?;
    let path = example_path(name);
    let path = path.to_str().context("the path is text")?;
    let id = dev.says(&["run", path, "-o", "name"], 0)?.trim().to_owned();
    let id = id.as_str();
    dev.says(&["watch", id], code)?;
    let results: Value = serde_json::from_str(&dev.says(&["plan", "results", id, "-o", "json"], 0)?)?;
    Ok((dev.events(id)?, results))
}

/// The steps of which something happened, in that order.
fn steps_with(events: &[Value], kind: &str) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event["type"] == kind);
    of_kind.filter_map(|event| Some(event["step_id"].as_str()?.to_owned())).collect()
}

fn text_of(results: &Value) -> String {
    results.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_gives_a_list_in_the_order_of_its_items() -> Result<()> {
    let (events, results) = example("map.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_expanded"), ["hotels"]);
    let expected = json!([{"city": "Rome", "n": 0}, {"city": "Oslo", "n": 1}, {"city": "Bern", "n": 2}]);
    assert!(text_of(&results).contains(&expected.to_string()), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_ends_when_its_condition_is_true() -> Result<()> {
    let (events, results) = example("loop.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_iterated"), ["draft", "draft"]);
    assert!(text_of(&results).contains("draft!!!"), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_along_the_branch_of_a_failure_and_completes() -> Result<()> {
    let (events, results) = example("failure-branch.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_failed"), ["pay"]);
    assert_eq!(steps_with(&events, "step_skipped"), ["receipt"]);
    assert_eq!(steps_with(&events, "step_completed"), ["notice", "done"]);
    assert!(text_of(&results).contains("The payment failed: "), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_trip_is_taken_back_in_reverse_order_and_reported() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], "").await?;
    let path = example_path("saga.yaml");
    let id = dev.says(&["run", path.to_str().context("the path is text")?, "-o", "name"], 0)?.trim().to_owned();
    let key = until_some(LIMIT, async || {
        let waits: Value = serde_json::from_str(&dev.says(&["event", "waits", "-o", "json"], 0).ok()?).ok()?;
        Some(waits["items"][0]["key"].as_str()?.to_owned())
    });
    let key = key.await.context("nothing waits for the payment")?;
    dev.says(&["event", "send", "payment", "--key", &key, "--data", r#"{"status": "declined"}"#], 0)?;
    dev.says(&["watch", &id], 3)?;
    let events = dev.events(&id)?;
    let completed = steps_with(&events, "step_completed");
    let expected = ["trip", "hotels", "hotel", "flight", "payment", "flight:undo", "hotel:undo", "report"];
    assert_eq!(completed, expected);
    let results: Value = serde_json::from_str(&dev.says(&["plan", "results", &id, "-o", "json"], 0)?)?;
    assert!(text_of(&results).contains("the trip is failed; 0 booked, 2 cancelled"), "{results}");
    assert_eq!(events.last().context("there are events")?["type"], "plan_failed");
    Ok(())
}

#[test]
fn one_command_books_a_trip_and_takes_it_back() -> Result<()> {
    let output = program().args(["dev", "--demo", "saga", "--listen", "127.0.0.1:0", "--metrics", "off"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let parts = [
        "becomes 3 steps",
        "-hotel\n",
        "-flight\n",
        "◷ payment",
        r#": {"status":"declined"}"#,
        "[PAYMENT_FAILED]",
        "ends as failed: clean-up steps run",
        "✓ flight:undo",
        "✓ hotel:undo",
        "the trip is failed; 0 booked, 2 cancelled",
        " failed in ",
        "-flight    booked, then cancelled",
        "-hotel     booked, then cancelled",
    ];
    let mut rest = text.as_str();
    for part in parts {
        let at = rest.find(part).with_context(|| format!("`{part}` is missing, or in another place, in\n{text}"))?;
        rest = &rest[at + part.len()..];
    }
    Ok(())
}

/// A plan as a model writes it: a map, a loop, a wait, something to be undone, and a report that always runs.
fn written(last: &str) -> Value {
    let step = |id: &str, inputs: Value, needs: &[&str], more: Value| {
        let mut step = json!({"id": id, "description": format!("Do {id}"), "agent_type": "echo", "action": "echo",
                              "inputs": inputs, "dependencies": needs});
        step.as_object_mut().into_iter().for_each(|step| step.extend(more.as_object().cloned().unwrap_or_default()));
        step
    };
    let undo = json!({"agent_type": "echo", "action": "echo", "inputs": {"taken back": "{{ outputs.place }}"}});
    json!({"steps": [
        step("find", json!({"cities": ["Rome", "Oslo"]}), &[], json!({})),
        step("visit", json!({"city": "{{ item }}"}), &["find"], json!({"for_each": "{{ steps.find.outputs.cities }}"})),
        step("draft", json!({"text": "x"}), &["find"], json!({"repeat": {"until": "iteration == 2", "max": 5}})),
        {"id": "pause", "kind": "wait", "description": "Wait", "wait": {"for": "1s"}, "dependencies": ["visit", "draft"]},
        step("book", json!({"place": "{{ steps.visit.outputs[1].city }}"}), &["visit", "pause"], json!({"undo": undo})),
        step("last", json!({}), &["book"], json!({"agent_type": last, "action": last, "retry": 0})),
        step("report", json!({"text": "It is {{ plan.status }}"}), &[], json!({"always": true})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_writes_with_maps_loops_waits_and_clean_up_runs_to_its_end() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let script = dir.path().join("script.json");
    let answer = |goal: &str, last: &str| json!({"when": goal, "json": written(last)});
    std::fs::write(&script, json!({"answers": [answer("good end", "echo"), answer("bad end", "fail")]}).to_string())?;
    let dev = Dev::start(&["--demo-agents", "--model-script", &script.display().to_string()], "").await?;
    for (goal, code, status, at_last) in [
        ("A tour with a good end", 0, "completed", ["last", "report"]),
        ("A tour with a bad end", 3, "failed", ["book:undo", "report"]),
    ] {
        let said = dev.says(&["submit", goal, "--planner", "llm", "--only", "--wait", "-o", "json"], code)?;
        let ended: Value = serde_json::from_str(&said)?;
        assert_eq!(ended["status"], status, "{ended:#}");
        assert_eq!(ended["results"]["visit"], json!([{"city": "Rome"}, {"city": "Oslo"}]), "{ended:#}");
        assert_eq!(ended["results"]["book"]["place"], "Oslo", "{ended:#}");
        assert_eq!(ended["results"]["report"]["text"], format!("It is {status}"), "{ended:#}");
        let events = dev.events(ended["plan_id"].as_str().context("it has an id")?)?;
        assert_eq!(steps_with(&events, "step_expanded"), ["visit"]);
        assert_eq!(steps_with(&events, "step_wait_started"), ["pause"]);
        assert_eq!(steps_with(&events, "step_iterated"), ["draft"]);
        let completed = steps_with(&events, "step_completed");
        assert!(completed.ends_with(&at_last.map(str::to_owned)), "{completed:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_rules_and_domains_map_over_the_lists_of_a_goal() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], "").await?;
    for (planner, goal, constraint, map, outputs) in [
        ("rules", "Compare the kettles", r#"options=["Brew","Steam","Whistle"]"#, "options", 3),
        ("htn", "Release the services", r#"services=["api"]"#, "check_api_staging", 2),
    ] {
        let flags = ["--planner", planner, "--only", "--constraint", constraint, "--wait", "-o", "json"];
        let said = dev.says(&[&["submit", goal], flags.as_slice()].concat(), 0)?;
        let ended: Value = serde_json::from_str(&said)?;
        assert_eq!(ended["status"], "completed", "{ended:#}");
        let events = dev.events(ended["plan_id"].as_str().context("it has an id")?)?;
        assert!(steps_with(&events, "step_expanded").contains(&map.to_owned()), "{map}");
        let completed = events.iter().find(|event| event["type"] == "step_completed" && event["step_id"] == map);
        let list = completed.and_then(|event| event["data"]["outputs"].as_array());
        assert_eq!(list.map(Vec::len), Some(outputs), "{completed:?}");
    }
    Ok(())
}
