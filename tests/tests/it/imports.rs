//! Workflows of other engines: imported, run to their end, and refused where they have no equal.

use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// An agent that takes any action, and gives back its inputs.
const ANY_ACTION: &str = "[worker.agents.any]\nkind = \"transform\"\nexpression = \"inputs\"\n";

fn example(engine: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows").join(engine).join(name)
}

fn import(engine: &str, file: &Path) -> Result<Output> {
    let file = file.to_str().context("the path is text")?;
    Ok(program().args(["import", engine, file, "--agent-type", "any", "-o", "json"]).output()?)
}

/// The plan of an example, written into a file.
fn imported(dev: &Dev, engine: &str, name: &str) -> Result<PathBuf> {
    let output = import(engine, &example(engine, name))?;
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let file = dev.file(&format!("{name}.plan.json"));
    std::fs::write(&file, &output.stdout)?;
    Ok(file)
}

/// Runs an example to its end; returns its steps by id.
fn run(dev: &Dev, engine: &str, name: &str, inputs: &[&str]) -> Result<Value> {
    let file = imported(dev, engine, name)?;
    run_plan(dev, file.to_str().context("the path is text")?, inputs)
}

fn run_plan(dev: &Dev, plan: &str, inputs: &[&str]) -> Result<Value> {
    let flags = inputs.iter().flat_map(|input| ["--input", *input]);
    let arguments: Vec<&str> = ["run", plan, "-o", "name"].into_iter().chain(flags).collect();
    let id = dev.says(&arguments, 0)?.trim().to_owned();
    dev.says(&["plan", "wait", &id], 0)?;
    steps_of(dev, &id)
}

