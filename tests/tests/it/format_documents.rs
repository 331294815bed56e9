//! Documents of other planners, submitted with the program as they are: each is accepted, ends, and does what it says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use goalmill_tests::dev::Dev;
use serde_json::{Value, json};

/// Agents that answer with what they were asked.
const AGENTS: &str = r#"
[worker.agents.research_agent]
kind = "transform"
expression = "{'task': description, 'asked': expected_outputs, 'venue_list': inputs, 'findings': [step]}"
card = { description = "Searches for sources." }
[worker.agents.validation_agent]
kind = "transform"
expression = "{'task': description, 'verdict': inputs}"
card = { description = "Checks a total against a budget." }
[worker.agents.teller]
kind = "transform"
expression = "{'task': description, 'wanted': expected_output, 'saw': inputs, 'speaker_list': ['Ann']}"

[worker.agents.teller.card]
description = "Exports, maps, loads, imports and compares subscribers, invites speakers."
capabilities = ["export subscribers", "import subscribers", "map the fields", "load in batches", "compare the counts", "invite six speakers"]
actions = [
    { name = "run", description = "Export, map, load in batches and compare the counts of subscribers, invite six speakers." },
    { name = "web_search" }, { name = "search_archive" }, { name = "read" }, { name = "write" }, { name = "list_dependencies" },
    { name = "fetch_licences" }, { name = "summarise" }, { name = "http_fetch" }, { name = "aggregate" }, { name = "fail_once" },
]
"#;

/// What a document became.
struct EndedDocument {
    id: String,
    events: Vec<Value>,
    /// Standard error of the submission: warnings.
    warnings: String,
}

impl EndedDocument {
    fn of_type(&self, name: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == name).collect()
    }

    /// The steps in the order in which they were completed.
    fn completed(&self) -> Vec<&str> {
        self.of_type("step_completed").into_iter().filter_map(|event| event["step_id"].as_str()).collect()
    }

    /// What a step got.
    fn inputs(&self, step: &str) -> &Value {
        self.data("step_queued", step, "/inputs")
    }

    fn outputs(&self, step: &str) -> &Value {
        self.data("step_completed", step, "/outputs")
    }

    fn data(&self, name: &str, step: &str, field: &str) -> &Value {
        let found = self.of_type(name).into_iter().find(|event| event["step_id"] == step);
        found.and_then(|event| event["data"].pointer(field)).unwrap_or(&Value::Null)
    }

    /// The most attempts that were out at the same time.
    fn out_at_once(&self) -> usize {
        let (mut out, mut most) = (0, 0);
        for event in &self.events {
            match event["type"].as_str() {
                Some("step_queued") => out += 1,
                Some("step_completed" | "step_failed") => out -= 1,
                _ => {}
            }
            most = most.max(out);
        }
        most
    }
}

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/documents").join(name);
    path.to_str().expect("the path is text").to_owned()
}

/// Submits a file and watches its plan to the end, which must have this exit code.
fn submit(dev: &Dev, file: &str, arguments: &[&str], code: i32) -> Result<EndedDocument> {
    let output = dev.run(&[&["submit", "--file", file, "--watch", "--timeout", "60s"], arguments].concat())?;
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(code), "{file} ended with {}: {shown}{warnings}", output.status);
    let id = shown.split_whitespace().next().with_context(|| format!("{file} shows nothing"))?.to_owned();
    Ok(EndedDocument { events: dev.events(&id)?, id, warnings })
}

