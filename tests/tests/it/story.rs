//! The trip on which everything goes wrong: a backup agent, neighbouring districts, a cheaper stay, and an end that
//! keeps what was done. Told by the program itself, with the shipped agents; by its scripted model and by its rules.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_demo::scripted::Script;
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::model_server::held::HeldModel;
use goalmill_tests::process::{Signal, signal};
use goalmill_tests::wait::until;
use serde_json::{Value, json};

use crate::docs::root;

const SCRIPT: &str = "config/stories/paris.yaml";
const GOAL: &str = "Plan a 3-day trip to Paris in May with a $1500 budget";
const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn one_command_tells_a_stranger_the_whole_story() -> Result<()> {
    let output = program().args(["dev", "--demo", "story", "--listen", "127.0.0.1:0", "--metrics", "off"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains('\u{1b}'), "there are control codes in a pipe:\n{text}");
    let (first, second) = text.split_once("\n2. ").context("there are two chapters")?;
    for told in [first, second] {
        let revisions: Vec<&str> = told.lines().filter(|line| line.contains("↻ revision ")).collect();
        let expected = [
            ("revision 1: retry with agent", "confidence 0.75 → 0.65"),
            ("revision 2: workaround", "confidence 0.65 → 0.40"),
            ("revision 3: adjust", "confidence 0.40 → 0.12"),
        ];
        assert_eq!(revisions.len(), expected.len(), "{told}");
        for (line, (begin, end)) in revisions.iter().zip(expected) {
            assert!(line.contains(begin) && line.ends_with(end), "`{line}` is not {begin} … {end}");
        }
        for part in [
            "[UNAVAILABLE]",
            "backup_flight_agent",
            "670.00 USD  NYC → CDG, return",
            "[FULLY_BOOKED]",
            "3 nights, 11e",
            "[OVER_BUDGET]",
            "18.40 USD",
            "3 nights, 12e",
            "41.60 USD",
        ] {
            assert!(told.contains(part), "`{part}` is missing in\n{told}");
        }
        assert_eq!(bill(told), [670.0, 387.0, 116.4, 285.0, 1458.4], "{told}");
    }
    assert!(first.contains("completed in") && first.contains("✓ itinerary"), "{first}");
    assert!(second.contains("failed in") && second.contains("[MAX_REVISIONS_EXCEEDED]"), "{second}");
    Ok(())
}

#[test]
fn the_story_ends_when_it_is_interrupted() -> Result<()> {
    let mut command = program();
    command.args(["dev", "--demo", "story", "--listen", "127.0.0.1:0", "--metrics", "off"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
    let mut after = Vec::new();
    for line in lines {
        let line = line?;
        match after.is_empty() && !line.contains("revision 1") {
            true => continue,
            false if after.is_empty() => signal(child.id(), Signal::SIGINT)?,
            false => {}
        }
        after.push(line);
    }
    assert_eq!(child.wait()?.code(), Some(130), "{after:#?}");
    assert!(!after.iter().any(|line| line.contains("MAX_REVISIONS_EXCEEDED")), "{after:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn four_failures_end_the_plan_and_its_log_holds_every_number() -> Result<()> {
    let dev = Dev::start(&["--model-script", &shipped()], "").await?;
    let faults = ["flight_agent=unavailable", "hotel_agent=fully_booked", "writer_agent=unavailable"];
    let told = dev.says(&submit(&["--min-confidence", "0.1", "--wait", "-o", "json"], &faults), 3)?;
    let told: Value = serde_json::from_str(&told)?;
    assert_eq!(told["status"], "failed", "{told:#}");
    let kept = |step: &str| told["results"][step]["total"].as_f64();
    assert_eq!(
        [kept("flights"), kept("hotels"), kept("activities"), kept("cheaper_hotel"), kept("budget")],
        [Some(670.0), Some(447.0), Some(116.4), Some(387.0), Some(1458.4)],
        "what was done is kept: {told:#}"
    );
    let plan = told["plan_id"].as_str().context("it has an id")?;
    let events = dev.events(plan)?;
    let expected =
        [("retry_with_agent", 0.75, -0.1, 0.65), ("workaround", 0.65, -0.25, 0.4), ("adjust", 0.4, -0.28, 0.12)];
    assert_eq!(revisions(&events), expected.map(|(strategy, a, b, c)| json!([strategy, "llm", a, b, c])));
    let ended = data(&events, "plan_failed").context("it failed")?;
    assert_eq!(ended["failure"]["code"], "MAX_REVISIONS_EXCEEDED", "{ended:#}");
    assert!(ended["failure"]["message"].as_str().is_some_and(|m| m.starts_with("max_revisions_exceeded")), "{ended:#}");
    let log = dev.file("log.jsonl");
    std::fs::write(&log, dev.says(&["events", plan, "-o", "jsonl"], 0)?)?;
    dev.says(&["replay", &log.display().to_string()], 0)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_below_the_least_confidence_is_not_taken() -> Result<()> {
    let dev = Dev::start(&["--model-script", &shipped()], "").await?;
    let told = dev.says(&submit(&["--wait"], &["flight_agent=unavailable", "hotel_agent=fully_booked"]), 3)?;
    let events = dev.events("@latest")?;
    assert_eq!(revisions(&events).len(), 2, "{told}");
    let ended = data(&events, "plan_failed").context("it failed")?;
    let message = ended["failure"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("low_confidence: ") && message.contains("0.12"), "{ended:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_alone_is_repaired_by_rules_too() -> Result<()> {
    let dev = Dev::start(&[], "").await?;
    let (calm, tight) = ("Plan a 3-day trip to Paris in May with a $2000 budget", GOAL);
    for (goal, fault, strategy, after, total) in [
        (calm, Some("flight_agent=unavailable"), "retry_with_agent", 0.75, 1575.4),
        (calm, Some("hotel_agent=fully_booked"), "workaround", 0.7, 1460.4),
        (tight, None, "adjust", 0.77, 1460.4),
    ] {
        let mut line = vec!["submit", goal, "--wait", "-o", "json"];
        line.extend(fault.iter().flat_map(|fault| ["--demo-fault", fault]));
        let told: Value = serde_json::from_str(&dev.says(&line, 0)?)?;
        assert_eq!(told["results"]["budget"]["total"], json!(total), "{strategy}: {told:#}");
        let revised = revisions(&dev.events(told["plan_id"].as_str().context("it has an id")?)?);
        let [revised] = &revised[..] else { panic!("{strategy}: {revised:?}") };
        assert_eq!((&revised[0], &revised[1], &revised[4]), (&json!(strategy), &json!("rules"), &json!(after)));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trip_without_an_agent_that_can_take_over_is_not_completed() -> Result<()> {
    let dev = Dev::start(&[], "").await?;
    let goal = "Plan a 3-day trip to Paris in May with a $2000 budget";
    for (agent, step) in [("hotel_agent", "hotels"), ("activity_agent", "activities"), ("validation_agent", "budget")] {
        let fault = format!("{agent}=unavailable");
        let told = dev.says(&["submit", goal, "--wait", "-o", "json", "--demo-fault", &fault], 3)?;
        let told: Value = serde_json::from_str(&told)?;
        assert_eq!((&told["status"], &told["results"][step]), (&json!("failed"), &Value::Null), "{agent}: {told:#}");
        let revised = revisions(&dev.events(told["plan_id"].as_str().context("it has an id")?)?);
        assert!(revised.is_empty(), "{agent}: {revised:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_begins_before_a_quarter_of_the_plan_has_arrived() -> Result<()> {
    let script = Script::load(Path::new(&shipped()))?;
    let plan = script.answers[0].json.as_ref().context("the first answer is the plan")?.to_string();
    let quarter = (plan.len() - 1) / 4;
    let model = HeldModel::start(&plan, (0..=quarter).rev().find(|at| plan.is_char_boundary(*at)).unwrap_or(0)).await?;
    let dev = Dev::start(&["--demo-agents"], &settings_for(&model)).await?;
    let id = dev.says(&["submit", GOAL, "-o", "name"], 0)?;
    let id = id.trim();
    let has_begun = || dev.events(id).is_ok_and(|events| data(&events, "step_started").is_some());
    // Not a byte more is written until the first step runs.
    until(LIMIT, async || has_begun()).await;
    let events = dev.events(id)?;
    assert!(!events.iter().any(|event| event["type"] == "plan_extended" && event["data"]["open"] == false));
    model.go_on();
    dev.says(&["watch", id, "--timeout", "60s"], 0)?;
    let whole = dev.events(id)?;
    let closed = whole.iter().find(|event| event["type"] == "plan_extended" && event["data"]["open"] == false);
    let arrived = &closed.context("the plan was written")?["data"]["provenance"]["arrived"];
    assert_eq!(arrived["bytes"], plan.len(), "{arrived:#}");
    let first = arrived["steps"][0]["bytes"].as_u64().context("the first step came early")?;
    assert!(first * 4 < plan.len() as u64, "{arrived:#}");
    Ok(())
}

/// Nothing gives up on the model while it is held.
fn settings_for(model: &HeldModel) -> String {
    format!(
        "[planner]\norder = [\"llm\", \"rules\"]\ntimeout_ms = 120000\n\n[[models]]\nname = \"held\"\nbase_url = \"{}\"\n\
         first_byte_ms = 120000\nidle_ms = 120000\ncall_ms = 120000\n",
        model.base_url()
    )
}

fn shipped() -> String {
    root().join(SCRIPT).display().to_string()
}

fn submit<'a>(flags: &[&'a str], faults: &[&'a str]) -> Vec<&'a str> {
    let faults = faults.iter().flat_map(|fault| ["--demo-fault", *fault]);
    ["submit", GOAL].into_iter().chain(flags.iter().copied()).chain(faults).collect()
}

/// Strategy, planner, confidence before, what it changed by, confidence after.
fn revisions(events: &[Value]) -> Vec<Value> {
    let revised = events.iter().filter(|event| event["type"] == "plan_revised").map(|event| &event["data"]);
    let names = ["strategy", "planner", "confidence_before", "confidence_delta", "confidence_after"];
    revised.map(|data| names.iter().map(|name| data[*name].clone()).collect()).collect()
}

fn data<'e>(events: &'e [Value], kind: &str) -> Option<&'e Value> {
    events.iter().find(|event| event["type"] == kind).map(|event| &event["data"])
}

/// The amounts of the bill, the total last.
fn bill(told: &str) -> Vec<f64> {
    let lines = told.lines().skip_while(|line| !line.starts_with("Results")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  ") && !line.contains("within"));
    lines.filter_map(|line| line.split_whitespace().last()?.parse().ok()).collect()
}