fn steps_of(dev: &Dev, id: &str) -> Result<Value> {
    let view: Value = serde_json::from_str(&dev.says(&["plan", "get", id, "-o", "json"], 0)?)?;
    assert_eq!(view["status"], "completed", "{view:#}");
    let steps = view["steps"].as_array().context("it has steps")?;
    Ok(steps
        .iter()
        .filter_map(|step| Some((step["id"].as_str()?.to_owned(), step.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into())
}

/// Statuses of these steps.
fn statuses<'s>(steps: &'s Value, ids: &[&str]) -> Vec<&'s str> {
    ids.iter().map(|id| steps[*id]["status"].as_str().unwrap_or("absent")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_of_conductor_run_to_their_end() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], ANY_ACTION).await?;
    let steps = run(&dev, "conductor", "notify.json", &["user=Ann", "channels=[1,2]"])?;
    assert_eq!(steps["output"]["outputs"], json!({"archived": "Hello Ann!", "channels": [1, 2]}), "{steps:#}");
    let steps = run(&dev, "conductor", "notify.json", &["user=Ann"])?;
    assert_eq!(steps["output"]["outputs"]["channels"], Value::Null, "an input that is not given is null");

    let shipped = run(&dev, "conductor", "shipping.json", &[])?;
    let all = ["fedex", "ups", "track", "stop", "tell"];
    assert_eq!(statuses(&shipped, &all), ["skipped", "completed", "completed", "skipped", "completed"]);
    let shipped = run(&dev, "conductor", "shipping.json", &["provider=fedex"])?;
    assert_eq!(statuses(&shipped, &all), ["completed", "skipped", "skipped", "skipped", "completed"]);
    let stopped = run(&dev, "conductor", "shipping.json", &["provider=dhl"])?;
    assert_eq!(statuses(&stopped, &all), ["skipped", "skipped", "skipped", "completed", "skipped"]);

    let polled = run(&dev, "conductor", "poll.json", &["job=j1"])?;
    assert_eq!(polled["output"]["outputs"], json!({"rounds": 3}), "{polled:#}");
    assert_eq!(polled["loop"]["outputs"]["check"]["for"], "j1");

    let images = r#"images=[{"file":"a.png"},{"file":"b.png"}]"#;
    let resized = run(&dev, "conductor", "images.json", &[images])?;
    assert_eq!(resized["output"]["outputs"], json!({"first": "a.png"}), "{resized:#}");

    let file = imported(&dev, "conductor", "shipping.json")?;
    dev.says(&["plan", "put", file.to_str().context("the path is text")?, "--name", "ship_order"], 0)?;
    let ordered = run(&dev, "conductor", "order.json", &["provider=ups"])?;
    assert_eq!(ordered["output"]["outputs"], json!({"item": "tea"}), "{ordered:#}");
    assert_eq!(ordered["ship"]["outputs"]["tell"], json!({"order": "shipped"}), "{ordered:#}");
    assert_eq!(statuses(&ordered, &["failure"]), ["skipped"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_human_task_of_conductor_is_a_question() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], ANY_ACTION).await?;
    let file = imported(&dev, "conductor", "approval.json")?;
    let file = file.to_str().context("the path is text")?;
    let id = dev.says(&["run", file, "--input", "amount=12", "-o", "name"], 0)?.trim().to_owned();
    let asked = async || {
        let text = dev.says(&["plan", "questions", &id, "--list", "-o", "json"], 0).unwrap_or_default();
        text.contains("Is the offer right?")
    };
    until(SOON, asked).await;
    dev.says(&["step", "answer", &id, "ask", "yes"], 0)?;
    // What the log once asked is answered.
    dev.says(&["plan", "wait", &id], 0)?;
    assert_eq!(steps_of(&dev, &id)?["output"]["outputs"], json!({"booked": "12 EUR"}));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_of_argo_run_to_their_end() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], ANY_ACTION).await?;
    let diamond = run(&dev, "argo", "dag-diamond.yaml", &[])?;
    assert_eq!(diamond["D"]["outputs"]["command"], json!(["echo", "ABD"]), "{diamond:#}");

    assert_eq!(statuses(&diamond, &["mourn"]), ["skipped"], "it depends on a failure");

    let said = run(&dev, "argo", "steps.yaml", &["who=Ann"])?;
    assert_eq!(said["hello2a"]["outputs"]["args"], json!(["hello Ann again"]), "{said:#}");
    assert_eq!(said["hello2b"]["outputs"]["second"]["args"], json!(["Ann"]), "{said:#}");

    let looped = run(&dev, "argo", "loops.yaml", &[])?;
    let texts = |step: &str| -> Vec<String> {
        let items = looped[step]["outputs"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|item| Some(item["args"][0].as_str()?.to_owned())).collect()
    };
    assert_eq!(texts("words"), ["hello", "goodbye"], "{looped:#}");
    assert_eq!(texts("systems"), ["debian 9.1", "alpine 3.6"]);
    assert_eq!(texts("numbers"), ["2", "3", "4"]);

    let all = ["print", "never", "heads"];
    let held = run(&dev, "argo", "conditionals.yaml", &[])?;
    assert_eq!(statuses(&held, &all), ["completed", "skipped", "completed"], "{held:#}");
    let held = run(&dev, "argo", "conditionals.yaml", &[r#"should-print="false""#])?;
    assert_eq!(statuses(&held, &all), ["skipped", "completed", "skipped"], "{held:#}");

    let ended = run(&dev, "argo", "exit-handlers.yaml", &[])?;
    assert_eq!(
        statuses(&ended, &["work", "notify", "celebrate", "cry"]),
        ["completed", "completed", "completed", "skipped"]
    );
    assert_eq!(ended["notify"]["outputs"]["command"], json!(["echo", "ended as completed"]));

    let released = run(&dev, "argo", "retry-suspend.yaml", &[])?;
    assert_eq!(statuses(&released, &["build", "delay", "release", "ping"]), ["completed"; 4]);
    Ok(())
}

#[test]
fn what_has_no_equal_is_listed_with_its_place() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let refused = |engine: &str, document: Value| -> Result<String> {
        let file = dir.path().join("workflow.json");
        std::fs::write(&file, serde_json::to_string_pretty(&document)?)?;
        let output = import(engine, &file)?;
        let text = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(8), "{text}");
        assert!(output.stdout.is_empty(), "there is no plan");
        Ok(text)
    };
    let text = refused(
        "conductor",
        json!({"name": "w", "tasks": [
            {"name": "a", "taskReferenceName": "a", "type": "JSON_JQ_TRANSFORM", "inputParameters": {"queryExpression": ".x"}},
            {"name": "b", "taskReferenceName": "b", "type": "SIMPLE", "inputParameters": {"x": "${workflow.workflowId}"}, "sink": "x"},
            {"name": "c", "taskReferenceName": "c", "type": "DO_WHILE", "loopCondition": "f($.x)", "loopOver": []},
            {"name": "d", "taskReferenceName": "d", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "tasks"},
        ]}),
    )?;
    for place in [
        "/tasks/0/type: a task of type `JSON_JQ_TRANSFORM`",
        "/tasks/1/inputParameters/x: `${workflow.workflowId}`",
        "/tasks/1/sink",
        "/tasks/2/loopCondition",
        "/tasks/3/dynamicForkTasksParam",
    ] {
        assert!(text.contains(place), "`{place}` is missing in {text}");
    }
    assert!(text.contains("5 places") && text.contains("help: "), "{text}");
    let leaf = json!({"name": "leaf", "container": {"image": "x"}, "memoize": {"key": "k"}});
    let text = refused(
        "argo",
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"entrypoint": "main", "templates": [
            {"name": "main", "dag": {"tasks": [
                {"name": "A", "template": "leaf"},
                {"name": "B", "template": "leaf", "depends": "A.AnySucceeded"},
                {"name": "C", "template": "main", "dependencies": ["A"]},
                {"name": "D", "template": "pod", "when": "len(x) > 2"},
            ]}},
            leaf,
            {"name": "pod", "resource": {"action": "create"}},
        ]}}),
    )?;
    for place in [
        "the dependency `A.AnySucceeded`",
        "a template that calls itself",
        "/spec/templates/1/memoize",
        "/spec/templates/2/resource",
        "the condition `len(x) > 2`",
    ] {
        assert!(text.contains(place), "`{place}` is missing in {text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_workflow_that_is_submitted_gets_one_message() -> Result<()> {
    let dev = Dev::start(&[], "").await?;
    for (engine, name) in [("conductor", "notify.json"), ("argo", "steps.yaml")] {
        let path = example(engine, name);
        for command in ["run", "plan validate", "import document"] {
            let arguments: Vec<&str> = command.split(' ').chain(path.to_str()).collect();
            let output = dev.run(&arguments)?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert_eq!(output.status.code(), Some(8), "{command}: {text}");
            assert!(text.contains("FOREIGN_FORMAT") && !text.contains("UNKNOWN_FIELD"), "{command}: {text}");
        }
        let output = dev.run(&["run", path.to_str().context("the path is text")?])?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("goalmill import {engine}")), "{text}");
    }
    Ok(())
}