/// A document as it is to be sent, in a file of its own.
fn write(dev: &Dev, name: &str, text: &str) -> Result<String> {
    let path = dev.file(name);
    std::fs::write(&path, text)?;
    Ok(path.to_str().expect("the path is text").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_other_planners_end_as_they_say() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], AGENTS).await?;

    let plan = submit(&dev, &document("f1-plan.json"), &[], 0)?;
    assert_eq!(plan.completed().last(), Some(&"task_003"), "the last one waits for both others");
    assert_eq!(plan.outputs("task_001")["asked"], json!(["venue_list"]));
    assert_eq!(plan.inputs("task_003")["results"]["task_002"]["speaker_list"], json!(["Ann"]));
    assert_eq!(plan.inputs("task_003")["results"]["task_001"]["task"], "Find venues in Lyon for 80 people");

    let plan = submit(&dev, &document("f2-plan.json"), &[], 0)?;
    assert_eq!(plan.completed(), ["1", "2", "3"]);
    assert_eq!(plan.outputs("1")["wanted"], "A list of at least five sources with titles and links");
    assert_eq!(plan.inputs("2")["results"]["1"]["task"], "Search for recent sources");
    assert_eq!(plan.inputs("3")["goal"], "Write a two-page brief on heat pumps for a city council");
    assert!(plan.warnings.contains("form `plan_and_execute`"), "{}", plan.warnings);

    let plan = submit(&dev, &document("f3-plan.json"), &[], 0)?;
    assert_eq!(plan.completed(), ["export", "import", "check"]);
    let load = &plan.outputs("import")["load"]["saw"];
    let load = if load.is_null() { &plan.outputs("import")["saw"] } else { load };
    assert_eq!(load["goal"], "Migrate the newsletter to a new mail provider", "{}", plan.outputs("import"));
    assert_eq!(load["results"]["map"]["saw"]["results"]["export"]["task"], "Export subscribers");
    assert!(plan.inputs("check")["results"]["import"].is_object());

    let plan = submit(&dev, &document("f3-research.json"), &[], 0)?;
    assert_eq!(plan.completed(), ["subtask_1", "subtask_2"]);
    assert_eq!(plan.inputs("subtask_2")["results"]["subtask_1"]["findings"], json!(["subtask_1"]));
    assert_eq!(plan.inputs("subtask_2")["goal"], "Research and summarize topic X");

    let commented = format!("// six steps\n{} /* the end */\n", std::fs::read_to_string(document("f3-execute.json"))?);
    let plan = submit(&dev, &write(&dev, "execute.json", &commented)?, &[], 0)?;
    assert_eq!((plan.completed().len(), plan.out_at_once()), (6, 2), "two at a time");

    let plan = submit(&dev, &document("f4-plan.json"), &[], 0)?;
    assert_eq!(plan.completed(), ["s1", "s2", "s3"]);
    assert_eq!((&plan.inputs("s1")["path"], &plan.inputs("s3")["prompt"]), (&json!("."), &json!("List the changes")));
    assert_eq!(plan.inputs("s3")["results"]["s2"]["saw"]["since"], "2027-01-01");

    let plan = submit(&dev, &document("f5-graph.json"), &[], 0)?;
    assert_eq!(plan.completed(), ["get", "sum", "say", "end"]);
    assert_eq!((plan.inputs("sum"), &plan.outputs("end")["result"]), (&json!({"by": "country"}), &json!("done")));
    assert!(plan.warnings.contains("give the order only"), "{}", plan.warnings);

    let plan = submit(&dev, &document("f5-steps.json"), &[], 0)?;
    assert_eq!(plan.outputs("s2")["result"]["saw"], json!({"path": "/status"}));

    let plan = submit(&dev, &document("f5-stream.ndjson"), &[], 0)?;
    assert_eq!(plan.completed(), ["get", "sum", "finish"]);
    assert_eq!(plan.outputs("finish")["result"], "totals by country");
    Ok(())
}

/// An agent that takes one input and no others.
const CLOSED_AGENT: &str = r#"
[worker.agents.closed]
kind = "transform"
expression = "{'saw': inputs}"
[worker.agents.closed.card]
description = "Takes `n`."
actions = [{ name = "do", inputs = { type = "object", properties = { n = {} }, additionalProperties = false } }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_form_hands_on_is_withheld_from_a_closed_action_also_in_a_stored_plan() -> Result<()> {
    let dev = Dev::start(&[], CLOSED_AGENT).await?;
    let subtasks = json!({"goal": "Go", "subtasks": [{"id": "a", "agent_type": "closed", "status": "pending", "inputs": {"n": 1}}]});
    let file = write(&dev, "subtasks.json", &subtasks.to_string())?;
    let plan = submit(&dev, &file, &[], 0)?;
    assert_eq!(plan.inputs("a"), &json!({"n": 1}));
    assert!(plan.warnings.contains("does not get `goal`"), "{}", plan.warnings);

    dev.says(&["plan", "put", &file, "--name", "handed"], 0)?;
    let inside = json!({"steps": [{"id": "all", "use": "handed@1"}]});
    let plan = submit(&dev, &write(&dev, "inside.json", &inside.to_string())?, &[], 0)?;
    assert!(plan.warnings.contains("does not get `goal`"), "{}", plan.warnings);

    let own =
        json!({"steps": [{"id": "a", "agent_type": "closed", "inputs": {"n": 1, "goal": "{{ goal.description }}"}}]});
    let plan = submit(&dev, &write(&dev, "own.json", &own.to_string())?, &[], 0)?;
    assert_eq!(plan.inputs("a"), &json!({"n": 1, "goal": ""}), "{}", plan.warnings);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn goals_and_workflows_of_other_planners_are_planned_as_they_say() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], "").await?;

    let goal = submit(&dev, &document("f1-goal.json"), &[], 7)?;
    let accepted = &goal.of_type("goal_accepted").first().context("it is accepted")?["data"]["goal"];
    assert_eq!((&accepted["priority"], &accepted["metadata"]["goal_id"]), (&json!(8), &json!("goal_7731")));
    assert_eq!(accepted["success_criteria"].as_array().map(Vec::len), Some(3), "{accepted:#}");
    assert!(accepted["constraints"].to_string().contains("6500"), "{accepted:#}");
    assert!(goal.warnings.contains("form `subtasks`"), "a goal has its notes too: {}", goal.warnings);

    let said = dev.run(&["submit", "--file", &document("f3-workflow.yaml"), "--watch"])?;
    assert_eq!(said.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--state user_goal"));
    let trip = "user_goal=Plan a 3-day trip to Paris in May with a $2000 budget";
    let plan = submit(&dev, &document("f3-workflow.yaml"), &["--state", trip], 0)?;
    assert!(plan.warnings.contains("form `actions`"), "{}", plan.warnings);
    let graph: Value = serde_json::from_str(&dev.says(&["plan", "export", &plan.id, "-o", "json"], 0)?)?;
    assert_eq!(graph["max_parallel"], 4, "{graph:#}");
    let retries: BTreeMap<&str, &Value> = graph["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| Some((step["id"].as_str()?, &step["retry"]["max"])))
        .collect();
    assert!(retries.values().all(|max| **max == json!(2)), "{retries:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_of_other_planners_are_made_or_refused() -> Result<()> {
    let dev = Dev::start(&["--demo-agents"], AGENTS).await?;

    let asks = json!({"goal": "Try", "allow_revision": true, "max_revisions": 1, "retry_failed_steps": false,
        "steps": [{"id": "a", "description": "try it", "agent_type": "fail"}]});
    let plan = submit(&dev, &write(&dev, "asks.json", &asks.to_string())?, &[], 3)?;
    assert!(!plan.of_type("replan_triggered").is_empty(), "a step that fails asks for a revision");

    let held = json!({"steps": [{"id": "a", "agent_type": "echo", "approve": true}, {"id": "b", "agent_type": "echo", "dependencies": ["a"]}]});
    let plan = submit(&dev, &write(&dev, "held.json", &held.to_string())?, &[], 7)?;
    let revision = json!({"revision_id": "r1", "original_plan_id": plan.id, "trigger": "new_information", "changes": ["c instead of b"],
        "new_subtasks": [{"task_id": "c", "description": "say it", "agent_type": "echo", "dependencies": ["a"], "inputs": {"said": 1}}],
        "removed_task_ids": ["b"], "modified_task_ids": [], "confidence_delta": -0.1});
    let file = write(&dev, "revision.json", &revision.to_string())?;
    let refused = dev.run(&["submit", "--file", &file])?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(8), "{said}");
    assert!(said.contains("FOREIGN_FORMAT") && said.contains("plan edit"), "{said}");
    let other =
        json!({"original_plan_id": "plan_1", "removed_task_ids": ["b"], "modified_task_ids": ["x"]}).to_string();
    let other = write(&dev, "other.json", &other)?;
    dev.says(&["plan", "edit", &plan.id, "--file", &other], 8)?;
    dev.says(&["plan", "edit", &plan.id, "--file", &file], 0)?;
    dev.says(&["step", "approve", &plan.id, "a"], 0)?;
    dev.says(&["plan", "wait", &plan.id], 0)?;
    let completed: Vec<Value> =
        dev.events(&plan.id)?.into_iter().filter(|event| event["type"] == "step_completed").collect();
    let steps: Vec<&str> = completed.iter().filter_map(|event| event["step_id"].as_str()).collect();
    assert_eq!(steps, ["a", "c"]);

    let phases = json!({"phases": [{"id": "one", "steps": [{"id": "a", "agent_type": "echo", "approve": true}]}]});
    let plan = submit(&dev, &write(&dev, "phases.json", &phases.to_string())?, &[], 7)?;
    let step = json!({"id": "z", "agent_type": "echo", "phaseId": "two"});
    let changes = json!([{"add_phase": {"id": "two", "name": "the second"}}, {"add_step": {"step": step}}]);
    dev.says(&["plan", "edit", &plan.id, "--file", &write(&dev, "phase.json", &changes.to_string())?], 0)?;
    let edited: Value = serde_json::from_str(&dev.says(&["plan", "export", &plan.id, "-o", "json"], 0)?)?;
    assert_eq!(edited["phases"][1], json!({"id": "two", "description": "the second"}));
    assert_eq!(edited["steps"][1]["phase"], "two", "{edited:#}");

    for name in ["f1-agent.json", "f1-feedback.json"] {
        let output = dev.run(&["submit", "--file", &document(name)])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(8) && said.contains("FOREIGN_FORMAT"), "{name}: {said}");
    }
    Ok(())
}
